"""Fills the placeholders of one stage: in its command, environment, parameters and files."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

from workflow.plan.making import Making, work_dir
from workflow.plan.plan_model import RUN_DIR, EndPlan
from workflow.plan.programs.openpmd import series_name
from workflow.plan.programs.placeholders import PlaceholderError, expand, literal, names_in
from workflow.spec.models.config_dialect import OPENPMD
from workflow.spec.models.pipeline import StageSpec
from workflow.spec.suggest import did_you_mean, listing


def texts(name: str, stage: StageSpec, making: Making) -> Iterator[str]:
    """Every text of a stage in which placeholders are filled."""
    yield from (str(word) for word in [*(stage.command or []), *stage.env.values()])
    yield from making.loaded.templates.get(name, {}).values()
    yield from _strings(stage.with_)


def streams_told(name: str, stage: StageSpec, making: Making) -> set[str]:
    """Streams that the stage is told of by a placeholder, so that its program can know them."""
    words = (word.split(".") for text in texts(name, stage, making) for word in names_in(text))
    renamed = making.loaded.renamed.get(name, {})
    return {renamed.get(word[1], word[1]) for word in words if len(word) == 3 and word[0] == "streams"}


class Filler:
    """Expands the texts of one stage; notes unknown placeholders with their place."""

    def __init__(self, name: str, ends: list[EndPlan], making: Making) -> None:
        self._stage = name
        self._making = making
        self._values = _values(name, ends, making)

    def fill(self, key: str, text: str) -> str:
        """`text` as a plan string. What is wrong is noted at `key`."""
        try:
            return expand(text, self._values)
        except PlaceholderError as error:
            self._making.problems.add(key, str(error), self._hint(error))
            return text

    def fill_file(self, name: str, text: str) -> str:
        """As `fill` for the text of a template, with the place inside that file."""
        try:
            return expand(text, self._values)
        except PlaceholderError as error:
            before = text[: error.offset]
            source = self._making.loaded.spec.stages[self._stage].files[name]
            line, column = before.count("\n") + 1, error.offset - (before.rfind("\n") + 1) + 1
            key = f"stages.{self._stage}.files.{name}"
            self._making.problems.add_at(source, line, column, key, str(error), self._hint(error))
            return text

    def fill_all(self, key: str, value: Any) -> Any:
        """`fill` for every string inside a parameter's value."""
        if isinstance(value, str):
            return self.fill(key, value)
        if isinstance(value, list):
            return [self.fill_all(key, item) for item in value]
        return {name: self.fill_all(key, item) for name, item in value.items()} if isinstance(value, dict) else value

    def _hint(self, error: PlaceholderError) -> str:
        if error.hint:
            return error.hint
        name = str(error).split("`")[1]
        parts = name.split(".")
        if (
            len(parts) == 3
            and parts[0] == "streams"
            and parts[2] == "config"
            and parts[1] in self._making.loaded.spec.streams
        ):
            return f"stage {self._stage} has no config file for this stream: give its port `config: adios2.xml`"
        near = did_you_mean(name, self._values)
        return (near or f"known: {listing(self._values, 20)}") + " (`$${{` writes a literal `${{`)"


def _values(name: str, ends: list[EndPlan], making: Making) -> Mapping[str, str]:
    """Placeholder → plan string."""
    loaded = making.loaded
    values = {
        "run.dir": RUN_DIR,
        "pipeline.dir": literal(str(loaded.path.parent)),
        "stage.name": name,
        "stage.ranks": str(loaded.spec.stages[name].ranks),
        "stage.dir": work_dir(name),
        "wf.python": literal(making.python),
    }
    values |= {f"streams.{end.stream}.config": end.config for end in ends if end.config}
    values |= {f"streams.{end.stream}.path": series_name(end) for end in ends if end.dialect in OPENPMD}
    known = ChainMap(values, making.stream_values)
    return known.new_child(_of_pipes(loaded.renamed.get(name, {}), known))


def _of_pipes(renamed: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The placeholders of streams that the stage writes to a pipe, under the names that its texts use."""
    return {
        f"streams.{stream}.{what}": known[f"streams.{written}.{what}"]
        for stream, written in renamed.items()
        for what in ("path", "engine", "config")
        if f"streams.{written}.{what}" in known
    }


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(item)
