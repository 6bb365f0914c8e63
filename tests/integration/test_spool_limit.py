"""A spool that keeps the newest steps only: a stage that fails late goes on, and the disk never holds all steps."""

from __future__ import annotations

from pathlib import Path

import adios2

from tests.support.pipelines import run
from workflow.compare.compare_runs import compare_runs
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StagesRestarted, StepsDropped

STEPS, FAILS = 220, 120
# It fails once, and notes how much of the spool is on the disk when nearly all steps were written.
ANALYSIS = f"""
import sys
from pathlib import Path
import numpy as np
from workflow import stage
failed, noted = Path(sys.argv[1], "failed"), Path(sys.argv[1], "noted")
with stage.open_reader("field") as fields, stage.open_writer("means") as means:
    for step in fields:
        if step.index == {FAILS} and not failed.exists():
            failed.touch()
            sys.exit(3)
        with means.step():
            means.write("mean", float(step.read("grid").mean()))
            means.write("index", np.int64(step.index))
        if step.index == {STEPS} - 10:
            (data,) = Path(sys.argv[2]).glob("*-spool.bp/data.0")
            noted.write_text(f"{{data.stat().st_size}} {{data.stat().st_blocks * 512}}")
"""
PIPELINE = """
stages:
  sim: {{component: synthetic, with: {{grid_points: 100000, particles: 0, steps: {steps}, compute_time: 30 ms}}}}
  mean:
    command: ["${{{{ wf.python }}}}", "{folder}/mean.py", "{folder}", "${{{{ run.dir }}}}/streams"]
    reads: {{field: {{}}}}
    writes: {{means: {{}}}}
    on_failure: {do}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: mean, via: sst, keep: {spool}}}
  means: {{from: mean, to: keep, via: bp5}}
"""


def test_an_analysis_goes_on_behind_a_spool_that_keeps_eight_steps(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    for folder in (tmp_path, whole):
        folder.mkdir(exist_ok=True)
        (folder / "mean.py").write_text(ANALYSIS)
    (whole / "failed").touch()
    undisturbed = run(whole, PIPELINE.format(folder=whole, steps=STEPS, do="stop", spool="true"))
    assert undisturbed.code == 0, undisturbed.said
    done = run(tmp_path, PIPELINE.format(folder=tmp_path, steps=STEPS, do="restart", spool="{steps: 8}"))
    assert done.code == 0, done.said
    assert compare_runs(done.folder / "kept.bp", undisturbed.folder / "kept.bp").identical
    events = list(read_events(done.folder))
    (again,) = (event for event in events if isinstance(event, StagesRestarted))
    assert again.first_step == FAILS
    dropped = [event for event in events if isinstance(event, StepsDropped)]
    before = [event.first for event in dropped if event.t < again.t]
    assert before and 0 < max(before) <= FAILS, "nothing that it needed"
    assert dropped[-1].first > FAILS
    size, used = map(int, (tmp_path / "noted").read_text().split())
    assert used < size / 2, f"{used} of {size} bytes are on the disk"
    assert not list(done.folder.glob("streams/*-spool.bp")), "what has lost its first steps is removed"
    size, used = map(int, (whole / "noted").read_text().split())
    assert used >= size * 0.9, "a spool that keeps all"


# After a restart it is slower than the simulation, so that it is far behind what the spool is to keep.
PASSES_ON = """
import time
import numpy as np
from workflow import stage
with stage.open_reader("field") as fields, stage.open_writer("mid") as mid:
    late = fields.steps > 0
    for step in fields:
        with mid.step():
            mid.write("mean", float(step.read("grid").mean()))
            mid.write("index", np.int64(step.index))
        time.sleep(0.06 * late)
"""
FAILS_ONCE = """
import sys
from pathlib import Path
from workflow import stage
failed = Path(sys.argv[1], "failed")
with stage.open_reader("mid") as mids, stage.open_writer("means") as means:
    for step in mids:
        if step.index == 20 and not failed.exists():
            failed.touch()
            sys.exit(3)
        with means.step():
            means.write("mean", step.read("mean"))
            means.write("index", step.read("index"))
"""
UNIT = """
stages:
  sim: {{component: synthetic, with: {{grid_points: 10000, particles: 0, steps: 150, compute_time: 20 ms}}}}
  pass: {{command: ["${{{{ wf.python }}}}", "{folder}/pass.py"], reads: {{field: {{}}}}, writes: {{mid: {{}}}}}}
  mean:
    command: ["${{{{ wf.python }}}}", "{folder}/mean.py", "{folder}"]
    reads: {{mid: {{}}}}
    writes: {{means: {{}}}}
    on_failure: restart
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: pass, via: sst, keep: {{steps: 4}}}}
  mid: {{from: pass, to: mean, via: sst}}
  means: {{from: mean, to: keep, via: bp5}}
"""


def test_the_steps_of_a_slow_stage_that_another_one_takes_along_are_kept(tmp_path: Path) -> None:
    """`pass` has no rule of its own: that of `mean` starts it again, behind the spool."""
    (tmp_path / "pass.py").write_text(PASSES_ON)
    (tmp_path / "mean.py").write_text(FAILS_ONCE)
    done = run(tmp_path, UNIT.format(folder=tmp_path))
    assert done.code == 0, done.said
    with adios2.Stream(str(done.folder / "kept.bp"), "r") as stream:
        found = [(int(stream.read("index")), float(stream.read("mean"))) for _ in stream.steps()]
    assert [index for index, _ in found] == list(range(150))
    assert len({mean for _, mean in found}) == 150, "each step has a mean of its own, and none is that of a hole"
    assert 0.0 not in {mean for _, mean in found}
    (again,) = (event for event in read_events(done.folder) if isinstance(event, StagesRestarted))
    dropped = [event for event in read_events(done.folder) if isinstance(event, StepsDropped)]
    assert any(event.t > again.t for event in dropped), "it drops what both have finished"
