"""What the rows of a picture are called, in words, and labels no longer than there is room for. Pure."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence

from workflow.campaign.file.trials import short_names, trial_text, value_text
from workflow.campaign.results.campaign_tables import varied
from workflow.campaign.results.trial_dimensions import Parameters
from workflow.formatting import plural

CUT = "…"
FEWEST = 8
NO_BREAK = "\u00a0"
"""Letters on each side of what all labels share that are kept: they say what the rest belongs to."""


def short_labels(labels: Sequence[str], most: int) -> list[str]:
    """Labels of at most about `most` letters: what all have in common goes first, then the middle of each.

    Short ones stay as they are. Those that the cut would make equal get their numbers in the list.
    """
    if all(len(each) <= most for each in labels):
        return list(labels)
    rest = _without_common(labels, most) if len(set(labels)) > 1 else list(labels)
    cut = [cut_middle(each, most) for each in rest]
    count = Counter(cut)
    whole = Counter(labels)
    return [
        f"{number}: {short}" if count[short] > whole[label] else short
        for number, (short, label) in enumerate(zip(cut, labels, strict=True), 1)
    ]


def _without_common(labels: Sequence[str], most: int) -> list[str]:
    """Each label with as much of the beginning and the end that all share as there is room for."""
    head = _common(labels)
    tail = min(_common([each[::-1] for each in labels]), min(len(each) for each in labels) - head)
    room = max(2 * FEWEST, most - max(len(each) - head - tail for each in labels))
    after = min(tail, max(room // 2, room - head))
    return [
        cut_middle(each[:head], room - after)
        + each[head : len(each) - tail]
        + cut_middle(each[len(each) - tail :], after)
        for each in labels
    ]


def _common(labels: Sequence[str]) -> int:
    """How many letters all begin with."""
    first, last = min(labels), max(labels)
    return next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))


def cut_middle(text: str, most: int) -> str:
    """At most so many letters, those at both ends."""
    if len(text) <= most:
        return text
    front = (most - len(CUT) + 1) // 2
    back = most - len(CUT) - front
    return text[:front].rstrip() + CUT + text[len(text) - back :].lstrip()


def wrapped(text: str, width: int, most: int) -> list[str]:
    """A text in about `most` lines of at most so many letters, broken between its words but not in brackets.

    Of a longer one the middle goes.
    """
    whole = re.sub(rf"\([^()]{{,{width - 2}}}\)", lambda found: found[0].replace(" ", NO_BREAK), text)
    lines = textwrap.wrap(cut_middle(whole, width * most), width, break_long_words=False, break_on_hyphens=False)
    return [cut_middle(line.replace(NO_BREAK, " "), width) for line in lines]


class RowLabels:
    """`via sst, 2 ranks`; where one key varies its value alone, and its name once, as the title of the axis."""

    def __init__(self, points: Sequence[Parameters]) -> None:
        keys = varied(points)
        differing = [key for key in keys if len({value_text(each.get(key)) for each in points}) > 1]
        self._names = short_names(keys)
        self._keys = differing or keys

    @property
    def title(self) -> str:
        """The key, where there is one only."""
        return self._names[self._keys[0]] if len(self._keys) == 1 else ""

    def text(self, parameters: Parameters) -> str:
        """The label of a trial."""
        shown = {key: parameters[key] for key in self._keys if key in parameters}
        if self.title and shown:
            return value_in_words(self.title, next(iter(shown.values())))
        return ", ".join(in_words(self._names[key], value) for key, value in shown.items())

    def whole(self, parameters: Parameters) -> str:
        """With all its keys, for the data beside the picture."""
        return trial_text(parameters, self._names)


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
    return value_text(value)
