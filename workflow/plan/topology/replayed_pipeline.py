"""A pipeline in which recorded streams stand in for the stages that wrote them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workflow.errors import RunError
from workflow.spec.component_files import complete_parameters
from workflow.spec.load import Loaded
from workflow.spec.models.component import Component
from workflow.spec.models.pipeline import PipelineSpec, StageSpec, StreamSpec
from workflow.spec.models.stage_policies import FailureRule, SteeredValue
from workflow.spec.origins import WrittenKey
from workflow.spec.suggest import did_you_mean, listing

REPLAY = "replay"


@dataclass(frozen=True)
class Recording:
    """The steps of a stream that a run has left: the file, and where its writer has noted their times."""

    path: Path
    metrics: Path


@dataclass(frozen=True)
class ReplayOptions:
    """What is replayed: the steps from `first` to before `last`, 0: to the end, at this pace."""

    pace: str = "max"
    first: int = 0
    last: int = 0


def replayed(
    loaded: Loaded,
    stages: Collection[str],
    recorded: Mapping[str, Recording],
    player: tuple[Component, Path],
    options: ReplayOptions,
) -> Loaded:
    """The pipeline with these stages only, which read what the others had written from recordings.

    Args:
        recorded: stream → what is recorded of it.
        player: the component `replay` and its folder.

    Raises:
        RunError: a stage that there is not, a stream of which nothing was recorded, or one that nobody would read.
    """
    spec = loaded.spec
    _check_names(spec, stages)
    # What selects the steps of a stage belongs to it: the recording has all of them.
    added_before = [added for name in stages for added in loaded.renamed.get(name, {}).values()]
    stages = list(dict.fromkeys([*added_before, *stages]))
    kept: dict[str, StageSpec] = {
        name: _alone(spec.stages[name], stages, options.first) for name in spec.stages if name in stages
    }
    streams: dict[str, StreamSpec] = {}
    parameters = {name: values for name, values in loaded.parameters.items() if name not in spec.stages or name in kept}
    added: dict[str, WrittenKey] = {}
    for name, stream in spec.streams.items():
        readers = [end for end in stream.readers if end.partition(".")[0] in kept]
        writer = stream.from_.partition(".")[0]
        if writer in kept and not readers:
            text = f"{writer} writes {name}, and none of the stages {listing(list(stages))} reads it"
            others = ",".join([*stages, *(end.partition(".")[0] for end in stream.readers)])
            raise RunError(text, f"replay its readers, too: `--stages {others}`")
        if not readers:
            continue
        if writer in kept:
            streams[name] = stream.model_copy(update={"to": readers})
            continue
        stand_in = f"{name}-{REPLAY}"
        kept[stand_in] = StageSpec(component=REPLAY, ranks=1)
        parameters[stand_in] = _parameters(player[0], name, recorded.get(name), options)
        streams[name] = stream.model_copy(update={"from_": stand_in, "to": readers, "keep": None})
        added[f"stages.{stand_in}"] = WrittenKey(f"streams.{name}.from", below=False)
    changed = {"name": f"{spec.name[:55]}-{REPLAY}", "stages": kept, "streams": streams, "expect": {}}
    return replace(
        loaded,
        spec=spec.model_copy(update=changed),
        components={**loaded.components, REPLAY: player[0]},
        component_dirs={**loaded.component_dirs, REPLAY: player[1]},
        parameters=parameters,
        origins=loaded.origins.with_added(added),
    )


def _check_names(spec: PipelineSpec, stages: Collection[str]) -> None:
    for name in stages:
        if name not in spec.stages:
            hint = did_you_mean(name, list(spec.stages)) or f"stages: {listing(list(spec.stages))}"
            raise RunError(f"there is no stage `{name}`", hint)


def _alone(stage: StageSpec, stages: Collection[str], first: int) -> StageSpec:
    """The stage where those whose nodes it shares may not be there, and which begins with step `first` of the run.
    Whoever debugs it wants to see it fail."""
    changed: dict[str, Any] = {"on_failure": FailureRule()}
    if first:
        changed["steer"] = {name: _later(each, first) for name, each in stage.steer.items()}
    if stage.place.share is not None and stage.place.share not in stages:
        changed["place"] = stage.place.model_copy(update={"share": None})
    return stage.model_copy(update=changed)


def _later(value: SteeredValue, first: int) -> SteeredValue:
    """The value as a stage counts its steps that begins with this one."""
    at = sorted(value.at, key=lambda each: each.step)
    return value.model_copy(update={"at": [each.model_copy(update={"step": max(0, each.step - first)}) for each in at]})


def _parameters(player: Component, stream: str, recorded: Recording | None, options: ReplayOptions) -> dict[str, Any]:
    if recorded is None:
        text = f"the run has kept no steps of {stream}"
        raise RunError(text, f"record them: `--set streams.{stream}.keep=true`, or `via=bp5`")
    given = {
        "path": str(recorded.path), "stream": stream, "pace": options.pace, "metrics": str(recorded.metrics),
        "first": options.first, "last": options.last,
    }  # fmt: skip
    return complete_parameters(player, given)


def default_stages(spec: PipelineSpec) -> list[str]:
    """All stages that read a stream."""
    readers = {end.partition(".")[0] for stream in spec.streams.values() for end in stream.readers}
    return [name for name in spec.stages if name in readers]
