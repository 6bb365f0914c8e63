"""Why finished repetitions no longer match a campaign: which part of their trial's content key has changed. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workflow.campaign.ledger import History, TrialContent
from workflow.errors import shortened
from workflow.formatting import plural

MOST_NAMED = 3
"""Changes of one trial that a message names."""
SUM_LENGTH = 12
# Characters: a text that is longer is cut, and what is kept of it before the first difference.
_LONG, _BEFORE = 40, 8
_FILE = re.compile(r"<(?P<name>.+) (?P<sum>[0-9a-f]{64}|missing|unreadable)>")
_GONE = "their values are no longer in the file"
_NOT_RECORDED = "the wf that ran them did not record what they depend on"


def unmatched_notes(
    history: History, trials: Mapping[str, tuple[Mapping[str, Any], bool]], contents: Mapping[str, TrialContent]
) -> list[str]:
    """How many finished repetitions belong to no trial of the campaign any more, and why: a line for each reason.

    `trials`: key → the values of each trial of the campaign, and whether it is a baseline; `contents`: what is known
    of these keys.
    """
    finished = Counter(
        repetition.key
        for repetition, attempt in history.ended.items()
        if attempt.state == "succeeded" and not repetition.warmup and repetition.key not in trials
    )
    now: dict[str, str] = {}
    for key, (values, is_baseline) in trials.items():
        now.setdefault(_comparable(values, is_baseline), key)
    reasons = Counter[str]()
    for key, count in finished.items():
        reasons[_reason(history.contents.get(key), now, contents)] += count
    return [_note(count, reason) for reason, count in reasons.items()]


def key_changes(old: TrialContent, new: TrialContent) -> list[str]:
    """What is another one in the key of a trial, from what to what."""
    return [
        *_file_changes(old.files, new.files),
        *_value_changes("", old.versions, new.versions),
        *_value_changes("another Python: ", _merged(old.pythons), _merged(new.pythons)),
        *_value_changes("", dict(_leaves(old.plan)), dict(_leaves(new.plan))),
    ]


def _note(count: int, reason: str) -> str:
    verb = "matches" if count == 1 else "match"
    return f"{plural(count, 'finished repetition')} no longer {verb} this campaign: {reason}"


def _reason(old: TrialContent | None, now: Mapping[str, str], contents: Mapping[str, TrialContent]) -> str:
    if old is None:
        return _NOT_RECORDED
    key = now.get(_comparable(old.parameters, old.is_baseline))
    if key is None:
        return _GONE
    new = contents.get(key)
    changes = key_changes(old, new) if new is not None else []
    more = len(changes) - MOST_NAMED
    named = changes[:MOST_NAMED] + ([f"and {plural(more, 'more change')}"] if more > 0 else [])
    return ", ".join(named) or "their trial has changed, and `wf campaign plan` says how"


def _comparable(parameters: Mapping[str, Any], is_baseline: bool) -> str:
    return json.dumps([parameters, is_baseline], sort_keys=True)


def _file_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    before, after = _sums(old), _sums(new)
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name, []), after.get(name, [])
        if not now:
            yield f"{name} is not used any more"
        elif not was:
            yield f"{name} is new"
        elif was != now:
            yield f"{name} has another content ({_short(was, now)} → {_short(now, was)})"


def _sums(files: Sequence[str]) -> dict[str, list[str]]:
    """Name → the checksums of the files of that name."""
    found: dict[str, list[str]] = {}
    for each in files:
        if parts := _FILE.fullmatch(each):
            found.setdefault(parts["name"], []).append(parts["sum"])
    return found


def _short(sums: Sequence[str], others: Sequence[str]) -> str:
    return ", ".join(each[:SUM_LENGTH] for each in sums if each not in others) or "fewer"


def _merged(versions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Package → its versions in all these Pythons."""
    found: dict[str, list[str]] = {}
    for each in versions:
        for name, version in each.items():
            found.setdefault(name, []).append(version)
    return {name: ", ".join(all_of) for name, all_of in found.items()}


def _value_changes(begin: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*old, *new]):
        was, now = (_text(side[name]) if name in side else "none" for side in (old, new))
        if was != now:
            # What is equal at the beginning is left out of long texts: it would hide the difference.
            same = next((at for at, (one, other) in enumerate(zip(was, now, strict=False)) if one != other), 0)
            cut = same - _BEFORE if max(len(was), len(now)) > _LONG and same > _BEFORE else 0
            was, now = (f"…{text[cut:]}" if cut else text for text in (was, now))
            yield f"{begin}{name}: {shortened(was)} → {shortened(now)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Key → each value of a plan, lists of plain values whole; parts of lists by their names, where they have some.

    Files are left out: they are compared as files.
    """
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            name = item.get("name", index) if isinstance(item, dict) else index
            yield from _leaves(item, f"{path}.{name}")
    elif isinstance(value, list):
        yield path, [_FILE.sub(r"<\g<name>>", item) if isinstance(item, str) else item for item in value]
    else:
        yield path, _FILE.sub(r"<\g<name>>", value) if isinstance(value, str) else value
