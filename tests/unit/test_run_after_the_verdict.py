"""The verdict of a run stands: nothing is written after it, and it is found whatever follows."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.chains import chain, write_run
from workflow.launch.allocation import Allocation, Host
from workflow.report.read.run_states import list_runs
from workflow.report.report_files import compute_report
from workflow.run.control.lease import examine_leases
from workflow.run.control.missing_verdict import write_missing_verdict
from workflow.run.records.events_file import EventLog, read_events, read_start_and_verdict, to_line
from workflow.run.state.events import Event, RunStarted, StageExited, StopPlanned, StreamProgress
from workflow.run.state.lifecycle_events import RunFinished
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import initial_state
from workflow.run.supervisor import supervise

BEGIN = RunStarted(1.0, "run", 1, 1, "here")
VERDICT = RunFinished(2.0, "failed", 1, "the job has 1 node", "")


def test_nothing_is_written_after_it(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    for event in (BEGIN, VERDICT, StopPlanned(2.0, 50.0, 60.0), StreamProgress(9.0, "atoms", "md", "write", 1, 8)):
        log.write(event)
    log.close()
    assert list(read_events(tmp_path))[1:] == [VERDICT]


@pytest.mark.parametrize(
    "later",
    [
        [StopPlanned(2.0, 50.0, 60.0)],
        [StageExited(2.5, "md", 0, None)] * 100,
        [StopPlanned(2.0, 50.0, 60.0), RunFinished(9.0, "interrupted", 130, "cancelled by anna@here", "")],
    ],
    ids=["a planned stop", "much", "a second verdict"],
)
def test_it_is_found_whatever_follows(later: list[Event], tmp_path: Path) -> None:
    """As older versions have left it."""
    run_dir = write_run(chain("sst"), tmp_path)
    (run_dir / "events.jsonl").write_text("".join(map(to_line, [BEGIN, VERDICT, *later])))
    brief = read_start_and_verdict(run_dir)
    assert (brief.finished, brief.t) == (VERDICT, 2.0)
    assert fold(initial_state(chain("sst")), read_events(run_dir)).finished == VERDICT
    assert [line.state for line in list_runs([run_dir])] == ["failed"]
    assert compute_report(run_dir).run.state == "failed"
    (lives,) = examine_leases([run_dir])
    assert not write_missing_verdict(run_dir, lives, "interrupted", 130, "cancelled by anna@here")


def test_the_verdict_on_a_job_that_is_too_small_is_the_last_line(tmp_path: Path) -> None:
    """The end of such a job is known, too."""
    plan = chain("sst")
    placement = plan.stages[0].placement.model_copy(update={"nodes": [(1, 2)]})
    plan.stages[0] = plan.stages[0].model_copy(update={"placement": placement})
    run_dir = write_run(plan, tmp_path)
    (*_, last) = supervise(run_dir, Allocation("slurm", "12", (Host("here", 4),), end_time=time.time() + 3600))
    assert last.finished is not None
    assert last.finished.state == "failed"
    (*_, written) = read_events(run_dir)
    assert isinstance(written, RunFinished), written
