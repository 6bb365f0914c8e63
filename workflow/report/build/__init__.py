"""Records as a report. Pure."""
