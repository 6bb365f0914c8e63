"""What wf must know of a scheduler: its jobs from inside and outside, their scripts, and how its commands are asked.

Every command gets a deadline: a scheduler that is down may block for ever.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from workflow.launch.allocation import Allocation, Host
from workflow.launch.rank_ends import SchedulerCause

QUERY_DEADLINE_S = 5.0
# A command that was killed ends at once, unless it hangs in a file system.
_KILLED_S = 1.0
Query = Callable[[Sequence[str]], str]
"""A command → what it printed. Raises QueryError."""


class QueryError(Exception):
    """A command of a scheduler gave no answer; the text says why."""


def end_of_job(read: Callable[[], float | None], notes: list[str]) -> float | None:
    """When the job ends; None where it has no limit. None and a note where `read` raises QueryError."""
    try:
        return read()
    except QueryError as error:
        notes.append(f"the end of the job is not known: {error}")
        return None


class Answer(NamedTuple):
    """What a command has printed, and its exit code; None: it did not end in time."""

    code: int | None
    out: str
    err: str

    @property
    def said(self) -> str:
        """Why it has failed, in its words."""
        return (self.err or self.out).strip() or "no message"


def execute(command: Sequence[str], deadline_s: float, given: str = "", env: Mapping[str, str] | None = None) -> Answer:
    """Run a command of a scheduler. Raises OSError when it cannot be executed.

    It runs in a session of its own: what ends the process group of the caller does not end the question. One that is
    late is killed with all that it has started; an interrupt leaves it alone.
    """
    import subprocess  # only where a command is asked

    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True
    )
    try:
        printed = process.communicate(given.encode(), deadline_s)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired as late:
        # A wrapper may have ended, and left a process that keeps its output open.
        printed, code = (late.stdout or b"", late.stderr or b""), process.poll()
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_S)
    finally:
        if process.returncode is None:
            process.returncode = os.EX_OK  # it is nobody's child from now on
        for file in filter(None, (process.stdin, process.stdout, process.stderr)):
            with contextlib.suppress(OSError):
                file.close()
    out, err = (text.decode(errors="replace") for text in printed)
    return Answer(code, out, err)


def ask(command: Sequence[str], deadline_s: float = QUERY_DEADLINE_S) -> str:
    """What the command prints. Raises QueryError when it is missing, fails, or takes too long."""
    name = command[0]
    try:
        answer = execute(command, deadline_s)
    except OSError as error:
        raise QueryError(f"{name}: {error.strerror}") from error
    if answer.code is None:
        raise QueryError(f"{name} gave no answer within {deadline_s:g} s")
    if answer.code:
        raise QueryError(f"{name} failed with exit code {answer.code}: {answer.said.splitlines()[0]}")
    return answer.out


# unknown: a word that is not in our table. It means nothing; the next answer may be another one.
Phase = Literal["pending", "running", "ended", "unknown"]
Command = list[str]
# In the run directory: what PSI/J writes.
PSIJ_DIR = "psij"


@dataclass(frozen=True)
class JobWord:
    """One answer. `state` is the scheduler's own word, `raw` the whole of what it printed of the job.

    `reason`: why it waits, or why it has ended; `exit_code` is that of the job's script. `t`: when, in Unix seconds.
    """

    job: str
    phase: Phase
    state: str
    raw: str
    reason: str = ""
    exit_code: int | None = None
    t: float = 0.0

    @property
    def text(self) -> str:
        """`PENDING (Priority)`."""
        return f"{self.state} ({self.reason})" if self.reason else self.state


def phase_of(state: str, phases: Mapping[str, Phase]) -> Phase:
    """The phase of a state of one or several words: `CANCELLED by 1000`, `RUNNING,COMPLETING`.

    A job that has ended and still cleans up has not ended.
    """
    words = state.replace(",", " ").replace("+", " ").split()
    known = {phases[word] for word in words if word in phases}
    order: tuple[Phase, ...] = ("running", "pending", "ended")
    return next((phase for phase in order if phase in known), "unknown")


def fields_of(line: str, count: int) -> list[str]:
    """So many fields of a line that separates them by `|`; those that it lacks are empty. [] of another line."""
    fields = [field.strip() for field in line.split("|")]
    return [*fields, *[""] * count][:count] if len(fields) > 1 else []


def clock_seconds(text: str) -> int:
    """`01:30:00`, `90:00` or `5400`. Raises ValueError."""
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


def without_cluster(job: str) -> str:
    """`12` of `12;nautilus`: the id as the job itself and the commands of its cluster know it."""
    return job.partition(";")[0]


def word_of(job: str, words: Sequence[JobWord]) -> JobWord | None:
    """What an answer says of this job; None where it says nothing.

    An answer may have several records: of tasks of an array, parts of a heterogeneous job, steps. That of the job
    itself counts. Without it those of its parts do, `12_3`, `12+0`, `12[1].server`: the job goes on while one does.
    """
    job = without_cluster(job)
    own = [word for word in words if job == without_cluster(word.job)]
    parts = [word for word in words if _is_part(job, without_cluster(word.job))]
    order: tuple[Phase, ...] = ("running", "pending", "unknown", "ended")
    return own[-1] if own else min(parts, key=lambda word: order.index(word.phase), default=None)


def _is_part(job: str, said: str) -> bool:
    """`said` may also be less than what was asked for: bjobs says 12 of `12[3]`; or name the server otherwise."""
    wholes = (said.partition("_")[0].partition("+")[0], said.partition(".")[0])
    return job in wholes or job.partition(".")[0] == wholes[1] or job.partition("[")[0] == said


class AskedNodes(Protocol):
    """What a plan asks of the scheduler (`plan_model.AllocationPlan`)."""

    # ruff: noqa: D102
    @property
    def scheduler(self) -> str: ...
    @property
    def nodes(self) -> int: ...
    @property
    def walltime_s(self) -> float: ...
    @property
    def queue(self) -> str | None: ...
    @property
    def partition(self) -> str | None: ...
    @property
    def qos(self) -> str | None: ...
    @property
    def account(self) -> str | None: ...
    @property
    def reservation(self) -> str | None: ...
    @property
    def constraints(self) -> list[str]: ...
    @property
    def exclusive(self) -> bool: ...
    @property
    def directives(self) -> list[str]: ...


@dataclass(frozen=True)
class JobOrder:
    """One job. `prelude` are lines of shell before the `command`; `cpus` and `gpus`: those of a node that the stages
    use, hardware threads as Slurm and PBS count them; `without`: hosts that it should not get, where the scheduler can
    be told; `output`: the file for what the command prints."""

    allocation: AskedNodes
    name: str
    run_dir: Path
    command: tuple[str, ...]
    prelude: tuple[str, ...]
    cpus: int
    gpus: int = 0
    without: tuple[str, ...] = ()
    output: Path = field(kw_only=True)


@dataclass(frozen=True)
class SubmitCommand:
    """`accepted`: the line that it prints of a job that it has taken: the job's id, and in a second group its cluster
    where there are several. `by_input`: it reads the script from its standard input."""

    words: tuple[str, ...]
    accepted: re.Pattern[str]
    by_input: bool = False

    @property
    def name(self) -> str:
        """The command without its options: `flux batch`."""
        return " ".join(word for word in self.words if not word.startswith("-"))

    def job_in(self, *printed: str) -> str:
        """The id of the job, `12` or `12;CLUSTER`, in the first of these texts that names one; empty where none does,
        or one names several: sites print notes before and after that line."""
        for text in printed:
            found = {match[1]: ";".join(filter(None, match.groups())) for match in self.accepted.finditer(text)}
            if found:
                return found.popitem()[1] if len(found) == 1 else ""
        return ""


class WaitsForEver(NamedTuple):
    """A state with its reason, `PENDING (JobHeldUser)`, that does not pass when other jobs end.

    `way`: what to do, with `{job}` for the id; empty where the job has to ask for less, or for other nodes.
    """

    words: re.Pattern[str]
    way: str = ""


class HowToAsk(NamedTuple):
    """How users ask for nodes, for all that a node has, and for GPUs. `{0}`: how many."""

    nodes: str
    whole: str
    gpus: str


class ThisNode(NamedTuple):
    """The node of this process, for schedulers that do not say enough of it: `cores` are the physical ones that it may
    use."""

    host: Callable[[], Host]
    cores: Callable[[], int]


@dataclass(frozen=True)
class QueueFact:
    """One queue. `walltime_s` and `most_nodes` are None without a limit."""

    name: str
    fewest_nodes: int = 1
    most_nodes: int | None = None
    walltime_s: int | None = None
    default: bool = False


@dataclass(frozen=True)
class SchedulerFacts:
    """A scheduler, its queues, and what it says of this node (0: nothing)."""

    scheduler: str | None = None
    nodes: int = 0
    memory: int = 0
    queues: tuple[QueueFact, ...] = ()
    unknown: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class Scheduler:
    """One scheduler. Its name is the key in the table; `title` is how its makers write it."""

    title: str
    command: str  # that no other scheduler has

    # What a job has, asked inside of it.
    allocation: Callable[[Mapping[str, str], Query, ThisNode], Allocation]

    # A job's script, and how it is submitted. `mark` begins the lines that hold options.
    submit: SubmitCommand
    mark: str
    directives: Callable[[JobOrder], Iterable[str]]

    # Questions about a job, by its id and by its name. `read` takes what any of them prints.
    of_job: Callable[[str], Command]
    of_name: Callable[[str], Command]
    read: Callable[[str], list[JobWord]]
    cancel: Callable[[str], Command]
    absent: tuple[str, ...]  # patterns of an error that says that there is no such job, or that it has ended
    phases: Mapping[str, Phase]
    causes: Mapping[str, SchedulerCause]  # words of a state, in capital letters → what has ended the job
    ending: tuple[str, ...]  # words of the state of a job whose processes are being ended

    ask: HowToAsk
    answers: tuple[str, ...] = ()  # what a healthy one answers on every node; by default its `command` alone
    nests: bool = False  # an instance may run inside of a job of another scheduler, and then has the nodes that matter
    # PSI/J submits its jobs by scripts of this template, a file beside the module; empty: a script of our own does.
    psij_template: str = ""
    # Variables that must not come from the environment of the submission, where `wf` may run in a job: those of that
    # job, and those that override options of the script. Names, or beginnings that end in `*`.
    not_inherited: Callable[[JobOrder], Iterable[str]] = lambda _order: ()
    # Its own name for the queue; None: it chooses.
    queue: Callable[[AskedNodes], str | None] = lambda asked: asked.queue
    history: Callable[[str], Command] | None = None  # asks for jobs that the queue has forgotten
    # What a job asks about itself, and how the answer is read, where that tells more.
    own_job: Callable[[str], Command] | None = None
    read_own: Callable[[str], list[JobWord]] | None = None
    cancelled_state: str = ""  # of a job that somebody has ended, while its script runs; without a reason
    never_starts: tuple[WaitsForEver, ...] = ()  # of a job that is pending; the first that fits counts
    # Nodes that are up, used or not, of a queue (None: the default one). A job that asks for more waits for ever.
    nodes_up: Callable[[str | None, Query], int | None] | None = None
    # Which of these nodes it has lost, and its word for that. Raises QueryError.
    down_nodes: Callable[[Sequence[str], Query], dict[str, str]] | None = None
    facts: Callable[[Mapping[str, str], Query], SchedulerFacts] | None = None  # of its queues, and of this node
    launcher: str = ""  # that comes with it
    cluster_variable: str = ""  # environment variable that names the machine
    restart_variable: str = ""  # environment variable that says how often the job was started again

    def cause_of(self, state: str) -> SchedulerCause | None:
        """What has ended a job in this state; None where the word does not say.

        `CANCELLED by 1000` and `COMPLETING, TimeLimit` are such states: the first word that is known counts.
        """
        words = (word.upper() for word in re.findall(r"[A-Za-z_]+", state))
        return next((self.causes[word] for word in words if word in self.causes), None)

    def is_ending(self, word: JobWord) -> bool:
        """Whether the job has ended, or its processes are being ended: nothing can be started in it any more."""
        return word.phase == "ended" or self.says_ending(word.state)

    def says_ending(self, state: str) -> bool:
        """Whether a job in this state is being ended."""
        return any(word in self.ending for word in state.replace(",", " ").split())

    def goes_on(self, state: str) -> bool:
        """Whether a job in this state goes on, so that what has ended concerns a step only."""
        first = state.partition(",")[0]
        return phase_of(first, self.phases) == "running" and not self.says_ending(first)
