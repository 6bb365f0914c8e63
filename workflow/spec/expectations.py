"""`expect:`, what the report of a run has to show: an operator and a quantity for each figure, checked when it is read.

The figures are those that campaigns measure (`workflow.report_figures`). Works on the tree, so that all mistakes show,
each at its own key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from workflow.conditions import Condition
from workflow.errors import Problem
from workflow.report_figures import FIGURES, OWN, WITH_BASELINE, Figure
from workflow.spec.models.pipeline import PipelineSpec
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.validation_messages import problem_at, shown
from workflow.spec.written_conditions import to_condition
from workflow.spec.yaml_tree.node import KeyPath, Node, plain

# Of the program's own figures: `figures: {NAME: CONDITION}` of a stage.
OWN_KEY = OWN.removesuffix(".")
_ONE = {"run": "the run", "stages": "a stage", "streams": "a stream"}


class Expectation(NamedTuple):
    """One condition; `figure` is its name as in campaigns, `key` its place in the file."""

    figure: str
    key: str
    condition: Condition


def expectations_of(spec: PipelineSpec) -> Iterator[Expectation]:
    """All expectations of a checked pipeline, in the order of the file: the run, stages, streams."""
    yield from _conditions("run", "run.", "expect", spec.expect)
    for name, stage in spec.stages.items():
        yield from _conditions("stages", f"stages.{name}.", f"stages.{name}.expect", stage.expect)
    for name, stream in spec.streams.items():
        yield from _conditions("streams", f"streams.{name}.", f"streams.{name}.expect", stream.expect)


def _conditions(section: str, begin: str, key: str, given: Mapping[str, Any]) -> Iterator[Expectation]:
    for field, value in given.items():
        if section == "stages" and field == OWN_KEY:
            own = value or {}
            for name, each in own.items():
                if each is not None:
                    yield Expectation(f"{begin}{OWN}{name}", f"{key}.{OWN}{name}", to_condition(each, ""))
        elif value is not None:
            condition = to_condition(value, FIGURES[section][field].unit)
            yield Expectation(f"{begin}{field}", f"{key}.{field}", condition)


def expectation_problems(root: Node) -> Iterator[Problem]:
    """Figures that there are not, and conditions that cannot be read."""
    yield from _problems_in(root, "run", ())
    for section in ("stages", "streams"):
        part = root.child(section)
        for name in part.mapping() if part is not None else ():
            yield from _problems_in(root, section, (section, name))


def _problems_in(root: Node, section: str, at: KeyPath) -> Iterator[Problem]:
    node: Node | None = root
    for part in (*at, "expect"):
        node = node.child(str(part)) if node is not None else None
    for field, child in node.mapping().items() if node is not None else ():
        path = (*at, "expect", field)
        if section == "stages" and field == OWN_KEY:
            yield from _own_problems(root, child, path)
        elif field not in FIGURES[section]:
            yield problem_at(root, path, f"{_ONE[section]} has no figure `{shortened(field)}`",
                             _figure_hint(field, section), at_key=True)  # fmt: skip
        else:
            yield from _condition_problems(root, child, path, FIGURES[section][field])


def _own_problems(root: Node, node: Node, path: KeyPath) -> Iterator[Problem]:
    if node.value is not None and not isinstance(node.value, dict):
        hint = 'names of the program\'s figures.json, for example `figures: {residual: "< 1e-6"}`'
        yield problem_at(root, path, f"expected a mapping (`key: value` lines), got {shown(plain(node))}", hint)
    for name, child in node.mapping().items():
        yield from _condition_problems(root, child, (*path, name), Figure("", "less"))


def _condition_problems(root: Node, node: Node, path: KeyPath, figure: Figure) -> Iterator[Problem]:
    if node.value is None:
        return  # an overlay has removed it
    try:
        to_condition(plain(node), figure.unit)
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        yield problem_at(root, path, message, hint)


def _figure_hint(field: str, section: str) -> str:
    """Where the figure is, a similar one, or those there are."""
    if field in WITH_BASELINE:
        return "it needs a run without I/O too: a campaign with a `baseline` measures it"
    others = [_ONE[each] for each, fields in FIGURES.items() if each != section and field in fields]
    known = f"known here: {listing(FIGURES[section], 20)}"
    if others:
        return f"it is a figure of {' and of '.join(others)}; {known}"
    return did_you_mean(field, FIGURES[section]) or known
