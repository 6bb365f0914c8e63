"""Stages that lacked a core: what the report says of them, and of what limited the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fan_run import READERS, event, fan, opened, records_of, stepped, taken, written
from tests.support.sample_run import START, Record
from workflow.plan.plan_model import MemberPlan, NodePlan
from workflow.report.build.limiting_stage import core_share, run_limit, shortage, shortages
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


def test_a_stage_has_the_share_of_all_the_time_that_is_asked_for_on_the_mean_of_its_ranks(tmp_path: Path) -> None:
    """For half of the time its two ranks have a core each, then none."""
    used = [(min(t, 5.0), max(0.0, t - 5.0)) for t in TIMES]
    use = [event("stage_cpu", t, stage="md", cpu_s=2 * had, ready_s=2 * ready)
           for t, (had, ready) in zip(TIMES, used, strict=True)]  # fmt: skip
    plan = fan()
    stages = [stage.model_copy(update={"ranks": 2}) if stage.name == "md" else stage for stage in plan.stages]
    seen = records_of(tmp_path, plan.model_copy(update={"stages": stages}), {"md": written(TIMES)}, use)
    share = core_share("md", seen, START + 2, START + 8)
    assert share is not None and [share.had, share.ready] == pytest.approx([0.5, 0.5])


def test_members_of_an_ensemble_are_named_together(tmp_path: Path) -> None:
    plan = fan().model_copy(update={"node": NodePlan(cores=64)})
    members = {name: MemberPlan(ensemble="all", index=index) for index, name in enumerate(READERS)}
    stages = [stage.model_copy(update={"member": members.get(stage.name)}) for stage in plan.stages]
    use = [event("stage_cpu", t, stage=name, cpu_s=had * t, ready_s=0.5 * t)
           for t in TIMES for name, had in (("one", 0.2), ("two", 0.4))]  # fmt: skip
    seen = records_of(tmp_path, plan.model_copy(update={"stages": stages}), {"md": written(TIMES)}, use)
    assert shortages(seen) == [
        "members of all had a core for 30 % of the time and waited for one for 50 %: the machine was busy"
    ]


@pytest.mark.parametrize(("cores", "why"), [(3, "its node has 3 cores, and its stages want 4"), (4, "was busy")])
def test_as_many_stages_as_cores_are_not_too_many(cores: int, why: str, tmp_path: Path) -> None:
    (said,) = shortages(records(tmp_path, ready=0.66, cores=cores))
    assert said.endswith(why)


@pytest.mark.parametrize(
    ("begun", "ended", "why"),
    [
        (START, 2.0, "was busy"), (START, 3.0, "was busy"), (START, 4.0, "want 4"), (START, None, "want 4"),
        (START + 8, None, "want 4"), (START + 9, None, "was busy"),
    ],
)  # fmt: skip
def test_only_stages_that_ran_at_the_same_time_want_cores(
    begun: float, ended: float | None, why: str, tmp_path: Path
) -> None:
    """keep runs from its start to its end; of md the time from 3 to 9 s is asked for. The node has three cores."""
    seen = records(tmp_path, ready=0.66, cores=3)
    keep = replace(seen.state.stages["keep"], started=begun, exited=None if ended is None else START + ended)
    state = replace(seen.state, stages={**seen.state.stages, "keep": keep})
    assert shortage("md", replace(seen, state=state), START + 3, START + 9).endswith(why)


def test_what_a_stage_lacked_is_of_the_time_until_its_end(tmp_path: Path) -> None:
    """It had no core for 4 s; what the run did after its end is not its."""
    use = [event("stage_cpu", t, stage="md", cpu_s=min(0.5 * t, 2.0), ready_s=min(0.5 * t, 2.0)) for t in TIMES]
    over = [event("stage_exited", 4, stage="md", code=0, signal=None)]
    plan = fan().model_copy(update={"node": NodePlan(cores=64)})
    assert shortages(records_of(tmp_path, plan, {"md": written(TIMES)}, [*use[:4], *over, *use[4:]])) == [
        "md had a core for 50 % of the time and waited for one for 50 %: the machine was busy"
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
