"""Components: their `component.yaml` files, found and read, and the parameters that these declare → checked values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from workflow.errors import Problem, SpecError, WfError
from workflow.spec import shipped
from workflow.spec.file_formats import format_problems
from workflow.spec.models.component import Component, Parameter
from workflow.spec.models.units import MOST_INTEGER, to_bytes, to_duration
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.user_paths import exists, is_file, path_mistake
from workflow.spec.validation_messages import problem_at, shown, validated
from workflow.spec.written_conditions import to_condition
from workflow.spec.yaml_tree.node import KeyPath, Node, key_text
from workflow.spec.yaml_tree.parse import read_yaml

_TYPE = re.compile(
    r"(int|float|string|bool|duration|size|condition|choice|file|output)(?:\[([1-9][0-9]*|[0-9]+(\|[0-9]+)+)?\])?"
)
_LISTABLE = ("int", "float", "string", "choice")


def check_parameters(
    component: Component, model: type[BaseModel], folder: Path, given: Node, at: KeyPath, root: Node, base: Path
) -> tuple[dict[str, Any], list[Problem]]:
    """All parameters of a component with defaults filled in, and all that is wrong with those given.

    Args:
        component, model, folder: the component, its `parameters_model`, and the folder of its files.
        given: the `with:` mapping, at path `at` of the file `root`.
        base: folder of the pipeline file; `file` parameters are relative to it, or else to `folder`.

    Returns:
        name → value: durations in seconds, sizes in bytes, files absolute, outputs as written.
    """
    problems = []
    for name in set(given.mapping()) - set(component.parameters):
        message = f"component {component.component} has no parameter `{shortened(name)}`"
        hint = did_you_mean(name, component.parameters) or f"its parameters: {listing(component.parameters, 20)}"
        problems.append(problem_at(root, (*at, name), message, hint, at_key=True))
    known = {name: child for name, child in given.mapping().items() if name in component.parameters}
    checked, wrong = validated(model, Node(known, given.place, given.key), at, root)
    if checked is None:
        defaults = {key_text((*at, name)): name for name in component.parameters if name not in given.mapping()}
        return {}, problems + [_blamed(each, defaults, component, folder) for each in wrong]
    values = checked.model_dump(by_alias=True)
    for name, parameter in component.parameters.items():
        if parameter.type == "output" and (mistake := path_mistake(values[name] or "")):
            message = f"{shown(values[name])} is not a valid file name"
            problems.append(problem_at(root, (*at, name), message, mistake))
        if parameter.type == "file" and values[name] is not None:
            path = _find(values[name], base, folder)
            if path is None:
                message = f"there is no file {shown(values[name])}"
                hint = path_mistake(values[name]) or f"relative paths start at {base}"
                problems.append(problem_at(root, (*at, name), message, hint))
            values[name] = str(path)
    problems += format_problems(component, values, root, at)
    return values, problems


def _blamed(problem: Problem, defaults: dict[str, str], component: Component, folder: Path) -> Problem:
    """A wrong default is the component's mistake, not the user's."""
    name = defaults.get(problem.key.partition("[")[0], "")
    if not name or component.parameters[name].required:
        return problem
    return Problem(str(folder / "component.yaml"), 0, 0, f"parameters.{name}.default", problem.message, problem.hint)


def json_schema(component: Component) -> dict[str, Any]:
    """The JSON Schema of the component's `with:` mapping."""
    return parameters_model(component).model_json_schema(by_alias=True)


def check_declaration(parameter: Parameter) -> list[tuple[str, str]]:
    """(message, hint) for everything that is wrong with a parameter's declaration."""
    match = _TYPE.fullmatch(parameter.type)
    lengths = [int(length) for length in re.findall("[0-9]+", parameter.type)]
    if match is None or ("[" in parameter.type and match[1] not in _LISTABLE) or len(set(lengths)) < len(lengths):
        kinds = "int, float, string, bool, duration, size, condition, choice, file, output, "
        kinds += "int[3], int[1|3], float[], string[], choice[]"
        hint = did_you_mean(parameter.type, kinds.split(", ")) or f"types: {kinds}"
        return [(f'unknown type "{parameter.type}"', hint)]
    if (match[1] == "choice") != bool(parameter.choices):
        return [("choices are given for type choice, and only there", "add `choices: [a, b]`, or change the type")]
    if parameter.required and parameter.default is not None:
        return [("a required parameter has no default", "remove one of them")]
    return []


class _Parameters(BaseModel):
    # A wrong default of a component must not reach its program.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True)


