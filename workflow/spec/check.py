"""The checks that depend on no decision of the plan: schema, components, parameters, engines, references."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from workflow.engines import DEFAULT_VIA, KEPT_VIA, NODE_VIA
from workflow.errors import Problem, SpecError, WfError
from workflow.report_figures import FIGURES
from workflow.spec.component_files import check_parameters, component_dir, load_component, parameters_model, suggestion
from workflow.spec.engine_presets import known_engines, load_engine
from workflow.spec.expectations import expectation_problems
from workflow.spec.models.component import Component
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import AUTO_SITE, PipelineSpec, StageSpec, StreamSpec
from workflow.spec.origins import Origins
from workflow.spec.pipeline_parameters import fill_parameters
from workflow.spec.plain_secrets import secret_problems
from workflow.spec.references import (
    RELAY,
    added_by_wf,
    implicit_stage_problems,
    ports_of,
    programs,
    reference_problems,
    section,
    text_at,
)
from workflow.spec.shipped import find_config, is_path, known_configs
from workflow.spec.suggest import REMOVED, did_you_mean, listing, shortened
from workflow.spec.user_paths import path_mistake
from workflow.spec.validation_messages import keys_of, problem_at, shown, validated
from workflow.spec.yaml_tree.node import KeyPath, Node, SourcePosition, key_text
from workflow.spec.yaml_tree.parse import read_yaml

if TYPE_CHECKING:
    from workflow.spec.ensembles import EnsembleMember, Expanded


@dataclass
class Library:
    """What was read so far: each file is read once, however many stages, profiles and trials name it."""

    base: Path
    pipelines: dict[Path, tuple[Node, bytes]] = field(default_factory=dict)
    components: dict[str, Component] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    broken: dict[str, list[Problem]] = field(default_factory=dict)
    models: dict[str, type[BaseModel]] = field(default_factory=dict)
    others: dict[tuple[str, ...], list[Problem]] = field(default_factory=dict)
    """Profiles that were chosen → what the others would break."""

    def for_another(self) -> Library:
        """The same for another load of the same file: with what was read, and without what was wrong."""
        return replace(self, broken={})

    def pipeline(self, file: Path, source: str) -> tuple[Node, bytes]:
        """The tree of a pipeline file and its bytes, as `read_yaml` gives them. Raises SpecError."""
        if file not in self.pipelines:
            self.pipelines[file] = read_yaml(file, source)
        return self.pipelines[file]

    def parameters_model(self, name: str, component: Component) -> type[BaseModel]:
        """The model of the component's parameters."""
        if name not in self.models:
            self.models[name] = parameters_model(component)
        return self.models[name]

    def component(self, name: str) -> Component | None:
        """The component, or None when there is none or its file is wrong (see `broken`)."""
        if name not in self.components and f"component {name}" not in self.broken:
            try:
                self.components[name] = load_component(name, self.base)
            except SpecError as error:
                self.broken[f"component {name}"] = error.problems
            except WfError:
                return None
        return self.components.get(name)

    def engine(self, via: str) -> Engine | None:
        """The engine or preset, or None when there is none or its file is wrong (see `broken`)."""
        if via not in self.engines and f"engine {via}" not in self.broken:
            try:
                self.engines[via] = load_engine(via)
            except SpecError as error:
                self.broken[f"engine {via}"] = error.problems
            except WfError:
                return None
        return self.engines.get(via)


@dataclass
class Checked:
    """What a tree means, and what is wrong with it. `spec` is None when the schema is not met."""

    root: Node
    """The tree with its parameters filled in, and a stage for each member of an ensemble and for each trigger."""
    spec: PipelineSpec | None = None
    components: dict[str, Component] = field(default_factory=dict)
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    members: dict[str, EnsembleMember] = field(default_factory=dict)
    renamed: dict[str, dict[str, str]] = field(default_factory=dict)
    param_texts: dict[str, str] = field(default_factory=dict)
    origins: Origins = field(default_factory=lambda: Origins(Node({}, SourcePosition(""))))
    problems: list[Problem] = field(default_factory=list)


