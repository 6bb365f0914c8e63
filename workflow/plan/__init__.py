"""From what the user wrote to the plan: all decisions about a run. Pure."""
