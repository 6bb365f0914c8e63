"""A stop of a campaign reaches all its jobs, also when one of them cannot be cancelled."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from workflow.campaign.execution import job_each
from workflow.campaign.execution.job_each import JobEach
from workflow.errors import RunError
from workflow.run.records.control_requests import CONTROL_FILE
from workflow.run.records.job_record import JobRecord
from workflow.schedulers.scheduler import QueryError


def test_a_job_that_cannot_be_cancelled_keeps_no_other_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = []

    def cancel(_: str, job: str) -> None:
        if job == "1":
            raise QueryError("scancel: error: Invalid job id")
        cancelled.append(job)

    monkeypatch.setattr(job_each, "cancel_job", cancel)
    executor = cast(Any, object.__new__(JobEach))
    executor._jobs = []
    for number in ("1", "2", "3"):
        (tmp_path / number).mkdir()
        start = SimpleNamespace(run_dir=tmp_path / number)
        executor._jobs.append(
            SimpleNamespace(start=start, sent=set(), job=JobRecord("slurm", f"wf-{number}", number), cancelled=False)
        )
    with pytest.raises(RunError, match="slurm job 1 cannot be cancelled: scancel"):
        executor.pass_on("stop")
    assert cancelled == ["2", "3"]
    assert all((tmp_path / number / CONTROL_FILE).exists() for number in ("1", "2", "3"))
