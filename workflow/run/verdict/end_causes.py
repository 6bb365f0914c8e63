"""How a stage, or the job of the run, ended, in words: by its exit, and by what its launcher and the scheduler said.

Pure. The meaning of a scheduler's output is in the scheduler's module.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence

from workflow.formatting import size
from workflow.launch.rank_ends import EndCause, SchedulerCause
from workflow.run.state.events import NodeLost, RanksEnded, SchedulerSaid, StageKilled
from workflow.run.state.run_state import StageState

# What no program does to itself, and no other stage to it: where one of these is said, the failure began there.
OUTER: frozenset[EndCause] = frozenset(
    {"out_of_memory", "node_lost", "preempted", "requeued", "time_limit", "cancelled", "not_started"}
)
# What is said of a whole step comes after what is said of its ranks, which it has ended.
_OF_STEPS: frozenset[EndCause] = frozenset({"out_of_memory", "node_lost", "preempted", "requeued", "time_limit"})
# Launchers report the ends of ranks that fail together within this time. The first SIGKILL of their own comes later.
_TOGETHER_S = 3.0
_TEXTS: dict[EndCause, str] = {
    "out_of_memory": "ran out of memory",
    "node_lost": "lost a node",
    "preempted": "was preempted by the scheduler",
    "requeued": "was ended by the scheduler, which has requeued the job",
    "time_limit": "was ended by the scheduler at its time limit",
    "cancelled": "was cancelled from outside this run",
    "not_started": "could not be started",
}
_JOB_TEXTS: dict[SchedulerCause, str] = {
    "cancelled": "was cancelled",
    "node_lost": "lost a node",
    "out_of_memory": "ran out of memory",
    "preempted": "was preempted",
    "requeued": "was requeued",
    "time_limit": "reached its time limit",
}


def first_end(said: Sequence[RanksEnded]) -> RanksEnded | None:
    """What was said that the rest follows from; None where nothing was said.

    The first line is not always about the first rank: that of another node, which fails because of it, may be reported
    before it. No rank ends by SIGKILL because of another one, until its launcher kills those that ignore SIGTERM.
    """
    if not said:
        return None
    if of_step := next((end for end in said if end.cause in _OF_STEPS), None):
        return of_step
    early = [end for end in said if end.t - said[0].t < _TOGETHER_S and said[0].cause in ("killed", "exited")]
    return next((end for end in early if end.number == signals.SIGKILL and end.cause == "killed"), said[0])


def is_outer(stage: StageState) -> bool:
    """Whether something has ended this stage that no other stage can have caused."""
    first = first_end(stage.said)
    return first is not None and (first.cause in OUTER or first.number == signals.SIGKILL)


def exit_text(stage: StageState) -> str:
    """How it ended: `was killed by signal 9 (SIGKILL)`, `ended with exit code 3: note`."""
    note = f": {stage.note}" if stage.note else ""
    first = first_end(stage.said)
    if first is not None and (stage.signal is not None or stage.code != 0):
        return _said_text(stage, first)
    if stage.signal is not None:
        return signal_text(stage.signal) + note + _kill(stage)
    if stage.code is None:
        return f"ended, and its exit code is not known{note}"
    return f"ended with exit code {stage.code}{note}"


def loss_text(lost: list[NodeLost]) -> str:
    """`node n2 was lost (no sign of life for 10 s)`."""
    names = " and ".join(node.host for node in lost)
    head = f"nodes {names} were" if len(lost) > 1 else f"node {names} was"
    why = next((f"; {node.why}" for node in lost if node.why), "")
    return f"{head} lost (no sign of life for {min(node.silence_s for node in lost):.0f} s{why})"


def signal_name(number: int) -> str:
    """`SIGKILL` for 9."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return "unknown signal"


def _said_text(stage: StageState, first: RanksEnded) -> str:
    where = _where(first)
    if first.cause == "killed" and first.number is not None:
        return f"{signal_text(first.number)}{where}{_kill(stage)}"
    if first.cause == "exited":
        return f"ended with exit code {first.number}{where}"
    return f"{_TEXTS.get(first.cause, 'was killed')}{where}: `{first.words}`"


def _where(end: RanksEnded) -> str:
    """` (rank 1 on n2)`, as far as it is known."""
    ranks = f"rank{'' if end.ranks.isdigit() else 's'} {end.ranks}" if end.ranks else ""
    host = f"on {end.host}" if end.host else ""
    text = " ".join(filter(None, (ranks, host)))
    return f" ({text})" if text else ""


def signal_text(number: int) -> str:
    """`was killed by signal 9 (SIGKILL)`."""
    return f"was killed by signal {number} ({signal_name(number)})"


def _kill(stage: StageState) -> str:
    return "" if stage.kill is None else kill_cause(stage.kill)


def kill_cause(facts: StageKilled) -> str:
    """What follows `was killed by signal 9`, with its `:` or `;`.

    `: out of memory: …` if that is certain, `: out of memory? …` if it may be, else what speaks against it. Where
    nothing is known of memory, it says that.
    """
    if facts.guard:
        return f" by {facts.guard}"
    killed = f"the kernel killed {facts.cgroup_kills} process{'' if facts.cgroup_kills == 1 else 'es'} of"
    if facts.cgroup_kills and facts.cgroup_is_own:
        limit = f"; the limit is {size(facts.limit_bytes)}" if facts.limit_bytes else ""
        return f": out of memory: {killed} its cgroup {facts.cgroup}{limit}"
    if facts.cgroup_kills is None or not (facts.cgroup_kills or facts.is_here):
        return f"; whether memory ran out{'' if facts.is_here else ' there'} is not known{_used(facts)}"
    said = "not for lack of memory, as far as its cgroup tells"
    if facts.cgroup_kills:
        said = f"out of memory? {killed} cgroup {facts.cgroup}, which may include processes of others"
    return f": {said}; the sender of the signal is not known{_used(facts)}"


def _used(facts: StageKilled) -> str:
    if not facts.peak_bytes:
        return ""
    limit = f" of {size(facts.limit_bytes)}" if facts.limit_bytes else ""
    return f"; its largest process had used {size(facts.peak_bytes)}{limit}"


def job_text(job: str, cause: SchedulerCause) -> str:
    """`job 12 was preempted`."""
    return f"job {job} {_JOB_TEXTS[cause]}"


def quoted(said: SchedulerSaid) -> str:
    """The scheduler's own words."""
    return f"the scheduler says `{said.raw or said.state}`"
