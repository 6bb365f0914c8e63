"""Stages that lacked a core: what the report says of them, and of what limited the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fan_run import event, fan, opened, records_of, stepped, taken, written
from tests.support.sample_run import Record
from workflow.plan.plan_model import NodePlan
from workflow.report.build.limiting_stage import core_share, run_limit, shortages
from workflow.report.build.make_report import make_report
from workflow.report.read.run_records import Records

SECONDS = 10
TIMES = [float(second) for second in range(1, SECONDS + 1)]
LIMITED = "while data moved it waited for 0 % of the time, each of the others for at least 50 %"


def records(folder: Path, ready: float, cores: int = 64, had: float = 0.3) -> Records:
    """md works all the time, and has a core for a share of it."""
    plan = fan().model_copy(update={"node": NodePlan(cores=cores)})
    metrics = {
        "md": [*written(TIMES), opened("log", "write"), *stepped("log", "write", TIMES)],
        "one": taken(TIMES, wait_s=0.5),
        "two": taken(TIMES, wait_s=0.5),
        "keep": [opened("log", "read"), *stepped("log", "read", TIMES, wait_s=0.9)],
    }
    use: list[Record] = [event("stage_cpu", t, stage="md", cpu_s=had * t, ready_s=ready * t) for t in TIMES]
    return records_of(folder, plan, metrics, use)


def test_a_stage_without_a_core_limits_the_run_because_the_machine_was_busy(tmp_path: Path) -> None:
    busy = "md had a core for 30 % of the time and waited for one for 66 %: the machine was busy"
    seen = records(tmp_path, ready=0.66)
    limit = run_limit(seen)
    assert (limit.stage, limit.evidence) == ("md", f"{LIMITED}; but {busy}")
    assert busy in make_report(seen).notes


def test_more_ranks_than_cores_are_named_as_the_cause(tmp_path: Path) -> None:
    assert shortages(records(tmp_path, ready=0.66, cores=2)) == [
        "md had a core for 30 % of the time and waited for one for 66 %: its node has 2 cores, and its stages want 4"
    ]


def test_stages_that_waited_for_the_same_cause_are_in_one_text(tmp_path: Path) -> None:
    use = [event("stage_cpu", t, stage=name, cpu_s=0.3 * t, ready_s=0.66 * t) for t in TIMES for name in ("md", "one")]
    metrics = {"md": written(TIMES), "one": taken(TIMES, wait_s=0.5), "two": taken(TIMES, wait_s=0.5)}
    plan = fan().model_copy(update={"node": NodePlan(cores=64)})
    assert shortages(records_of(tmp_path, plan, metrics, use)) == [
        "md had a core for 30 % of the time and waited for one for 66 %; one 30 % and 66 %: the machine was busy"
    ]


@pytest.mark.parametrize(("had", "ready"), [(0.95, 0.05), (0.3, 0.05)])
def test_a_stage_that_had_its_core_or_did_not_want_it_lacks_nothing(tmp_path: Path, had: float, ready: float) -> None:
    # One that sleeps, or computes on a GPU, uses little CPU time and is not ready to run.
    seen = records(tmp_path, ready=ready, had=had)
    assert shortages(seen) == []
    assert run_limit(seen).evidence == f"{LIMITED}: clear in 10 samples"


def test_without_samples_nothing_is_said(tmp_path: Path) -> None:
    plan = fan()
    assert shortages(records_of(tmp_path, plan, {"md": written(TIMES), "one": taken(TIMES), "two": taken(TIMES)})) == []


def test_of_a_short_time_nothing_is_said(tmp_path: Path) -> None:
    seen = records(tmp_path, ready=0.66)
    assert core_share("md", seen, TIMES[0], TIMES[0] + 0.5) is None
