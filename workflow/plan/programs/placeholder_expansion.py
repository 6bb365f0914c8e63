"""Fills the placeholders of one stage: in its command, environment, parameters and files."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workflow.plan.placeholders import expand, work_dir
from workflow.plan.plan_model import RUN_DIR, EndPlan
from workflow.plan.plan_notes import Notes
from workflow.plan.programs.openpmd import series_name
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream
from workflow.spec.models.pipeline import Scalar, Secret
from workflow.spec.models.stage_policies import OPENPMD
from workflow.spec.placeholder_syntax import (
    PlaceholderError,
    joined,
    literal,
    mistaken_names,
    names_in,
    parse,
    scalar_text,
)
from workflow.spec.suggest import did_you_mean, listing, nearest_name


def streams_mentioned(stages: Iterable[DeclaredStage]) -> dict[str, set[str]]:
    """Stage → streams that one of its texts uses in a placeholder, so that its program can know them."""
    found = {}
    for stage in stages:
        words = (word.split(".") for text in _texts(stage) for word in names_in(text))
        named = {word[1] for word in words if len(word) == 3 and word[0] == "streams"}
        found[stage.name] = {stage.renamed.get(stream, stream) for stream in named}
    return found


def names_config(stage: DeclaredStage, stream: str, config: str) -> bool:
    """Whether a text of a stage has the name of a config file, or its placeholder."""
    written = {name for name, meant in stage.renamed.items() if meant == stream} | {stream}
    wanted = {f"streams.{name}.config" for name in written}
    return any(config in text or wanted & {*names_in(text)} for text in _texts(stage))


def pipeline_values(
    pipeline_dir: str,
    python: str,
    params: Mapping[str, str],
    streams: Mapping[str, JoinedStream],
    paths: Mapping[str, str],
) -> dict[str, str]:
    """Placeholder → plan string for those that have the same value in every stage. `params`: parameter → its value
    as a text; `paths`: of the streams."""
    values = {"run.dir": RUN_DIR, "pipeline.dir": literal(pipeline_dir), "wf.python": literal(python)}
    # For templates: those in the pipeline file are filled in before its values are checked.
    values |= {f"params.{name}": joined(parse(text)) for name, text in params.items()}
    for name, stream in streams.items():
        values[f"streams.{name}.path"] = paths[name]
        values[f"streams.{name}.engine"] = stream.engine.engine
    return values


def stage_values(stage: DeclaredStage, ends: Iterable[EndPlan], of_pipeline: Mapping[str, str]) -> Mapping[str, str]:
    """Placeholder → plan string for one stage."""
    values = {
        "stage.name": stage.name,
        "stage.ranks": str(stage.spec.ranks),
        "stage.dir": work_dir(stage.name),
    }
    if stage.member is not None:
        texts = stage.member.texts
        of_member = stage.member.placeholders.items()
        values |= {name: joined(parse(texts.get(name) or scalar_text(value))) for name, value in of_member}
    values |= {f"streams.{end.stream}.config": end.config for end in ends if end.config}
    values |= {f"streams.{end.stream}.path": series_name(end) for end in ends if end.dialect in OPENPMD}
    known = ChainMap(values, dict(of_pipeline))
    return known.new_child(_of_pipes(stage.renamed, known))


def _of_pipes(renamed: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The placeholders of streams that the stage writes to a pipe, under the names that its texts use."""
    return {
        f"streams.{stream}.{what}": known[f"streams.{written}.{what}"]
        for stream, written in renamed.items()
        for what in ("path", "engine", "config")
        if f"streams.{written}.{what}" in known
    }


class Filler:
    """Expands the texts of one stage; notes unknown placeholders with their place."""

    def __init__(self, stage: str, values: Mapping[str, str], files: Mapping[str, str], notes: Notes) -> None:
        """`values`: placeholder → plan string; `files`: of the stage, name → the user's file as written."""
        self._stage = stage
        self._values = values
        self._files = files
        self._notes = notes
        self._problems = notes.problems

    def with_values(self, more: Mapping[str, str]) -> Filler:
        """As this one, with more placeholders."""
        return Filler(self._stage, {**self._values, **more}, self._files, self._notes)

    def fill(self, key: str, text: str) -> str:
        """`text` as a plan string. What is wrong is noted at `key`."""
        for written, name in mistaken_names(text):
            self._problems.add(key, f"`{written}` is not a placeholder", self._meant(name))
        try:
            return expand(text, self._values)
        except PlaceholderError as error:
            self._problems.add(key, str(error), self._hint(error))
            return text

    def fill_file(self, name: str, text: str) -> str:
        """As `fill` for the text of a template, with the place inside that file.

        A file may have a syntax of its own: what only resembles a placeholder there is advice.
        """
        for written, placeholder in mistaken_names(text):
            message = f"in {self._files[name]} `{written}` is not a placeholder; {self._meant(placeholder)}"
            self._notes.advise(f"stage {self._stage}: {message}")
        try:
            return expand(text, self._values)
        except PlaceholderError as error:
            before = text[: error.offset]
            line, column = before.count("\n") + 1, error.offset - (before.rfind("\n") + 1) + 1
            key = f"stages.{self._stage}.files.{name}"
            self._problems.add_in_file(self._files[name], line, column, key, str(error), self._hint(error))
            return text

    def fill_all(self, key: str, value: Any) -> Any:
        """`fill` for every string inside a parameter's value."""
        if isinstance(value, str):
            return self.fill(key, value)
        if isinstance(value, list):
            return [self.fill_all(key, item) for item in value]
        return {name: self.fill_all(key, item) for name, item in value.items()} if isinstance(value, dict) else value

    def _meant(self, name: str) -> str:
        near = name if name in self._values else nearest_name(name, self._values)
        return f"did you mean `${{{{ {near} }}}}`?" if near else f"placeholders are written `${{{{ {name} }}}}`"

    def _hint(self, error: PlaceholderError) -> str:
        if error.hint:
            return error.hint
        section, _, rest = error.name.partition(".")
        stream, _, what = rest.partition(".")
        if section == "streams" and what == "config" and f"streams.{stream}.engine" in self._values:
            return f"stage {self._stage} has no config file for this stream: give its port `config: adios2.xml`"
        near = did_you_mean(error.name, self._values)
        return (near or f"known: {listing(self._values, 20)}") + " (`$${{` writes a literal `${{`)"


def _texts(stage: DeclaredStage) -> Iterator[str]:
    """Every text of a stage in which placeholders are filled."""
    yield from (str(word) for word in [*(stage.spec.command or []), *_plain(stage)])
    yield from stage.templates.values()
    yield from _strings(stage.spec.with_)


def _plain(stage: DeclaredStage) -> Iterator[Scalar]:
    """The variables that are no reference to a secret."""
    yield from (value for value in stage.spec.env.values() if not isinstance(value, Secret))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(item)
