"""A program whose own config of ADIOS2 has more than the coupled IO, as Gray-Scott has one for its checkpoints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import adios2
import pytest

from tests.support.pipelines import ROOT, run

PIPELINE = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py", CONFIG, "${{ streams.field.path }}"]
    writes: {field: {io: Out, config: CONFIG}}
    files: {CONFIG: mine.txt}
  keep: {component: archive, with: {path: kept.bp}}
streams:
  field: {from: sim, to: keep, via: sst}
"""
SIM = """
import sys
import adios2
import numpy as np

adios = adios2.Adios(sys.argv[1])
out, checkpoint = adios.declare_io("Out"), adios.declare_io("Checkpoint")
with adios2.Stream(out, sys.argv[2], "w") as stream, adios2.Stream(checkpoint, "checkpoint.bp", "w") as saved:
    for step in range(3):
        for each in (stream, saved):
            each.begin_step()
            each.write("x", np.arange(6.0) + step, [6], [0], [6])
            each.end_step()
"""
CONFIGS = {
    "adios2.xml": '<?xml version="1.0"?>\n<adios-config>\n'
    '  <io name="Checkpoint"><engine type="BP4"/></io>\n'
    '  <io name="Out"><engine type="BP5"><parameter key="NumAggregators" value="2"/></engine></io> <!-- mine -->\n'
    "</adios-config>\n",
    "adios2.yaml": "- IO: Checkpoint\n  Engine: {Type: BP4}\n"
    "- IO: Out  # mine\n  Engine:\n    Type: BP5\n    NumAggregators: 2\n",
}


@pytest.mark.parametrize("config", CONFIGS)
def test_other_ios_of_the_users_config_hold_and_the_coupled_one_is_of_the_plan(config: str, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    (tmp_path / "mine.txt").write_text(CONFIGS[config])
    done = run(tmp_path, PIPELINE.replace("CONFIG", config))
    assert done.code == 0, done.said
    with adios2.FileReader(str(done.folder / "kept.bp")) as file:
        assert [list(file.read("x", step_selection=[step, 1])) for step in range(3)] == [
            [step + each for each in range(6)] for step in range(3)
        ]
    # BP4 has no file of meta-metadata.
    saved = done.folder / "stages/sim/work/checkpoint.bp"
    assert (saved / "md.idx").exists()
    assert not (saved / "mmd.0").exists()
    assert "mine" in (done.folder / "stages/sim/work" / config).read_text()
    shown = subprocess.run(
        [sys.executable, "-m", "workflow.cli", "plan", str(tmp_path / "pipeline.yaml"), "--wide"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = shown.stdout.partition("changed configs\n")[2].splitlines()
    assert lines[:2] == [f"  sim: {config}", "    io Out: engine BP5 → SST"]
    assert "    io Out: NumAggregators=2 is left out" in lines