def parameters_model(component: Component) -> type[BaseModel]:
    """A model of the component's `with:` mapping."""
    # Fields have generated names: a parameter may be called `copy` or `model_x`.
    fields: dict[str, Any] = {}
    for number, (name, parameter) in enumerate(component.parameters.items()):
        annotation = _annotation(parameter)
        about = parameter.help + (f" [{parameter.unit}]" if parameter.unit else "")
        if parameter.required:
            fields[f"p{number}"] = (annotation, Field(alias=name, description=about))
        else:
            examples = [] if parameter.default is None else [parameter.default]
            info = Field(parameter.default, alias=name, description=about, examples=examples or None)
            # None is allowed only where it is the default: programs rely on the declared type.
            fields[f"p{number}"] = (annotation if examples else annotation | None, info)
    return create_model(component.component, __base__=_Parameters, **fields)


def complete_parameters(component: Component, given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a component that wf itself adds, defaults filled in."""
    return parameters_model(component).model_validate(given).model_dump(by_alias=True)


def _annotation(parameter: Parameter) -> Any:
    kind, _, lengths = parameter.type.rstrip("]").partition("[")
    limits: dict[str, Any] = {"ge": parameter.min, "le": parameter.max}
    if kind == "int":
        limits["le"] = MOST_INTEGER if parameter.max is None else parameter.max
        item: Any = Annotated[int, Field(**limits)]
    elif kind == "float":
        item = Annotated[float, Field(**limits)]
    elif kind == "duration":
        limits = {"ge": parameter.min or 0, "le": parameter.max}
        or_text = WithJsonSchema({"anyOf": [{"const": 0}, {"type": "string"}], "examples": ["10 min"]})
        item = Annotated[float, BeforeValidator(to_duration), Field(**limits), or_text]
    elif kind == "size":
        limits = {"ge": parameter.min or 0, "le": MOST_INTEGER if parameter.max is None else parameter.max}
        item = Annotated[int, BeforeValidator(to_bytes), Field(**limits), _or_text("integer", limits, "2 GiB")]
    elif kind == "condition":
        item = Annotated[str, BeforeValidator(_to_condition_text), _or_text("number", {}, "> 0.9")]
    elif kind == "choice":
        item = Literal[tuple(parameter.choices or [])]
    else:
        item = bool if kind == "bool" else str
    if "[" not in parameter.type:
        return item
    if not lengths:
        return list[item]
    counts = [int(length) for length in lengths.split("|")]
    in_schema = Field(json_schema_extra={"oneOf": [{"minItems": count, "maxItems": count} for count in counts]})
    return Annotated[list[item], AfterValidator(partial(_exactly, counts)), in_schema]


def _to_condition_text(given: Any) -> str:
    """With its operator; "" is no condition, the default of some.

    Raises ValueError also for a fraction without an operator: a computed value is seldom exactly that.
    """
    if given == "":
        return ""
    condition = to_condition(given, "")
    if not condition.value.is_integer() and not str(given).lstrip().startswith(condition.comparator):
        raise ValueError(f"expected an operator before {given}; for example `> {given}`, or `== {given}`")
    return condition.text


def _or_text(kind: str, limits: dict[str, Any], example: str) -> WithJsonSchema:
    """For editors: a number within limits, or a text with a unit."""
    words = {"ge": "minimum", "le": "maximum"}
    number = {"type": kind, **{words[key]: limit for key, limit in limits.items() if limit is not None}}
    return WithJsonSchema({"anyOf": [number, {"type": "string"}], "examples": [example]})


def _exactly(counts: list[int], values: list[Any]) -> list[Any]:
    if len(values) not in counts:
        *first, last = map(str, counts)
        raise ValueError(f"expected {', '.join(first)}{' or ' if first else ''}{last} values, got {len(values)}")
    return values


def _find(file: str, base: Path, folder: Path) -> Path | None:
    """The file, absolute; a component's own files are found by their names alone."""
    paths = ((where / os.path.expanduser(file)).absolute() for where in (base, folder))  # noqa: PTH111 (never raises)
    return next((path for path in paths if exists(path)), None)


# Finds and reads `component.yaml` files. Mistakes in such a file are reported with their place in it.

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
        other = component.parameters.get(parameter.only_with)
        if parameter.only_with and (other is None or other.type != "bool" or parameter.type != "output"):
            message = f"`only_with: {parameter.only_with}` is for an output, and names a parameter of type bool"
            problems.append(problem_at(node, at, message, "remove it, or name such a parameter"))
        if parameter.exclusive and parameter.type != "output":
            problems.append(problem_at(node, at, "`exclusive` is for an output", "remove it"))
    if not is_file(path.parent / component.program):
        message = f"there is no `{shortened(component.program)}` beside it"
        problems.append(problem_at(node, ("program",), message, "write the program"))
    if problems:
        raise SpecError(problems)
    return component