def check(root: Node, base: Path, library: Library, *, load_engines: bool = True) -> Checked:
    """Check everything; one mistake does not hide the others.

    Args:
        root: the pipeline's tree; base: the folder that relative paths start at.
        load_engines: False to check only their names, which is cheaper.
    """
    filled = fill_parameters(root)
    root, checked = filled.root, Checked(filled.root, origins=Origins(filled.root))
    _expand(checked, library)
    root = checked.root
    checked.param_texts = filled.texts
    checked.spec, problems = validated(PipelineSpec, _with_texts(root))
    of_expansions, checked.problems = checked.problems, problems
    by_stage: dict[str, Component] = {}
    for path, stage in programs(root).items():
        component = _check_component(root, path, stage, base, library, checked)
        if component is not None:
            by_stage.setdefault(str(path[-1]), component)
    for name, stream in section(root, "streams").items():
        _check_engine(root, name, stream, library if load_engines else None, checked)
    added = _check_implicit_stages(root, library, checked)
    if load_engines and any(each.traits.over_network for each in library.engines.values()):
        library.engine(NODE_VIA)  # may take its place
    checked.problems += of_expansions
    if _has_ensembles(root):  # they could not be written out: what is wrong with their values only repeats that
        checked.problems = [each for each in checked.problems if "${{ member." not in each.message]
    # A malformed name is reported once, not also as a name that does not exist.
    wrong = {problem.key for problem in checked.problems}
    references = reference_problems(root, by_stage, added, base)
    checked.problems += [each for each in references if each.key not in wrong]
    checked.problems = [_with_expect(each) for each in checked.problems] + list(expectation_problems(root))
    checked.problems = [each for each in checked.problems if each.key not in filled.unfilled] + filled.problems
    checked.problems += [problem for problems in library.broken.values() for problem in problems]
    _check_site(root, base, checked)
    secrets = list(secret_problems(root))
    hidden = {problem.key for problem in secrets if problem.is_secret}
    # Another message on a secret may quote it.
    checked.problems = [problem for problem in checked.problems if problem.key not in hidden] + secrets
    checked.problems = checked.origins.as_written(checked.problems)
    return checked


def _with_texts(root: Node) -> Node:
    """The tree with the words of commands and the variables of programs as they were written: a program gets texts."""
    found = programs(root).keys()
    has_command = {*found, *((*path, "checkpoint") for path in found)}

    def changed(node: Node, path: KeyPath) -> Node:
        if not isinstance(node.value, dict):
            return node
        inside = ("command", "env") if path in has_command else ()
        return node._replace(
            value={
                key: _as_texts(child) if key in inside else changed(child, (*path, key))
                for key, child in node.value.items()
            }
        )

    parts = root.mapping().items()
    return root._replace(
        value={key: changed(part, (key,)) if key in ("stages", "streams") else part for key, part in parts}
    )


def _as_texts(node: Node) -> Node:
    if isinstance(node.value, list):
        return node._replace(value=[_as_texts(each) for each in node.value])
    if isinstance(node.value, dict):
        return node._replace(value={key: _as_texts(child) for key, child in node.value.items()})
    return node._replace(value=node.text) if node.text else node


def _has_ensembles(root: Node) -> bool:
    stages, streams = (section(root, name).values() for name in ("stages", "streams"))
    return any(each.child("members") for each in stages) or any(each.child("collect") for each in streams)


def _has_triggers(root: Node) -> bool:
    return any(each.child("when") for each in section(root, "stages").values())


def _expand(checked: Checked, library: Library) -> None:
    """Write out ensembles, then triggers: each member has its own."""

    def ports(stage: Node, side: Literal["reads", "writes"]) -> Collection[str]:
        return _port_names(stage, side, library)

    def take(expanded: Expanded) -> None:
        checked.origins = checked.origins.with_added(expanded.keys)
        checked.root, checked.problems = expanded.root, checked.problems + expanded.problems
        checked.members |= expanded.members
        checked.renamed |= expanded.renamed

    if _has_ensembles(checked.root):  # few pipelines pay for it
        from workflow.spec.ensembles import expand_ensembles

        take(expand_ensembles(checked.root, ports))
    if _has_triggers(checked.root):
        from workflow.spec.triggers import expand_triggers

        take(expand_triggers(checked.root, checked.members, ports))


