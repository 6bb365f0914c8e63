"""The pipeline as a drawing: what is drawn, where it is placed, and the formats."""
