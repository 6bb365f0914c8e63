"""The content key of a trial, computed from all that it depends on, and which part of it has changed.

Trials with equal keys measure the same thing. Paths are left out: a campaign directory can be moved, and a second clone
of the pipeline has the same keys.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workflow.campaign.ledger import History, TrialContent
from workflow.formatting import plural
from workflow.plan.changed_values import changed_values, leaves
from workflow.provenance.installed_versions import PACKAGES, versions, versions_of_stages
from workflow.provenance.plan_files import ExaminedPlan, checksum
from workflow.provenance.provenance_model import FileRole
from workflow.site.interpreters import is_own_python, is_python, program_identity
from workflow.spec.load import Loaded

KEY_LENGTH = 12
# Limits in time, as the texts for people and what is expected, which are not in `data`: they change no measured figure.
_LEFT_OUT = {"deadlines"}
# It says which of the parameters are files, for drawings.
_LEFT_OUT_OF_STAGES = {"file_parameters"}
# Whatever the link is called by which a Python is started: `python` and `python3` of a folder are one program. Of
# these names it is the one that keys of older ledgers have most often: they still match then.
_PYTHON = "python3"
MOST_NAMED = 3
"""Changes of one trial that a message names."""
SUM_LENGTH = 12
_FILE = re.compile(r"<(?P<name>.+) (?P<sum>[0-9a-f]{64}|missing|unreadable)>")
_GONE = "their values are no longer in the file"
_NOT_RECORDED = "the wf that ran them did not record what they depend on"


def file_sums(files: Mapping[Path, FileRole]) -> dict[Path, str]:
    """The programs, inputs and Python modules among the files of a plan, with their checksums."""
    # What the pipeline, the site and the description of a component say is in the plan.
    return {path: _sum(path) for path, role in files.items() if role in ("program", "input") or path.suffix == ".py"}


def changed_file(files: Mapping[Path, str]) -> Path | None:
    """The first of these files that no longer has its checksum; None where all have.

    Files whose size and time are the same are not read again.
    """
    return next((path for path, known in files.items() if _sum(path) != known), None)


def trial_content(
    parameters: Mapping[str, Any], examined: ExaminedPlan, loaded: Loaded, files: Mapping[Path, str]
) -> TrialContent:
    """What a plan depends on: its decisions without paths, its files (`file_sums`) by checksum, and versions.

    A file of the plan that does not exist counts by its name. A Python counts by its content and its packages.
    """
    sums = {str(path): f"<{_name(path)} {known}>" for path, known in files.items()}
    kept = {name: part for name, part in examined.data.items() if name not in _LEFT_OUT}
    kept["stages"] = [
        {name: part for name, part in stage.items() if name not in _LEFT_OUT_OF_STAGES} for stage in kept["stages"]
    ]
    data = _without_places(kept, sums, _places(loaded))
    for stage in data["stages"]:
        # The ledger is not to hold what `files:` may have: passwords.
        texts = stage["files"].items()
        stage["files"] = {path: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" for path, text in texts}
    once = {program_identity(path): sums[str(path)] for path in files}
    others = {program_identity(Path(each.python)): each.versions for each in versions_of_stages(examined.programs)}
    return TrialContent(parameters, data, sorted(once.values()), key_versions(), list(others.values()))


def content_key(content: TrialContent) -> str:
    """The key of what a trial depends on: hexadecimal digits, `KEY_LENGTH` of them."""
    whole = [content.plan, content.files, content.versions, content.pythons]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


def same_runs(contents: Mapping[str, TrialContent]) -> dict[str, str]:
    """Key of a trial → the first key of those that run the same: their plans differ only in settings that have no
    effect with the ADIOS2 that is here. Only of trials that have such settings."""
    first: dict[str, str] = {}
    found = {}
    for key, content in contents.items():
        plan = dict(content.plan)
        streams = plan.get("streams", ())
        idle = {stream["name"]: stream["no_effect"] for stream in streams if stream.get("no_effect")}
        if not idle:
            continue
        plan["streams"] = [{**stream, "no_effect": []} for stream in streams]
        plan["stages"] = [
            {**stage, "ends": [_effective(end, idle.get(end["stream"], [])) for end in stage["ends"]]}
            for stage in plan["stages"]
        ]
        whole = [plan, content.files, content.versions, content.pythons]
        found[key] = first.setdefault(json.dumps(whole, sort_keys=True), key)
    return found


def _effective(end: Mapping[str, Any], idle: Sequence[str]) -> dict[str, Any]:
    kept = {name: value for name, value in end["parameters"].items() if name not in idle}
    return {**end, "parameters": kept if end["side"] == "write" else end["parameters"]}


def key_versions() -> dict[str, str]:
    """Of Python and what stages import. That of wf is in the plan; an update of the kernel changes no key."""
    return {name: version for name, version in versions().items() if name in ("python", "mpi", *PACKAGES)}


def _name(path: Path) -> str:
    """The name by which a file counts."""
    return _PYTHON if is_python(str(path)) else path.name


@functools.cache
def _own_pythons() -> list[str]:
    """The Python of wf under all its names."""
    beside = (str(path) for path in Path(sys.executable).parent.glob("python*"))
    return [sys.executable, *(path for path in beside if is_own_python(path))]


def _sum(path: Path) -> str:
    try:
        return checksum(path)
    except FileNotFoundError:
        return "missing"
    except OSError:  # it may be executed, but not read
        return "unreadable"


def _places(loaded: Loaded) -> list[tuple[str, str]]:
    """Folders of this machine → what stands for them, the deepest first."""
    components = {str(folder): f"<component {name}>" for name, folder in loaded.component_dirs.items()}
    pythons = dict.fromkeys(_own_pythons(), "<python>")
    places = {**components, str(loaded.path.parent): "<pipeline>", **pythons, sys.prefix: "<prefix>"}
    return sorted(places.items(), key=lambda item: -len(item[0]))


def _without_places(value: Any, sums: Mapping[str, str], places: list[tuple[str, str]]) -> Any:
    """JSON-like data in which files stand by their checksum, and folders by what they are."""
    if isinstance(value, dict):
        return {
            _without_places(key, sums, places) if "/" in key else key: _without_places(item, sums, places)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_places(item, sums, places) for item in value]
    if not isinstance(value, str) or "/" not in value:
        return value
    if value in sums:
        return sums[value]
    for place, name in places:
        value = value.replace(place, name)
    return value


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
        *changed_values(old.versions, new.versions),
        *changed_values(_merged(old.pythons), _merged(new.pythons), "another Python: "),
        *changed_values(_named_leaves(old.plan), _named_leaves(new.plan)),
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
            yield f"{name} has different content ({_short(was, now)} → {_short(now, was)})"


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


def _named_leaves(plan: Any) -> dict[str, Any]:
    """Key → each value of a plan. Files are left out: they are compared as files."""
    return {key: _without_sums(value) for key, value in leaves(plan)}


def _without_sums(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_sums(item) for item in value]
    return _FILE.sub(r"<\g<name>>", value) if isinstance(value, str) else value
