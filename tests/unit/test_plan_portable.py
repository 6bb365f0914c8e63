"""`wf plan --json --portable`: the same bytes on every machine, and other bytes for another pipeline."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from workflow.api.plans import make_plan, portable_plan
from workflow.cli.main import wf
from workflow.errors import RunError
from workflow.plan.read_plan import read_plan
from workflow.site import load_site, this_machine
from workflow.spec import shipped
from workflow.spec.load import load_pipeline

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/pipeline.yaml"))
Machine = Callable[[str], Path]


@pytest.fixture
def on_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """`on_machine(NAME)`: from now on everything that wf may find on its machine is that of NAME; its home folder."""

    def move(name: str) -> Path:
        home = tmp_path / name
        home.mkdir()
        large = name == "large"
        shutil.copytree(ROOT / "components", home / "opt/components", ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(shipped, "COMPONENT_DIRS", [home / "opt/components"])
        monkeypatch.setattr(sys, "executable", str(home / "bin/python3"))
        monkeypatch.setattr(load_site, "memory_bytes", lambda: 2**38 if large else 2**33)
        monkeypatch.setattr(load_site, "interfaces", lambda: ["ib0", "lo"] if large else ["lo"])
        monkeypatch.setattr("os.sched_getaffinity", lambda _: range(128 if large else 8))
        monkeypatch.setattr(this_machine, "launcher_path", lambda _: str(home / "bin/mpiexec"))
        planes = ["tcp", "rdma", "ucx"] if large else ["tcp"]
        monkeypatch.setattr(this_machine, "adios2_planes", lambda: (planes, f"seen on {name}"))
        monkeypatch.setattr(this_machine, "rdma_fabric", lambda: (large, f"seen on {name}"))
        monkeypatch.setattr(this_machine, "peer_memory", lambda: (large, f"seen on {name}"))
        monkeypatch.setattr(this_machine, "adios2_parallel", lambda: large)
        monkeypatch.setattr(this_machine, "glibc_version", lambda: "2.38" if large else "2.17")
        policy = ["huge_pages", "keep_freed"] if large else ["keep_freed"]
        monkeypatch.setattr(this_machine, "memory_policy", lambda *_: (policy, f"seen on {name}"))
        monkeypatch.setattr("workflow.api.plans.__version__", "9.9" if large else "0.1")
        monkeypatch.delenv("WF_CONFIGS", raising=False)
        return home

    return move


def plans(home: Path, example: str, sets: tuple[str, ...] = ()) -> tuple[str, str]:
    """The portable plan of a copy of an example, and the plan of this machine."""
    folder = home / "work"
    shutil.copytree(ROOT / "examples" / example, folder, dirs_exist_ok=True)
    loaded = load_pipeline(folder / "pipeline.yaml", sets=sets)
    return portable_plan(loaded), make_plan(loaded).to_json()


@pytest.mark.parametrize("example", EXAMPLES)
def test_two_machines_have_the_same_portable_plan(example: str, on_machine: Machine) -> None:
    small, of_small = plans(on_machine("small"), example)
    large, of_large = plans(on_machine("large"), example)
    assert small == large
    assert of_small != of_large, "the fixture changes nothing"
    assert not re.search(r"/(small|large)\b|wf-portable|/bin/|/opt/", small)


def test_every_policy_and_file_is_portable(on_machine: Machine) -> None:
    """Files of components, ranks of a launcher, pipes and taps, memory."""
    text = """wf: 1
name: all
stages:
  md: {component: lammps, ranks: 2, with: {script: here.in}, output: {async: pipe}, memory: {keep_freed: 64 MiB}}
  shock: {component: lammps, ranks: 2}
  xrd: {component: scattering, env: {PATHS: "${{ pipeline.dir }}/a:${{ wf.python }}", LITERAL: "$${{ wf.python }}"}}
  own: {component: ./own/../mine, ranks: 2}
  keep: {component: archive}
streams:
  atoms: {from: md, to: xrd, via: bp5}
  others: {from: shock, to: own, via: sst}
  pattern: {from: xrd, to: keep, tap: {view: {component: "null", every: 2}}}
"""

    def planned(name: str) -> str:
        home = on_machine(name)
        (home / "mine").mkdir()
        (home / "mine/component.yaml").write_text(
            "component: mine\nkind: sink\nsummary: s\nreads: {others: {any: true}}\nparameters: {}\n"
        )
        (home / "mine/program.py").write_text("")
        (home / "own").mkdir()
        (home / "here.in").write_text("")
        (home / "pipeline.yaml").write_text(text)
        return portable_plan(load_pipeline(home / "pipeline.yaml"))

    small, large = planned("small"), planned("large")
    assert small == large
    assert not re.search(r"small|large|wf-portable|/opt/", small)
    found = json.loads(small)
    stages = {stage["name"]: stage for stage in found["stages"]}
    assert stages["md"]["parameters"]["script"] == "${{ pipeline.dir }}/here.in"
    assert stages["own"]["program"] == ["${{ wf.python }}", "${{ pipeline.dir }}/mine/program.py"]
    assert stages["xrd"]["program"][1] == "${{ wf.components }}/scattering/program.py"
    assert stages["xrd"]["env"]["PATHS"] == "${{ pipeline.dir }}/a:${{ wf.python }}"
    assert stages["xrd"]["env"]["LITERAL"] == "$${{ wf.python }}"
    assert stages["md"]["launch"]["executable"] == "${{ site.launcher_path }}"
    assert stages["md"]["memory"] == {"huge_pages": "${{ site.huge_pages }}", "keep_freed": 64 * 2**20}
    assert stages["xrd"]["memory"]["keep_freed"] == "${{ site.keep_freed }}"


@pytest.mark.parametrize("change", ["stages.pdf.ranks=2", "streams.field.queue.limit=5", "streams.field.via=bp5"])
def test_another_pipeline_has_another_portable_plan(change: str, on_machine: Machine) -> None:
    home = on_machine("small")
    same, changed = plans(home, "00-starter")[0], plans(home, "00-starter", (change,))[0]
    assert same != changed


def test_facts_that_a_site_states_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples/00-starter", tmp_path, dirs_exist_ok=True)
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    loaded = load_pipeline(tmp_path / "pipeline.yaml", sets=["site=example-slurm"])
    found: dict[str, Any] = json.loads(portable_plan(loaded))
    assert found["site"] == "example-slurm"
    sim = next(stage for stage in found["stages"] if stage["name"] == "sim")
    assert isinstance(sim["memory"]["keep_freed"], int)
    assert sim["launch"]["executable"] == "${{ site.launcher_path }}"


def test_it_is_no_plan_that_a_run_could_read(on_machine: Machine) -> None:
    text = plans(on_machine("small"), "00-starter")[0]
    found = json.loads(text)
    assert next(iter(found.items())) == ("portable_plan", 1)
    assert not {"reasons", "advice", "wf_version", "plan_version"} & found.keys()
    with pytest.raises(RunError, match="is a portable plan"):
        read_plan(text, "plan.json")


def test_the_option_needs_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    pipeline = "examples/00-starter/pipeline.yaml"
    answer = CliRunner().invoke(wf, ["plan", "--portable", pipeline])
    assert answer.exit_code == 2
    assert "use `wf plan --json --portable`" in answer.output
    answer = CliRunner().invoke(wf, ["plan", "--json", "--portable", pipeline])
    assert answer.output == portable_plan(load_pipeline(pipeline))
