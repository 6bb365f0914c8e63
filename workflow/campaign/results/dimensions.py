"""In what the trials of a campaign differ, and how the work grows with the ranks. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workflow.campaign.file.campaign_spec import Scaling
from workflow.campaign.file.trials import Parameters, in_words, short_names, value_in_words, value_text
from workflow.campaign.results.campaign_tables import varied
from workflow.engines import ENGINES, traits_of

_TIMES = ("wall_s", "compute_s", "io_s", "step_s", "load_s")
_RATES = ("throughput", "transfer_rate", "load_rate", "perceived_throughput")


def names_in_files(points: Sequence[Parameters], written: Mapping[str, str]) -> dict[str, str]:
    """Key → its last words as it is written in the campaign file, which name columns of data: a label that is changed
    changes no file. `written`: key with its label → the key of the file."""
    keys = varied(points)
    names = short_names([written.get(key, key) for key in keys])
    return {key: names[written.get(key, key)] for key in keys}


def words_of(parameters: Parameters, dimensions: Sequence[Dimension], points: Sequence[Parameters]) -> str:
    """`via sst, 2 ranks`: what a trial has in these dimensions, of trials that have all `points`."""
    names = short_names(varied(points))
    keys = [key for each in dimensions for key in each.keys if key in parameters]
    return ", ".join(in_words(names[key], parameters[key]) for key in keys)


@dataclass(frozen=True)
class Dimension:
    """Keys that vary together, as those of `zip` do: one of them says what the others are."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    """As texts, in the order of the trials."""

    def value(self, parameters: Parameters) -> str:
        """What a trial has: `sst`, or `2, [192, 96, 96]` for two keys."""
        return ", ".join(value_text(parameters[key]) for key in self.keys if key in parameters)

    def words(self, parameters: Parameters) -> str:
        """The same for people: `2, 192×96×96`."""
        return ", ".join(
            value_in_words(key.rpartition(".")[2], parameters[key]) for key in self.keys if key in parameters
        )

    def number(self, parameters: Parameters, key: str) -> float:
        """Where a trial is on the axis of a key that is a number."""
        return float(str(parameters[key]))


def meaningful(points: Sequence[Parameters]) -> list[Parameters]:
    """Each point without the values that mean nothing for it: a file has neither a transport nor a queue.

    Where two points would then be the same, all stay as they are.
    """
    kept = [{key: value for key, value in point.items() if _has_meaning(key, point)} for point in points]
    is_unique = len({repr(point) for point in kept}) == len({repr(dict(point)) for point in points})
    return [*kept] if is_unique else [*points]


def _has_meaning(key: str, point: Parameters) -> bool:
    words = key.split(".")
    via = point.get(".".join([*words[:2], "via"]))
    if words[0] != "streams" or len(words) < 3 or not isinstance(via, str) or via.upper() not in ENGINES:
        return True
    engine = traits_of(via)
    return {"transport": engine.over_network, "queue": engine.in_memory}.get(words[2], True)


def find_dimensions(points: Sequence[Parameters]) -> list[Dimension]:
    """The dimensions with more than one value, in the order of their first keys."""
    columns = {key: [value_text(point[key]) if key in point else "" for point in points] for key in varied(points)}
    groups: list[list[str]] = []
    for key, column in columns.items():
        if len(set(column)) < 2:
            continue
        group = next((each for each in groups if _follow_each_other(columns[each[0]], column)), None)
        if group is None:
            groups.append([key])
        else:
            group.append(key)
    found = []
    for group in groups:
        whole = Dimension(tuple(group), ())
        found.append(Dimension(whole.keys, tuple(dict.fromkeys(whole.value(point) for point in points))))
    return found


def number_key(dimension: Dimension, points: Sequence[Parameters]) -> str | None:
    """The key of a dimension whose values are numbers, ranks before all others; None where there is none."""
    numeric = [key for key in dimension.keys if all(_is_number(point.get(key)) for point in points)]
    return next((key for key in numeric if is_ranks(key)), numeric[0] if numeric else None)


def is_ranks(key: str) -> bool:
    """Whether a key says with how many processes a stage runs."""
    return key.startswith("stages.") and key.endswith(".ranks")


def find_scaling(dimension: Dimension, points: Sequence[Parameters], stated: Scaling | None) -> Scaling:
    """How the work grows with the ranks: as the campaign file says, or by the keys that vary with them.

    weak: a parameter of the component or of its environment grows in proportion to the ranks: a number, the product of
    a list, or the square or cube that one number is the edge of. strong: none varies with them. Where one grows
    otherwise there is no ideal: `none`.
    """
    ranks = number_key(dimension, points)
    if ranks is None or not is_ranks(ranks):
        return "none"
    if stated is not None:
        return stated
    sizes = [key for key in dimension.keys if ".with." in key or ".env." in key]
    if not sizes:
        return "strong"
    grows = any(
        _grows_with(dimension, ranks, key, power, points)
        for key in sizes
        for power in ((1, 2, 3) if all(_is_edge(point[key]) for point in points) else (1,))
    )
    return "weak" if grows else "none"


def _grows_with(dimension: Dimension, ranks: str, key: str, power: int, points: Sequence[Parameters]) -> bool:
    """Whether this power of a parameter is proportional to the ranks, as well as whole numbers allow."""
    first = points[0]
    return all(
        math.isclose(
            _amount(point[key]) ** power,
            dimension.number(point, ranks) / dimension.number(first, ranks) * _amount(first[key]) ** power,
            rel_tol=0.1,
        )
        for point in points
    )


def ideal_factor(figure: str, ranks_key: str, scaling: Scaling, factor: float) -> float | None:
    """By what a figure would grow if `factor` times the ranks had no cost; None where there is no ideal.

    A figure of another stage has none: its ranks are the same.
    """
    section, _, rest = figure.partition(".")
    stage, _, field = rest.rpartition(".")
    if scaling == "none" or (section == "stages" and stage != ranks_key.split(".")[1]):
        return None
    if field in _TIMES:
        return 1.0 if scaling == "weak" else 1 / factor
    if field == "step_rate":
        return 1.0 if scaling == "weak" else factor
    return factor if field in _RATES else None


def _follow_each_other(one: Sequence[str], other: Sequence[str]) -> bool:
    return len(set(one)) == len(set(other)) == len(set(zip(one, other, strict=True)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_edge(value: object) -> bool:
    """A list of one number: a square or a cube where a program takes one number for all sides."""
    return isinstance(value, list) and len(value) == 1


def _amount(value: object) -> float:
    """How much work a size means: the product of its numbers, NaN where it has none."""
    numbers = value if isinstance(value, list) else [value]
    try:
        return math.prod(float(str(number)) for number in numbers)
    except ValueError:
        return math.nan
