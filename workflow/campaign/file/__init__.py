"""The campaign file: its models, and the trials that follow from it."""
