"""The guards of a run on the nodes of its allocation: what they see, and what they do without a supervisor."""
