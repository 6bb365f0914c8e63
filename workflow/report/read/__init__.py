"""The files of a run directory as records."""
