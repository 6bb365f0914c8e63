"""One archive with all that repeats a run or a campaign; it is a Workflow Run RO-Crate."""
