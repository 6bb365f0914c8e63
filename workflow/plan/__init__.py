"""Decisions, pure: from what the user wrote to the plan."""
