"""What a run does to the world: its directory, its processes, its events."""
