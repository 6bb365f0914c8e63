"""Pilots: nodes that are held for many repetitions, and the workers on the first of them.

Where the nodes are there, on this machine or in the batch job around this process, the workers are started here. On a
login node each pilot is a batch job, submitted as `wf run --site` does it.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from workflow.campaign.execution.driver_lease import (
    END_FILE,
    KEYS_FOLDER,
    KILLED_S,
    PILOTS_FOLDER,
    STOP_S,
    WORKERS_LABEL,
    bound_command,
    write_driver,
)
from workflow.campaign.execution.parsl_workers import WorkerPool
from workflow.campaign.execution.repetition import RepetitionOrder, introduce, run_order
from workflow.campaign.ledger import Attempt
from workflow.errors import RunError
from workflow.formatting import duration, plural
from workflow.launch.allocation import Allocation
from workflow.plan.plan_model import AllocationPlan
from workflow.provenance.provenance_model import HostContext, StartContext
from workflow.run.control.detached import OUTPUT_FILE
from workflow.run.control.lease import Lease
from workflow.run.observe.sst_log import last_lines
from workflow.run.records.job_record import JobRecord
from workflow.schedulers.job_questions import cancel_job
from workflow.schedulers.scheduler import JobOrder, QueryError
from workflow.schedulers.schedulers import scheduler_named
from workflow.site.site_model import Site
from workflow.submit.job_scripts import job_name
from workflow.submit.job_status import JobWatch, ask_about
from workflow.submit.submission import submit_job

WORKERS_FILE = "workers.sh"
# From the start of a pilot's first process until its workers answer: Python and Parsl from a slow file system.
CONNECT_S = 180.0
_END_S = 5.0
_SHOWN_LINES = 3
_READ_LINES = 20
_REQUEST_LESS = "; to request less, press Ctrl-C and change `nodes` or `time` of `jobs:`"


class PilotStart(Protocol):
    """Starts the first process of a pilot, and knows what has become of it."""

    def start(self, command: list[str]) -> str:
        """Start the workers; returns what to say about it."""

    @property
    def runs(self) -> bool:
        """Whether its nodes are there."""

    @property
    def waits(self) -> str:
        """What it waits for, by the word of the scheduler; empty where it does not wait, or that is not known."""

    def end_text(self) -> str:
        """How it ended; empty while it has not, as far as is known."""

    def ask_end(self) -> str:
        """As `end_text`, asked for now: may take as long as the scheduler does."""

    def end(self, at_once: bool) -> None:
        """See to it that it ends, `at_once` where it may still wait in a queue."""


class PilotHere:
    """Workers in processes of this machine."""

    runs = True
    waits = ""

    def __init__(self, folder: Path) -> None:
        self._output = folder / OUTPUT_FILE
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str]) -> str:
        """Start them in a session of their own: Ctrl-C is not for them."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        return ""

    def end_text(self) -> str:
        """With the exit code."""
        code = self._process.poll() if self._process is not None else None
        return "" if code is None else f"its workers ended with exit code {code}"

    def ask_end(self) -> str:
        """The same: nobody is asked."""
        return self.end_text()

    def end(self, at_once: bool) -> None:  # noqa: ARG002 - they have their nodes
        """Wait for the processes, which read the file `end`."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
                return
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S + KILLED_S + _END_S)
                return
            self._process.kill()
            self._process.wait()


class PilotJob:
    """A batch job."""

    def __init__(self, folder: Path, name: str, allocation: AllocationPlan, site: Site) -> None:
        self._folder, self._name, self._allocation, self._site = folder, name, allocation, site
        self._job: JobRecord | None = None
        self._watch: JobWatch | None = None

    def start(self, command: list[str]) -> str:
        """Submit it. Raises RunError when it is refused."""
        site = self._site
        order = JobOrder(
            self._allocation, job_name(self._name, secrets.token_hex(3)), self._folder, tuple(command),
            tuple(site.modules), site.cores_per_node * site.threads_per_core, site.gpus_per_node,
            output=self._folder / OUTPUT_FILE,
        )  # fmt: skip
        self._job = submit_job(order)
        self._watch = JobWatch(self._folder, self._job)
        size = f"{plural(self._allocation.nodes, 'node')} for {duration(self._allocation.walltime_s)}"
        return f"{self._job.text} was submitted: {size}"

    @property
    def runs(self) -> bool:
        """By the word of the scheduler."""
        word = self._watch.tracker.word if self._watch is not None else None
        return word is not None and word.phase == "running"

    @property
    def waits(self) -> str:
        """`slurm job 12: PENDING (Priority)`, with what to do where it may wait for ever."""
        tracker = self._watch.tracker if self._watch is not None else None
        if tracker is None or not tracker.has_answer or (tracker.word is not None and tracker.word.phase != "pending"):
            return ""
        return tracker.text + (_REQUEST_LESS if tracker.asks_too_much else "")

    def end_text(self) -> str:
        """By the exit code that the job left, or by the scheduler."""
        if self._watch is None:
            return ""
        return self._watch.look().end(time.monotonic()) or ""

    def ask_end(self) -> str:
        """By the scheduler. No answer is no end."""
        if self._watch is None:
            return ""
        answer = ask_about(self._watch.tracker.job)
        if answer.word is not None and scheduler_named(self._watch.tracker.job.scheduler).is_ending(answer.word):
            return f"{self._watch.tracker.job.text} ended: {answer.word.text}"
        # Of a job whose id is not known, its absence says nothing.
        is_gone = answer.is_absent and self._watch.tracker.job.job
        return f"the scheduler no longer knows {self._watch.tracker.job.text}" if is_gone else ""

    def end(self, at_once: bool) -> None:
        """Cancel the job; not where its workers read the file `end`, and end the job as done."""
        job = self._watch.tracker.job if self._watch is not None else None
        if at_once and job is not None and job.job:
            # When it starts all the same, its workers find that their driver has gone.
            with contextlib.suppress(QueryError):
                cancel_job(job.scheduler, job.job)


@dataclass
class Pilot:
    """One pilot, from its request to its end."""

    name: str
    folder: Path
    started: PilotStart
    pool: WorkerPool
    greeting: Future[tuple[Allocation, HostContext]]
    allocation: Allocation | None = None
    """What it has, once its workers have answered."""
    host_context: HostContext | None = None
    """Where they are, from then on."""
    runs_since: float | None = None
    done: int = 0
    """Repetitions that ended there."""
    fault: str = ""
    """Why it is of no use any more, found by `ask_end`."""
    waited_for: str = ""
    """What was last said of it while it waited."""

    def submit(self, order: RepetitionOrder) -> Future[Attempt]:
        """Run a repetition."""
        return self.pool.submit(run_order, order)

    def look(self) -> str:
        """Why the pilot is of no use any more; empty while it is, or may be. Sets `allocation` when it is ready."""
        if text := self.fault or self.started.end_text():
            return text + self._said()
        if self.allocation is not None:
            return ""
        now = time.monotonic()
        if self.runs_since is None and self.started.runs:
            self.runs_since = now
        if self.greeting.done():
            if (error := self.greeting.exception()) is not None:
                return f"its workers failed: {error}" + self._said()
            self.allocation, self.host_context = self.greeting.result()
        elif self.runs_since is not None and now - self.runs_since > CONNECT_S:
            text = f"its workers did not connect to {', '.join(self.pool.addresses)} within {CONNECT_S:.0f} s"
            return text + self._said()
        return ""

    def news(self) -> str:
        """What it waits for, where that is new; empty otherwise."""
        waits = self.started.waits if self.allocation is None else ""
        if not waits or waits == self.waited_for:
            return ""
        self.waited_for = waits
        return waits

    def start_context(self, of_driver: StartContext) -> StartContext:
        """Those of its repetitions: made on its host, for the command of the driver. It has introduced itself."""
        return of_driver.model_copy(update=dict(self.host_context or {}))

    def check_attempt(self, attempt: Attempt) -> Attempt:
        """An attempt that did not succeed: it is lost where the pilot ends, which may be known here first.

        Otherwise a pilot whose job was cancelled would let one repetition after the other fail at once.
        """
        self.fault = self.fault or self.started.ask_end()
        return replace(attempt, state="lost", reason=self.fault) if self.fault else attempt

    def close(self, lost: bool = False) -> None:
        """End the pilot and its workers. `lost`: they may not be able to read the file `end`."""
        (self.folder / END_FILE).touch()
        self.started.end(at_once=lost or self.allocation is None)
        self.pool.close()
        shutil.rmtree(self.folder / KEYS_FOLDER, ignore_errors=True)

    def _said(self) -> str:
        said = last_lines(self.folder / OUTPUT_FILE, _READ_LINES)
        # What Python says at the end of a process that was killed is no reason.
        lines = [line for line in said if line.strip() and "resource_tracker" not in line][-_SHOWN_LINES:]
        return f": {' / '.join(lines)}" if lines else f"; see {self.folder}"


@dataclass
class Pilots:
    """The pilots of a campaign. `make_start` makes what starts one, from its folder and name; `most` at a time."""

    directory: Path
    driver: Lease
    make_start: Callable[[Path, str], PilotStart]
    nodes: int
    most: int
    workers: int
    """Repetitions that can run at once on one."""
    here: bool
    """Whether the workers run on this machine."""
    say: Callable[[str], None]
    alive: dict[str, Pilot] = field(default_factory=dict)

    def ask(self) -> Pilot:
        """One more pilot. Raises RunError when its job is refused."""
        folder = self._new_folder()
        write_driver(folder, self.driver)
        started, bound = self.make_start(folder, folder.name), bound_command(folder)
        said: list[str] = []

        def launch(command: str, addresses: list[str], port: int) -> None:
            write_driver(folder, self.driver, [(address, port) for address in addresses])
            script = folder / WORKERS_FILE
            script.write_text(f"exec {command}\n")
            try:
                said.append(started.start([*bound, "/bin/bash", str(script)]))
            except RunError as error:
                failed.append(error)

        failed: list[RunError] = []
        pool = WorkerPool(WORKERS_LABEL, folder, self.workers, launch, bound, here=self.here)
        if failed or not said:
            pool.close()
            raise failed[0] if failed else RunError(f"the workers of {folder} could not be started")
        pilot = Pilot(folder.name, folder, started, pool, pool.submit(introduce, None))
        self.alive[pilot.name] = pilot
        if said[0]:
            self.say(f"pilot {pilot.name}: {said[0]}")
        return pilot

    def end(self, name: str, lost: bool = False) -> None:
        """End a pilot that is not needed, or is of no use."""
        self.alive.pop(name).close(lost)

    def close(self) -> None:
        """End all of them."""
        for name in list(self.alive):
            self.end(name)

    def _new_folder(self) -> Path:
        number = 1
        while True:
            folder = self.directory / PILOTS_FOLDER / f"p{number}"
            try:
                folder.mkdir(parents=True)
                return folder
            except FileExistsError:
                number += 1


def hosts_of(allocation: Allocation, nodes: tuple[int, ...]) -> Allocation:
    """The part of an allocation that one repetition has."""
    return replace(allocation, hosts=tuple(allocation.hosts[node] for node in nodes), notes=())
