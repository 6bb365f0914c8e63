"""How many nodes a job could get at most, by the word of the scheduler: a job that asks for more waits for ever."""

from __future__ import annotations

from collections import Counter

from workflow.site.allocation.scheduler_query import Query, QueryError
from workflow.site.jobs.job_questions import ask_slowly

# sinfo(1), NODE STATE CODES: nodes in these states take no job, whoever ends one.
_NOT_UP = (
    "down", "drained", "draining", "drain", "fail", "failing", "error", "inval", "blocked", "future", "unk", "unknown",
)  # fmt: skip
_NO_ANSWER = "*"
_MARKS = "*~#!%$@^-+"
_SINFO = ["sinfo", "--noheader", "--format=%P|%D|%T"]
_FLUX = ["flux", "resource", "list", "--states=up", "--no-header", "--format={nnodes}"]


def nodes_up(scheduler: str, partition: str | None, query: Query = ask_slowly) -> int | None:
    """Nodes that are up, used or not, of a partition of Slurm (None: the default one), or of a Flux instance.

    None where that is not known: of other schedulers, and without an answer.
    """
    try:
        if scheduler == "slurm":
            return _of_partition(query(_SINFO), partition)
        if scheduler == "flux":
            return sum(int(line) for line in query(_FLUX).split())
    except (QueryError, ValueError):
        return None
    return None


def _of_partition(printed: str, partition: str | None) -> int | None:
    """From lines like `batch*|3|idle` and `batch*|1|down*`: the default partition has a star, and so has the state of
    nodes that do not answer."""
    wanted = set(partition.split(",")) if partition is not None else set()
    found: Counter[str] = Counter()
    for line in printed.splitlines():
        name, count, state = line.strip().split("|")
        if name.rstrip("*") in wanted if wanted else name.endswith("*"):
            is_up = state.rstrip(_MARKS) not in _NOT_UP and _NO_ANSWER not in state
            found[name] += int(count) if is_up else 0
    return max(found.values(), default=None)
