"""The tables of `wf components`, and their columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workflow.formatting import NOTHING
from workflow.report.show.text_table import Column, Table, make_table, prose_column, text_column
from workflow.spec.models.component import Component, Parameter, Port, PortVariable

COMPONENT_COLUMNS: list[Column[Component]] = [
    text_column("component", lambda component: component.component),
    text_column("kind", lambda component: component.kind, gives_way=1),
    text_column("reads", lambda component: ", ".join(component.reads) or NOTHING),
    text_column("writes", lambda component: ", ".join(component.writes) or NOTHING),
    prose_column("what it does", lambda component: component.summary),
]


class ParameterRow(NamedTuple):
    """A parameter of a component."""

    name: str
    parameter: Parameter


PARAMETER_COLUMNS: list[Column[ParameterRow]] = [
    text_column("parameter", lambda row: row.name),
    text_column("type", lambda row: type_text(row.parameter)),
    text_column("default", lambda row: default_text(row.parameter)),
    prose_column("what it is", lambda row: row.parameter.help + unit_text(row.parameter.unit)),
]


class PortRow(NamedTuple):
    """A variable of a port; None stands for all variables of a port that takes any."""

    port: str
    help: str
    name: str
    variable: PortVariable | None


PORT_COLUMNS: list[Column[PortRow]] = [
    text_column("port", lambda row: row.port),
    text_column("variable", lambda row: row.name),
    text_column("type", lambda row: (row.variable and row.variable.type) or "any"),
    text_column("shape", lambda row: shape_text(row.variable)),
    prose_column("what it is", lambda row: row.help if row.variable is None else variable_text(row.variable)),
]


def component_table(components: Sequence[Component]) -> Table:
    """All components, one a row."""
    return make_table(COMPONENT_COLUMNS, components)


def parameter_table(component: Component) -> Table:
    """The parameters of a component."""
    return make_table(PARAMETER_COLUMNS, [ParameterRow(*item) for item in component.parameters.items()])


def port_table(ports: dict[str, Port]) -> Table:
    """The variables of a component's ports."""
    rows = []
    for name, port in ports.items():
        rows += [PortRow(name, port.help, "any", None)] if port.any else []
        rows += [PortRow(name, port.help, *item) for item in port.variables.items()]
    return make_table(PORT_COLUMNS, rows)


def type_text(parameter: Parameter) -> str:
    """`int[3]`, `str (coarse, fine)`."""
    choices = ", ".join(map(str, parameter.choices or ()))
    return f"{parameter.type} ({choices})" if choices else parameter.type


def default_text(parameter: Parameter) -> str:
    """`required`, `-`, or the value."""
    if parameter.required:
        return "required"
    return NOTHING if parameter.default is None else str(parameter.default)


def shape_text(variable: PortVariable | None) -> str:
    """`[N, 3]`, or `any`."""
    return "any" if variable is None or variable.shape is None else f"[{', '.join(map(str, variable.shape))}]"


def variable_text(variable: PortVariable) -> str:
    """`position of each atom [Å] (optional)`."""
    about = (variable.help + unit_text(variable.unit)).strip()
    return about + (" (optional)" if variable.optional else "")


def unit_text(unit: str) -> str:
    """` [Å]`, or nothing."""
    return f" [{unit}]" if unit else ""
