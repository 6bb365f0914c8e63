"""Runs that end before their work is done, and go on by `wf resume`: the programs and the pipelines of their tests."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.pipelines import ROOT, TIMEOUT_S, Done, run
from workflow.formats.bp_index import read_index

# The analysis fails at the step that the file `fails` names.
ANALYSIS = """
import sys
from pathlib import Path
import numpy as np
from workflow import stage
place = Path(sys.argv[1])
with stage.open_reader("field") as fields, stage.open_writer("means") as means:
    for step in fields:
        if place.exists() and step.index == int(place.read_text()):
            sys.exit(3)
        with means.step():
            means.write("mean", float(step.read("V").mean()))
            means.write("index", np.int64(step.index))
"""
SLOW = ANALYSIS.replace("        with means.step", "        import time; time.sleep(0.1)\n        with means.step")
PIPELINE = """
stages:
  sim: {{component: gray_scott, with: {{size: [16], steps: 200, write_every: 10}}}}
  mean: {{command: ["${{{{ wf.python }}}}", "{folder}/mean.py", "{folder}/fails"], reads: {{field: {{}}}}, writes: {{means: {{}}}}}}
  keep: {{component: archive, with: {{path: means.bp}}}}
streams:
  field: {{from: sim, to: mean, {field}}}
  means: {{from: mean, to: keep, {means}}}
"""  # noqa: E501


def start(folder: Path, field: str = "via: bp5", means: str = "via: sst", fails: int | None = None) -> Done:
    (folder / "mean.py").write_text(ANALYSIS)
    if fails is not None:
        (folder / "fails").write_text(str(fails))
    return run(folder, PIPELINE.format(folder=folder, field=field, means=means))


def wf(folder: Path, *argv: str) -> tuple[int, str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", *argv],
        cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def resume(folder: Path, name: str, fails: int | None = None, before: str = "run") -> Done:
    for each in ("fails", "hold"):
        (folder / each).unlink(missing_ok=True)
    if fails is not None:
        (folder / "fails").write_text(str(fails))
        (folder / "hold").write_text(str(fails + 3))
    code, said = wf(folder, "resume", str(folder / before), "--run-dir", str(folder / name))
    return Done(code, said, folder / name)


def first_step(done: Done, stage: str) -> int:
    found = re.search(rf"^  {stage} +step (\d+)", done.said, re.MULTILINE)
    assert found is not None, done.said
    return int(found[1])


def undisturbed(folder: Path, field: str = "via: bp5", means: str = "via: sst") -> Done:
    other = folder / "undisturbed"
    other.mkdir()
    done = start(other, field, means)
    assert done.code == 0, done.said
    return done


def sums(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# A solver that takes its time for each step, and whose every value depends on all steps before.
SIMULATION = """
import sys, time
from pathlib import Path
import numpy as np
from workflow import stage
size, rank, hold = stage.size(), stage.rank(), Path(sys.argv[1])
held = int(hold.read_text()) if hold.exists() else -1
cells = np.arange(8.0) + 8 * rank
with stage.open_writer("field") as out:
    state = stage.State(step=0, cells=cells)
    cells = state["cells"]
    for step in range(state["step"], 21):
        # Not further than that while the run is not stopped, however slow the machine is.
        while step == held and not stage.stop_requested():
            time.sleep(0.02)
        state.save(step=step, cells=cells)
        with out.step():
            out.write("V", cells, shape=(8 * size,), start=(8 * rank,))
        cells = np.cos(cells + step)
        time.sleep(0.05)
"""
# The same with so many steps of so many seconds: `none STEPS SECONDS`.
TIMED = SIMULATION.replace('range(state["step"], 21)', 'range(state["step"], int(sys.argv[2]))').replace(
    "time.sleep(0.05)", "time.sleep(float(sys.argv[3]))"
)
SAVING = """
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", "{folder}/hold"]
    ranks: {ranks}
    checkpoint: {{every: {every}}}
    writes: {{field: {{}}}}
""" + PIPELINE.partition("with: {{size: [16], steps: 200, write_every: 10}}}}\n")[2]


def start_saving(folder: Path, every: str, field: str, fails: int | None = None, ranks: int = 1) -> Done:
    (folder / "mean.py").write_text(ANALYSIS)
    (folder / "sim.py").write_text(SIMULATION)
    if fails is not None:
        (folder / "fails").write_text(str(fails))
        (folder / "hold").write_text(str(fails + 3))
    return run(folder, SAVING.format(every=every, folder=folder, field=field, means="via: sst", ranks=ranks))


def unsaved(folder: Path, field: str, ranks: int = 1) -> Path:
    other = folder / "undisturbed"
    other.mkdir()
    done = start_saving(other, "1 h", field, ranks=ranks)
    assert done.code == 0, done.said
    return done.folder


def stream_steps(run_dir: Path) -> int:
    """How many steps the archive of the sink holds so far."""
    found = (read_index(run_dir / name / "md.idx") for name in ("means.bp.partial", "means.bp"))
    return max((index.steps for index in found if index is not None), default=0)
