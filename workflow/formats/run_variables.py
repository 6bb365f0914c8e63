"""The environment variables that every process of a run has, on all nodes: they tell the processes of runs apart."""

from __future__ import annotations

RUN_VARIABLE = "WF_RUN_DIR"
STAGE_VARIABLE = "WF_STAGE"  # names the stage's own file
RANK_NAME_VARIABLE = "WF_RANK_VARIABLE"  # names the variable in which the launcher puts the rank; empty: no launcher
RUN_VARIABLES = (RUN_VARIABLE, STAGE_VARIABLE, RANK_NAME_VARIABLE)
# Names the run to which the guards of nodes belong, and their launcher: they outlive a supervisor that was killed, and
# are no processes of the run.
GUARDS_VARIABLE = "WF_GUARDS_OF"
