"""A campaign file → its trials. Pure: equal files give equal lists."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workflow.campaign.file.campaign_spec import PROFILE, SITE, CampaignSpec
from workflow.campaign.file.load_campaign import Campaign, same
from workflow.errors import Problem, SpecError
from workflow.formatting import plural, visible
from workflow.spec.models.units import MOST_RUNS, MOST_TRIALS
from workflow.spec.overlay import Setting
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node, plain


class Written:
    """A number that is shown as it was written: `1.10`, `0x1F`. It counts and is stored as that number."""

    text: str

    def __str__(self) -> str:
        return self.text


class _WrittenInt(Written, int):
    pass


class _WrittenFloat(Written, float):
    pass


def written(value: Any, text: str) -> Any:
    """The value; a number that Python prints in another way than `text`, how it was written, keeps that."""
    if isinstance(value, bool) or not isinstance(value, int | float) or text in ("", str(value)):
        return value
    shown = _WrittenInt(value) if isinstance(value, int) else _WrittenFloat(value)
    shown.text = text
    return shown


Point = dict[str, Node]
Parameters = Mapping[str, object]
"""The keys of a trial that vary → its values."""


@dataclass(frozen=True)
class Trial:
    """One parameter point of a campaign."""

    parameters: Mapping[str, Any]
    """The keys that vary → this trial's values, as plain data; numbers are shown as they were written."""
    settings: tuple[Setting, ...]
    """All that is laid over the pipeline and (`site.KEY`) over its site, the weakest first."""
    profiles: tuple[str, ...]
    place: tuple[str, int, int]
    """Where it is written: source, line and column, for messages about it as a whole."""

    @property
    def of_pipeline(self) -> tuple[Setting, ...]:
        """What is laid over the pipeline."""
        return tuple(each for each in self.settings if not each.key.startswith(SITE))

    @property
    def of_site(self) -> tuple[Setting, ...]:
        """What is laid over the site file: its keys, `launcher`."""
        own = (each for each in self.settings if each.key.startswith(SITE))
        return tuple(each._replace(key=each.key.removeprefix(SITE)) for each in own)

    def with_settings(self, more: Sequence[Setting]) -> Trial:
        """The same trial with more laid over it."""
        return replace(self, settings=(*self.settings, *more))


def make_trials(campaign: Campaign) -> list[Trial]:
    """All trials: the combinations of the matrix and of `zip` without those excluded, then those included.

    Raises:
        SpecError: there is none, one is given twice, or `exclude` matches none; with places in the campaign file.
    """
    spec, root = campaign.spec, campaign.root
    problems: list[Problem] = []
    rows = max((len(values) for values in spec.zip_.values()), default=1)
    count = math.prod(len(values) for values in spec.matrix.values()) * rows
    if count > MOST_TRIALS:
        message = f"{count} combinations: a campaign has at most {MOST_TRIALS} trials"
        raise SpecError([problem_at(root, ("matrix",), message, "vary fewer keys, or use `zip`", at_key=True)])
    points = list(_combinations(spec, root))
    kept = [point for point in points if not any(_matches(point, excluded) for excluded in spec.exclude)]
    for index, excluded in enumerate(spec.exclude):
        if not any(_matches(point, excluded) for point in points):
            hint = "compare its values with those of the matrix, or remove it"
            problems.append(problem_at(root, ("exclude", index), "no trial has all these values", hint))
    for index in range(len(spec.include)):
        point = _point_at(root, ("include", index))
        if any(_same_point(point, other) for other in kept):
            message = "the campaign already has this trial"
            problems.append(problem_at(root, ("include", index), message, "remove it"))
        kept.append(point)
    if not kept and not problems:
        message = f"removes all {len(points)} trials"
        problems.append(problem_at(root, ("exclude",), message, "leave at least one", at_key=True))
    runs = len(kept) * (spec.repetitions + spec.warmup)
    if spec.search is not None:  # no search takes more than it may, nor a trial that is alone more than its own
        searches = count // math.prod(len(spec.matrix[key]) for key in spec.search.over) + len(spec.include)
        runs = min(runs, searches * max(spec.search.trials, spec.repetitions) + len(kept) * spec.warmup)
    if runs > MOST_RUNS:
        message = f"{runs} runs of {plural(len(kept), 'trial')}: a campaign has at most {MOST_RUNS}"
        problems.append(problem_at(root, ("repetitions",), message, "ask for fewer", at_key=True))
    if problems:
        raise SpecError(problems)
    always = tuple(settings_of(root, ("set",)))
    return [_trial(point, always, spec.profiles, root) for point in kept]


