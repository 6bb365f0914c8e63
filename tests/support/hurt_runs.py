"""Runs of sim → work → keep that are hurt from outside: the programs, the disk that they write to, and what became of
their steps.

Each stage can go on after a failure: `work` and `keep` in the run, `sim` from its saved state by `wf resume`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import adios2
import numpy as np

from tests.support.pipelines import ROOT, Done
from tests.support.reliability import note, steps_written, ways
from tests.support.waiting import wait_until
from workflow.compare.compare_runs import compare_runs
from workflow.run.control.lease import examine_leases, read_lease
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StageStarted
from workflow.run.state.lifecycle_events import RestartDecided, RunFinished, StopRequested

STEPS = 21
# Each value depends on all steps before: what begins at a wrong state has other values.
SIMULATION = """
import sys, time
from pathlib import Path
import numpy as np
from workflow import stage
cells = np.arange(float(sys.argv[1]))
with stage.open_writer("field") as out:
    state = stage.State(step=0, cells=cells)
    cells = state["cells"]
    for step in range(state["step"], 21):
        HURT
        state.save(step=step, cells=cells)
        with out.step():
            out.write("V", cells)
        cells = np.cos(cells + step)
        time.sleep(0.05)
"""
ANALYSIS = """
import sys
from pathlib import Path
import numpy as np
from workflow import stage
with stage.open_reader("field") as fields, stage.open_writer("result") as result:
    for step in fields:
        HURT
        with result.step():
            result.write("index", np.int64(step.index))
            result.write("wave", np.sin(step.read("V")))
"""
PIPELINE = """
wf: 1
name: hurt
oversubscribe: true
deadlines: {{start: {start}, step: {step}, run: 200 s, stop: 2 s}}
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", {cells}]
    checkpoint: {{every: 1 ms}}
    writes: {{field: {{}}}}
  work:
    command: ["${{{{ wf.python }}}}", "{folder}/work.py"]
    reads: {{field: {{}}}}
    writes: {{result: {{}}}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: kept.bp}}, on_failure: {{do: restart, backoff: 0.1 s}}}}
streams:
  field: {{from: sim, to: work, via: {first}}}
  result: {{from: work, to: keep, via: {second}}}
