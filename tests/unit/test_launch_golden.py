"""Launch lines and node maps of every shipped site, planned on this machine: example 01, and a pipeline of 512 nodes.

After a deliberate change: `pytest tests/unit/test_launch_golden.py --bless`, then read the difference.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow.cli.main import wf
from workflow.plan.make_plan import make_plan
from workflow.plan.plan_model import Plan
from workflow.report.show.node_map import has_node_map, node_map
from workflow.report.show.plan_tables import launch_lines
from workflow.site.load_site import load_site, read_site_file
from workflow.spec.load import load_pipeline

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/launch-lines"
EXAMPLE, LARGE = "examples/01-shock-diffraction/pipeline.yaml", "tests/golden/launch-lines/pipeline-512-nodes.yaml"
# Those whose nodes are described; the nodes of the others are this machine, or the job that wf is in.
SITES = sorted(
    path.stem for path in (ROOT / "configs/sites").glob("*.yaml") if read_site_file(path.stem).cores_per_node != "auto"
)


def sets_of(site: str) -> tuple[str, ...]:
    """The large pipeline has a rank for each GPU of a node, six ranks where there are none, and at most the nodes that
    the site gives to a job."""
    facts = load_site(site)
    limits = {name: queue.nodes[1] for name, queue in facts.queues.items() if queue.nodes}
    most = [limits[name] for name in limits if facts.queues[name].default] or [max(limits.values(), default=512)]
    nodes, per_node = min(512, facts.nodes, *most), facts.gpus_per_node or 6
    return (
        f"stages.sim.ranks={nodes * per_node}", f"stages.sim.place.ranks_per_node={per_node}",
        f"stages.sim.place.nodes={nodes}", f"stages.sim.place.gpus_per_rank={int(facts.gpus_per_node > 0)}",
        f"stages.analysis.ranks={2 * nodes}",
    )  # fmt: skip


def planned(pipeline: str, site: str, sets: tuple[str, ...] = ()) -> Plan:
    loaded = load_pipeline(pipeline, sets=sets)
    return make_plan(loaded, load_site(site), python="/env/bin/python", wf_version="0")


def shown(plan: Plan) -> str:
    lines = [f"{names}: {shlex.join(argv)}" for names, argv in launch_lines(plan)]
    text = "\n".join([*lines, *(node_map(plan) if has_node_map(plan) else [])])
    return text.replace(str(ROOT), "<root>") + "\n"


@pytest.mark.parametrize("site", SITES)
def test_launch_lines_and_node_map(site: str, bless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    text = f"{EXAMPLE}\n{shown(planned(EXAMPLE, site))}\n{LARGE}\n{shown(planned(LARGE, site, sets_of(site)))}"
    golden = GOLDEN / f"{site}.txt"
    if bless:
        golden.write_text(text)
    assert golden.is_file(), f"no {golden.name}: run with --bless, then read it"
    assert text == golden.read_text()


def test_nothing_is_kept_of_sites_that_are_gone() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(SITES)


@pytest.mark.parametrize("site", SITES)
def test_wf_plan_shows_them_on_any_machine(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = [word for each in sets_of(site) for word in ("--set", each)]
    ended = CliRunner().invoke(wf, ["plan", LARGE, "--site", site, *words], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    assert ("node map" in ended.output and "node-hour" in ended.output) or site == "example-slurm"
