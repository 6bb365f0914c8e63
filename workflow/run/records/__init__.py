"""The files in the directory of a run, and how a run is found, listed and removed."""
