"""What the user wrote: the pipeline file as frozen models. Unknown keys are refused.

These models hold no decisions: how a stream is wired or a stage is launched is decided in `workflow.plan`.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from workflow.engines import DEFAULT_VIA
from workflow.spec.models.allocation_request import AllocationOrNone
from workflow.spec.models.deadlines import Deadlines as Deadlines
from workflow.spec.models.ensembles_and_triggers import Collect, EnsembleOrShort, When
from workflow.spec.models.stage_policies import (
    NAMELESS,
    WRITE_ONLY,
    AggregationPolicy,
    Checkpoint,
    Compression,
    Dialect,
    FailureRule,
    FailureRuleOrWord,
    KeepOrBool,
    Memory,
    MemoryOrBool,
    OrShort,
    SteeredValue,
    dialect_of,
)
from workflow.spec.models.units import MOST_CORES, MOST_RANKS, MOST_STEPS, Nodes, RankCount, Size
from workflow.spec.models.units import NAME as NAME
from workflow.spec.models.units import Name as Name
from workflow.spec.models.units import Scalar as Scalar
from workflow.spec.models.units import Spec as Spec
from workflow.sst_transports import WantedTransport

# `stage` or `stage.port`
EndName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)?$")]
# A component that comes with wf, or the folder of one's own: `./spectrum`, relative to the pipeline file.
ComponentName = Annotated[str, StringConstraints(pattern=r"^([A-Za-z][A-Za-z0-9_-]{0,62}|[^\s]*/[^\n]*)$")]
# The site is chosen by where wf runs.
AUTO_SITE = "auto"
# Figure of the report → condition, of which workflow.spec.expectations knows all.
Expectations = dict[str, Any]
ProofPolicy = Literal["strict", "warn", "off"]
# What is proved. A placement that is not as planned is slow, a stream that does not cross hangs.
ProofAspect = Literal["placement", "binding", "directory", "streams"]
# Who reads which of the writer's blocks (workflow.distribution).
ReadStrategy = Literal[
    "auto", "hostname", "hostname:binpacking", "hostname:round-robin", "hostname:blocks",
    "binpacking", "round-robin", "blocks", "hyperslab", "all",
]  # fmt: skip


# Those that launchers pass on to all ranks.
StopSignal = Literal["USR1", "USR2", "TERM", "INT", "HUP", "ALRM", "URG"]


class SubmittersVariable(Spec):
    """A variable of the environment that `wf run` was started in."""

    env: str = Field(min_length=1, description="its name")


class Secret(Spec):
    """A value that is read when the stage starts, and that no file of the run contains."""

    secret: Annotated[str, StringConstraints(min_length=1)] | SubmittersVariable = Field(
        description="the file that holds it, relative to the pipeline file, or `{env: NAME}`: a variable of the "
        "environment that `wf run` was started in"
    )


# The value of an environment variable.
EnvValue = Scalar | Secret


class TypeAndShape(Spec):
    """What both ends of a stream may rely on for one variable."""

    type: str | None = Field(None, description="`float64`, `int32`, …, or a family: `float`, `int`, `number`")
    shape: list[int | str] | None = Field(
        None, description="one entry per dimension: a size, or a name where the size varies; [] is a scalar"
    )


class Variable(TypeAndShape):
    """One variable of a stream: what both ends may rely on, and its unit."""

    unit: str = Field(
        "",
        examples=["angstrom/ps"],
        description="unit of its values, for pictures, archives and the report; a unit in the data takes precedence",
    )


class StagePlace(Spec):
    """Where the ranks of a stage go."""

    nodes: Nodes | None = Field(None, description="number of nodes (default: as few as fit)")
    ranks_per_node: RankCount | None = Field(
        None, description="number of ranks on each node (default: what `nodes` requires, otherwise as many as fit)"
    )
    cores_per_rank: Annotated[int, Field(ge=0, le=MOST_CORES)] | None = Field(
        None,
        description="cores for each rank; 0: the stage gets no cores of its own (default: 0 for sinks, otherwise 1)",
    )
    threads_per_rank: Annotated[int, Field(ge=1, le=MOST_CORES)] | None = Field(
        None, description="OMP_NUM_THREADS; by default `cores_per_rank` for components, and not set for a command"
    )
    gpus_per_rank: int = Field(0, ge=0, le=MOST_CORES, description="GPUs that each rank has for itself")
    near: Literal["l3", "numa", "gpu", "none"] | None = Field(
        None,
        description="where a rank's cores should be, if they fit: in one L3 cache or NUMA domain, or nearest to its "
        "GPUs (default: gpu for ranks with GPUs, else l3, else numa)",
    )
    nic: str = Field(
        "auto",
        min_length=1,
        description="network adapter of a rank for SST's RDMA. auto: the one nearest to its GPU or its cores; none: "
        "libfabric chooses; or the name of one",
    )
    order: Literal["pack", "spread"] = Field(
        "pack",
        description="pack: the ranks of a node use its lowest cores; spread: they are distributed evenly over the node",
    )
    share: Name | None = Field(None, description="another stage, whose nodes this stage uses too, on other cores")


class Pipe(Spec):
    """The stage that writes the files of another one (`async: pipe`)."""

    ranks: int = Field(
        1,
        ge=1,
        le=MOST_RANKS,
        description="MPI ranks that write; more than one is useful only with an ADIOS2 built with MPI",
    )
    place: StagePlace = Field(
        default_factory=lambda: StagePlace(),
        description="by default on the nodes of the writer, without cores of its own",
    )


class OutputPolicy(Spec):
    """Policies of what a stage writes."""

    aggregation: AggregationPolicy | None = Field(
        None, description="aggregators of file streams: `auto`, or a mapping (default: one per node)"
    )
    async_: Literal["off", "guided", "naive", "pipe"] = Field(
        "off",
        alias="async",
        description="overlap file writing with computing: BP5's AsyncWrite (guided, naive); or pipe: a stage that wf "
        "adds receives the steps in memory and writes the files",
    )
    compression: Compression = Field(
        {},
        examples=[{"*": {"blosc": {"codec": "zstd"}}}],
        description="operators, per variable of what is written",
    )
    files: Literal["one", "each_step"] = Field(
        "one", description="for BP files: all steps in one output, or an output for each step"
    )
    pipe: Pipe = Field(default_factory=lambda: Pipe(), description="the stage that `async: pipe` adds")


class ProgramPort(Spec):
    """One input or output of the user's program, and how the program gets its engine.

    An empty one, `{}`, is a port that the program opens through `workflow.stage`.
    """

    io: str | None = Field(
        None,
        description="the name that the program gives to DeclareIO; for WarpX the name of the diagnostic; openPMD "
        "programs and those "
        "that use workflow.stage have none",
    )
    config: str | None = Field(
        None,
        description="where wf writes the engine and its parameters: a file in the stage's directory, `*.xml` or "
        "`*.yaml` for ADIOS2, `*.json` or `*.toml` for openPMD-api; or `env` for openPMD-api's environment variables",
    )
    dialect: Dialect | None = Field(
        None,
        description="how it is written, where the name of `config` does not imply it: `warpx` adds lines to the deck "
        "`config` of `files:`, `picongpu` adds arguments to the command",
    )
    path: str | None = Field(
        None,
        min_length=1,
        examples=["output.bp"],
        description="the name that the program opens, where it is fixed in its source or input: relative to the "
        "directory of the stage, in which it is started",
    )
    variables: dict[str, Variable] = Field({}, description="what the program reads or writes there")

    @property
    def is_told(self) -> bool:
        """Whether the program opens it without `workflow.stage`."""
        return self.io is not None or self.spoken is not None or self.path is not None

    @property
    def spoken(self) -> Dialect | None:
        """The dialect, given or implied by the name of the config."""
        return self.dialect or (dialect_of(self.config) if self.config is not None else None)

    @model_validator(mode="after")
    def _whole(self) -> "ProgramPort":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        said = dialect_of(self.config) if self.config is not None else None
        # PIConGPU's file is openPMD's JSON; the other words have no file of that kind.
        if self.dialect and said and self.dialect != said and (self.dialect, said) != ("picongpu", "openpmd.json"):
            raise ValueError(f"`config: {self.config}` implies dialect {said}, not {self.dialect}; remove one")
        if self.dialect == "env" and self.config not in (None, "env"):
            raise ValueError("dialect env has no config file; remove `config`")
        if self.dialect == "warpx" and self.config is None:
            raise ValueError("config is missing; name the deck of `files:` that gets the lines: `config: inputs`")
        if self.dialect not in (None, "env", "picongpu") and self.config is None:
            raise ValueError(f"config is missing; name the file that the program reads: `config: {self.dialect}`")
        if self.path is not None and self.dialect in WRITE_ONLY:
            raise ValueError(f"wf tells {self.dialect} which name it writes; remove `path`")
        if self.io is not None and self.spoken in NAMELESS:
            raise ValueError("openPMD-api names its own IOs, so that io has no effect; remove `io`")
        if self.io is None and self.spoken == "warpx":
            raise ValueError("io is missing; give the name of the diagnostic: `io: diag1`")
        if self.io is None and self.spoken is not None and self.spoken not in NAMELESS:
            raise ValueError("io is missing; add `io: NAME`, the name that the program gives to DeclareIO")
        return self


class StageSpec(Spec):
    """One program of a pipeline with its ranks."""

    component: ComponentName | None = Field(
        None,
        description="a component that comes with wf (`wf components` lists them), or the folder of your own one: "
        "`./mine`",
    )
    command: list[Scalar] | None = Field(
        None,
        examples=[["python", "${{ pipeline.dir }}/analysis.py"]],
        description="any program and its arguments; it is started unchanged",
    )
    with_: dict[str, Any] = Field({}, alias="with", description="the component's parameters")
    ranks: RankCount = Field(1, description="MPI ranks")
    place: StagePlace = Field(default_factory=lambda: StagePlace(), description="where the ranks go")
    members: EnsembleOrShort | None = Field(
        None,
        examples=[4],
        description="the stage several times, as the members of an ensemble: a number, a list of the values of each, "
        "or `{matrix: {NAME: [VALUE, …]}}`; `${{ member.index }}` and `${{ member.NAME }}` stand for them",
    )
    when: When | None = Field(
        None,
        examples=[{"stream": "field", "variable": "V", "max": "> 0.9", "before": 5, "after": 10}],
        description="the steps of a stream that the stage gets: those around an event, and no others (default: all)",
    )
    output: OutputPolicy = Field(
        default_factory=lambda: OutputPolicy(), description="policies of the files that the stage writes"
    )
    writes: dict[Name, ProgramPort] = Field({}, examples=[{"field": {}}], description="ios that the command writes")
    reads: dict[Name, ProgramPort] = Field({}, examples=[{"field": {}}], description="ios that the command reads")
    files: dict[str, str] = Field(
        {},
        examples=[{"input.txt": "input.txt"}],
        description="files to put into the stage's directory: name there → file here, placeholders filled",
    )
    env: dict[str, EnvValue] = Field(
        {},
        examples=[{"OMP_NUM_THREADS": 4}],
        description="environment variables; a secret is a reference: `{secret: FILE}` or `{secret: {env: NAME}}`",
    )
    memory: MemoryOrBool = Field(
        default_factory=lambda: Memory(),
        description="memory policy of its processes; on by default for stages with streams, if the site supports it",
    )
    expect: Expectations = Field(
        {},
        description="figure of its report → condition, `{steps: 41}`; if one is not met, `wf run` exits with 3",
    )
    stop_signal: StopSignal | None = Field(
        None,
        description="signal that the program receives when the run is stopped, because its allocation ends soon or "
        "another stage has failed: for programs that then write a checkpoint and end (default: none; programs that "
        "use workflow.stage end by themselves)",
    )

    on_failure: FailureRuleOrWord = Field(
        default_factory=lambda: FailureRule(),
        description="what follows when the stage fails: `stop` (default), `restart`, `ignore`, or a mapping",
    )

    checkpoint: Checkpoint | None = Field(
        None,
        description="what the program saves, so that a run that has ended goes on there by `wf resume` (default: a "
        "stage that saves its state does so only for `on_failure: restart`)",
    )

    steer: dict[Name, SteeredValue] = Field(
        {},
        examples=[{"feed": {}}],
        description="values that can be changed while the stage runs, by name: `wf set RUN stages.STAGE.steer.NAME=…`; "
        "of a component those that its component.yaml names can, and need not stand here",
    )

    @property
    def uses_stage(self) -> bool:
        """Whether the program opens its streams through `workflow.stage`, as components and ports without io do."""
        ports = [*self.reads.values(), *self.writes.values()]
        return self.component is not None or (bool(ports) and not any(port.is_told for port in ports))

    @model_validator(mode="after")
    def _one_program(self) -> "StageSpec":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        if self.component is not None and self.command is not None:
            raise ValueError("component and command are both given; keep one of them")
        if self.component is None and self.command is None:
            if "component" in self.model_fields_set:
                raise ValueError('`component: null` is no name in YAML; write `component: "null"` to use that one')
            raise ValueError("what it runs is missing; add `component: NAME` (`wf components`) or `command: [PROGRAM]`")
        if self.component is not None and (self.writes or self.reads):
            raise ValueError("writes and reads are for a command; remove them: a component declares its own ports")
        if self.command is not None and self.with_:
            raise ValueError("with is for a component; put the arguments of a command into the command")
        if self.command == []:
            raise ValueError("the command is empty; write `command: [PROGRAM, ARGUMENT]`")
        if self.checkpoint is not None and self.uses_stage and self.checkpoint.files is not None:
            raise ValueError(
                "checkpoint.files is for programs without workflow.stage; keep `checkpoint: {every: 60 s}`"
            )
        if self.checkpoint is not None and not self.uses_stage and self.checkpoint.files is None:
            raise ValueError("the program is no workflow.stage program; add `files`, `outputs` and `command`")
        return self

    @model_validator(mode="after")
    def _steerable(self) -> "StageSpec":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        for name, each in self.steer.items():
            if self.component is not None and each.model_fields_set - {"at"}:
                raise ValueError(
                    f"steer.{name}: value, bounds and unit are those of the component's parameter; keep `at` only"
                )
            if self.component is None and each.value is None:
                raise ValueError(f"steer.{name}: its value at the start is missing; add `value: 0.03`")
            if self.component is None and self.uses_stage and each.file is not None:
                raise ValueError(f"steer.{name}: file is for programs without workflow.stage; use `stage.steered`")
            if self.component is None and not self.uses_stage and each.file is None:
                raise ValueError(
                    f"steer.{name}: the program is no workflow.stage program; name the file that it reads: "
                    "`file: control.txt`"
                )
        files = [each.file for each in self.steer.values() if each.file is not None]
        if twice := next((each for each in files if files.count(each) > 1), None):
            raise ValueError(f"steer: two values would be written to {twice}; give each a file of its own")
        return self


class ProofByAspect(Spec):
    """What happens if ranks or streams differ from the plan, by aspect. Aspects that are not named are `strict`."""

    placement: ProofPolicy = Field("strict", description="ranks that did not start, and ranks on other nodes")
    binding: ProofPolicy = Field("strict", description="cores, GPUs and NUMA domains of the ranks")
    directory: ProofPolicy = Field(
        "strict", description="nodes that do not see the run directory, or see its changes late"
    )
    streams: ProofPolicy = Field(
        "strict", description="live streams whose steps do not arrive, or that use another transport"
    )


def proof_policy(proof: ProofPolicy | ProofByAspect, aspect: ProofAspect) -> ProofPolicy:
    """What is done about one aspect. `proof: warn` is said of ranks: a stream that does not cross ends the run unless
    `streams` was named."""
    if isinstance(proof, ProofByAspect):
        return getattr(proof, aspect)  # type: ignore[no-any-return]
    return "strict" if proof == "warn" and aspect == "streams" else proof


class Queue(Spec):
    """Steps that a writer may hold for slow readers."""

    limit: int = Field(2, ge=1, le=MOST_STEPS, description="steps; memory of the writer is (limit + 1) steps")
    when_full: Literal["block", "discard"] = Field(
        "block", description="block: the writer waits; discard: the newest step is dropped, and counted"
    )


class TapQueue(Queue):
    """Steps that are held for a tap."""

    when_full: Literal["block", "discard"] = Field(
        "discard",
        description="discard: the newest step is dropped for the tap, and counted; block: the other "
        "stages wait for the tap (default for streams through files, where only wf's relay waits)",
    )


class Tap(Spec):
    """An additional reader of a stream. The stages of the stream stay unchanged, and are not slowed down by default."""

    component: ComponentName = Field(
        description="the component that reads: plot, archive, null, …, or the folder of your own one"
    )
    with_: dict[str, Any] = Field({}, alias="with", description="the component's parameters")
    every: int = Field(1, ge=1, le=MOST_STEPS, description="it receives every Nth step, beginning with the first")
    required: bool = Field(
        False, description="the run fails if the tap fails; by default the run continues, with a warning"
    )
    latest: bool = Field(False, description="each read returns the newest step; older steps are dropped, and counted")
    queue: TapQueue = Field(default_factory=lambda: TapQueue(), description="steps that are held for the tap")
    ranks: RankCount = Field(1, description="MPI ranks")
    place: StagePlace = Field(default_factory=lambda: StagePlace(), description="where the ranks go")
    env: dict[str, EnvValue] = Field(
        {},
        examples=[{"OMP_NUM_THREADS": 4}],
        description="environment variables; a secret is a reference: `{secret: FILE}` or `{secret: {env: NAME}}`",
    )
    memory: MemoryOrBool = Field(default_factory=lambda: Memory(), description="memory policy of its processes")

    @model_validator(mode="after")
    def _one_queue(self) -> "Tap":
        if self.latest and "queue" in self.model_fields_set:
            raise ValueError("`latest` keeps no older steps; remove `queue`, or remove `latest`")
        return self


class StreamSpec(Spec):
    """A named connection that transfers data in steps from one stage to one or more others."""

    from_: EndName = Field(alias="from", description="the writing stage, or `stage.port`")
    to: Annotated[list[EndName], Field(min_length=1)] | EndName = Field(
        description="the reading stage or stages, or `stage.port`"
    )
    collect: Collect | None = Field(
        None,
        description="of a stream from the members of an ensemble. each: every member has a reader of its own; any: one "
        "reader gets the steps of all members as they come; all: one reader gets the same step of all members at once; "
        "`{groups: N}`: N readers, each as by `any`; neighbour: member i is read by member i of a stage with as many "
        "members of its own; `{neighbour: N}`: by member i + N, in a circle",
    )
    via: str = Field(
        DEFAULT_VIA,
        description="engine or preset from configs/engines: sst (which `transport: auto` may replace by shared "
        "memory), bp5, bp4, hdf5, file, …; without it, members whose streams `collect` merges write BP5 files",
    )
    coupling: Literal["live", "after"] | None = Field(
        None, description="live: read while it is written; after: read when the writer has ended. Default by engine"
    )
    closes_circle: bool = Field(
        False,
        description="of a stream that leads back to a stage before its writer: that their programs open the streams of "
        "the circle in an order in which none waits for another one; programs that use workflow.stage need no word",
    )
    queue: Queue = Field(default_factory=lambda: Queue(), description="steps that the writer may hold for slow readers")
    transport: WantedTransport = Field(
        "auto",
        description="how SST moves data. auto: the fastest that the placement and this machine's ADIOS2 allow, on one "
        "node shared memory (`shm`) where all programs use workflow.stage; any other: that one, or the run fails. It "
        "holds for the streams to a pipe and to taps, too, also those of a file",
    )
    interface: str | None = Field(
        None, description="network interface whose address SST gives its readers, e.g. ib0 (default: site's)"
    )
    strategy: ReadStrategy = Field(
        "auto",
        description="which rank of a reading stage reads what, for programs that can work on any share (`step.share` "
        "of workflow.stage). auto: chosen by the nodes and numbers of ranks",
    )
    step_size: Annotated[Size, Field(ge=1)] | None = Field(
        None,
        description="bytes of one step of all ranks: with it the queue's memory is compared with the node's",
    )
    keep: KeepOrBool | None = Field(
        None,
        description="which of its steps can be read again, by readers that are started again (`on_failure: restart`), "
        "by `wf attach`, and after the run. true: all; false: none; `{steps: 64}`: the newest ones, of a stream in "
        "memory; `{where: /dev/shm}`: in the memory of a node (default: true for files, false for streams in memory)",
    )
    parameters: dict[str, Scalar] = Field({}, description="engine parameters, checked against the engine's list")
    variables: dict[str, Variable] = Field({}, description="contract that both ends must meet")
    expect: Expectations = Field(
        {},
        description="figure of its report → condition, `{steps: 41}`; if one is not met, `wf run` exits with 3",
    )
    tap: dict[Name, Tap] = Field(
        {},
        examples=[{"picture": {"component": "plot"}}],
        description="additional readers, which do not slow down the others (unless `queue: {when_full: block}` is "
        "set for one)",
    )

    @property
    def readers(self) -> list[str]:
        """The ends that read, always as a list."""
        return self.to if isinstance(self.to, list) else [self.to]

    @property
    def keeps_file(self) -> bool:
        """Whether its file, if it goes through one, stays after the run."""
        return self.keep is None or self.keep.steps != 0


class PipelineParameter(Spec):
    """A value of the pipeline that can be changed from outside: `${{ params.NAME }}` stands for it."""

    value: Scalar = Field(description="its default; a value that replaces it must have the same type")
    unit: str = Field("", examples=["m"], description="of the value, for people")
    minimum: int | float | None = Field(None, description="least value allowed, of a number")
    maximum: int | float | None = Field(None, description="largest value allowed, of a number")
    text: str = Field("", examples=["edge of the grid"], description="what it is, for people")

    @model_validator(mode="after")
    def _bounds(self) -> "PipelineParameter":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not is_number and (self.minimum, self.maximum) != (None, None):
            raise ValueError("only numbers have bounds; give a number as `value`, or remove minimum and maximum")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}; exchange them")
        return self


def _parameter(value: Any) -> Any:
    """A value stands for `{value: …}`."""
    if isinstance(value, bool | int | float | str):
        return {"value": value}
    if not isinstance(value, dict):
        raise ValueError("expected text, a number, true or false, or a mapping with the key `value`; "
                         "for example `{value: 32, unit: m}`")  # fmt: skip
    return value


_SCALARS = [{"type": kind} for kind in ("boolean", "integer", "number", "string")]
ParameterOrValue = Annotated[PipelineParameter, BeforeValidator(_parameter), OrShort(*_SCALARS)]


class PipelineSpec(Spec):
    """Stages plus the streams between them."""

    wf: Literal[1] = Field(description="version of this file format")
    name: Name = Field(description="the prefix of the names of its run directories")
    description: str = Field("", description="for people")
    site: str = Field(
        "local",
        min_length=1,
        description="machine description: a name from configs/sites, the path of a file, or `auto`: the known site "
        "that this machine belongs to, otherwise the nodes of the current batch job, otherwise this machine",
    )
    oversubscribe: bool = Field(False, description="allow more ranks than cores")
    params: dict[Name, ParameterOrValue] = Field(
        {},
        description="values that `--set params.NAME=VALUE`, profiles and campaigns can change, by name: `NAME: 32`; "
        "`${{ params.NAME }}` stands for it anywhere below",
    )
    stages: Annotated[dict[Name, StageSpec], Field(min_length=1)] = Field(
        description="the programs, by name: `NAME: {component: …}` or `NAME: {command: […]}`"
    )
    streams: dict[Name, StreamSpec] = Field(
        {}, description="the data between them, by name: `NAME: {from: STAGE, to: STAGE}`"
    )
    deadlines: Deadlines = Field(
        default_factory=lambda: Deadlines(), description="how long a run may go on without progress"
    )
    allocation: AllocationOrNone | None = Field(
        None, description="the job that wf submits, on a site with a scheduler: nodes, walltime, queue, …"
    )
    proof: ProofPolicy | ProofByAspect = Field(
        "strict",
        description="on several nodes, before the stages start: check that ranks run where the plan says and that "
        "steps of live streams arrive. strict: a difference ends the run; warn: it gives a warning, except for a "
        "stream whose steps do not arrive; off: no check; or by aspect: `{binding: warn}`",
    )
    expect: Expectations = Field(
        {},
        description='conditions on the run as a whole: figure of the report → condition, `{wall_s: "< 10 min"}`; if '
        "one is not "
        "met, `wf run` exits with 3",
    )
    share: Literal["none", "group"] = Field(
        "none", description="who else may read the run directory: none (mode 0700) or group (mode 0750)"
    )
    not_secret: list[str] = Field(
        [],
        examples=[["SORT_KEY"]],
        description="names of variables, options and parameters that look like secrets (`…KEY`, `…TOKEN`) but are not",
    )
    profiles: dict[Name, dict[str, Any]] = Field(
        {}, description="named overlays, chosen with --profile; `*` stands for every name"
    )
