"""A plan as a graph to be drawn: stages, streams, and the files that stages name, with the words beside them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from workflow.formatting import plural
from workflow.plan.plan_model import FOLLOW, RUN_DIR, Coupling, Plan, StagePlan, StreamPlan
from workflow.report.show.plan_tables import path_text, ranges_text
from workflow.report.show.report_tables import engine_text


@dataclass(frozen=True)
class GraphStage:
    """A stage. `added`: why wf added it; empty: it is written in the file. `reads`, `writes`: files that it names."""

    name: str
    kind: Literal["simulation", "analysis", "sink"]
    added: str
    program: str
    where: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def kind_text(self) -> str:
        """`sink`, `sink (tap)`."""
        return f"{self.kind} ({self.added})" if self.added else self.kind


@dataclass(frozen=True)
class GraphStream:
    """A stream. `held`: its queue, or its file; empty where it has neither."""

    name: str
    writer: str
    readers: tuple[str, ...]
    coupling: Coupling
    engine: str
    held: str

    @property
    def way(self) -> str:
        """`SST tcp, live`."""
        return f"{self.engine}, {self.coupling}"


@dataclass(frozen=True)
class PipelineGraph:
    """What is drawn. Stages stand after those that they read from, as soon after them as possible."""

    pipeline: str
    stages: tuple[GraphStage, ...]
    streams: tuple[GraphStream, ...]

    @property
    def backwards(self) -> frozenset[tuple[str, str]]:
        """(stream, reader) of the ends that lead back to a stage before their writer: streams in a circle have some."""
        place = {stage.name: index for index, stage in enumerate(self.stages)}
        return frozenset(
            (each.name, name) for each in self.streams for name in each.readers if place[each.writer] >= place[name]
        )

    @property
    def title(self) -> str:
        """`shock-diffraction: 4 stages, 2 streams`."""
        return f"{self.pipeline}: {plural(len(self.stages), 'stage')}, {plural(len(self.streams), 'stream')}"

    @property
    def sentences(self) -> Iterator[str]:
        """The drawing in words: a sentence for each stage and each stream."""
        for stage in self.stages:
            yield f"{stage.name}: {stage.kind_text}, {stage.program}, {stage.where}."
        for stream in self.streams:
            yield f"{stream.writer} writes {stream.name} to {', '.join(stream.readers)}: {stream.way}."


def with_attached(plan: Plan, attached: Mapping[str, Plan]) -> Plan:
    """The plan of a run with the stages that have joined it, by the name of what was attached.

    They are drawn as readers of the file that has the steps, in place of the stage that follows it.
    """
    stages, streams = [*plan.stages], {stream.name: stream for stream in plan.streams}
    for name, joined in attached.items():
        followed = {stage.name: stage.parameters for stage in joined.stages if stage.component == FOLLOW}
        own = [stage for stage in joined.stages if stage.name not in followed]
        stages += [stage.model_copy(update={"name": f"{name}/{stage.name}", "added": "attached"}) for stage in own]
        for stream in joined.streams:
            readers = [f"{name}/{reader}" for reader in stream.readers]
            if stream.writer in followed:
                read = plan.holder(plan.stream(str(followed[stream.writer]["stream"]))).name
                streams[read] = streams[read].model_copy(update={"readers": [*streams[read].readers, *readers]})
            else:
                changed = {"name": f"{name}/{stream.name}", "writer": f"{name}/{stream.writer}", "readers": readers}
                streams[f"{name}/{stream.name}"] = stream.model_copy(update=changed)
    return plan.model_copy(update={"stages": stages, "streams": [*streams.values()]})


def make_pipeline_graph(plan: Plan) -> PipelineGraph:
    """The graph of a plan."""
    stages = {stage.name: stage for stage in plan.stages}
    writers: dict[str, list[str]] = {name: [] for name in stages}
    for stream in plan.streams:
        for reader in stream.readers:
            writers[reader].append(stream.writer)
    order: dict[str, int] = {}
    while len(order) < len(stages):
        ready = [name for name in stages if name not in order and all(writer in order for writer in writers[name])]
        # Of several the first of the plan, in a circle too.
        ready = ready or [next(name for name in stages if name not in order)]
        following = max(ready, key=lambda name: max((order.get(writer, -1) for writer in writers[name]), default=-1))
        order[following] = len(order)
    return PipelineGraph(
        plan.pipeline,
        tuple(_to_stage(stages[name]) for name in order),
        tuple(map(_to_stream, plan.streams)),
    )


def _to_stage(stage: StagePlan) -> GraphStage:
    nodes = stage.placement.nodes
    files = list(_named_files(stage))
    one = sum(end - start for start, end in nodes) == 1
    return GraphStage(
        stage.name,
        stage.kind,
        stage.added or "",
        stage.component or _program_name(stage.program),
        f"{plural(stage.ranks, 'rank')}, {'node' if one else 'nodes'} {ranges_text(nodes)}",
        tuple(name for name, is_written in files if not is_written),
        tuple(name for name, is_written in files if is_written),
    )


def _to_stream(stream: StreamPlan) -> GraphStream:
    if stream.queue is not None:
        held = f"queue {stream.queue.limit}, {stream.queue.when_full}"
    else:
        held = _short_path(path_text(stream)) if stream.on_disk else ""
    readers = tuple(stream.readers)
    return GraphStream(stream.name, stream.writer, readers, stream.coupling, engine_text(stream), held)


def _short_path(text: str) -> str:
    """`streams/field.bp`, also where the plan of a run has the whole path."""
    return str(PurePath(*PurePath(text).parts[-2:])) if text.startswith("/") else text


def _program_name(argv: list[str]) -> str:
    """`double_slit`; of a Python program its script or module."""
    name = PurePath(argv[0]).name
    if not name.startswith("python"):
        return name
    return next((PurePath(word).name for word in argv[1:] if not word.startswith("-")), name)


def _named_files(stage: StagePlan) -> Iterator[tuple[str, bool]]:
    """The files that a component's parameters name, and whether it writes them, as the component declares.

    Only those with a suffix: others may be folders.
    """
    for name, side in stage.file_parameters.items():
        value = stage.parameters.get(name)
        if isinstance(value, str) and PurePath(value).suffix:
            inside = value.startswith(f"{RUN_DIR}/")
            yield value.removeprefix(f"{RUN_DIR}/") if inside else PurePath(value).name, side == "write"
