"""A power cut of everything, or the death of the supervisor, at a random moment: `wf resume` goes on, and in the end
the data are those of an undisturbed run.

Of a power cut nothing remains but what is in the files, and their newest parts may be torn: half of the last step, half
of a state.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.hurt_runs import descendants
from tests.support.long_tables import long_table
from tests.support.pipelines import ROOT, Done
from tests.support.reliability import note, steps_written
from tests.support.resumed_runs import ANALYSIS, SAVING, SIMULATION
from tests.support.waiting import wait_until
from workflow.compare.compare_runs import compare_runs
from workflow.run.control.lease import examine_leases, read_lease

HEAD = "wf: 1\nname: cuts\noversubscribe: true\ndeadlines: {start: 60 s, run: 200 s, stop: 3 s}\n"
WAYS = {
    "sst then sst": ("via: sst, transport: tcp", "via: sst, transport: tcp"),
    "live then sst": ("via: bp5, coupling: live", "via: sst, transport: tcp"),
    "shm then shm": ("via: shm", "via: shm"),
    "live then live": ("via: bp5, coupling: live", "via: bp5, coupling: live"),
    "after then sst": ("via: bp5, coupling: after", "via: sst, transport: tcp"),
    "sst then after": ("via: sst, transport: tcp", "via: bp5, coupling: after"),
}
STEPS = 21


class Cut(NamedTuple):
    """One end of all processes, when the simulation has written so many steps in this part of the run.

    `torn`: the newest files lose their ends. `alone`: only the supervisor is killed; its guard ends the stages.
    """

    step: int
    torn: bool
    alone: bool


def plan_of(seed: int) -> tuple[str, list[Cut]]:
    """The same ones for a seed: a way of the streams, and one cut or two."""
    dice = random.Random(seed)
    cuts = [Cut(dice.randrange(STEPS), dice.random() < 0.5, dice.random() < 0.3) for _ in range(dice.choice([1, 2]))]
    return dice.choice(list(WAYS)), cuts


def write_pipeline(folder: Path, way: str) -> None:
    field, means = WAYS[way]
    (folder / "sim.py").write_text(SIMULATION)
    (folder / "mean.py").write_text(ANALYSIS)
    text = SAVING.format(every="1 ms", folder=folder, field=field, means=means, ranks=1)
    (folder / "pipeline.yaml").write_text(HEAD + text)


def go(folder: Path, run_dir: Path, cut: Cut | None, before: Path | None) -> Done:
    """Start a run or its next part, and end it so."""
    what = ["run", "pipeline.yaml"] if before is None else ["resume", str(before)]
    argv = [sys.executable, "-m", "workflow.cli", *what, "--run-dir", str(run_dir), "-q"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        if cut is not None:
            wait_until(
                lambda: process.poll() is not None or steps_written(run_dir) > cut.step,
                f"step {cut.step} of the simulation",
            )
            below = descendants(process.pid)
            for pid in [process.pid] if cut.alone else [process.pid, *below]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        said, _ = process.communicate(timeout=200)
    if cut is not None and read_lease(run_dir) is not None:
        wait_until(lambda: not examine_leases([run_dir])[0].alive, "the supervisor counts as lost")
        # Nothing is torn of a run that had ended before the cut, nor while a stage still writes: its guard ends that.
        if cut.torn and process.returncode < 0:
            wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "its processes have ended")
            tear(run_dir)
    return Done(process.returncode, said, run_dir)


def tear(run_dir: Path) -> None:
    """Cut off the ends of what was written last: of each BP file, its data or its index; of the newest state."""
    dice = random.Random(str(run_dir))
    for index in [*run_dir.glob("streams/*.bp/md.idx"), *run_dir.glob("*.bp*/md.idx")]:
        if index.stat().st_size > 0 and not (index.parent / "data.1000000").exists():
            path = dice.choice(
                [each for each in (index, index.parent / "md.0", index.parent / "data.0") if each.exists()]
            )
            size = path.stat().st_size
            os.truncate(path, max(64 if path == index else 0, size - dice.randrange(1, 40)))
    states = sorted(run_dir.glob("stages/sim/state/*.npz"))
    if states:
        os.truncate(states[-1], states[-1].stat().st_size // 2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    write_pipeline(folder, "live then sst")
    done = go(folder, folder / "run", None, None)
    assert done.code == 0, done.said
    return done.folder


@pytest.mark.parametrize("seed", long_table(range(50), sample=4))
def test_a_run_goes_on_after_a_cut(seed: int, undisturbed: Path, tmp_path: Path) -> None:
    way, cuts = plan_of(seed)
    write_pipeline(tmp_path, way)
    before: Path | None = None
    for number, cut in enumerate([*cuts, None]):
        done = go(tmp_path, tmp_path / f"part{number}", cut, before)
        if before is not None and done.code == 2 and "nothing of" in done.said:
            done = go(tmp_path, tmp_path / f"anew{number}", cut, None)
        elif done.code == 2 and "has succeeded" in done.said:
            break
        before = done.folder
    assert before is not None
    assert done.code == 0 or "has succeeded" in done.said, done.said
    found = compare_runs(undisturbed / "means.bp", before / "means.bp")
    note("cuts", way=way, cuts=len(cuts), torn=any(cut.torn for cut in cuts), equal=found.identical)
    assert found.identical, (way, cuts, found)
