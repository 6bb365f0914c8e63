"""How many ranks write for the others, and how many data files that makes. Pure.

Rules: ADIOS2's guide, "Aggregation" (docs/user_guide/source/advanced/aggregation.rst). Counts:
BP5Writer::InitParameters and MPIShmChain::Init of ADIOS2 2.12.1; tests/integration compares them with what ranks write.
"""

from __future__ import annotations

from collections.abc import Mapping

from workflow.plan.making import Making, counted
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import Placement
from workflow.spec.models.engine import Engine
from workflow.spec.models.output import Aggregation

# One writing rank per node leaves bandwidth unused on few nodes; at scale it is what file systems take best.
FEW_NODES, RANKS_PER_AGGREGATOR = 4, 8
# More files than that are a burden to the servers of a parallel file system, and to those who copy them.
MANY_FILES = 4000
SHARED_MEMORY = "TwoLevelShm"  # BP5's default
Decided = dict[str, tuple[str, str]]


def aggregation_parameters(stage: str, stream: str, engine: Engine, placement: Placement, making: Making) -> Decided:
    """Name → (value, reason) that `output.aggregation` of the stage gives this stream."""
    wanted = making.loaded.spec.stages[stage].output.aggregation
    assert wanted is not None
    ranks, found = making.loaded.spec.stages[stage].ranks, Decided()
    count, said = _count(stage, wanted, ranks, placement, making)
    has_strategies = "AggregationType" in engine.parameters
    files = wanted.subfiles
    if wanted.auto and count > MANY_FILES:
        files = MANY_FILES
        said += f"; {MANY_FILES} files at most, which several of them share"
    if wanted.strategy is not None and has_strategies:
        found["AggregationType"] = wanted.strategy, "output.aggregation.strategy"
        if wanted.strategy == "DataSizeBased":
            # ADIOS2 2.12.1 looks at this one only.
            found["NumSubFiles"] = str(count), f"{said}; DataSizeBased counts files, not aggregators"
    if not has_strategies:
        _not_in(engine, stage, stream, wanted, making)
        count = min(count, MANY_FILES) if wanted.auto else count
    elif files is not None:
        if count < files and (wanted.count or wanted.per_node or wanted.per_gpu or wanted.ratio):
            making.problems.add(
                f"stages.{stage}.output.aggregation.subfiles",
                f"{counted(files, 'file')} for {counted(count, 'aggregator')}: each writes one at most",
                f"give at most {count}",
            )
        count = max(count, min(files, ranks))
        found["NumSubFiles"] = str(files), f"output.aggregation{'' if wanted.auto else '.subfiles'}: {said}"
    found["NumAggregators"] = str(count), f"output.aggregation: {said}"
    return found


def advise_aggregation(stream: str, placement: Placement, making: Making) -> None:
    """A line where ADIOS2's default is known to be slow."""
    nodes, ranks = node_count(placement), placement.ranks_per_node
    if nodes <= FEW_NODES and ranks > RANKS_PER_AGGREGATOR and making.site.parallel_adios2 is not False:
        making.notes.advise(
            f"stream {stream}: ADIOS2 lets one rank per node write for its {ranks}; on so few nodes more may be "
            "faster: `output: {aggregation: auto}`"
        )


