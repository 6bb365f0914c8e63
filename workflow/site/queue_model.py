"""What a site file says about its scheduler: queues and their limits, what every job must say, what it costs."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticKnownError

from workflow.formatting import duration, plural
from workflow.schedulers.schedulers import SCHEDULERS
from workflow.spec.models.units import Duration, Spec

_FIRST, *_OTHERS = SCHEDULERS
# For a site whose file names none.
HOW_TO_SUBMIT = f"to submit jobs, write `scheduler: {_FIRST}` (or {', '.join(_OTHERS)}) in a site file of your own"


def _known(name: str) -> str:
    # As of a Literal: the mistake is told with the name that is most like it.
    if name not in SCHEDULERS:
        *others, last = (f"'{each}'" for each in SCHEDULERS)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


SchedulerName = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": [*SCHEDULERS]})]


def _ordered(bounds: tuple[int, int]) -> tuple[int, int]:
    if not 1 <= bounds[0] <= bounds[1]:
        raise ValueError(
            f"expected the fewest and the most nodes, got [{bounds[0]}, {bounds[1]}]; for example [1, 128]"
        )
    return bounds


NodeBounds = Annotated[tuple[int, int], AfterValidator(_ordered)]
"""The fewest and the most nodes of a job, both included."""


class QueueLimit(Spec):
    """A limit on jobs of some sizes."""

    nodes: NodeBounds = Field(description="the jobs to which it applies: the fewest and the most nodes")
    walltime: Duration = Field(description="the longest time that they may run")


class SiteQueue(Spec):
    """One queue. Its name is Slurm's partition, unless `partition` or `qos` is given. Limits that are left out are not
    checked."""

    partition: str | None = Field(None, description="Slurm's partition, where it has another name")
    qos: str | None = Field(None, description="Slurm's QOS; without `partition`, the queue is this QOS alone")
    nodes: NodeBounds | None = Field(None, description="the fewest and the most nodes of a job")
    walltime: Duration | None = Field(None, description="the longest time that a job may run")
    min_walltime: Duration | None = Field(None, description="the shortest time that a job may request")
    limits: list[QueueLimit] = Field(
        [],
        description="shorter limits for jobs of some sizes; for a routing queue: all jobs that it accepts",
    )
    routing: bool = Field(
        False, description="passes jobs on to other queues, and rejects those that none of them accepts"
    )
    default: bool = Field(False, description="the queue of jobs that name none")
    note: str | None = Field(None, description="what users should know of it")


class SubmitRules(Spec):
    """Options of every job of the site."""

    directives: list[str] = Field([], description="options of the scheduler, one a line: `-l filesystems=home`")
    account: str | None = Field(None, description="the account of jobs that name none")
    account_needed: bool = Field(False, description="whether jobs must name an account")
    constraint: str | None = Field(None, description="the node type, where the scheduler asks for one (Slurm: -C)")
    account_suffix: str | None = Field(None, description="what the site appends to the account: `_g`")
    max_queued: Annotated[int, Field(ge=1)] | None = Field(
        None, description="the largest number of jobs of a user in the queues"
    )


class SiteCost(Spec):
    """What the site charges."""

    per_node_hour: float = Field(gt=0, description="the price of one node for one hour, in `unit`")
    unit: str = Field("node-hours", description="the unit of the price")


class Workaround(Spec):
    """Environment variables that the site, or a program on it, needs; with the reason."""

    env: dict[str, str] = Field(description="variables and their values")
    reason: str = Field(description="what goes wrong without them")
    source: str | None = Field(None, description="where this is documented")
    when: Literal["always", "mpi", "stream", "symptom"] = Field(
        "always",
        description="the stages that get it: all, those of several ranks, those with an SST stream; symptom: none, "
        "set it yourself if you see the problem",
    )


class Detect(Spec):
    """One way to recognise the machine: all keys that are given must apply."""

    variable: str | None = Field(None, description="an environment variable that the site sets")
    value: str | None = Field(None, description="its value, or a pattern (`*.aurora-pbs-*`); by default any")
    host: str | None = Field(None, description="a pattern of the host's name: `aurora-uan-*`")


# Whether a queue takes a job: nodes and walltime against the limits in the site's file. Pure.
#
# A scheduler holds a job for ever that no node may run, and a routing queue of PBS drops a job without a word that none
# of its queues takes.


def fitting_queues(queues: Mapping[str, SiteQueue], nodes: int, walltime_s: float | None) -> list[str]:
    """The queues that take a job, as far as their limits are known; those first that are the default."""
    fitting = [name for name, queue in queues.items() if not misfit(queue, nodes, walltime_s)]
    return sorted(fitting, key=lambda name: not queues[name].default)


def misfit(queue: SiteQueue, nodes: int, walltime_s: float | None) -> str:
    """Why a queue does not take a job; empty where it does, as far as its limits are known."""
    if queue.nodes is not None and not queue.nodes[0] <= nodes <= queue.nodes[1]:
        return f"takes jobs of {queue.nodes[0]} to {plural(queue.nodes[1], 'node')}"
    longest = longest_walltime_s(queue, nodes)
    if longest == 0:
        return f"takes no job of {plural(nodes, 'node')}"
    if walltime_s is not None and queue.min_walltime is not None and walltime_s < queue.min_walltime:
        return f"takes jobs of at least {duration(queue.min_walltime)}"
    if walltime_s is not None and longest is not None and walltime_s > longest:
        return f"takes jobs of {plural(nodes, 'node')} for at most {duration(longest)}"
    return ""


def longest_walltime_s(queue: SiteQueue, nodes: int) -> float | None:
    """The longest that a job of so many nodes may run in a queue; 0: not at all, None: not known.

    Every limit on jobs of this size holds. A routing queue passes a job on to whichever of its queues takes it.
    """
    own = [limit.walltime for limit in queue.limits if limit.nodes[0] <= nodes <= limit.nodes[1]]
    if queue.routing and queue.limits:
        longest = max(own, default=0.0)
        return longest if queue.walltime is None else min(longest, queue.walltime)
    return min([*own, *([] if queue.walltime is None else [queue.walltime])], default=None)
