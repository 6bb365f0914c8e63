"""How long a run may be silent: the key `deadlines` of a pipeline, with its defaults."""

from pydantic import Field

from workflow.formats.stage_waits import OPEN_TIMEOUT_S
from workflow.spec.models.units import Duration, Spec


class Deadlines(Spec):
    """How long a run may be silent. A stage that computes for an hour between two steps looks like one that hangs:
    without a limit here, wf warns and the run goes on.
    """

    start: Duration = Field(
        OPEN_TIMEOUT_S, examples=["2 min"], description="kills: from a stage's start until its streams are open"
    )
    warn: Duration = Field(
        600.0,
        examples=["10 min"],
        description="warns: time without a step on a stream, or without CPU time of a stage that has closed its "
        "streams, or has none; again after twice, four times, … that time",
    )
    step: Duration | None = Field(
        None,
        examples=["30 min"],
        description="kills: longest time without a step on a stream whose two ends run (default: no limit)",
    )
    exit: Duration | None = Field(
        None,
        examples=["5 min"],
        description="kills: longest time without CPU time of a stage that has closed its streams, or has none, and has "
        "not ended (default: no limit)",
    )
    node: Duration | None = Field(
        None,
        examples=["60 s"],
        description="kills: longest time without a sign of life of a node; a connection that has closed, or the "
        "scheduler, may say earlier that it is lost (default: 60 s; from 64 nodes on 1 s more for each 16 nodes, at "
        "most 300 s; 300 s with launchers that pass no signs of life on to all nodes: all but srun)",
    )
    run: Duration | None = Field(None, examples=["24 h"], description="kills: the whole run (default: no limit)")
    stop: Duration = Field(
        60.0,
        examples=["60 s"],
        description="from the request to stop until SIGKILL. After `wf cancel`, and before the end of the job, the "
        "stages are told first, and get SIGINT up to 10 s later; SIGTERM follows within 5 s",
    )
