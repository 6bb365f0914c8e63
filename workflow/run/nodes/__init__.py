"""The guards of a run on the nodes of its allocation: what they see there, and what they do when the supervisor dies."""
