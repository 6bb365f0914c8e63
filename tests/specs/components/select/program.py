"""Only its description is used: plans start nothing."""
