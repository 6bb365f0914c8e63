"""Two programs that read each other's streams by ADIOS2 alone, as codes of the core and the edge of a plasma do.

wf knows nothing of the order of their opens: `closes_circle` says that they see to it.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.pipelines import Done, run

STEPS = 5
PIPELINE = """
stages:
  core:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/core.py", "${{ streams.out.path }}", "${{ streams.back.path }}"]
    writes: {out: {io: Out, config: adios2.xml}}
    reads: {back: {io: Back, config: adios2.xml}}
  edge:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/edge.py", "${{ streams.out.path }}", "${{ streams.back.path }}"]
    writes: {back: {io: Back, config: adios2.xml}}
    reads: {out: {io: Out, config: adios2.xml}}
streams:
  out: {from: core, to: edge}
  back: {from: edge, to: core, closes_circle: true}
"""
HEAD = f"""
import sys
import adios2
import numpy as np

STEPS = {STEPS}
adios = adios2.Adios("adios2.xml")
out, back = adios.declare_io("Out"), adios.declare_io("Back")


def write(stream, value):
    stream.begin_step()
    stream.write("x", np.full(6, value, dtype=float), [6], [0], [6])
    stream.end_step()


def read(stream):
    stream.begin_step()
    x = stream.read("x")
    stream.end_step()
    return x
"""
# Each step of one is computed from the last step of the other.
CORE = """
forth = adios2.Stream(out, sys.argv[1], "w")
come = adios2.Stream(back, sys.argv[2], "r")
value = np.float64(1)
for step in range(STEPS):
    write(forth, value)
    x = read(come)
    assert (x == x[0]).all() and x.shape == (6,)
    value = x[0]
    print(f"{value:g}", flush=True)
forth.close()
come.close()
"""
EDGE = """
OPENS
for step in range(STEPS):
    write(forth, read(come)[0] * 3 + 1)
forth.close()
come.close()
"""
COME = 'come = adios2.Stream(out, sys.argv[1], "r")'
FORTH = 'forth = adios2.Stream(back, sys.argv[2], "w")'


def coupled(folder: Path, first: str, second: str, pipeline: str = PIPELINE) -> Done:
    (folder / "core.py").write_text(HEAD + CORE)
    (folder / "edge.py").write_text(HEAD + EDGE.replace("OPENS", f"{first}\n{second}"))
    return run(folder, pipeline, "--set", "deadlines.start=10 s")


def test_two_unchanged_programs_exchange_each_step(tmp_path: Path) -> None:
    done = coupled(tmp_path, COME, FORTH)
    assert done.code == 0, done.said
    assert done.printed("core") == ["4", "13", "40", "121", "364"]
    assert [stream.steps for stream in done.report.streams] == [STEPS, STEPS]


def test_a_circle_whose_programs_open_in_other_orders_is_named(tmp_path: Path) -> None:
    """Each waits in the open of what it writes."""
    done = coupled(tmp_path, FORTH, COME)
    assert done.code != 0
    reason = done.report.run.reason
    assert "core waits in open for edge to open out; edge waits in open for core to open back" in reason
    assert "core and edge wait for each other" in reason


def test_a_circle_of_live_files(tmp_path: Path) -> None:
    """Nobody waits in the open of a file that is written: any order of a program is fine that writes first."""
    file = ", via: bp5, coupling: live}"
    done = coupled(
        tmp_path, COME, FORTH, PIPELINE.replace("to: edge}", f"to: edge{file}").replace("true}", f"true{file}")
    )
    assert done.code == 0, done.said
    assert done.printed("core") == ["4", "13", "40", "121", "364"]
