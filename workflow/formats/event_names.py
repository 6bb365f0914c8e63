"""What stages need to know of the events of their run: the file, and the names of some (`workflow.run.records`)."""

from __future__ import annotations

EVENTS_FILE = "events.jsonl"  # in the directory of the run
# A spool has removed steps; the run has its verdict; the others go on without a stage.
STEPS_DROPPED, RUN_FINISHED, STAGE_IGNORED = "steps_dropped", "run_finished", "stage_ignored"
