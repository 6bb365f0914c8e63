"""`component.yaml`: what a ready-made stage program takes, reads and writes, as frozen models.

Readable without importing the program, so `wf check` compares both ends of a stream on any laptop.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from workflow.spec.models.pipeline import Name, Scalar, Spec, Variable
from workflow.spec.models.units import MOST_STEPS, RankCount

# Types of parameters that can be changed while a program runs.
STEERABLE = ("int", "float", "bool", "string", "choice")


class Parameter(Spec):
    """One parameter of a component.

    `type` is `int`, `float`, `string`, `bool`, `duration` (`10 min`), `size` (`2 GiB`), `condition` (`> 0.9`),
    `choice`, `file` (read; relative to the pipeline file; must exist), `output` (written; relative to the run
    directory), or a list of `int`, `float`, `string` or `choice`: `int[3]` (exactly three), `int[1|3]` (one or three),
    `float[]` (any number).
    """

    type: str
    default: Any = None
    required: bool = False
    choices: list[Scalar] | None = None
    min: float | None = None
    max: float | None = None
    unit: str = ""
    only_with: str = Field("", description="of an output: the `bool` parameter without which nothing is written there")
    exclusive: bool = Field(
        False,
        description="of an output: a folder in which the names are fixed, so that no other stage may write there. "
        "A name with an ending is always that of one stage",
    )
    help: str


class PortVariable(Variable):
    """A variable of a port. A name written `$parameter` stands for the value of that parameter."""

    optional: bool = Field(False, description="written only with some parameters")
    help: str = ""


Treatment = Literal["kept", "used", "left out", "refused"]


class UnusualData(Spec):
    """What a program does with data that many programs do not write.

    kept: what it writes is the same; used: its values go into what it writes; left out: it does without, and goes on;
    refused: it ends, with the name of the variable and the step in its message. All other data are the same for every
    program that reads by `workflow.stage`: docs/reference/data-types.md.
    """

    local_blocks: Treatment = Field("refused", description="an array in local blocks, without a global shape")
    new_shape: Treatment = Field("refused", description="an array whose lengths differ from step to step")
    new_dimensions: Treatment = Field("refused", description="an array whose number of dimensions changes")
    absent: Treatment = Field("refused", description="a variable that comes late, is not in each step, or in one only")


class StepCount(Spec):
    """How many steps a component writes when it is not stopped, by its parameters: `first + of // every`."""

    of: str = Field(description="the parameter with the number of steps, or of time steps")
    every: str = Field("", description="the parameter with the time steps from one step to the next; empty: 1")
    first: int = Field(
        0, ge=0, le=MOST_STEPS, description="steps before that: 1 where the state at the start is written, too"
    )


class Port(Spec):
    """One stream end of a component. `any` ports accept any variables."""

    any: bool = False
    optional: bool = Field(False, description="the component also runs without a stream at this port")
    shares: Literal["once", "any"] | None = Field(
        None,
        description="each rank reads its share (`step.share`), so that `strategy:` has effect; once: not with `all`, "
        "because the program needs every element once",
    )
    many: bool = Field(False, description="several streams may be connected to this port")
    does_without: bool = Field(
        False, description="the program goes on without a writer at this port that has failed and is ignored"
    )
    variables: dict[str, PortVariable] = Field({})
    takes: UnusualData | None = Field(
        None, description="of a port that reads a stream, or writes what is in a file: what it does with unusual data"
    )
    steps: StepCount | None = Field(
        None, description="how many steps it writes; one that ends with fewer, without being stopped, has failed"
    )
    passes: str = Field(
        "",
        description="the port of which some steps are written here, with their variables; perhaps none for long",
    )
    bytes_per_rank: str = Field("", description="the parameter that says how many bytes a rank writes in a step, not 0")
    help: str = ""


class FileFormat(Spec):
    """One format of the files that a component writes."""

    suffixes: list[str] = Field([], description="suffixes of a file's name that select it")
    accepts: list[str] = Field([], description="further suffixes with which it may be chosen")
    needs: list[str] = Field([], description="Python modules that only this format needs")
    appends: bool = Field(False, description="a stage that is started again can add to such a file")
    takes: UnusualData | None = Field(None, description="what becomes of unusual data, if not as the port says")
    holds: Literal["particles", "fields", "grid"] | None = Field(
        None,
        description="particles: one species alone; fields: also arrays of 2 and 3 dimensions; grid: only the "
        "latter; default: any",
    )


class FileFormats(Spec):
    """The file that a component writes, by the names of the parameters that say where and how."""

    path: str = Field(description="the parameter with its name; the file must not exist yet")
    format: str = Field(description="the parameter that chooses a format; `auto`: by the suffix of the name")
    variables: str = Field(description="the parameter that lists the variables to write; empty: all")
    every: str = Field("", description="the parameter that says of how many steps one is written; empty: of each")
    formats: dict[str, FileFormat]


class Component(Spec):
    """A ready-made stage program."""

    component: Name
    kind: Literal["simulation", "analysis", "sink"]
    summary: str
    program: str = Field("program.py", description="relative to component.yaml")
    needs: list[str] = Field([], description="Python modules that the program imports")
    max_ranks: RankCount | None = Field(None, description="1 for a program that cannot be parallel")
    state: Literal["none", "saved", "accumulates"] | None = Field(
        None,
        description="what it keeps from one step to the next, and so how it goes on when it is started again "
        "(`on_failure: restart`). none: nothing, what it writes of a step depends on that step alone, and it goes on "
        "at the step where it was; saved: what it saves by `stage.State`, and it goes on there; accumulates: what is "
        "lost with it; default: not known, and it cannot be started again",
    )
    restart_from: Literal["first"] | None = Field(
        None,
        description="first: one that accumulates can be started again, reads from the first step and writes its files "
        "anew",
    )
    parameters: dict[str, Parameter] = Field({})
    steer: list[str] = Field(
        [], description="the parameters that can be changed while it runs: its program asks for them by `stage.steered`"
    )
    file_formats: FileFormats | None = None
    reads: dict[Name, Port] = Field({})
    writes: dict[Name, Port] = Field({})

    @model_validator(mode="after")
    def _restart_of_what_accumulates(self) -> "Component":
        if self.restart_from is not None and self.state != "accumulates":
            raise ValueError("restart_from: only for components that accumulate; add `state: accumulates`")
        return self

    @model_validator(mode="after")
    def _steerable(self) -> "Component":
        for name in self.steer:
            if name not in self.parameters or self.parameters[name].type not in STEERABLE:
                kinds = ", ".join(STEERABLE)
                raise ValueError(f"steer: no parameter {name} of type {kinds}; name one that there is")
        return self

    @model_validator(mode="after")
    def _known_parameters(self) -> "Component":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        counts = {name: port.steps for name, port in self.writes.items() if port.steps is not None}
        for name, steps in counts.items():
            for parameter in filter(None, (steps.of, steps.every)):
                if parameter not in self.parameters or self.parameters[parameter].type != "int":
                    raise ValueError(
                        f"writes.{name}.steps: no parameter {parameter} of type int; name one that there is"
                    )
        return self
