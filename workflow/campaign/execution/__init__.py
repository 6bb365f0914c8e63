"""Runs the repetitions of a campaign."""
