"""What stages need to know of the events of their run: the file, and the names of some (`workflow.run.records`)."""

from __future__ import annotations

EVENTS_FILE = "events.jsonl"  # in the directory of the run
# A spool has removed steps; the run has its verdict; the others go on without a stage; a stage is stopped, or does not
# begin at all, because the run is stopped; all are to end.
STEPS_DROPPED, RUN_FINISHED = "steps_dropped", "run_finished"
STAGE_IGNORED, STAGE_STOPPED = "stage_ignored", "stage_stopped"
STOP_REQUESTED = "stop_requested"
