"""A pipeline file with its overlays → a checked pipeline, or everything that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow.errors import Problem, SpecError
from workflow.spec.check import Checked, Library, check
from workflow.spec.component_files import component_dir
from workflow.spec.models.component import Component
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import PipelineSpec, StageSpec
from workflow.spec.models.stage_policies import EDITABLE
from workflow.spec.origins import Origins
from workflow.spec.overlay import Overlaid, Setting, given_site, lay_profile, overlay
from workflow.spec.pipeline_parameters import unused_parameters
from workflow.spec.user_paths import check_utf8, is_file
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import Node, as_written

if TYPE_CHECKING:
    from workflow.formats.steering_files import ValueChange
    from workflow.spec.ensembles import EnsembleMember

# Larger files are data: no placeholders are filled in them.
MAX_TEMPLATE_BYTES = 10_000_000


@dataclass(frozen=True)
class Loaded:
    """A pipeline file that was read and checked. The plan is made from this and the site."""

    spec: PipelineSpec = field(repr=False)
    path: Path
    """Absolute."""
    text: bytes = field(repr=False)
    """The file as given."""
    components: dict[str, Component] = field(repr=False)
    """By name; those that are used."""
    component_dirs: dict[str, Path] = field(repr=False)
    """Component name → the folder of its program, absolute."""
    parameters: dict[str, dict[str, Any]] = field(repr=False)
    """Stage or tap → its component's parameters, complete: defaults filled in, seconds and bytes, files absolute."""
    engines: dict[str, Engine] = field(repr=False)
    """Stream → what its `via` names."""
    presets: dict[str, Engine] = field(repr=False)
    """What a `via` may name → the engine: those that the streams use, and `sst` where pipes or taps need it."""
    templates: dict[str, dict[str, str]] = field(repr=False)
    """Stage → name → text of its `files:`. Files that are no text are not in it: they are copied unchanged."""
    origins: Origins = field(repr=False)
    options: tuple[str, ...] = ()
    """What was laid over the file, as options of `wf run`."""
    members: dict[str, EnsembleMember] = field(default_factory=dict, repr=False)
    """Stage → which member of an ensemble it is; those that are one."""
    renamed: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    """Stage → stream in its texts → the stream that is meant, where a stage that selects steps is between."""
    warnings: tuple[Problem, ...] = ()
    """What does not keep it from running."""
    param_texts: Mapping[str, str] = field(default_factory=dict)
    """Parameter → its value as it was written, where that is no text."""
    python: str = ""
    """The Python that executes components, absolute; empty: that of wf."""
    changes: Mapping[str, Sequence[ValueChange]] = field(default_factory=dict)
    """Stage → what was changed of it while an earlier run went on, which is repeated."""


def load_pipeline(
    path: str | os.PathLike[str],
    *,
    profiles: Sequence[str] = (),
    sets: Sequence[str] = (),
    via: str | None = None,
    site: str | os.PathLike[str] | None = None,
    settings: Sequence[Setting] = (),
    library: Library | None = None,
) -> Loaded:
    """Reads and checks a pipeline file. Starts nothing and needs neither ADIOS2 nor MPI.

    Args:
        path: the file; its name in messages is `path` as given.
        profiles: profiles of the file to apply, or the name of one; a later one overrides an earlier one.
        sets: strings `KEY=VALUE`, the value in YAML; they override everything else.
        via: an engine for every stream (except those of engine `file`); overrides profiles.
        site: the machine, by name or by path; overrides profiles.
        settings: the values of a trial of a campaign; override all of these except `sets`.
        library: files that other trials of the same campaign have already read.

    Raises:
        SpecError: all that is wrong, in the file's order, profiles that were not chosen included.
    """
    profiles, sets = ([each] if isinstance(each, str) else each for each in (profiles, sets))
    file = Path(path)
    base = file.absolute().parent
    check_utf8(file.absolute(), "rename that folder, or put the file elsewhere")
    library = Library(base) if library is None else library.for_another()
    root, text = library.pipeline(file, os.fspath(path))
    overlaid = overlay(root, profiles, via, sets, None if site is None else os.fspath(site), settings)
    checked = check(overlaid.root, base, library)
    problems = [*overlaid.problems, *checked.problems, *_other_profiles(root, profiles, base, library)]
    warnings = [each for each in problems if each.level == "warning"]
    problems = [each for each in problems if each.level == "error"]
    if problems or checked.spec is None:
        if (mistaken := _campaign_given(root)) is not None:
            raise SpecError([mistaken])
        raise SpecError(_distinct(problems))
    templates = {name: _texts(stage, base) for name, stage in checked.spec.stages.items() if stage.files}
    texts = [text for files in templates.values() for text in files.values()]
    # What an overlay has replaced may have used one.
    warnings += unused_parameters(root, (root, overlaid.root), texts)
    warnings += _unread_configs(checked.spec, checked.origins, base)
    if checked.members:
        from workflow.spec.ensembles import unused_values  # few pipelines pay for it

        warnings += unused_values(overlaid.root, checked.members, templates)
    return Loaded(
        spec=checked.spec,
        path=file.absolute(),
        text=text,
        components=checked.components,
        component_dirs={name: component_dir(name, base) for name in checked.components},
        parameters=checked.parameters,
        engines=checked.engines,
        presets=dict(library.engines),
        templates=templates,
        origins=checked.origins,
        members=checked.members,
        renamed=checked.renamed,
        warnings=tuple(_distinct(warnings)),
        param_texts=checked.param_texts,
        options=_options(profiles, [*(_text(each) for each in settings), *sets], via, site),
    )


