"""Finds and reads `component.yaml` files. Mistakes in such a file are reported with their place in it."""

from __future__ import annotations

from pathlib import Path

from workflow.errors import SpecError, WfError
from workflow.spec import shipped
from workflow.spec.component_parameters import check_declaration
from workflow.spec.models.component import Component
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.user_paths import is_file, path_mistake
from workflow.spec.validation_messages import problem_at, validated
from workflow.spec.yaml_tree.parse import read_yaml

_FILE = "component.yaml"


def known_components() -> list[str]:
    """Names of all components, sorted."""
    return sorted({file.parent.name for folder in shipped.COMPONENT_DIRS for file in folder.glob(f"*/{_FILE}")})


def load_component(name: str, base: Path = Path()) -> Component:
    """The component of that name, or in that folder (see `component_dir`).

    Raises:
        WfError: there is none of that name.
        SpecError: its component.yaml is wrong.
    """
    return load_component_file(component_dir(name, base) / _FILE)


def component_dir(name: str, base: Path = Path()) -> Path:
    """The folder of a component, absolute.

    A name with a slash, such as `./spectrum`, is a folder of the user's own, relative to `base`; any other is one
    of those that come with wf. Raises WfError when there is none.
    """
    if "/" in name:
        if is_file(base / name / _FILE):
            return (base / name).resolve()
        raise WfError(f"there is no {_FILE} in {shortened(name)}", "a component of your own is a folder with that file")
    for folder in shipped.COMPONENT_DIRS:
        if is_file(folder / name / _FILE):
            return (folder / name).absolute()
    raise WfError(f"there is no component `{shortened(name)}`", suggestion(name))


def suggestion(name: str) -> str:
    """What to type instead of an unknown component."""
    if mistake := path_mistake(name):
        return f"{mistake}: shorten it"
    if "/" in name:
        return f"a component of your own is a folder with a {_FILE}, relative to the pipeline file"
    return did_you_mean(name, known_components()) or f"components: {listing(known_components())}"


def load_component_file(path: Path) -> Component:
    """A component by its file. Raises SpecError with all that is wrong in it."""
    node = read_yaml(path)[0]
    component, problems = validated(Component, node)
    if component is None:
        raise SpecError(problems)
    if component.component != path.absolute().parent.name:
        message = f'expected "{path.absolute().parent.name}", the name of its folder, got "{component.component}"'
        problems.append(problem_at(node, ("component",), message, "rename one of them"))
    for name, parameter in component.parameters.items():
        at = ("parameters", name)
        problems += [problem_at(node, at, message, hint) for message, hint in check_declaration(parameter)]
    if not is_file(path.parent / component.program):
        message = f"there is no `{shortened(component.program)}` beside it"
        problems.append(problem_at(node, ("program",), message, "write the program"))
    if problems:
        raise SpecError(problems)
    return component
