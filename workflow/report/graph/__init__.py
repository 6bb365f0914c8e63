"""The pipeline as a drawing: what is drawn, where it goes, and the forms it is written in."""
