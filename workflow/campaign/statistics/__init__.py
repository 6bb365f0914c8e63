"""What the repetitions of a campaign allow to say. Pure; docs/explanation/statistics.md explains each figure."""
