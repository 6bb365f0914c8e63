"""What every shipped component must offer, whatever it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workflow.spec.component_files import load_component_file
from workflow.spec.models.component import Component, Port

FOLDERS = sorted(path.parent for path in (Path(__file__).parents[2] / "components").glob("*/component.yaml"))


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: str(folder.name))
def folder(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


@pytest.fixture(scope="module")
def component(folder: Path) -> Component:
    return load_component_file(folder / "component.yaml")


def test_all_of_them_are_here() -> None:
    expected = {"lammps", "gray_scott", "synthetic", "scattering", "histogram", "archive", "plot", "null"}
    assert expected <= {folder.name for folder in FOLDERS}


def test_is_named_after_its_folder_and_says_what_it_does(folder: Path, component: Component) -> None:
    assert component.component == folder.name
    assert 10 < len(component.summary) < 140
    assert not component.summary.endswith(".")


def test_every_parameter_and_port_has_help(component: Component) -> None:
    assert all(parameter.help.strip() for parameter in component.parameters.values())
    ports: list[Port] = [*component.reads.values(), *component.writes.values()]
    assert ports
    assert all(port.help.strip() for port in ports)
    # What a component reads under a name of the user's choice is explained by the parameter.
    named = [(n, v) for port in ports for n, v in port.variables.items() if not n.startswith("$")]
    assert not [name for name, variable in named if not variable.help.strip()]


def test_ports_fit_the_kind(component: Component) -> None:
    sides = {"simulation": (False, True), "analysis": (True, True), "sink": (True, False)}
    assert (bool(component.reads), bool(component.writes)) == sides[component.kind]


def test_the_outputs_of_scattering_are_those_that_its_program_has() -> None:
    pytest.importorskip("finufft")
    from components.scattering.program import AXES

    outputs = load_component_file(FOLDERS[0].parent / "scattering" / "component.yaml").parameters["outputs"]
    assert outputs.choices == list(AXES)
    assert outputs.type == f"choice[{'|'.join(str(count + 1) for count in range(len(AXES)))}]"


def test_variables_named_after_parameters_name_real_ones(component: Component) -> None:
    for port in [*component.reads.values(), *component.writes.values()]:
        texts = [n for n in port.variables if n.startswith("$")]
        texts += [str(size) for v in port.variables.values() for size in v.shape or [] if str(size).startswith("$")]
        assert not [text for text in texts if text[1:] not in component.parameters]


def test_help_by_hand_names_every_parameter_and_port(folder: Path, component: Component) -> None:
    answer = subprocess.run(
        [sys.executable, folder / component.program, "--help"], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    assert not [name for name in component.parameters if f"--{name.replace('_', '-')}" not in answer.stdout]
    assert ("--read NAME" in answer.stdout, "--write NAME" in answer.stdout) == (
        bool(component.reads),
        bool(component.writes),
    )


def test_a_wrong_option_is_refused_with_the_usage(folder: Path, component: Component) -> None:
    answer = subprocess.run(
        [sys.executable, folder / component.program, "--nonsense", "1"], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 2
    assert "usage:" in answer.stderr
    assert "Traceback" not in answer.stderr