def _port_names(stage: Node, side: Literal["reads", "writes"], library: Library) -> Collection[str]:
    """The names of a stage's ports, as far as they are known."""
    name = text_at(stage, "component")
    component = None if name is None else library.component(name)
    return ports_of(stage, component, "from" if side == "writes" else "to")[0]


def _with_expect(problem: Problem) -> Problem:
    """A figure of the report that stands beside `expect`: with the hint that it belongs there."""
    place, _, field = problem.key.rpartition(".")
    section = "run" if not place else place.partition(".")[0] if place.count(".") == 1 else ""
    if problem.message != "unknown key" or field not in FIGURES.get(section, {}):
        return problem
    return problem._replace(hint="a figure of the report: write it under `expect`")


def _check_component(
    root: Node, path: KeyPath, node: Node, base: Path, library: Library, checked: Checked
) -> Component | None:
    """The component of the stage or tap at `path`, with its parameters."""
    name = text_at(node, "component")
    if name is None:
        return None
    component = _known_component(root, (*path, "component"), name, library, checked)
    if component is None:
        return None
    for key in set(node.mapping()) & set(component.parameters) - set(keys_of(StageSpec)):
        hint = f"a parameter of component {name}: write it under `with`"
        at = key_text((*path, key))
        checked.problems = [each._replace(hint=hint) if each.key == at else each for each in checked.problems]
    given = node.child("with") or Node({}, node.place, node.key)
    if isinstance(given.value, dict):
        model = library.parameters_model(name, component)
        values, problems = check_parameters(
            component, model, component_dir(name, base), given, (*path, "with"), root, base
        )
        checked.parameters[str(path[-1])] = values
        checked.problems += problems
    return component


def _known_component(root: Node, at: KeyPath, name: str, library: Library, checked: Checked) -> Component | None:
    """The component of that name; a problem at `at` when there is none."""
    component = library.component(name)
    if component is not None:
        checked.components[name] = component
    elif f"component {name}" not in library.broken:
        checked.problems.append(problem_at(root, at, f"there is no component `{shortened(name)}`", suggestion(name)))
    return component


def _check_implicit_stages(root: Node, library: Library, checked: Checked) -> list[str]:
    """The names of the pipes, relays and spools that wf will add; none while the schema is not met."""
    spec = checked.spec
    if spec is None:
        return []

    def engine_of(stream: str) -> Engine | None:
        return library.engine(spec.streams[stream].via)

    checked.problems += implicit_stage_problems(root, spec, engine_of)
    added = added_by_wf(spec, engine_of)
    for at in added.values():
        _known_component(root, at, RELAY, library, checked)
        library.engine(KEPT_VIA if at[-1] == "keep" else DEFAULT_VIA)
    return list(added)


def _check_engine(root: Node, stream: str, node: Node, library: Library | None, checked: Checked) -> None:
    given = node.child("via")
    via = StreamSpec.model_fields["via"].default if given is None else given.value
    if not isinstance(via, str):
        return
    if library is not None and via in library.engines:
        checked.engines[stream] = library.engines[via]
        return
    known = known_engines()
    if via not in known and via.lower() not in known:
        hint = REMOVED.get(f"via: {via.lower()}") or did_you_mean(via, known)
        hint = hint or f"engines: {listing(known)}; without `via` it is {DEFAULT_VIA}"
        checked.problems.append(
            problem_at(root, ("streams", stream, "via"), f"there is no engine `{shortened(via)}`", hint)
        )
    elif library is not None and (engine := library.engine(via)) is not None:
        checked.engines[stream] = engine


def _check_site(root: Node, base: Path, checked: Checked) -> None:
    name = text_at(root, "site")
    if name is None or name == AUTO_SITE or find_config("sites", name, base) is not None:
        return
    if is_path(name):
        message, hint = f"there is no file {shown(Path(name).name)}", path_mistake(name) or f"expected at {base / name}"
    else:
        known = known_configs("sites")
        message = f"there is no site `{shortened(name)}`"
        hint = did_you_mean(name, [*known, AUTO_SITE]) or f"sites: {listing(known)}, or the path of a file"
    checked.problems.append(problem_at(root, ("site",), message, hint))
