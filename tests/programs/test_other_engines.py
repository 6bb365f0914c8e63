"""Programs without a configuration do something else than the pipeline file says: it is named, and soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import Done, run

PIPELINE = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py", "WRITES"]
    writes: {field: {io: Out}}
  look:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/look.py", "READS", "0"]
    reads: {field: {io: In}}
  MORE
streams:
  field: {from: sim, to: TO}
"""
SIM = """
import sys
import adios2
import numpy as np

io = adios2.Adios().declare_io("Out")
io.set_engine("ENGINE")
with adios2.Stream(io, sys.argv[1], "w") as stream:
    for step in range(24):
        stream.begin_step()
        stream.write("x", np.full(4, float(step)), [4], [0], [4])
        stream.end_step()
"""
LOOK = """
import sys
import time
import adios2

io = adios2.Adios().declare_io("In")
io.set_engine("ENGINE")
io.set_parameter("OpenTimeoutSecs", "90")
time.sleep(float(sys.argv[2]))
with adios2.Stream(io, sys.argv[1], "r") as stream:
    for _ in stream.steps():
        time.sleep(0.05)
        stream.read("x")
"""
PATH = "${{ streams.field.path }}"
KEEP = "keep: {component: archive, with: {path: kept.bp}}"
LATE = """late:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/look.py", "READS", "0.6"]
    reads: {field: {io: In}}"""


def coupled(
    folder: Path, engine: str, to: str, *, writes: str = PATH, reads: str = PATH, more: str = "", look: str = LOOK
) -> Done:
    (folder / "sim.py").write_text(SIM.replace("ENGINE", engine))
    (folder / "look.py").write_text(look.replace("ENGINE", engine))
    text = PIPELINE.replace("MORE", more).replace("WRITES", writes).replace("READS", reads).replace("TO", to)
    return run(folder, text, "--set", "deadlines.start=12 s")


@pytest.mark.parametrize(
    ("engine", "via", "by"),
    [("BP5", "bp4", "by BP5, and not by BP4 as `via: bp4` says"), ("SST", "bp5", "by SST, and not by BP5 as ")],
)
def test_another_engine_than_that_of_the_file_is_named_at_once(engine: str, via: str, by: str, tmp_path: Path) -> None:
    done = coupled(tmp_path, engine, f"[look, keep], via: {via}", more=KEEP)
    assert done.code != 0
    run_, reason = done.report.run, done.report.run.reason
    assert (run_.stage, reason.partition(" by ")[0]) == ("sim", "sim opened streams/field.bp")
    assert by in reason
    assert reason.endswith(f"the engine {via.upper()}; `via: {engine.lower()}` is what it does")
    assert run_.wall_s is not None
    assert run_.wall_s < 11, "a deadline has passed"


def test_what_readers_of_their_own_engine_can_take_is_no_failure(tmp_path: Path) -> None:
    done = coupled(tmp_path, "BP5", "look, via: bp4")
    assert done.code == 0, done.said


def test_a_stream_in_the_programs_own_directory_is_named(tmp_path: Path) -> None:
    done = coupled(tmp_path, "SST", "look", writes="field", reads="field")
    assert done.code != 0
    assert "(it opened field in its own directory: give its port `path: field`, or pass it" in done.report.run.reason


def test_a_file_in_the_programs_own_directory_is_named(tmp_path: Path) -> None:
    done = coupled(tmp_path, "BP5", "look, via: bp5", writes="output.bp", reads="output.bp")
    assert done.code != 0
    assert "sim ended with exit code 0, but never opened field: it opened output.bp in its own directory: give" in (
        done.report.run.reason
    )


def test_a_writer_that_waits_for_too_few_readers_is_said_to_do_so(tmp_path: Path) -> None:
    done = coupled(tmp_path, "SST", "[look, late]", more=LATE)
    assert done.code != 0
    said = "2 stages read field, and sim waited for 1 of them; its log says RendezvousReaderCount=1: set 2 in it"
    assert said in done.report.run.reason
