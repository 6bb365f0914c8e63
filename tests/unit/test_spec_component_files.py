"""component.yaml files: the shipped ones are right, and mistakes in one are told with their place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from workflow.errors import SpecError, WfError
from workflow.spec import shipped
from workflow.spec.component_files import (
    check_parameters,
    complete_parameters,
    known_components,
    load_component,
    load_component_file,
    parameters_model,
)
from workflow.spec.validation_messages import validated
from workflow.spec.yaml_tree.node import Node, SourcePosition
from workflow.spec.yaml_tree.parse import parse_yaml

HEAD = "component: odd\nkind: sink\nsummary: s\n"


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "program.py").write_text("")
    return tmp_path / "odd" / "component.yaml"


def problems_of(path: Path, text: str) -> list[str]:
    path.write_text(HEAD + text)
    with pytest.raises(SpecError) as caught:
        load_component_file(path)
    return [f"{each.line}: {each.key}: {each.message}" for each in caught.value.problems]


@pytest.mark.parametrize("name", known_components())
def test_the_defaults_of_a_shipped_component_are_right(name: str) -> None:
    component = load_component(name)
    required = {key for key, parameter in component.parameters.items() if parameter.required}
    model = parameters_model(component)
    # Only what must be given is missing: no default was refused.
    try:
        model()
    except ValueError as error:
        assert {str(each["loc"][0]) for each in getattr(error, "errors")()} == required  # noqa: B009
    else:
        assert not required


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("{type: integer, help: h}", 'unknown type "integer"'),
        ("{type: 'bool[2]', help: h}", 'unknown type "bool[2]"'),
        (
            "{type: output, only_with: nothing, help: h}",
            "`only_with: nothing` is for an output, and names a parameter of type bool",
        ),
        ("{type: string, exclusive: true, help: h}", "`exclusive` is for an output"),
        ("{type: 'int[0]', help: h}", 'unknown type "int[0]"'),
        ("{type: 'int[1|]', help: h}", 'unknown type "int[1|]"'),
        ("{type: 'int[0|2|0]', help: h}", 'unknown type "int[0|2|0]"'),
        ("{type: 'int[1|01]', help: h}", 'unknown type "int[1|01]"'),
        ("{type: choice, help: h}", "choices are given for type choice, and only there"),
        ("{type: int, choices: [1, 2], help: h}", "choices are given for type choice, and only there"),
        ("{type: int, required: true, default: 1, help: h}", "a required parameter has no default"),
    ],
)
def test_declarations_that_make_no_sense(odd: Path, parameter: str, message: str) -> None:
    assert problems_of(odd, f"parameters:\n  n: {parameter}\n") == [f"5: parameters.n: {message}"]


def test_a_name_that_is_not_the_folders(odd: Path) -> None:
    odd.write_text(HEAD.replace("odd", "other"))
    with pytest.raises(SpecError, match='component: expected "odd", the name of its folder, got "other"'):
        load_component_file(odd)


def test_a_program_that_is_not_there(odd: Path) -> None:
    assert problems_of(odd, "program: main.py\n") == ["4: program: there is no `main.py` beside it"]


@pytest.mark.parametrize(
    ("component", "given", "message"),
    [
        ("gray_scott", {"size": [32, 32]}, "size: expected 1 or 3 values, got 2"),
        ("plot", {"axes": ["y"]}, "axes: expected 0 or 2 values, got 1"),
        ("scattering", {"outputs": ["spots"]}, "outputs[0]: expected `line`, `slice`, `powder` or `grid`"),
        ("scattering", {"outputs": []}, "outputs: expected 1, 2, 3 or 4 values, got 0"),
        ("synthetic", {"compute_time": 0.05}, "compute_time: expected a duration such as `10 min` or `30 s`"),
    ],
)
def test_shipped_components_state_the_form_of_their_parameters(
    component: str, given: dict[str, object], message: str
) -> None:
    _, problems = validated(parameters_model(load_component(component)), parse_yaml(json.dumps(given), "test"))
    assert [str(problem).partition(', got "')[0].split(": ", 2)[2].split("\n")[0] for problem in problems] == [message]


def test_a_duration_has_a_unit_also_as_the_default_of_a_component(odd: Path) -> None:
    for default in ("30", "'30'"):
        odd.write_text(HEAD + f"parameters:\n  wait: {{type: duration, default: {default}, help: h}}\n")
        component, given = load_component_file(odd), Node({}, SourcePosition("p.yaml"))
        model = parameters_model(component)
        _, problems = check_parameters(component, model, odd.parent, given, (), given, odd.parent)
        assert [(each.key, each.message) for each in problems] == [
            ("parameters.wait.default", 'expected a duration such as `10 min` or `30 s`, got "30"')
        ]
        assert "did you mean `30 s`, `30 min` or `30 h`?" in problems[0].hint
    assert complete_parameters(load_component("synthetic"), {"compute_time": "1 min"})["compute_time"] == 60
    for text in ("compute_time: 0", "compute_time: 0 s"):
        found, _ = validated(parameters_model(load_component("synthetic")), parse_yaml(text, "test"))
        assert found is not None and found.model_dump(by_alias=True)["compute_time"] == 0


def test_parameters_may_have_any_name(odd: Path) -> None:
    names = ["copy", "model_x", "schema", "_private", "validate", "class"]
    lines = [f"  {name}: {{type: int, default: 1, help: h}}\n" for name in names]
    odd.write_text(HEAD + "parameters:\n" + "".join(lines))
    model = parameters_model(load_component_file(odd))
    assert model.model_validate({"copy": 2}).model_dump(by_alias=True) == {**dict.fromkeys(names, 1), "copy": 2}


def test_an_unknown_component_brings_a_near_one() -> None:
    with pytest.raises(WfError, match=r"there is no component `lamps`\n  did you mean `lammps`"):
        load_component("lamps")


def test_an_example_is_copied_into_a_new_directory(tmp_path: Path) -> None:
    for name in shipped.known_examples():
        pipeline = shipped.copy_example(name, tmp_path / name)
        assert pipeline.is_file() and not (tmp_path / name / "runs").exists()
        links = re.findall(r"\]\(([^)#:]+)\)", (pipeline.parent / "README.md").read_text())
        assert [link for link in links if not (pipeline.parent / link).exists()] == [], "dead links"
    with pytest.raises(WfError, match="exists and is not empty"):
        shipped.copy_example("00-starter", tmp_path)
    with pytest.raises(WfError, match="did you mean `00-starter`"):
        shipped.copy_example("starter", tmp_path / "new")


def test_a_unit_is_text(odd: Path) -> None:
    ports = "reads:\n  a:\n    variables:\n      x: {type: float, unit: 5}\n"
    assert problems_of(odd, ports) == ["7: reads.a.variables.x.unit: expected text, got 5"]
