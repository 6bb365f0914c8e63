"""What each stage can read and write: ports of components and of programs of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workflow.formats.sides import Side
from workflow.plan.problems import Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.spec.models.component import Port, PortVariable
from workflow.spec.models.config_dialect import Dialect
from workflow.spec.models.pipeline import ProgramPort

KEY_OF_SIDE: dict[Side, str] = {"read": "reads", "write": "writes"}


@dataclass(frozen=True)
class StagePort:
    """One place of a stage where a stream can be joined.

    `variables` is None where nothing is known of the data: a port that takes anything, or a program that
    declares nothing. `implied` ports were not declared: they are named after their stream. `shares`: each rank
    reads its share by the stream's strategy, `once` by one that gives every element to one rank.
    """

    stage: str
    side: Side
    name: str
    variables: dict[str, PortVariable] | None
    io: str
    config: str | None = None
    dialect: Dialect | None = None
    optional: bool = False
    many: bool = False
    implied: bool = False
    shares: Literal["once", "any"] | None = None

    @property
    def end(self) -> str:
        """The name for messages and for `from:`/`to:`."""
        return f"{self.stage}.{self.name}"


@dataclass
class StagePorts:
    """All ports of a stage, by name."""

    read: dict[str, StagePort] = field(default_factory=dict)
    write: dict[str, StagePort] = field(default_factory=dict)

    def on(self, side: Side) -> dict[str, StagePort]:
        """The ports of one side."""
        return self.read if side == "read" else self.write


def stage_ports(stage: DeclaredStage, problems: Problems) -> StagePorts:
    """The ports of one stage. Variables named `$parameter` get their names."""
    return StagePorts(
        read=_ports(stage, "read", stage.spec.reads, problems),
        write=_ports(stage, "write", stage.spec.writes, problems),
    )


def _ports(
    stage: DeclaredStage, side: Side, of_program: Mapping[str, ProgramPort], problems: Problems
) -> dict[str, StagePort]:
    """The ports of one side; `of_program` are those of a `command:`."""
    if stage.component is None:
        return {name: _program_port(stage.name, side, name, port) for name, port in of_program.items()}
    declared = stage.component.reads if side == "read" else stage.component.writes
    return {
        name: StagePort(
            stage.name,
            side,
            name,
            _component_variables(stage.name, port, stage.parameters, problems),
            io=name,
            optional=port.optional,
            many=port.many,
            shares=port.shares,
        )
        for name, port in declared.items()
    }


def _program_port(stage: str, side: Side, name: str, port: ProgramPort) -> StagePort:
    variables = {key: PortVariable(**dict(value)) for key, value in port.variables.items()}
    config = port.config
    if port.spoken == "env":
        config = None
    elif port.spoken == "picongpu" and config is None:
        config = f"openPMD-{name}.json"
    has_own_io = port.io is not None or port.spoken is not None  # else it is opened through workflow.stage
    return StagePort(
        stage, side, name, variables or None, io=port.io or name, config=config, dialect=port.spoken,
        shares=None if has_own_io else "any",
    )  # fmt: skip


def _component_variables(
    stage: str, port: Port, parameters: Mapping[str, Any], problems: Problems
) -> dict[str, PortVariable] | None:
    """Variables with `$parameter` names and sizes resolved; None for a port that takes anything."""
    if port.any and not port.variables:
        return None
    resolved: dict[str, PortVariable] = {}
    for written, variable in port.variables.items():
        if variable.shape is not None:
            shape = [_size(entry, parameters) for entry in variable.shape]
            variable = variable.model_copy(update={"shape": shape})
        if not written.startswith("$"):
            resolved[written] = variable
        elif written[1:] not in parameters:
            problems.add(
                f"stages.{stage}.component",
                f"its component.yaml names a variable after `{written}`, which is none of its parameters",
                "this is a mistake of the component",
            )
        else:
            resolved.update(dict.fromkeys(_names(parameters[written[1:]]), variable))
    return resolved


def _names(value: Any) -> list[str]:
    """The variable names that a parameter's value stands for: one, several or none."""
    return [str(item) for item in value] if isinstance(value, list) else [str(value)] if value not in (None, "") else []


def _size(entry: int | str, parameters: Mapping[str, Any]) -> int | str:
    """A `$parameter` size as its number; other sizes unchanged."""
    if isinstance(entry, str) and entry.startswith("$"):
        value = parameters.get(entry[1:])
        return value if isinstance(value, int) and not isinstance(value, bool) else entry[1:]
    return entry