def count_subfiles(engine: str, parameters: Mapping[str, str], ranks: int, per_node: int) -> int | None:
    """How many `data.*` files so many ranks write, `per_node` to a node; None for engines that have none.

    >>> count_subfiles("BP5", {"NumAggregators": "3"}, ranks=8, per_node=8)
    3
    >>> count_subfiles("BP5", {"NumAggregators": "3"}, ranks=8, per_node=4)  # as many on each node
    2
    """
    if engine not in ("BP5", "BP4"):
        return None
    full, rest = divmod(ranks, per_node)
    nodes = full + (rest > 0)
    wanted, files = int(parameters.get("NumAggregators", "0")), int(parameters.get("NumSubFiles", "0"))
    if engine == "BP4":
        return min(wanted or nodes, ranks)
    wanted = min(wanted or files, ranks)
    files = min(files, wanted)
    strategy = parameters.get("AggregationType", SHARED_MEMORY)
    if strategy == "DataSizeBased":
        return files or nodes
    if strategy != SHARED_MEMORY:
        return wanted or nodes
    on_each = max(1, wanted // nodes)
    aggregators = full * min(on_each, per_node) + min(on_each, rest)
    return min(files or aggregators, aggregators)


def _count(stage: str, wanted: Aggregation, ranks: int, placement: Placement, making: Making) -> tuple[int, str]:
    """(aggregators, why so many)"""
    key, nodes, site = f"stages.{stage}.output.aggregation", node_count(placement), making.site
    on = counted(nodes, "node")
    if wanted.auto:
        return _automatic(placement, ranks, making)
    if wanted.ratio is not None:
        if wanted.ratio > ranks:
            making.problems.add(
                f"{key}.ratio",
                f"one aggregator for {wanted.ratio} ranks, but stage {stage} has {ranks}",
                f"give at most {ranks}",
            )
        return max(1, ranks // wanted.ratio), f"one aggregator for {wanted.ratio} ranks"
    if wanted.per_gpu is not None:
        if not site.gpus_per_node:
            making.problems.add(
                f"{key}.per_gpu",
                f"the nodes of site {site.site} have no GPUs",
                "write `per_node`, or `gpus_per_node` in the site's file",
            )
            return 1, "per_gpu"
        count = wanted.per_gpu * site.gpus_per_node * nodes
        said = f"{wanted.per_gpu} per GPU × {site.gpus_per_node} × {on}"
    elif wanted.count is not None:
        count, said = wanted.count, f"count {wanted.count}"
    elif wanted.per_node is not None:
        count, said = wanted.per_node * nodes, f"{wanted.per_node} per node × {on}"
    else:
        return min(nodes, ranks), f"one per node × {on}, ADIOS2's default"
    if count > ranks:
        making.problems.add(
            key,
            f"{said} is {count} aggregators, but stage {stage} has {counted(ranks, 'rank')}",
            "aggregators are ranks: ask for no more than there are",
        )
    if count % nodes and wanted.strategy in (None, SHARED_MEMORY) and not wanted.subfiles:
        making.notes.advise(
            f"stage {stage}: {count} aggregators on {on} become {max(1, count // nodes) * nodes}, as many on each; "
            "`strategy: EveryoneWritesSerial` takes any number"
        )
    return count, said


def _automatic(placement: Placement, ranks: int, making: Making) -> tuple[int, str]:
    """The rule of `auto`, and its words."""
    nodes, here, site = node_count(placement), placement.ranks_per_node, making.site
    guide = "ADIOS2's guide, Aggregation"
    if nodes > FEW_NODES:
        return min(nodes, ranks), f"auto: one per node × {nodes} nodes, which is best on many nodes ({guide})"
    devices = max(site.gpus_per_node, site.nics_per_node)
    if devices:
        kind = "GPU" if site.gpus_per_node == devices else "NIC"
        each, rule = min(devices, here), f"one per {kind}"
    else:
        each, rule = -(-here // RANKS_PER_AGGREGATOR), f"one per {RANKS_PER_AGGREGATOR} ranks"
    on = counted(nodes, "node")
    return (
        min(each * nodes, ranks),
        f"auto: {rule} ({each} per node × {on}), because one rank alone does not fill the bandwidth of {on} ({guide})",
    )


def _not_in(engine: Engine, stage: str, stream: str, wanted: Aggregation, making: Making) -> None:
    for key in ("strategy", "subfiles"):
        if getattr(wanted, key) is not None:
            making.notes.advise(
                f"stages.{stage}.output.aggregation.{key} has no effect on stream {stream}: "
                f"{engine.engine} has no such setting"
            )