def _campaign_given(root: Node) -> Problem | None:
    """A campaign file where a pipeline file is expected: one message in place of many."""
    if root.child("campaign") is None or root.child("stages") is not None:
        return None
    hint = "`wf campaign plan` plans a campaign, `wf campaign run` runs it"
    return problem_at(root, ("campaign",), "this is a campaign file, not a pipeline file", hint, at_key=True)


def _text(setting: Setting) -> str:
    return f"{setting.key}={as_written(setting.value)}"


def _options(
    profiles: Iterable[str], sets: Iterable[str], via: str | None, site: str | os.PathLike[str] | None
) -> tuple[str, ...]:
    given = [*(("--profile", each) for each in profiles), *(("--set", each) for each in sets)]
    given += [("--via", via)] if via is not None else []
    given += [("--site", str(given_site(os.fspath(site)).value))] if site is not None else []
    return tuple(word for pair in given for word in pair)


def _texts(stage: StageSpec, base: Path) -> dict[str, str]:
    """The files of a stage in which placeholders can be filled. Raises SpecError for one that cannot be read."""
    texts = {}
    for name, file in stage.files.items():
        path = base / file
        try:
            if path.stat().st_size <= MAX_TEMPLATE_BYTES:
                texts[name] = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        except OSError as error:
            hint = "check its permissions"
            raise SpecError([Problem(file, 0, 0, "", f"cannot be read: {error.strerror}", hint)]) from None
    return texts


def _unread_configs(spec: PipelineSpec, origins: Origins, base: Path) -> list[Problem]:
    """The configs of ADIOS2 beside the pipeline file in whose place wf writes one."""
    found = []
    for name, stage in spec.stages.items():
        for side, ports in (("writes", stage.writes), ("reads", stage.reads)):
            for port, each in ports.items():
                config = each.config
                if config is None or each.spoken not in EDITABLE or config in stage.files:
                    continue
                if is_file(base / config):
                    text = f"the {config} beside the pipeline file is not read: wf writes one for {name}"
                    hint = f"`files: {{{config}: {config}}}` keeps what is in it, and changes the engines of these IOs"
                    key = f"stages.{name}.{side}.{port}.config"
                    found.append(Problem(*origins.place(key), key, text, hint, level="note"))
    return found


def _other_profiles(root: Node, chosen: Sequence[str], base: Path, library: Library) -> list[Problem]:
    """What each profile that was not chosen would break: a typo in it is reported before the profile is used."""
    section = root.child("profiles")
    names = [name for name in (section.mapping() if section else {}) if name not in chosen]
    if (known := library.others.get(tuple(chosen))) is not None:
        return known
    before: Checked | None = None
    found = []
    for name in names:
        before = before or check(root, base, library, load_engines=False)
        alone = Overlaid(root)
        lay_profile(alone, name)
        after = [*alone.problems, *check(alone.root, base, library, load_engines=False).problems]
        found += [_blamed(problem, name) for problem in after if problem not in before.problems]
    library.others[tuple(chosen)] = found
    return found


def _blamed(problem: Problem, profile: str) -> Problem:
    """Says that a mistake comes with a profile, which its place does not show."""
    return problem._replace(message=f"{problem.message} (with profile {profile})")


def _distinct(problems: Iterable[Problem]) -> list[Problem]:
    """One of each mistake: `*` may have put the same value in many places."""
    seen: dict[tuple[str, int, int, str], Problem] = {}
    for problem in problems:
        message = problem.message.split(" (with profile ")[0]
        seen.setdefault((problem.source, problem.line, problem.column, message), problem)
    return list(seen.values())
