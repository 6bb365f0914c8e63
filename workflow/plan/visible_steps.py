"""What the supervisor will see of the ends of a stage while it runs."""

from __future__ import annotations

from workflow.plan.plan_model import EndPlan, StagePlan

# The variable that says how much SST logs.
LOG_LEVEL = "SstVerbose"
# Steps of programs of the user's own are read off SST's log, which tells them one by one from this level on.
_STEPS_VERBOSITY = 3
_SUMMARY_VERBOSITY = 2


def visibility(stage: StagePlan, end: EndPlan) -> tuple[bool, bool]:
    """(steps are seen live, steps are known at the end) for one end.

    A program of the user's own shows SST steps in its log and written steps in the index of a BP file; of
    what it reads from a file, and of HDF5, nothing is seen, and its exit code has to do.
    """
    if not end.traits.has_steps:
        return False, False
    if stage.observed == "metrics":
        return True, True
    if end.traits.counted_by == "log":
        verbosity = stage.env.get(LOG_LEVEL, "0")
        level = int(verbosity) if verbosity.isdigit() else 0
        return level >= _STEPS_VERBOSITY, level >= _SUMMARY_VERBOSITY
    is_index = end.side == "write" and end.traits.counted_by == "index"
    return is_index, is_index
