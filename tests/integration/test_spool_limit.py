"""A spool that keeps the newest steps only: a stage that fails late goes on, and the disk never holds all steps."""

from __future__ import annotations

from pathlib import Path

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
  field: {{from: sim, to: mean, via: sst, spool: {spool}}}
  means: {{from: mean, to: keep, via: bp5}}
"""


def test_an_analysis_goes_on_behind_a_spool_that_keeps_eight_steps(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    for folder in (tmp_path, whole):
        folder.mkdir(exist_ok=True)
        (folder / "mean.py").write_text(ANALYSIS)
    (whole / "failed").touch()
    undisturbed = run(whole, PIPELINE.format(folder=whole, steps=STEPS, do="stop", spool="auto"))
    assert undisturbed.code == 0, undisturbed.said
    done = run(tmp_path, PIPELINE.format(folder=tmp_path, steps=STEPS, do="restart", spool="{keep: 8 steps}"))
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
