"""What a pipeline asks of the batch system: the `allocation:` of the pipeline file."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from workflow.spec.models.units import MOST_JOBS, MOST_NODES, Duration, Nodes, Spec

# Names of the scheduler stand in a job script: no blanks, quotes, or characters of the shell.
_NAME = re.compile(r"[A-Za-z0-9_.:@%+/=,-]+")
_FORMULA = re.compile(r"[A-Za-z0-9_.:@%+/=,&|()\[\]*!-]+")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f'expected a name without blanks or quotes, got "{text}"; for example `debug`')
    return text


def _formula(text: str) -> str:
    if not _FORMULA.fullmatch(text):
        raise ValueError(f'expected a property of nodes without blanks or quotes, got "{text}"; for example `gpu`')
    return text


SchedulerWord = Annotated[str, AfterValidator(_name)]
Constraint = Annotated[str, AfterValidator(_formula)]

# What the keys of `allocation:` say: one place for it.
_KEYS = {
    "nodes": ("-N", "--nodes"),
    "walltime": ("-t", "--time", "-l walltime"),
    "queue": ("-p", "--partition"),
    "account": ("-A", "--account"),
    "reservation": ("--reservation",),
    "constraints": ("-C", "--constraint", "-l select"),
}
# What wf itself sets: by these it finds the job again, and follows it.
_OURS = (
    "-J", "--job-name", "-o", "--output", "-e", "--error", "-D", "--chdir", "--export", "-r", "--requeue",
    "--no-requeue", "-n", "--ntasks", "--ntasks-per-node", "--array", "-a", "--wrap",
)  # fmt: skip
_HETEROGENEOUS = re.compile(r"hetjob|packjob|select=[^\s]*\+")
_ONE_TYPE = (
    "an allocation has nodes of one type: a run has one supervisor and one list of nodes, and jobs of several parts "
    "differ in each scheduler; write one mapping, with the node type that all stages can use"
)


def _directive(line: str) -> str:
    """An option of the scheduler. Raises ValueError for what is none, or says what a key of `allocation:` says."""
    if "\n" in line or not line.startswith("-"):
        bare = re.sub(r"^#\s*\w+[: ]\s*", "", line.strip())
        meant = bare if bare.startswith("-") and "\n" not in bare else "--network=single_node_vni"
        raise ValueError(f'expected one option of the scheduler, got "{line}"; for example `{meant}`')
    if _HETEROGENEOUS.search(line):
        raise ValueError(_ONE_TYPE)
    for key, options in _KEYS.items():
        if any(_is_option(line, option) for option in options):
            raise ValueError(f'"{line}" has a key of its own; write `{key}: …`')
    if any(_is_option(line, option) for option in _OURS):
        raise ValueError(f'"{line}" is set by wf; remove it')
    return line


def _is_option(line: str, option: str) -> bool:
    return re.match(re.escape(option) + r"($|[\s=])", line) is not None


def _one_type(value: Any) -> Any:
    if isinstance(value, list):
        raise ValueError(_ONE_TYPE)
    return value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class JobRequest(Spec):
    """A batch job, as it is asked for. What is left out is taken from the site, or follows from the stages."""

    nodes: Nodes | None = Field(None, description="number of nodes (default: as few as the stages need)")
    spare_nodes: int = Field(
        0,
        ge=0,
        le=MOST_NODES,
        description="nodes in addition to those that the stages need, to replace nodes that fail",
    )
    walltime: Duration | None = Field(
        None,
        description="the longest that the job may run (default: 30 min, or what the queue allows)",
        examples=["2 h"],
    )
    queue: SchedulerWord | None = Field(None, description="one of the site's queues (Slurm: partition)")
    account: SchedulerWord | None = Field(None, description="who is charged")
    reservation: SchedulerWord | None = Field(None, description="name of a reservation of nodes")
    constraints: Annotated[list[Constraint], BeforeValidator(_as_list)] = Field(
        [],
        description="properties of the nodes, all required (Slurm: features; PBS: resources of the chunk)",
    )
    exclusive: bool = Field(True, description="no other job on its nodes")
    grace: Duration | None = Field(
        None,
        description="how long before the end of the job the run is stopped (default: 2 min, at most a tenth of the "
        "walltime)",
    )
    directives: list[Annotated[str, AfterValidator(_directive)]] = Field(
        [], description="more options of the scheduler, each as in a job script, without `#SBATCH`"
    )


class AllocationRequest(JobRequest):
    """The batch job that wf submits for a run. What is left out is taken from the site, or follows from the stages."""

    parts: int = Field(
        1,
        ge=1,
        le=MOST_JOBS,
        description="at most so many jobs, one after the other: one that has to stop before its time limit submits "
        "the next, which goes on with the run",
    )


AllocationOrNone = Annotated[AllocationRequest, BeforeValidator(_one_type)]
