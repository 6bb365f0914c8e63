"""How many ranks write for the others, and how many data files that makes. Pure.

Rules: ADIOS2's guide, "Aggregation" (docs/user_guide/source/advanced/aggregation.rst). Counts:
BP5Writer::InitParameters and MPIShmChain::Init of ADIOS2 2.12.1; tests/integration compares them with what ranks write.
"""

from __future__ import annotations

from collections.abc import Mapping

from workflow.engines import traits_of
from workflow.formatting import plural
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import Placement
from workflow.plan.plan_notes import Notes
from workflow.plan.streams.engine_parameters import EngineSettings
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream
from workflow.site.site_model import Site
from workflow.spec.models.stage_policies import Aggregation

# One writing rank per node leaves bandwidth unused on few nodes; at scale it is what file systems take best.
FEW_NODES, RANKS_PER_AGGREGATOR = 4, 8
# More files than that are a burden to the servers of a parallel file system, and to those who copy them.
MANY_FILES = 4000
TWO_LEVEL_SHM = "TwoLevelShm"  # BP5's default


def aggregation_parameters(
    writer: DeclaredStage, wanted: Aggregation, stream: JoinedStream, placement: Placement, site: Site, notes: Notes
) -> EngineSettings:
    """The engine parameters of a stream whose writer has `output.aggregation: wanted`."""
    stage, ranks, engine = writer.name, writer.spec.ranks, stream.engine
    found: EngineSettings = {}
    count, said = _count(stage, wanted, ranks, placement, site, notes)
    has_strategies = "AggregationType" in engine.parameters
    files = wanted.subfiles
    if wanted.auto and count > MANY_FILES:
        files = MANY_FILES
        said += f"; {MANY_FILES} files at most, which several of them share"
    if wanted.strategy is not None and has_strategies:
        found["AggregationType"] = wanted.strategy, "output.aggregation.strategy"
        if wanted.strategy == "DataSizeBased":
            # ADIOS2 2.12.1 reads only this one.
            found["NumSubFiles"] = str(count), f"{said}; DataSizeBased counts files, not aggregators"
    if not has_strategies:
        _note_missing_settings(writer, stream, wanted, notes)
        count = min(count, MANY_FILES) if wanted.auto else count
    elif files is not None:
        if wanted.subfiles is not None and files > ranks:
            notes.problems.add(
                f"stages.{stage}.output.aggregation.subfiles",
                f"{plural(files, 'file')}, but stage {stage} has {plural(ranks, 'rank')}: each writes one at most",
                f"give at most {ranks}",
            )
        elif count < files and (wanted.count or wanted.per_node or wanted.per_gpu or wanted.ratio):
            notes.problems.add(
                f"stages.{stage}.output.aggregation.subfiles",
                f"{plural(files, 'file')} for {plural(count, 'aggregator')}: each writes one at most",
                f"give at most {count}",
            )
        count = max(count, min(files, ranks))
        found["NumSubFiles"] = str(files), f"output.aggregation{'' if wanted.auto else '.subfiles'}: {said}"
    found["NumAggregators"] = str(count), f"output.aggregation: {said}"
    return found


def advise_aggregation(stream: str, placement: Placement, site: Site, notes: Notes) -> None:
    """A line where ADIOS2's default is known to be slow."""
    nodes, ranks = node_count(placement), placement.ranks_per_node
    if nodes <= FEW_NODES and ranks > RANKS_PER_AGGREGATOR and site.parallel_adios2 is not False:
        notes.advise(
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
    levels = traits_of(engine).aggregators
    if levels == "none":
        return None
    full, rest = divmod(ranks, per_node)
    nodes = full + (rest > 0)
    wanted, files = int(parameters.get("NumAggregators", "0")), int(parameters.get("NumSubFiles", "0"))
    if levels == "one level":
        return min(wanted or nodes, ranks)
    wanted = min(wanted or files, ranks)
    files = min(files, wanted)
    strategy = parameters.get("AggregationType", TWO_LEVEL_SHM)
    if strategy == "DataSizeBased":
        return files or nodes
    if strategy != TWO_LEVEL_SHM:
        return wanted or nodes
    on_each = max(1, wanted // nodes)
    aggregators = full * min(on_each, per_node) + min(on_each, rest)
    return min(files or aggregators, aggregators)


def _count(
    stage: str, wanted: Aggregation, ranks: int, placement: Placement, site: Site, notes: Notes
) -> tuple[int, str]:
    """(aggregators, why so many)"""
    key, nodes = f"stages.{stage}.output.aggregation", node_count(placement)
    on = plural(nodes, "node")
    if wanted.auto:
        return _automatic(placement, ranks, site)
    if wanted.ratio is not None:
        if wanted.ratio > ranks:
            notes.problems.add(
                f"{key}.ratio",
                f"one aggregator for {wanted.ratio} ranks, but stage {stage} has {ranks}",
                f"give at most {ranks}",
            )
        return max(1, ranks // wanted.ratio), f"one aggregator for {wanted.ratio} ranks"
    if wanted.per_gpu is not None:
        if not site.gpus_per_node:
            notes.problems.add(
                f"{key}.per_gpu",
                f"the nodes of site {site.site} have no GPUs",
                "write `per_node`, or `gpus_per_node` in the site's file",
            )
        count = wanted.per_gpu * site.gpus_per_node * nodes
        said = f"{wanted.per_gpu} per GPU × {site.gpus_per_node} × {on}"
    elif wanted.count is not None:
        count, said = wanted.count, f"count {wanted.count}"
    elif wanted.per_node is not None:
        count, said = wanted.per_node * nodes, f"{wanted.per_node} per node × {on}"
    else:
        return min(nodes, ranks), f"one per node × {on}, ADIOS2's default"
    if count > ranks:
        notes.problems.add(
            key,
            f"{said} is {count} aggregators, but stage {stage} has {plural(ranks, 'rank')}",
            "aggregators are ranks: ask for no more than there are",
        )
    if count % nodes and wanted.strategy in (None, TWO_LEVEL_SHM) and not wanted.subfiles:
        notes.advise(
            f"stage {stage}: {count} aggregators on {on} become {max(1, count // nodes) * nodes}, as many on each; "
            "`strategy: EveryoneWritesSerial` takes any number"
        )
    return count, said


def _automatic(placement: Placement, ranks: int, site: Site) -> tuple[int, str]:
    """The rule of `auto`, and its words."""
    nodes, here = node_count(placement), placement.ranks_per_node
    guide = "ADIOS2's guide, Aggregation"
    if nodes > FEW_NODES:
        return min(nodes, ranks), f"auto: one per node × {nodes} nodes, which is best on many nodes ({guide})"
    devices = max(site.gpus_per_node, site.nics_per_node)
    if devices:
        kind = "GPU" if site.gpus_per_node == devices else "NIC"
        each, rule = min(devices, here), f"one per {kind}"
    else:
        each, rule = -(-here // RANKS_PER_AGGREGATOR), f"one per {RANKS_PER_AGGREGATOR} ranks"
    on = plural(nodes, "node")
    return (
        min(each * nodes, ranks),
        f"auto: {rule} ({each} per node × {on}), because one rank alone does not fill the bandwidth of {on} ({guide})",
    )


def _note_missing_settings(writer: DeclaredStage, stream: JoinedStream, wanted: Aggregation, notes: Notes) -> None:
    for key in ("strategy", "subfiles"):
        if getattr(wanted, key) is not None:
            notes.advise(
                f"stages.{writer.name}.output.aggregation.{key} has no effect on stream {stream.name}: "
                f"{stream.engine.engine} has no such setting"
            )
