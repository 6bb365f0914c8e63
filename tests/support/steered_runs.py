"""Runs whose values are changed while they go on: a simulation that waits for a reader, which waits for the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner

from tests.support.pipelines import TIMEOUT_S, Done, start
from tests.support.waiting import wait_until
from workflow.cli.main import wf
from workflow.errors import EXIT_BAD_INPUT, WfError
from workflow.run.control.lease import read_lease
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StageStarted, StageSteered, SteeringAsked, SteeringRefused, StreamProgress

STEPS = 41
# At these steps the reader waits until a file is there: `go-6`, or `go` for all.
HELD = 6, 16
# Steps that the simulation may be ahead of its reader.
AHEAD = 5
HOLD = f"""
import os, sys, time
from pathlib import Path
from workflow import stage
go = Path(sys.argv[1])
with stage.open_reader("field") as field:
    for step in field:
        STEER
        while step.index in {HELD} and not go.exists() and not Path(f"{{go}}-{{step.index}}").exists():
            os.kill({os.getpid()}, 0)  # as long as the test lives, however long its commands take
            time.sleep(0.01)
"""
PIPELINE = """
wf: 1
name: steered
oversubscribe: true
deadlines: {{start: 200 s, step: 250 s, run: 280 s, stop: 3 s}}
stages:
  sim:
    component: gray_scott
    with: {{size: [16], steps: 400, write_every: 10}}
    ranks: {ranks}
    checkpoint: {{every: 1 ms}}
    {more}
  hold: {{command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/hold.py", "${{{{ pipeline.dir }}}}/go"], reads: {{field: {{}}}}}}
  keep: {{component: archive, with: {{path: field.bp}}}}
streams:
  field: {{from: sim, to: [hold, keep], via: sst}}
"""  # noqa: E501


class SteeredRun:
    """A run whose simulation has written a few steps, and waits."""

    def __init__(
        self, folder: Path, *, ranks: int = 1, more: str = "", steer: str = "pass", text: str = "",
        python: str = sys.executable,
    ) -> None:  # fmt: skip
        self.folder, self.home, self.python = folder / "run", folder, python
        folder.mkdir(exist_ok=True)
        (folder / "hold.py").write_text(HOLD.replace("STEER", steer))
        (folder / "pipeline.yaml").write_text(text or PIPELINE.format(ranks=ranks, more=more))
        self.process = self.wf("run", "pipeline.yaml", "--run-dir", "run", "-q")

    def wf(self, *argv: str) -> subprocess.Popen[str]:
        return start(self.home, "-m", "workflow.cli", *argv, python=self.python)

    def held(self, at: int = HELD[0]) -> SteeredRun:
        """Wait until it is held; before the steps of HELD after the first one it is let on."""
        for before in HELD[: HELD.index(at)]:
            (self.home / f"go-{before}").touch()
        wait_until(
            lambda: self.process.poll() is not None or progress(self.folder, "hold") >= at,
            "the reader holds the simulation",
        )
        assert self.process.poll() is None, self.process.communicate()[0]
        return self

    def ask(self, *argv: str) -> subprocess.Popen[str]:
        """`wf set`, once the supervisor knows of it."""
        before = len(self.asked())
        process = self.wf("set", "run", *argv)
        wait_until(lambda: len(self.asked()) > before or process.poll() is not None, "the request is known")
        return process

    def asked(self) -> list[SteeringAsked]:
        return [each for each in steering(self.folder) if isinstance(each, SteeringAsked)]

    def set(self, *argv: str) -> Done:
        """`wf set` to its end; what it said."""
        process = self.wf("set", "run", *argv)
        said, _ = process.communicate(timeout=TIMEOUT_S)
        return Done(process.returncode, said, self.folder)

    def refused(self, *argv: str) -> str:
        """What `wf set` says that refuses them, in this process: it takes a tenth of the time of another one."""
        before = Path.cwd()
        os.chdir(self.home)
        try:
            done = CliRunner().invoke(wf, ["set", "run", *argv])
        finally:
            os.chdir(before)
        error = done.exception
        assert isinstance(error, WfError | SystemExit), done.output
        assert (error.exit_code if isinstance(error, WfError) else error.code) == EXIT_BAD_INPUT, error
        return done.output + "\n".join(map(str, error.problems if isinstance(error, WfError) else ()))

    def go(self) -> Done:
        """Let it go on to its end."""
        (self.home / "go").touch()
        said, _ = self.process.communicate(timeout=TIMEOUT_S)
        return Done(self.process.returncode, said, self.folder)

    def kill(self, what: str) -> None:
        """Kill its supervisor, whose guard then ends the stages, or a stage; and wait for its end."""
        self.kill_process(what)
        self.process.communicate(timeout=TIMEOUT_S)

    def kill_process(self, what: str) -> None:
        lease, events = read_lease(self.folder), read_events(self.folder)
        pids = {each.stage: each.pid for each in events if isinstance(each, StageStarted)}
        assert lease is not None
        os.kill({**pids, "supervisor": lease.pid}[what], signal.SIGKILL)

    def resume(self) -> Done:
        """Its next part, to the end."""
        (self.home / "go").touch()
        process = self.wf("resume", "run", "--run-dir", "part2", "-q")
        said, _ = process.communicate(timeout=TIMEOUT_S)
        return Done(process.returncode, said, self.home / "part2")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.process.communicate(timeout=TIMEOUT_S)


def progress(run_dir: Path, stage: str) -> int:
    """How many steps a stage has read or written."""
    if not (run_dir / "events.jsonl").exists():
        return 0
    events = read_events(run_dir)
    return max((each.steps for each in events if isinstance(each, StreamProgress) and each.stage == stage), default=0)


def steering(run_dir: Path) -> Sequence[SteeringAsked | StageSteered | SteeringRefused]:
    """All events about the values of stages."""
    kinds = SteeringAsked | StageSteered | SteeringRefused
    return [event for event in read_events(run_dir) if isinstance(event, kinds)]


def taken(run_dir: Path) -> list[tuple[int, dict[str, object]]]:
    """(step, new values) of what was taken."""
    return [(each.step, {**each.new}) for each in steering(run_dir) if isinstance(each, StageSteered)]


def declared(folder: Path, *changes: tuple[str, int, float]) -> Path:
    """The archive of an undisturbed run on one rank whose pipeline file has these changes: (name, step, value)."""
    names = dict.fromkeys(name for name, _, _ in changes)
    each = {name: [f"{{step: {at}, value: {value}}}" for of, at, value in changes if of == name] for name in names}
    more = ", ".join(f"{name}: {{at: [{', '.join(at)}]}}" for name, at in each.items())
    done = SteeredRun(folder, more=f"steer: {{{more}}}").go()
    assert done.code == 0, done.said
    return done.folder / "field.bp"
