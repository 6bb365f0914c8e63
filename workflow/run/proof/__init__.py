"""Is the placement what the plan says, and do the streams cross? Proved before the stages start."""
