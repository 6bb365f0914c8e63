"""A run of many stages: pairs of a writer and its reader."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.chains import make_end, make_plan, make_stage, make_stream
from tests.support.imagined_run import Run
from workflow.plan.plan_model import Plan, StagePlan
from workflow.run.state.events import Event, StreamOpened, StreamProgress


def pairs(count: int, argv: Sequence[str] = ("true",), **deadlines: float) -> Plan:
    """`count` stages, half of which write a file that the other half reads while it grows."""
    stages: list[StagePlan] = []
    streams = []
    for number in range(count // 2):
        stream, writer, reader = f"data{number}", f"writer{number}", f"reader{number}"
        stages.append(make_stage(writer, [*argv], [make_end(stream, "write", "live")]))
        stages.append(make_stage(reader, [*argv], [make_end(stream, "read", "live")]))
        streams.append(make_stream(stream, writer, [reader], "live"))
    return make_plan(stages, streams, **deadlines)


def running(count: int) -> Run:
    """All stages have opened their streams."""
    run = Run(pairs(count, run=1e6, step=600))
    opened = [StreamOpened(1.0, *key) for key in run.state.ends]
    return run.feed_together(*opened).tick(1.25)


def steps_of_all(run: Run, number: int, t: float) -> list[Event]:
    """Every stage has made its step of this number."""
    return [StreamProgress(t, *key, number, 8 * number) for key in run.state.ends]
