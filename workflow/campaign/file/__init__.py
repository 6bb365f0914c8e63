"""What a campaign file says: its models, its trials, and the figures that it may name."""
