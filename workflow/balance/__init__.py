"""Choosing ranks, placement, transports and policies of a pipeline: by its forecast, and by short runs."""
