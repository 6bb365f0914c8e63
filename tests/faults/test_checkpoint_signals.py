"""A program that writes a checkpoint when it gets a signal: it is asked from time to time, and its run goes on from the
newest. So WarpX documents its signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.hurt_runs import HurtRun
from tests.support.pipelines import Done
from tests.support.resumed_runs import wf
from tests.support.waiting import wait_until
from workflow.compare.compare_runs import compare_runs
from workflow.run.records.events_file import read_events
from workflow.run.state.lifecycle_events import CheckpointRequested, StageOpen

STEPS = 40
# Without workflow.stage; rank 0 writes. Each value depends on all steps before. All ranks must have got the signal, or
# there is no checkpoint.
PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
import adios2
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
asked = False
def ask(number, frame):
    global asked
    asked = True
signal.signal(signal.SIGUSR1, ask)
saved = json.loads(Path(sys.argv[2]).read_text()) if len(sys.argv) > 2 else {"step": 0, "values": [1.0, 2.0, 3.0]}
values, leads = np.array(saved["values"]), comm.Get_rank() == 0
if leads:
    io = adios2.Adios("adios2.xml").declare_io("out")
    variable = io.define_variable("V", values, [3], [0], [3])
    out = adios2.Stream(io, sys.argv[1], "w")
for step in range(saved["step"], 40):
    if leads:
        out.begin_step()
        out.write(variable, values)
        out.end_step()
    values = np.cos(values + step)
    time.sleep(0.15)
    if comm.allreduce(int(asked), op=MPI.MIN):
        asked = False
        if leads:
            Path("new").write_text(json.dumps({"step": step + 1, "values": values.tolist()}))
            os.rename("new", f"state.{step + 1}")
# Python gives up its handlers before its process ends: then the signal would end it.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
if leads:
    out.close()
"""
PIPELINE = """
wf: 1
name: asked
oversubscribe: true
deadlines: {{start: 60 s, step: 60 s, run: 150 s, stop: 6 s}}
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", "${{{{ streams.field.path }}}}"]
    ranks: {ranks}
    checkpoint:
      files: state.*
      outputs: {{every: 1, first: 0}}
      command:
        ["${{{{ wf.python }}}}", "{folder}/sim.py", "${{{{ streams.field.path }}}}", "${{{{ checkpoint.path }}}}"]
      signal: USR1
      every: {every}
    writes: {{field: {{io: out, config: adios2.xml}}}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  field: {{from: sim, to: keep, via: sst}}
"""


@dataclass
class AskedRun(HurtRun):
    """sim → keep. `every`: how often the program is asked for a checkpoint."""

    every: str = "1 s"
    ranks: int = 1

    def write(self) -> None:
        (self.folder / "sim.py").write_text(PROGRAM)
        text = PIPELINE.format(folder=self.folder, every=self.every, ranks=self.ranks)
        (self.folder / "pipeline.yaml").write_text(text)


def checkpoints(run_dir: Path) -> Sequence[int]:
    """The steps of the program at which it has written one."""
    return sorted(int(path.suffix[1:]) for path in (run_dir / "stages/sim/work").glob("state.*"))


def requests(done: Done) -> int:
    return sum(isinstance(event, CheckpointRequested) for event in read_events(done.folder))


def is_open(run_dir: Path) -> bool:
    return any(isinstance(event, StageOpen) and event.stage == "sim" for event in read_events(run_dir))


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_goes_on_from_the_checkpoint_that_was_asked_for(ranks: int, tmp_path: Path) -> None:
    run = AskedRun(tmp_path, "sst", ranks=ranks)
    run.write()

    def kill(run_dir: Path, pid: int) -> None:
        wait_until(lambda: len(checkpoints(run_dir)) >= 2, "two checkpoints")
        run.end_all(run_dir, pid)

    hurt = run.go(kill)
    done = run.go()
    assert done.code == 0, done.said
    assert STEPS - (done.report.stream("field").steps or 0) in checkpoints(hurt.folder)
    assert requests(done) >= 1, "the next part asks for checkpoints, too"
    whole = AskedRun(tmp_path / "whole", "sst", every="1 h", ranks=ranks)
    whole.folder.mkdir()
    whole.write()
    undisturbed = whole.go()
    assert undisturbed.code == 0, undisturbed.said
    assert (requests(undisturbed), checkpoints(undisturbed.folder)) == (0, [])
    found = compare_runs(undisturbed.folder / "kept.bp", done.folder / "kept.bp")
    assert found.identical, found
    assert found.files[0].steps == STEPS


def test_when_the_run_is_stopped_it_is_asked_once_more(tmp_path: Path) -> None:
    run = AskedRun(tmp_path, "sst", every="1 h")
    run.write()

    def cancel(run_dir: Path, pid: int) -> None:  # noqa: ARG001
        wait_until(lambda: is_open(run_dir), "its streams are open")
        code, said = wf(tmp_path, "cancel", str(run_dir))
        assert code == 0, said

    stopped = run.go(cancel)
    assert len(checkpoints(stopped.folder)) == 1, stopped.said
