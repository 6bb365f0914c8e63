"""A stage's output policies (aggregation, async) as engine parameters of the file streams that it writes.

BP5 parameters: source/adios2/engine/bp5/BP5Engine.h of ADIOS2 2.12.1; rules of use: docs, "Aggregation".
"""

from __future__ import annotations

from workflow.plan.decisions import Making, counted
from workflow.plan.engines import to_text
from workflow.plan.model import Coupling, Placement
from workflow.plan.nodes import node_count
from workflow.spec.engine import Engine
from workflow.spec.models import Aggregation

FEW_NODES, MANY_RANKS_PER_NODE = 4, 8


def check_policy(stage: str, making: Making) -> None:
    """A policy of a stage that writes no stream."""
    spec = making.loaded.spec
    policy = spec.stages[stage].output
    if policy.aggregation is None and policy.async_ == "off":
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
    if policy.async_ == "pipe" and stream in making.loaded.inserted.streams:
        return {}  # to the pipe, which has the policies of the file
    if policy.aggregation is not None:
        if "NumAggregators" in engine.parameters:
            found.update(_aggregation(stage, policy.aggregation, spec.ranks, node_count(placement), making))
        else:
            _no_use(f"stages.{stage}.output.aggregation", stream, engine, making)
    elif "NumAggregators" in engine.parameters:
        _advise_aggregation(stream, placement, making)
    if policy.async_ == "pipe":
        _no_use(f"stages.{stage}.output.async", stream, engine, making)
    elif policy.async_ != "off":
        if "AsyncWrite" in engine.parameters:
            found["AsyncWrite"] = _async(stage, stream, policy.async_, engine, coupling, making)
        else:
            _no_use(f"stages.{stage}.output.async", stream, engine, making)
    return found


def _advise_aggregation(stream: str, placement: Placement, making: Making) -> None:
    nodes, ranks = node_count(placement), placement.ranks_per_node
    if nodes <= FEW_NODES and ranks > MANY_RANKS_PER_NODE:
        making.notes.advise(
            f"stream {stream}: ADIOS2 lets one rank per node write for its {ranks}; on so few nodes more may be "
            "faster: `output: {aggregation: {per_node: 4}}`"
        )


def _aggregation(stage: str, wanted: Aggregation, ranks: int, nodes: int, making: Making) -> dict[str, tuple[str, str]]:
    key = f"stages.{stage}.output.aggregation"
    if wanted.ratio is not None:
        if wanted.ratio > ranks:
            making.problems.add(
                f"{key}.ratio",
                f"one aggregator for {wanted.ratio} ranks, but stage {stage} has {ranks}",
                f"give at most {ranks}",
            )
        return {
            "AggregatorRatio": (str(wanted.ratio), f"output.aggregation.ratio: one aggregator for {wanted.ratio} ranks")
        }
    count = wanted.count if wanted.count is not None else (wanted.per_node or 1) * nodes
    said = f"{wanted.per_node} per node × {counted(nodes, 'node')}" if wanted.count is None else f"count {count}"
    if count > ranks:
        making.problems.add(
            key,
            f"{said} is {count} aggregators, but stage {stage} has {counted(ranks, 'rank')}",
            "aggregators are ranks: ask for no more than there are",
        )
    return {"NumAggregators": (str(count), f"output.aggregation: {said}")}


def _async(stage: str, stream: str, wanted: str, engine: Engine, coupling: Coupling, making: Making) -> tuple[str, str]:
    if coupling == "live":
        making.notes.advise(
            f"stream {stream}: with `async: {wanted}` a live reader sees each step only when the next one begins, and "
            f"a killed writer loses its last step; `stages.{stage}.output.async: off` avoids both"
        )
    return to_text("AsyncWrite", engine.parameters["AsyncWrite"], wanted), f"output.async: {wanted}"


def _no_use(key: str, stream: str, engine: Engine, making: Making) -> None:
    """The policy stays in the file for the day the stream goes through files again (`--via bp5`)."""
    why = "hands steps from memory to memory" if engine.kind == "stream" else "has no such setting"
    making.notes.why(key, f"no effect on stream {stream}: {engine.engine} {why}")
    making.notes.advise(f"{key} has no effect on stream {stream}: {engine.engine} {why}; it has with `--via bp5`")
