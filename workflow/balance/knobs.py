"""What may be changed of a pipeline so that it gets faster, and to which values. Pure.

Only what changes no data: ranks of components that say so (`any_ranks`), the engine of a stream for one of the same
kind, compression without loss, how files are written, and which stages share nodes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from workflow.engines import NODE_VIA, EngineTraits, traits_of
from workflow.spec.engine_presets import known_engines, load_engine
from workflow.spec.load import Loaded
from workflow.spec.models.pipeline import StageSpec
from workflow.spec.yaml_tree.parse import parse_yaml

LOSSLESS = {"*": {"blosc": {"codec": "lz4", "shuffle": "shuffle"}}}


class Knob(NamedTuple):
    """A key of the pipeline, as for `--set`, and its values as plain data: today's first; None: it is not written."""

    key: str
    values: tuple[object, ...]
    joint: bool = False
    """A value that cannot be planned alone may be possible together with others: cores that one stage leaves."""


def find_knobs(loaded: Loaded, cores: int, nodes: int, shared: Container[str] = ()) -> list[Knob]:
    """The keys of this pipeline that may be changed, those that matter most first.

    Args:
        loaded: the pipeline.
        cores: those that stages may use, on all nodes.
        nodes: nodes that a run may use.
        shared: streams that go through memory that their stages share, whether that is written or chosen.
    """
    spec, written = loaded.spec, parse_yaml(loaded.text, str(loaded.path))
    named = {name for section in ("stages", "streams") if (part := written.child(section)) for name in part.mapping()}
    # A stream stays of its kind: whoever wants a file wants to have it afterwards.
    live = [via for via in known_engines() if traits_of(load_engine(via).engine).in_memory]
    # Of members, and of what wf adds for `when:` and `collect:`, nothing can be set.
    own = {name: stage for name, stage in spec.stages.items() if name in named and name not in loaded.members}
    knobs = [*_ranks(own, loaded, cores), *_shared_cores(own, loaded)]
    for name, stream in spec.streams.items():
        writer, traits = stream.from_.partition(".")[0], traits_of(loaded.engines[name].engine)
        if writer not in own or name not in named:
            continue
        if traits.in_memory:
            # As it is, by the name that an overlay would write; and who writes a transport has chosen.
            now = NODE_VIA if name in shared else stream.via
            if stream.transport == "auto":
                others = [each for each in live if each not in (now, stream.via)]
                knobs.append(Knob(f"streams.{name}.via", (now, *others)))
            knobs += _shared_nodes(own, writer, stream.to, nodes)
        elif traits.has_steps:
            knobs += _files(writer, own, traits)
    by_key = {knob.key: knob for knob in knobs}  # of a stage that writes several files
    return [knob for knob in by_key.values() if len(knob.values) > 1]


def _ranks(stages: Mapping[str, StageSpec], loaded: Loaded, cores: int) -> Iterator[Knob]:
    """Powers of two: between them the times of two neighbours differ by less than what a probe shows."""
    for name, stage in stages.items():
        component = loaded.components.get(stage.component or "")
        if component is None or not component.any_ranks or component.kind == "sink":
            continue
        most = min(cores, component.max_ranks or cores)
        counts = [2**power for power in range(most.bit_length()) if 2**power <= most]
        others = (each for each in counts if each != stage.ranks)
        yield Knob(f"stages.{name}.ranks", (stage.ranks, *others), joint=True)


def _shared_cores(stages: Mapping[str, StageSpec], loaded: Loaded) -> Iterator[Knob]:
    """An analysis without cores of its own: they are those of others, which is faster where it seldom works."""
    for name, stage in stages.items():
        component = loaded.components.get(stage.component or "")
        if component is not None and component.kind == "analysis" and stage.place.cores_per_rank in (None, 0, 1):
            today = stage.place.cores_per_rank
            yield Knob(f"stages.{name}.place.cores_per_rank", (today, 1 if today == 0 else 0), joint=True)


def _shared_nodes(
    stages: Mapping[str, StageSpec], writer: str, readers: str | Sequence[str], nodes: int
) -> Iterator[Knob]:
    """A reader on the nodes of its writer, where it could have others."""
    for reader in [readers] if isinstance(readers, str) else readers:
        reader = reader.partition(".")[0]
        if nodes > 1 and reader in stages and stages[reader].place.share is None and stages[reader].place.nodes is None:
            yield Knob(f"stages.{reader}.place.share", (None, writer))


def _files(writer: str, stages: Mapping[str, StageSpec], traits: EngineTraits) -> Iterator[Knob]:
    """How a stage writes its files. A compressor that was written stays: who wrote it knows which error is allowed."""
    if writer not in stages or traits.aggregators != "two levels":
        return
    output = stages[writer].output
    if output.async_ in ("off", "guided"):
        yield Knob(f"stages.{writer}.output.async", (output.async_, "off" if output.async_ == "guided" else "guided"))
    if not output.compression and traits.compresses:
        yield Knob(f"stages.{writer}.output.compression", (None, LOSSLESS))
