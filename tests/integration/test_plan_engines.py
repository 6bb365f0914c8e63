"""The plan's engine parameters, opened by the real ADIOS2 in two processes: it takes them, and they are in effect."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.planner import COMPONENTS, Planner, end_of
from workflow.plan.placeholders import fill_run_dir
from workflow.plan.plan_model import EndPlan, Plan
from workflow.spec import shipped

STEPS = 5
PROGRAM = """
import json, sys, adios2, numpy as np
end = json.loads(sys.argv[1])
io = adios2.Adios().declare_io(end["io"])
io.set_engine(end["engine"])
io.set_parameters(end["parameters"])
if end["side"] == "write":
    with adios2.Stream(io, end["path"], "w") as out:
        for step in range(int(sys.argv[2])):
            out.begin_step()
            out.write("position", np.full((4, 3), step, "f8"), [4, 3], [0, 0], [4, 3])
            out.end_step()
else:
    with adios2.Stream(io, end["path"], "r") as stream:
        print([int(stream.read("position").max()) for _ in stream.steps()])
"""
TWO = """
stages:
  walk: {component: walker}
  keep: {component: keep}
streams:
  positions: {from: walk, to: keep, %s}
"""


def started(plan: Plan, end: EndPlan, stage: str, run_dir: Path) -> subprocess.Popen[str]:
    data = json.dumps({**end.model_dump(mode="json"), "path": fill_run_dir(end.path, str(run_dir))})
    argv = [sys.executable, "-c", PROGRAM, data, str(STEPS)]
    env = {**os.environ, **{key: value for key, value in plan.stage(stage).env.items() if key == "SstVerbose"}}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


@pytest.mark.parametrize(
    "wiring",
    [
        "via: sst, transport: tcp",
        "via: sst, queue: {limit: 3}, parameters: {ReserveQueueLimit: 1, ControlModule: epoll}, transport: tcp",
        "via: sst-tcp",
        "via: bp5, coupling: live",
        "via: bp5",
        "via: bp4",
        "via: bp4, coupling: live",
    ],
)
def test_both_ends_open_with_what_the_plan_says(wiring: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [COMPONENTS])
    plan = Planner(tmp_path)(TWO % wiring)
    (tmp_path / "streams").mkdir()
    write, read = end_of(plan, "walk", "positions"), end_of(plan, "keep", "positions")
    writer = started(plan, write, "walk", tmp_path)
    if plan.stage("keep").starts_after:
        assert writer.wait(60) == 0
    reader = started(plan, read, "keep", tmp_path)
    try:
        said, errors = reader.communicate(timeout=60)
        notes = writer.communicate(timeout=60)[1]
    finally:
        reader.kill()
        writer.kill()
    assert (reader.returncode, writer.returncode) == (0, 0), errors + notes
    assert json.loads(said.strip().splitlines()[-1]) == list(range(STEPS))
    if write.engine == "SST":
        compare(effective(notes, "Writer"), write.parameters)
        compare(effective(errors, "Reader"), read.parameters)


def effective(text: str, side: str) -> dict[str, str]:
    """Parameters in effect, as SstVerbose=2 prints them."""
    block = text.split(f"{side} stream params are:", 1)[1]
    return dict(re.findall(r"Param -\s+(\w+)=(\S+)", block))


def compare(found: dict[str, str], planned: dict[str, str]) -> None:
    """SST has its own spelling of values, calls the TCP plane evpath, and does not print ReserveQueueLimit."""
    for name, value in planned.items():
        if name != "ReserveQueueLimit":
            assert found[name].lower() == {"WAN": "evpath"}.get(value, value).lower(), name
