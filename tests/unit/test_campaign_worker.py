"""A repetition in a worker: whatever goes wrong in it is an attempt that failed, and not a lost worker."""

from __future__ import annotations

from pathlib import Path

from tests.support.planner import SITE
from tests.support.sample_run import make_plan
from workflow.campaign.execution.repetition import StartedAttempt
from workflow.campaign.execution.worker import RepetitionOrder, run_order
from workflow.launch.allocation import Allocation
from workflow.plan.plan_model import Plan
from workflow.provenance.provenance_model import StartContext
from workflow.site.site_model import Site
from workflow.spec.load import load_pipeline
from workflow.spec.loaded_pipeline import Loaded


def no_plan(_: Loaded, site: Site) -> Plan:
    raise ZeroDivisionError(f"cores of {site.site}")


def test_an_exception_is_a_failed_attempt_with_its_type_and_text(tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("wf: 1\nname: p\nstages: {one: {command: [sh, -c, 'exit']}}\n")
    common = StartContext(host="h", user="u", command=["wf"], directory="/", python="/python", versions={})
    start = StartedAttempt(tmp_path / "k-r01", 2, 1, 1e9)
    order = RepetitionOrder(
        start, load_pipeline(pipeline), make_plan(), SITE, (0,), Allocation("local", "", ()), common, no_plan
    )
    attempt = run_order(order)
    assert (attempt.state, attempt.attempt, attempt.run) == ("failed", 2, "k-r01")
    assert attempt.reason == f"ZeroDivisionError: cores of {SITE.site}"
