"""A run in progress whose simulation goes on as far as a test lets it: to join it, and to look at it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.pipelines import TIMEOUT_S, start
from tests.support.waiting import wait_until
from workflow.formats.bp_index import read_index

LAST = 40
# Step i holds the number i. It goes on when the file of that step is there.
SIM = f"""
import sys, time
from pathlib import Path
import numpy as np
from workflow import stage
gates = Path(sys.argv[1])
end = time.monotonic() + 100
with stage.open_writer("data") as out:
    for step in range({LAST}):
        while not any((gates / f"until-{{later}}").exists() for later in range(step, {LAST})):
            assert time.monotonic() < end
            time.sleep(0.01)
        with out.step():
            out.attribute("unit", "m")
            out.write("values", np.full(1000, step, dtype=float), shape=(1000,), start=(0,))
"""
READ = """
from workflow import stage
with stage.open_reader("data") as data:
    for step in data:
        assert (step.read("values") == step.read("values")[0]).all()
"""
PIPELINE = """
wf: 1
name: live
oversubscribe: true
deadlines: {{start: 60 s, step: 100 s, run: 120 s, stop: 3 s}}
stages:
  sim: {{command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/sim.py", "{gates}"], writes: {{data: {{}}}}}}
  look: {{command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/look.py"], reads: {{data: {{}}}}}}
streams:
  data: {{from: sim, to: look, {data}}}
"""
STREAMS = {
    "newest": "keep: {steps: 2, where: /dev/shm}",
    "spool": "keep: true",
    "live file": "via: bp5, coupling: live",
}


class LiveRun:
    """A run whose simulation goes on as far as it may."""

    def __init__(self, folder: Path, data: str) -> None:
        self.folder, self.gates = folder / "run", folder / "gates"
        self.gates.mkdir()
        (folder / "sim.py").write_text(SIM)
        (folder / "look.py").write_text(READ)
        (folder / "pipeline.yaml").write_text(PIPELINE.format(gates=self.gates, data=data))
        self.process = wf("run", str(folder / "pipeline.yaml"), "--run-dir", str(self.folder), "-q", cwd=folder)

    def let_write(self, last: int) -> None:
        """Let the simulation write the steps up to this one, and wait until they can be read."""
        (self.gates / f"until-{last}").touch()
        wait_until(lambda: self.process.poll() is not None or self.steps() > last, f"step {last} is there")
        assert self.process.poll() is None, self.process.communicate()[0]

    def steps(self) -> int:
        """How many steps can be read."""
        found = [read_index(index) for index in (self.folder / "streams").glob("*/md.idx")]
        return max((each.steps for each in found if each is not None), default=0)

    def end(self) -> str:
        """Let it end; what it said."""
        (self.gates / f"until-{LAST - 1}").touch()
        said, _ = self.process.communicate(timeout=TIMEOUT_S)
        return said


@contextmanager
def live_run(folder: Path, data: str) -> Iterator[LiveRun]:
    """A running run; `data`: more of its stream."""
    run = LiveRun(folder, data)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.terminate()
        if run.process.stdout is not None and not run.process.stdout.closed:
            run.process.communicate(timeout=TIMEOUT_S)


def wf(*argv: str, cwd: Path) -> subprocess.Popen[str]:
    return start(cwd, "-m", "workflow.cli", *argv)
