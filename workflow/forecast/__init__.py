"""What a run will take, from its plan and what was measured before. Pure."""