def settings_of(root: Node, path: KeyPath) -> list[Setting]:
    """The settings of a mapping of the campaign file, such as `set`."""
    return [Setting(key, node) for key, node in _point_at(root, path).items()]


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Key → its last words, as many as tell it from the other keys: `streams.field.via` → `via`."""
    names = {}
    for key in keys:
        words = key.split(".")
        tails = [".".join(words[-count:]) for count in range(1, len(words) + 1)]
        unique = (tail for tail in tails if not any(other != key and other.endswith(f".{tail}") for other in keys))
        names[key] = next((tail for tail in unique if tail == key or tail not in keys), key)
    return names


def trial_text(parameters: Mapping[str, Any], names: Mapping[str, str], *, is_baseline: bool = False) -> str:
    """`via=sst ranks=2`: a trial in one line."""
    words = (f"{names[key]}={visible(value_text(value))}" for key, value in parameters.items())
    text = " ".join(words) or "the only trial"
    return f"{text} without I/O" if is_baseline else text


def value_text(value: Any) -> str:
    """A value of a key in one word, as it is written in YAML."""
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {value_text(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(value_text(item) for item in value) + "]" if isinstance(value, list) else str(value)


def in_words(name: str, value: object) -> str:
    """A key with its value: `2 ranks`, `size 96×96`, `via sst`, `no profile`."""
    if name == "ranks" and isinstance(value, int):
        return plural(value, "rank")
    words = value_in_words(name, value)
    return words if value is None else f"{name} {words}"


def value_in_words(name: str, value: object) -> str:
    """A value beside which its key is not said, or said elsewhere: `96×96`, `ratio 4`, `no profile`, `sst`."""
    if value is None:
        return f"no {name}"
    if isinstance(value, list) and value and all(isinstance(each, int | float) for each in value):
        return "×".join(map(value_text, value))
    if isinstance(value, dict) and value:
        return ", ".join(in_words(str(key), each) for key, each in value.items())
    return visible(value_text(value))


def _combinations(spec: CampaignSpec, root: Node) -> Iterator[Point]:
    """Every combination of the matrix with the rows of `zip`; one without values where nothing at all varies."""
    if not spec.matrix and not spec.zip_ and spec.include:
        return
    columns = {key: _values_at(root, ("matrix", key)) for key in spec.matrix}
    paired = {key: _values_at(root, ("zip", key)) for key in spec.zip_}
    rows = [dict(zip(paired, row, strict=True)) for row in zip(*paired.values(), strict=True)] or [{}]
    for values in itertools.product(*columns.values()):
        for row in rows:
            yield {**dict(zip(columns, values, strict=True)), **row}


def _values_at(root: Node, path: KeyPath) -> list[Node]:
    """The values of a key, each with its own place; a mistake in the key itself has the place of the key."""
    node = _at(root, path)
    return [each._replace(key=node.key) for each in node.value]


def _point_at(root: Node, path: KeyPath) -> Point:
    node = _at(root, path)
    return dict(node.mapping()) if node is not None else {}


def _at(root: Node, path: KeyPath) -> Node:
    for part in path:
        if part not in root.children:
            return Node({}, root.place, root.key)
        root = root.children[part]
    return root


def _matches(point: Point, excluded: Mapping[str, Any]) -> bool:
    return all(key in point and same(plain(point[key]), value) for key, value in excluded.items())


def _same_point(one: Point, other: Point) -> bool:
    return set(one) == set(other) and all(same(plain(one[key]), plain(other[key])) for key in one)


def _trial(point: Point, always: tuple[Setting, ...], profiles: Sequence[str], root: Node) -> Trial:
    chosen = plain(point[PROFILE]) if PROFILE in point else None
    varied = tuple(Setting(key, node) for key, node in point.items() if key != PROFILE)
    first = next(iter(point.values()), root.child("pipeline") or root)
    return Trial(
        {key: written(plain(node), node.text) for key, node in point.items()},
        (*always, *varied),
        (*profiles, *([] if chosen is None else [str(chosen)])),
        first.place,
    )
