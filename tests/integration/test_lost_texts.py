"""Lists of texts that SST loses are named; those of programs with `workflow.stage` arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import run

PLAIN = """
import sys
import adios2
import numpy as np

io = adios2.Adios("adios2.xml").declare_io("out")
with adios2.Stream(io, sys.argv[1], "w") as stream:
    for step in range(2):
        stream.begin_step()
        if not step:
            stream.write_attribute("axisLabels", ["x", "y"])
            stream.write_attribute("author", "me")
        stream.write("T", np.arange(6.0), [6], [0], [6])
        stream.end_step()
"""
STAGED = """
import numpy as np
from workflow import stage

with stage.open_writer("s") as out:
    out.attribute("axisLabels", ["x", "y"])
    out.attribute("comment", "")
    out.attribute("phase", np.array([1 + 2j, 0.5j]))
    with out.step():
        out.write("T", np.arange(6.0))
"""
PIPELINE = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py", "${{ streams.s.path }}"]
    writes: {s: WRITES}
  keep: {component: archive, with: {path: s.bp}}
streams: {s: {from: sim, to: keep, via: VIA, transport: tcp}}
"""


@pytest.mark.parametrize("via", ["sst", "bp5"])
def test_what_sst_loses_is_named_in_the_report(via: str, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(PLAIN)
    text = PIPELINE.replace("WRITES", "{io: out, config: adios2.xml}").replace("VIA", via)
    done = run(tmp_path, text if via == "sst" else text.replace(", transport: tcp", ""))
    assert done.code == 0, done.said
    said = " ".join(str(note) for note in done.report.notes)
    assert ("attributes of s came as empty text: axisLabels; if they are lists" in said) == (via == "sst"), said


def test_programs_with_workflow_stage_lose_none(tmp_path: Path) -> None:
    import adios2
    import numpy as np

    (tmp_path / "sim.py").write_text(STAGED)
    done = run(tmp_path, PIPELINE.replace("WRITES", "{}").replace("VIA", "sst"))
    assert done.code == 0, done.said
    with adios2.FileReader(str(done.folder / "s.bp")) as kept:
        assert list(kept.read_attribute("axisLabels")) == ["x", "y"]
        np.testing.assert_array_equal(kept.read_attribute("phase"), [1 + 2j, 0.5j])
    said = " ".join(str(note) for note in done.report.notes)
    assert "attributes of s came as empty text: comment; if they are lists" in said, said