"""
WAYS = ways("live then sst", "live then live", "spool then sst", "shm, spool then shm")


@dataclass
class HurtRun:
    """One run and its parts. `hurt`: what sim and work do at the beginning of a step, `name` → a line of Python.

    `at`: when the fault came, Unix seconds.
    """

    folder: Path
    way: str
    cells: int = 8
    hurt: dict[str, str] = field(default_factory=dict)
    start: str = "60 s"
    step: str = "60 s"
    limit_bytes: int | None = None  # of each file that a process may write
    options: list[str] = field(default_factory=list)  # of `wf run`
    parts: list[Done] = field(default_factory=list)
    at: float = 0.0
    hurt_part: Path | None = None  # the directory of the part that was hurt, the first one

    def write(self) -> None:
        """The programs and the pipeline."""
        first, second = WAYS[self.way]
        for name, text in (("sim", SIMULATION), ("work", ANALYSIS)):
            (self.folder / f"{name}.py").write_text(text.replace("HURT", self.hurt.get(name, "pass")))
        filled = PIPELINE.format(
            folder=self.folder, first=first, second=second, cells=self.cells, start=self.start, step=self.step
        )
        (self.folder / "pipeline.yaml").write_text(filled)

    def go(self, action: Callable[[Path, int], None] | None = None, where: Path | None = None) -> Done:
        """The run, or its next part; `action` gets its directory and the process of `wf`."""
        run_dir = (where or self.folder) / f"part{len(self.parts) + 1}"
        what = ["resume", str(self.parts[-1].folder)] if self.parts else ["run", str(self.folder / "pipeline.yaml")]
        argv = [sys.executable, "-m", "workflow.cli", *what, "--run-dir", str(run_dir), "-q", *self.options]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            argv, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=self._limit,
        ) as process:  # fmt: skip
            if action is not None:
                wait_until(lambda: process.poll() is not None or (run_dir / "events.jsonl").exists(), "the run starts")
                action(run_dir, process.pid)
            said, _ = process.communicate(timeout=200)
        self.hurt_part = self.hurt_part or run_dir
        self.parts.append(Done(process.returncode, said, run_dir))
        return self.parts[-1]

    def _limit(self) -> None:
        if self.limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit_bytes, resource.RLIM_INFINITY))

    def end_all(self, run_dir: Path, pid: int) -> None:
        """Kill the supervisor and all that it has started, and wait until that is known."""
        for each in [pid, *descendants(pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self.at = time.time()
        if read_lease(run_dir) is not None:
            wait_until(lambda: not examine_leases([run_dir])[0].alive, "the supervisor counts as lost")

    def signal(self, run_dir: Path, stage: str, number: int) -> None:
        """Send a signal to the newest process of a stage."""
        # The supervisor may note it later than the stage its first steps, while it starts others.
        wait_until(lambda: newest_pid(run_dir, stage) is not None, f"the process of {stage} is known")
        pid = newest_pid(run_dir, stage)
        assert pid is not None
        os.kill(pid, number)
        self.at = time.time()

    def named_after_s(self) -> float | None:
        """From the fault until the supervisor had decided what follows; None: there was none to decide."""
        decided = (RestartDecided, StopRequested, RunFinished)
        assert self.hurt_part is not None
        found = [event.t for event in read_events(self.hurt_part) if isinstance(event, decided)]
        times = [t for t in found if t >= self.at - 0.5]
        return max(0.0, min(times) - self.at) if times and self.at else None

    def check(self, kind: str, role: str, undisturbed: Path, outcome: str) -> None:
        """The data are those of an undisturbed run, each step once. Notes the cell."""
        done = self.parts[-1]
        assert done.code == 0, done.said
        seen = Counter(indices(done.folder / "kept.bp"))
        lost, doubled = STEPS - len(seen), sum(seen.values()) - len(seen)
        equal = compare_runs(undisturbed, done.folder / "kept.bp").identical
        replayed = sum(each.replayed or 0 for part in self.parts for each in part.report.restarts)
        note(
            "hurt", kind=kind, role=role, way=self.way, outcome=outcome, named_s=self.named_after_s(), lost=lost,
            doubled=doubled, replayed=replayed, equal=equal,
        )  # fmt: skip
        assert (lost, doubled) == (0, 0), sorted(seen.elements())
        assert equal


def undisturbed_run(folder: Path, cells: int = 8) -> Path:
    """What `keep` writes when nothing happens."""
    run = HurtRun(folder, "live then live", cells=cells)
    run.write()
    done = run.go()
    assert done.code == 0, done.said
    return done.folder / "kept.bp"


def at_step(run_dir: Path, step: int) -> None:
    """Wait until the simulation has written this step in this part of the run."""
    wait_until(lambda: steps_written(run_dir) > step, f"step {step} of the simulation")


def newest_pid(run_dir: Path, stage: str) -> int | None:
    """The process of the newest attempt of a stage."""
    pids = [event.pid for event in read_events(run_dir) if isinstance(event, StageStarted) and event.stage == stage]
    return pids[-1] if pids else None


def indices(path: Path) -> list[int]:
    """The numbers of the steps in the file of `keep`."""
    with adios2.FileReader(str(path)) as file:
        return [int(n) for n in np.ravel(file.read("index", step_selection=[0, int(file.num_steps())]))]


def descendants(pid: int) -> list[int]:
    """All processes below this one, also those of its other threads, which `process_tree` leaves out."""
    parent_of = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent_of[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found, wave = list[int](), [pid]
    while wave:
        wave = [each for each, parent in parent_of.items() if parent in wave]
        found += wave
    return found


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[Path | None]:
    """A file system of so many bytes; None where none can be mounted."""
    with tempfile.TemporaryDirectory(prefix="wf-disk-") as name:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", name], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            yield None
            return
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "-l", name], check=True)
