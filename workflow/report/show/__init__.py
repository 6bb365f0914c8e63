"""Output for terminals: tables, progress and messages."""
