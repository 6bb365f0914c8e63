"""Applies a scale, `--site`, `--profile` and `--set` to a campaign file; every value keeps its place. Pure.

Strongest first: `--set`, `--site` and `--profile`, the scale, the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workflow.campaign.file.campaign_spec import SCALE, SCALES, CampaignSpec
from workflow.errors import Problem
from workflow.spec.models.pipeline import PipelineSpec
from workflow.spec.overlay import Overlaid, Setting, given_site, merged, read_set, with_value
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.validation_messages import keys_of, problem_at, shown
from workflow.spec.yaml_tree.node import KeyPath, Node, SourcePosition, key_path, relabelled

# Below these every key is one of the pipeline, dots and all.
_SETTINGS: tuple[KeyPath, ...] = (("set",), ("matrix",), ("zip",), ("baseline", "set"))
# What a scale cannot change.
_NOT_IN_SCALES = {"wf": "the version of the file is at its top", SCALE: "a scale cannot choose another one",
                  SCALES: "a scale cannot hold scales"}  # fmt: skip
_EXAMPLE = "repetitions=8"


@dataclass(frozen=True)
class CampaignOptions:
    """What the command line lays over a campaign file."""

    sets: tuple[str, ...] = ()
    """`KEY=VALUE` each; KEY is a key of the campaign file."""
    profiles: tuple[str, ...] = ()
    """Profiles of the pipeline, after those of the file."""
    site: str | None = None

    def __bool__(self) -> bool:
        return bool(self.sets or self.profiles or self.site is not None)

    @property
    def arguments(self) -> list[str]:
        """As on the command line."""
        site = [] if self.site is None else ["--site", self.site]
        profiles = [word for name in self.profiles for word in ("--profile", name)]
        return [*site, *profiles, *(word for text in self.sets for word in ("--set", text))]

    def and_later(self, later: CampaignOptions) -> CampaignOptions:
        """Both: of a key that both set the later value counts."""
        again = {_key(text) for text in later.sets}
        sets = (*(text for text in self.sets if _key(text) not in again), *later.sets)
        profiles = tuple(dict.fromkeys((*self.profiles, *later.profiles)))
        return CampaignOptions(sets, profiles, later.site if later.site is not None else self.site)


NO_OPTIONS = CampaignOptions()


def _key(text: str) -> str:
    return text.partition("=")[0]


def lay_options(root: Node, options: CampaignOptions) -> Overlaid:
    """The file with its scale and the options. Problems are collected; what is wrong is left out."""
    given = [read_set(text, _EXAMPLE) for text in options.sets]
    settings = [each for each in given if isinstance(each, Setting)]
    chosen = next((each.value for each in reversed(settings) if each.key == SCALE), root.child(SCALE))
    result = lay_scale(root, chosen)
    result.problems += [each for each in given if isinstance(each, Problem)]
    if options.site is not None:
        result.root = with_value(result.root, ("site",), given_site(options.site))
    _lay_profiles(result, options.profiles)
    for setting in settings:
        if (wrong := _key_mistake(result.root, setting.key)) is None:
            result.root = with_value(result.root, _path(result.root, setting.key), setting.value)
        else:
            result.problems.append(Problem(setting.value.place.source, 0, 0, "", *wrong))
    return result


def lay_scale(root: Node, chosen: Node | None) -> Overlaid:
    """The file with one of its scales; `chosen` holds its name, None: without any."""
    result = Overlaid(root)
    if chosen is None or chosen.value is None:
        return result
    scales = root.child(SCALES)
    known = scales.mapping() if scales is not None else {}
    if chosen.value not in known:
        place, name = chosen.place, chosen.value if isinstance(chosen.value, str) else shown(chosen.value)
        hint = did_you_mean(name, known) or f"scales of this file: {listing(known)}"
        message = f"there is no scale `{shortened(name)}`"
        result.problems.append(Problem(place.source, place.line, place.column, SCALE, message, hint))
        return result
    name = str(chosen.value)
    scale = relabelled(known[name], f"scale {name}")
    for key in _NOT_IN_SCALES.keys() & scale.mapping().keys():
        path: KeyPath = (SCALES, name, key)
        result.problems.append(problem_at(root, path, _NOT_IN_SCALES[key], "remove it", at_key=True))
    kept = {key: child for key, child in scale.mapping().items() if key not in _NOT_IN_SCALES}
    if isinstance(scale.value, dict):  # else the schema check reports it
        result.root = merged(root, scale._replace(value=kept))
    return result


def scale_names(root: Node) -> list[str]:
    """The scales of a file."""
    scales = root.child(SCALES)
    return list(scales.mapping()) if scales is not None else []


def _lay_profiles(result: Overlaid, names: Sequence[str]) -> None:
    """After the profiles of the file."""
    if not names:
        return
    added = [Node(name, place, place, "--profile") for name in names for place in [SourcePosition(f"--profile {name}")]]
    written = result.root.child("profiles")
    below = written.value if written is not None and isinstance(written.value, list) else []
    node = written or Node([], added[0].place, added[0].place)
    result.root = with_value(result.root, ("profiles",), node._replace(value=[*below, *added]))


def _path(root: Node, key: str) -> KeyPath:
    """`matrix.stages.md.ranks` → (`matrix`, `stages.md.ranks`)."""
    for section in _SETTINGS:
        begin = ".".join(map(str, section)) + "."
        if key.startswith(begin):
            return (*section, key.removeprefix(begin))
    return key_path(root, key)


def _key_mistake(root: Node, key: str) -> tuple[str, str] | None:
    """What is wrong with a key such as `budget.time`, apart from what the schema checks."""
    path = _path(root, key)
    first = str(path[0])
    if first == SCALES:
        return "scales cannot be set", "choose one with `--set scale=NAME`"
    if not all(isinstance(part, str) for part in path):
        return "an entry of a list cannot be set", "give the whole list, for example `[a, b]`"
    own = first in keys_of(CampaignSpec) and not (first == "site" and len(path) > 1)
    if not own and (first in keys_of(PipelineSpec) or first == "site"):
        hint = f"`--set set.{key}=…` sets it for all trials, `--set 'matrix.{key}=[…, …]'` varies it"
        return f"`{shortened(key)}` is a key of the {'site' if first == 'site' else 'pipeline'}", hint
    return None
