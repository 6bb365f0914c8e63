"""The plan: everything decided, as data. It is read from and written to JSON, and has no effects.

Paths inside the run directory start with the one placeholder that is left, `${{ run.dir }}`: the plan of a dry run and
of the run that follows are therefore the same bytes, but for the texts of the user's `files:`, which plan.json does not
keep (decision 49). Nodes are indices: `launch` puts in the hosts at the start.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from workflow.conditions import Comparator
from workflow.engines import NODE_VIA, EngineTraits, traits_of
from workflow.formats.sides import OnNode, Side
from workflow.formats.step_files import is_numbered
from workflow.launch.launchers import known_launcher
from workflow.site.queue_model import SchedulerName
from workflow.spec.models.deadlines import Deadlines
from workflow.spec.models.pipeline import ProofByAspect, ProofPolicy, Queue, Scalar, StopSignal, TypeAndShape
from workflow.spec.models.stage_policies import Dialect
from workflow.sst_transports import Transport

PLAN_VERSION = 3
# No machine has more; a damaged plan may state any number, and somebody would count up to it.
NodeIndex = Annotated[int, Field(ge=0, le=1_000_000)]
RUN_DIR = "${{ run.dir }}"
Coupling = Literal["live", "after"]


class PlanPart(BaseModel):
    """Settings that every part of the plan shares."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    # Fields that few plans have: left out of the text of the others.
    rare: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_rare(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        for name in self.rare:
            if data.get(name) == type(self).model_fields[name].get_default(call_default_factory=True):
                data.pop(name, None)
        return data


class RanksPlan(PlanPart):
    """The ranks of one side of a stream by node, in the words of `distribution.strategies.Ranks`."""

    number: int
    first_node: int = Field(description="index of the node of rank 0")
    per_node: int


class SharePlan(PlanPart):
    """Who reads what, for programs that take any share."""

    strategy: str
    writers: RanksPlan
    readers: RanksPlan


class OperatorPlan(PlanPart):
    """The operator that ADIOS2 applies to a variable when it is written, and the error that it may cause."""

    type: str
    parameters: dict[str, str] = Field({})
    bound: float = Field(description="largest absolute error of a value that arrives; 0: every bit is kept")


class EndPlan(PlanPart):
    """One end of a stream: how this stage opens it."""

    rare: ClassVar[tuple[str, ...]] = (
        "silence_limit_s", "first_step", "repeated", "part_step", "before", "earlier", "skipped", "skips_now",
        "on_node", "does_without", "passes", "opened", "declared",
    )  # fmt: skip

    stream: str
    port: str
    side: Side
    engine: str = Field(description="ADIOS2's name: SST, BP5, HDF5, …; `file` for a file that wf only hands over")
    parameters: dict[str, str] = Field({}, description="exactly what is given to the engine")
    path: str = Field(description="the name that ADIOS2 opens; SST appends .sst to it, openPMD needs it appended")
    open_timeout_s: float
    step_timeout_s: float | None = Field(description="how long a read waits for a step; None: no limit")
    io: str = Field(description="the ADIOS2 io name: the program's own, or the port's")
    config: str | None = Field(None, description="config file of a program of the user's own, absolute")
    dialect: Dialect | None = Field(None, description="how a program of the user's own gets engine and parameters")
    variables: dict[str, TypeAndShape] = Field({}, description="contract, checked when the first step is read")
    declared: dict[str, str] = Field(
        {},
        description="of a reading end: variable → the key of the pipeline file by which its writer, a program without "
        "workflow.stage, is to write it",
    )
    units: dict[str, str] = Field({}, description="of variables that have one in the pipeline file or a component's")
    share: SharePlan | None = Field(None, description="None: it writes, or its program selects what it reads")
    steps: int | None = Field(None, description="how many its component writes when it is not stopped; None: not known")
    operators: dict[str, OperatorPlan] = Field(
        {}, description="of a writing end, by variable; `*`: every other array that it can do"
    )
    transport: str | None = Field(
        None,
        description="SST's data plane as its log names it, evpath for TCP; None: a file, or the program's own choice",
    )
    silence_limit_s: float | None = Field(
        None,
        description="of a live stream with a spool, at its writer: how long a reader's node may answer nothing before "
        "its connection is given up; None: as long as the system's TCP waits",
    )
    first_step: int = Field(
        0, description="of a stage that was started again, or of a part of a run: the step at which it begins"
    )
    repeated: int = Field(
        0,
        description="of a stage that was started again: how many steps before that it writes again, which are "
        "suppressed",
    )
    part_step: int = Field(0, description="of a run that goes on: the step at which this part of it begins")
    before: int = Field(
        0, description="of a run that goes on: how many steps of the stream come before the first one at `path`"
    )
    earlier: str = Field("", description="the file that holds those steps, of an end that reads them")
    skipped: list[int] = Field(
        [], description="steps at which the stage failed twice, and that its program does not get"
    )
    skips_now: int | None = Field(None, description="the one of them that no attempt has left out yet")
    on_node: OnNode = Field(
        "",
        description="of a spool: the folder of its node that has the file, and `path` a link to it; empty: at `path`",
    )

    opened: str = Field(
        "",
        description="of a program that opens a name of its own: that, in its working directory; where it is not "
        "`path`, a link there leads to it",
    )
    does_without: bool = Field(
        False, description="of an end that reads: whether the program goes on when its writer has failed and is ignored"
    )
    passes: str = Field(
        "", description="of an end that writes: the port of which some steps are written here; perhaps none for long"
    )

    @property
    def begin(self) -> int:
        """The step at which the program begins: earlier than `first_step` by what it writes again."""
        return self.first_step - self.repeated

    @property
    def traits(self) -> EngineTraits:
        """What its engine is like."""
        return traits_of(self.engine)


class Placement(PlanPart):
    """Where a stage's ranks run. Size does not depend on the number of ranks."""

    nodes: list[tuple[NodeIndex, NodeIndex]] = Field(min_length=1, description="node index ranges, half open")
    ranks_per_node: int
    cores: list[int] = Field(
        description="cores on each of these nodes, as the site numbers them: those of rank 0 of the node first, then "
        "those of rank 1, …; [] is no binding"
    )
    cores_per_rank: int
    threads_per_rank: int = Field(0, description="OMP_NUM_THREADS; 0: not set")
    gpus: list[int] = Field([], description="GPUs of each of these nodes, in the order of the ranks")
    gpus_per_rank: int = 0
    nics: list[str] = Field([], description="network adapter of each rank of a node; []: any")

    def has_node(self, node: int) -> bool:
        """Whether ranks are on the node of this index."""
        return any(first <= node < end for first, end in self.nodes)


class NodePlan(PlanPart):
    """One node of the site: what placement and launchers need of it, and what the node map shows."""

    cores: int
    threads_per_core: int = 1
    reserved: list[int] = Field([], description="cores that no stage gets")
    others: list[int] = Field([], description="cores that other runs use at the same time")
    numa: list[list[int]] = Field([], description="cores of each NUMA domain; []: not known")
    gpus: int = 0
    gpu_variable: str = Field("", description="restricts a rank to its GPUs; empty: not known")
    memory: int = Field(0, description="bytes; 0: not known")
    price: float = Field(0.0, description="of a node for an hour, in `price_unit`; 0: not known")
    price_unit: str = ""

    @property
    def usable(self) -> list[int]:
        """The cores that the stages of this plan may have."""
        kept = {*self.reserved, *self.others}
        return [core for core in range(self.cores) if core not in kept]

    @property
    def is_whole(self) -> bool:
        """Whether they may have all cores: those of this process are then numbered as the plan counts them."""
        return not self.reserved and not self.others


class StageMemory(PlanPart):
    """Settings of the allocator of a stage's processes."""

    huge_pages: bool
    keep_freed: int = Field(description="bytes of freed memory that a rank may keep; 0: the allocator's own rule")


class LaunchPlan(PlanPart):
    """What starts the ranks. The line itself is made at the start, when the hosts are known (`launch.launchers`)."""

    launcher: Annotated[str, AfterValidator(known_launcher)] = Field(
        description="as the site's file names it; `none`: the program is started as it is"
    )
    executable: str = Field("", description="of the launcher; empty: none")
    arguments: list[str] = Field([], description="the site's additions to the launcher's options")


# Where a stage begins that reads nothing: `state`: at the newest state that it has saved and that fits; `first`: at its
# first step; `either`: nobody knows whether it saves a state.
SourceBegin = Literal["state", "first", "either"]
START_OF_SOURCES: dict[SourceBegin, str] = {
    "state": "at its last saved state", "first": "at its first step",
    "either": "at its last saved state, or at its first step if it saves none",
}  # fmt: skip


class RestartPlan(PlanPart):
    """That a stage is started again when it fails, how often, and where it goes on."""

    rare: ClassVar[tuple[str, ...]] = ("sources", "same_step", "then")
    times: int
    within_s: float | None = Field(description="only the restarts of so long count; None: all")
    backoff_s: float = Field(description="pause before the second restart and each one that follows")
    stages: list[str] = Field(
        description="those that are started again together, in the plan's order: streams of which nothing is kept "
        "join them"
    )
    from_start: bool = Field(description="whether they read from the first step again, as one of them must")
    sources: dict[str, SourceBegin] = Field(
        {},
        description="those of them that read no stream, such as a simulation → where they begin, and compute again: at "
        "the newest state that they have saved and that fits, or at their first step; either: it is not known whether "
        "they save one",
    )
    same_step: Literal["stop", "skip"] = Field("stop", description="what follows when it fails twice at the same step")
    then: Literal["stop", "ignore"] = Field(
        "stop", description="what follows when it is not started again any more: the others stop, or go on without it"
    )


class CheckpointPlan(PlanPart):
    """What a stage saves, so that a later part of the run can begin there."""

    rare: ClassVar[tuple[str, ...]] = ("files", "every", "first", "again", "program", "signal")
    every_s: float = Field(
        description="of a program that uses workflow.stage: it saves its state at most so often; with `signal`: how "
        "often that is sent"
    )
    signal: str = Field("", description="of another program: the signal on which it writes one, `USR1`")
    files: str = Field("", description="of another program: where it writes them; `*` is the number of its own step")
    every: int = Field(0, description="it writes a step of its streams after so many of its own")
    first: int = Field(0, description="how many steps it writes before its first own step")
    again: bool = Field(False, description="whether it writes the step at which it begins again")
    program: list[str] = Field([], description="argv, without the launcher, of a program that begins at a checkpoint")

    def steps_before(self, number: int) -> int:
        """How many steps of a stream there are when the program, begun at its own step `number`, writes its first."""
        written = number // self.every + self.first
        return max(0, written - 1) if self.again and number % self.every == 0 else written


class SteerPlan(PlanPart):
    """A value of a stage that can be changed while it runs."""

    rare: ClassVar[tuple[str, ...]] = ("minimum", "maximum", "choices", "unit", "file", "around", "signal")
    type: Literal["int", "float", "bool", "string"]
    value: Scalar = Field(description="at the start")
    minimum: float | None = None
    maximum: float | None = None
    choices: list[Scalar] = []
    unit: str = ""
    file: str = Field("", description="of a program without workflow.stage: the file in which it finds the value")
    around: list[str] = Field([], description="the text of that file: between these pieces stands the value")
    signal: str = Field("", description="what the program gets when the file has been replaced, `USR1`; empty: nothing")


# Who has asked for a change that stands in the pipeline file.
FROM_FILE = "the pipeline file"
# The component of the stage by which what is attached to a run follows a stream of it.
FOLLOW = "follow"


class ChangePlan(PlanPart):
    """New values of a stage that are known before the start, from the pipeline file or from an earlier run."""

    id: str
    values: dict[str, Scalar]
    step: int | None = Field(description="the first step that is computed with them; None: nobody knows")
    by: str = Field(description="who has asked for it")


class MemberPlan(PlanPart):
    """Which member of an ensemble a stage is."""

    ensemble: str = Field(description="the name of the stage in the pipeline file")
    index: int
    values: dict[str, Scalar] = Field({}, description="its own values, by name")


class StagePlan(PlanPart):
    """One stage: what is started, where, and what it opens."""

    rare: ClassVar[tuple[str, ...]] = (
        "secrets", "restart", "checkpoint", "from_start", "kept_files", "member", "steer", "changes", "answered",
        "edited",
    )  # fmt: skip
    name: str
    kind: Literal["simulation", "analysis", "sink"]
    component: str | None = None
    parameters: dict[str, Any] = Field({})
    file_parameters: dict[str, Side] = Field(
        {}, description="parameters that name a file or folder, and what the stage does with it"
    )
    program: list[str] = Field(description="argv without the launcher")
    launch: LaunchPlan
    env: dict[str, str] = Field(description="added to the supervisor's environment")
    secrets: dict[str, str] = Field(
        {},
        description="variable → where its value is read when the stage starts: `file:PATH` or `env:NAME`",
    )
    cwd: str
    ranks: int
    placement: Placement
    ends: list[EndPlan]
    memory: StageMemory | None = Field(None, description="None: the allocator is left alone")
    random_sst_ids: bool = Field(
        False, description="whether its ADIOS2 is known to give each process of SST a random id"
    )
    stop_signal: StopSignal | None = Field(
        None, description="what it gets when the run is stopped before its allocation ends; None: only the stop file"
    )
    starts_after: list[str] = Field([], description="stages that must have ended first, in order or ignored")
    files: dict[str, str] = Field(
        {}, description="absolute path → text to write; of a run without those of the user's `files:`"
    )
    copies: dict[str, str] = Field({}, description="absolute path → file to copy there unchanged")
    edited: dict[str, list[str]] = Field(
        {}, description="absolute path of a config that the user wrote → what wf has changed in it"
    )
    added: Literal["pipe", "relay", "tap", "spool"] | None = Field(
        None, description="why wf added the stage; None: it did not"
    )
    optional: bool = Field(
        False, description="whether the run succeeds without it: a tap, the relay of taps only, or `on_failure: ignore`"
    )
    member: MemberPlan | None = Field(None, description="None: it is no member of an ensemble")
    restart: RestartPlan | None = Field(None, description="None: when it fails the run is stopped")
    checkpoint: CheckpointPlan | None = Field(None, description="None: it saves nothing for a later part of the run")
    from_start: str = Field(
        "",
        description="why it begins with the first step when its run goes on in another part; empty: it need not",
    )
    kept_files: dict[str, int] = Field(
        {},
        description="BP5 file that its component writes → of how many steps that it reads it writes one",
    )
    steer: dict[str, SteerPlan] = Field({}, description="values that can be changed while it runs, by name")
    changes: list[ChangePlan] = Field([], description="changes of them that are known, in the order of their steps")
    answered: list[str] = Field(
        [], description="ids of other requests that earlier parts of the run have taken or refused: not taken again"
    )
    observed: Literal["metrics", "evidence"] = Field(
        description="metrics: the program uses workflow.stage; evidence: steps are read off engine logs and files"
    )

    @property
    def told_by(self) -> str | None:
        """The signal that it gets when the run is stopped: its own, or the one on which it writes a checkpoint."""
        return self.stop_signal or ((self.checkpoint.signal or None) if self.checkpoint is not None else None)

    @property
    def passes_on(self) -> bool:
        """Whether wf added the stage, and it computes nothing."""
        return self.added in ("pipe", "relay")

    def end(self, stream: str, side: Side) -> EndPlan:
        """The end that writes or reads this stream. Raises StopIteration where there is none."""
        return next(end for end in self.ends if (end.stream, end.side) == (stream, side))


def is_kept(engine: EngineTraits, path: str) -> bool:
    """Whether each step of a stream at this path can be read again, and more be appended after any step."""
    return engine.resumable and not is_numbered(path)


class StreamPlan(PlanPart):
    """One stream, seen from above."""

    rare: ClassVar[tuple[str, ...]] = (
        "spool", "spool_steps", "spool_where", "closes_circle", "no_effect",
    )  # fmt: skip

    name: str
    writer: str
    readers: list[str]
    via: str
    engine: str
    coupling: Coupling
    transport: Transport | None = Field(
        None, description="how SST moves data; None: files, or the program's own choice"
    )
    fallback: bool = Field(True, description="whether another transport than planned is a note; False: the run fails")
    queue: Queue | None = Field(description="None for files, which hold all steps")
    step_size: int | None = Field(None, description="bytes of one step of all ranks, as stated or by shapes")
    queue_memory: int | None = Field(None, description="bytes that the writer may hold in all; None: not known")
    subfiles: int | None = Field(None, description="`data.*` files of a BP5 or BP4 stream; None: not known")
    path: str
    on_disk: list[str] = Field(description="files and directories that this stream leaves or uses")
    keep: bool
    spool: str = Field("", description="the stream that holds its steps for readers that are started again")
    spool_steps: int | None = Field(None, description="how many steps it keeps at least; None: all")
    spool_where: OnNode = Field("", description="the folder of a node that has its file; empty: the run directory")
    closes_circle: bool = Field(False, description="whether it leads back to a stage whose streams its writer reads")
    no_effect: list[str] = Field(
        [], description="engine parameters of its writer that change nothing with the ADIOS2 that is here"
    )

    @property
    def transport_word(self) -> str:
        """What `transport:` of the stream would be, had it been written; empty where there is none."""
        return NODE_VIA if self.traits.one_node else self.transport or ""

    @property
    def is_kept(self) -> bool:
        """Whether each of its steps can be read again, and the stream be written on after any step."""
        return is_kept(self.traits, self.path)

    @property
    def drops(self) -> bool:
        """Whether its spool keeps the newest steps only."""
        return self.spool_steps is not None

    @property
    def has_whole_spool(self) -> bool:
        """Whether its spool has all steps, also after the run."""
        return self.spool != "" and not self.drops and not self.spool_where

    @property
    def traits(self) -> EngineTraits:
        """What its engine is like."""
        return traits_of(self.engine)


class ExpectationPlan(PlanPart):
    """What a figure of the report has to be, and where that was written."""

    figure: str = Field(description="`streams.field.throughput`, as in campaigns")
    comparator: Comparator
    value: float = Field(description="in the figure's unit: s, B, B/s, steps, steps/s, 1 for shares, or ratio")
    unit: str = Field(description="of the figure; empty: one of the program's own, whose unit is not known")
    expected: str = Field(description="as it was written: `> 1 GB/s`")
    key: str = Field(description="of the pipeline file")
    source: str = Field(description="the file, or the option")
    line: int = Field(description="from 1, like `column`; 0: an option")
    column: int


class ParameterPlan(PlanPart):
    """A parameter of the pipeline; its value has been filled in wherever it is used."""

    rare: ClassVar[tuple[str, ...]] = ("unit", "text")
    value: Scalar
    unit: str = ""
    text: str = Field("", description="what it is, for people")


class AllocationPlan(PlanPart):
    """The job that is asked of the scheduler when wf submits this run."""

    rare: ClassVar[tuple[str, ...]] = ("parts",)
    scheduler: SchedulerName
    nodes: int = Field(description="spare ones included")
    walltime_s: float
    queue: str | None = Field(None, description="as the site's file names it; None: the scheduler's default")
    partition: str | None = Field(None, description="the scheduler's name of the queue, where it has another one")
    qos: str | None = None
    account: str | None = None
    reservation: str | None = None
    constraints: list[str] = Field([], description="properties of the nodes")
    exclusive: bool = True
    grace_s: float = Field(description="how long before its end the run is stopped")
    parts: int = Field(1, description="at most so many jobs, one after the other, each of which goes on with the run")
    directives: list[str] = Field([], description="the site's, then the pipeline's")


class PiecePlan(PlanPart):
    """The first steps of a BP5 file that an earlier part of the run has written."""

    path: str
    steps: int


class PartPlan(PlanPart):
    """The run goes on where an earlier one has ended, or re-uses files of one: what there is of it already."""

    rare: ClassVar[tuple[str, ...]] = ("states", "unused", "skipped", "changed", "linked")
    number: int = Field(
        description="of this part, counted from 1, the run with which all began; such a run has only re-used files"
    )
    run: str = Field(description="the directory of the part before, or of the run whose files are re-used")
    states: dict[str, str] = Field(
        {}, description="stage → what it has saved, a file in an earlier part, from which it goes on"
    )
    unused: dict[str, list[str]] = Field(
        {}, description="stage → what it had saved, from which a part has failed to go on"
    )
    skipped: dict[str, list[int]] = Field(
        {}, description="stage → the steps of what it reads that it skips, as in earlier parts"
    )
    finished: dict[str, dict[str, int]] = Field(
        description="stage that is not started again → stream → the steps that it has written or read"
    )
    pieces: dict[str, list[PiecePlan]] = Field(
        description="file, relative to the run directory → what earlier parts hold of it, in the order of its steps"
    )
    changed: list[str] = Field([], description="settings that the part before had otherwise")
    linked: dict[str, str] = Field(
        {},
        description="other file of a stage that is re-used, relative to the run directory → the file to which it links",
    )

    @property
    def is_reuse(self) -> bool:
        """Whether the run goes on with no other: stages that are not `finished` begin with their first step."""
        return self.number == 1


class Plan(PlanPart):
    """The whole decided pipeline."""

    rare: ClassVar[tuple[str, ...]] = ("params", "share", "part")
    plan_version: int = PLAN_VERSION
    wf_version: str
    pipeline: str
    pipeline_file: str
    params: dict[str, ParameterPlan] = Field({}, description="of the pipeline, by name")
    site: str
    nodes: int = Field(1, description="nodes of the allocation, spare ones included")
    node: NodePlan = Field(default_factory=lambda: NodePlan(cores=1))
    launch_options: dict[str, str] = Field({}, description="options of the site's launcher, as its version spells them")
    stages: list[StagePlan]
    streams: list[StreamPlan]
    deadlines: Deadlines
    allocation: AllocationPlan | None = Field(None, description="None: the site has no scheduler")
    expectations: list[ExpectationPlan] = Field([], description="compared with the report when the run has succeeded")
    proof: ProofPolicy | ProofByAspect = Field(
        "strict", description="what a placement that differs from the plan does to the run"
    )
    share: Literal["none", "group"] = Field("none", description="who else may read the run directory")
    part: PartPlan | None = Field(None, description="None: the run does not go on with an earlier one")
    reasons: dict[str, str] = Field({}, description="key → why it has its value")
    advice: list[str] = Field([], description="what a careful colleague would mention")

    @property
    def part_number(self) -> int:
        """Counted from 1, the run with which all began."""
        return 1 if self.part is None else self.part.number

    @property
    def most_parts(self) -> int:
        """How many jobs may go on with the run, one after the other, this one included; 1: none follows."""
        return 1 if self.allocation is None else self.allocation.parts

    @property
    def is_attached(self) -> bool:
        """Whether the run joins a running run, and is ended by those who have seen enough."""
        return any(stage.component == FOLLOW for stage in self.stages)

    def may_restart(self, name: str) -> bool:
        """Whether a stage is started again when it or another one fails."""
        return any(each.restart is not None and name in each.restart.stages for each in self.stages)

    def stage(self, name: str) -> StagePlan:
        """The stage of that name. Raises KeyError."""
        return _once(self, "_stages_by_name", self.stages, _by_name)[name]

    @property
    def signalled_stages(self) -> list[StagePlan]:
        """The stages that are asked for checkpoints by a signal."""
        return _once(self, "_signalled_stages", self.stages, _signalled)

    @property
    def nodes_of_stages(self) -> int:
        """How many nodes the stages are on: without the spare ones."""
        return max((end for stage in self.stages for _, end in stage.placement.nodes), default=1)

    def uses_node(self, node: int) -> bool:
        """Whether ranks of a stage are placed on the node of this index."""
        return any(first <= node < end for first, end in _once(self, "_node_ranges", self.stages, _node_ranges))

    def stream(self, name: str) -> StreamPlan:
        """The stream of that name. Raises KeyError."""
        return _once(self, "_streams_by_name", self.streams, _by_name)[name]

    def holder(self, stream: StreamPlan) -> StreamPlan:
        """The stream whose file has the steps of this one: that of its spool, where it has one."""
        return self.stream(stream.spool) if stream.spool else stream

    def used_cores(self, node: int | None = None) -> list[int]:
        """The cores that stages are bound to on a node, by default on any, sorted."""
        here = (stage.placement for stage in self.stages if node is None or stage.placement.has_node(node))
        return sorted({core for placement in here for core in placement.cores})

    def to_json(self) -> str:
        """The plan as text: what `wf plan --json` prints and `plan.json` holds, byte for byte."""
        return self.model_dump_json(indent=2) + "\n"


Named = TypeVar("Named", StagePlan, StreamPlan)
Item = TypeVar("Item")
Built = TypeVar("Built")


def _once(plan: Plan, key: str, items: list[Item], build: Callable[[list[Item]], Built]) -> Built:
    """What follows from a list of the plan, built once per list: a supervisor asks thousands of times a second.

    Kept where `functools.cached_property` keeps its values. Unlike those it notices that a copy has another list.
    """
    known: tuple[list[Item], Built] | None = plan.__dict__.get(key)
    if known is None or known[0] is not items:
        known = plan.__dict__[key] = items, build(items)
    return known[1]


def _by_name(items: list[Named]) -> dict[str, Named]:
    return {item.name: item for item in items}


def _signalled(stages: list[StagePlan]) -> list[StagePlan]:
    return [each for each in stages if each.checkpoint is not None and each.checkpoint.signal]


def _node_ranges(stages: list[StagePlan]) -> list[tuple[int, int]]:
    """The nodes of all stages, in as few ranges as there can be."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(nodes for stage in stages for nodes in stage.placement.nodes):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found
