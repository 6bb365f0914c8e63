"""What has happened in a run: its events, and its state as their fold. Pure."""
