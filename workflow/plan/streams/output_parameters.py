"""A stage's output policies (aggregation, async) as engine parameters of the file streams that it writes.

BP5 parameters: source/adios2/engine/bp5/BP5Engine.h of ADIOS2 2.12.1.
"""

from __future__ import annotations

from workflow.plan.making import Making
from workflow.plan.plan_model import Coupling, Placement
from workflow.plan.streams.aggregation import advise_aggregation, aggregation_parameters
from workflow.plan.streams.compression import check_names
from workflow.plan.streams.engine_parameters import to_text
from workflow.plan.topology.ports import StagePorts
from workflow.spec.models.engine import Engine


def check_policy(stage: str, ports: StagePorts, making: Making) -> None:
    """A policy of a stage that writes no stream, or of variables that it does not write."""
    check_names(stage, ports.write.values(), making)
    spec = making.loaded.spec
    policy = spec.stages[stage].output
    if policy.aggregation is None and policy.async_ == "off" and not policy.compression:
        return
    if not any(stream.from_.partition(".")[0] == stage for stream in spec.streams.values()):
        making.problems.add(
            f"stages.{stage}.output", f"stage {stage} writes no stream, and `output` is about streams", "remove it"
        )


def output_parameters(
    stage: str, stream: str, engine: Engine, coupling: Coupling, placement: Placement, making: Making
) -> dict[str, tuple[str, str]]:
    """Name → (value, reason) that the writing stage's `output:` gives this stream."""
    spec = making.loaded.spec.stages[stage]
    policy, found = spec.output, dict[str, tuple[str, str]]()
    if policy.async_ == "pipe" and stream in making.loaded.implicit_streams:
        return {}  # to the pipe, which has the policies of the file
    if policy.aggregation is not None:
        if "NumAggregators" in engine.parameters:
            found.update(aggregation_parameters(stage, stream, engine, placement, making))
        else:
            no_use(f"stages.{stage}.output.aggregation", stream, engine, making)
    elif "NumAggregators" in engine.parameters:
        advise_aggregation(stream, placement, making)
    if policy.async_ == "pipe":
        no_use(f"stages.{stage}.output.async", stream, engine, making)
    elif policy.async_ != "off":
        if "AsyncWrite" in engine.parameters:
            found["AsyncWrite"] = _async(stage, stream, policy.async_, engine, coupling, making)
        else:
            no_use(f"stages.{stage}.output.async", stream, engine, making)
    return found


def _async(stage: str, stream: str, wanted: str, engine: Engine, coupling: Coupling, making: Making) -> tuple[str, str]:
    if coupling == "live":
        making.notes.advise(
            f"stream {stream}: with `async: {wanted}` a live reader sees each step only when the next one begins, and "
            f"a killed writer loses its last step; `stages.{stage}.output.async: off` avoids both"
        )
    return to_text("AsyncWrite", engine.parameters["AsyncWrite"], wanted), f"output.async: {wanted}"


def no_use(key: str, stream: str, engine: Engine, making: Making) -> None:
    """The policy stays in the file for the day the stream goes through files again (`--via bp5`)."""
    why = "hands steps from memory to memory" if engine.kind == "stream" else "has no such setting"
    making.notes.why(key, f"no effect on stream {stream}: {engine.engine} {why}")
    making.notes.advise(f"{key} has no effect on stream {stream}: {engine.engine} {why}; it has with `--via bp5`")
