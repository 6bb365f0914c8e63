"""The report of a run as frozen models: versioned JSON, validated when it is read back.

Times are Unix seconds, durations seconds, sizes bytes, rates bytes per second. None means that the
files of the run do not tell, e.g. the times of a program that does not use `workflow.stage`.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from workflow.plan.plan_model import ParameterPlan
from workflow.run.records.run_notes import RunNote
from workflow.run.state.lifecycle_events import RunCause
from workflow.spec.models.units import Scalar

# Microseconds: the resolution of the clocks, without the noise of binary fractions.
Real = Annotated[float, AfterValidator(lambda value: round(value, 6))]
RunVerdict = Literal[
    "succeeded", "failed", "interrupted", "stopped", "running", "lost", "submitted", "unfinished",
]  # fmt: skip
# What the wall time of a stage is made of: `open_s` and so on of StagePart. `cpu` and `ready` stand for a
# stage without metrics: computing and moving data are not told apart there.
Activity = Literal["open", "compute", "device", "io", "wait", "other", "cpu", "ready"]
StageVerdict = Literal[
    "waiting", "starting", "running", "stopping", "restarting", "ended", "succeeded", "failed", "stopped",
]  # fmt: skip
ExpectationState = Literal["met", "violated", "not_measured", "not_checked"]


class ReportPart(BaseModel):
    """Settings of all models of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunPart(ReportPart):
    """The run as a whole."""

    name: str = Field(description="the pipeline's name")
    directory: str = Field(description="name of the run directory, without its parents: runs may be moved")
    state: RunVerdict = Field(
        description="lost: the supervisor has died and left no verdict; submitted: its job has not started; "
        "unfinished: the run was never started"
    )
    exit_code: int
    lacks: str = Field(
        "", description="of a run that succeeded, what has failed in it: `5 of 6 members`, `without look`"
    )
    reason: str = ""
    cause: RunCause = Field(
        "", description="what ended the run, if it was something else than the failure of a program; otherwise empty"
    )
    words: list[str] = Field([], description="messages of the scheduler and the launcher about it")
    stage: str = Field("", description="the stage that failed first")
    started: Real | None
    ended: Real | None = Field(description="the last event, for a run in progress")
    wall_s: Real | None
    host: str = ""
    pid: int | None = None
    job: str = Field("", description="job of a submitted run: `slurm job 12`")
    part: int = Field(1, description="which part of a run it is, counted from the one with which all began")
    parts: int = Field(1, description="of a job that wf submitted: how many may follow each other (`allocation.parts`)")
    goes_on_with: str = Field("", description="the run of which it is the next part")
    reused_from: str = Field("", description="the run from which stages are re-used (`wf run --reuse`)")
    next_part: str = Field("", description="the run that goes on with it")
    next_part_reason: str = Field(
        "",
        description="why no part follows where jobs were to follow each other; of a part that follows, what is not "
        "known of its job",
    )
    resumable: bool = Field(
        False,
        description="it ended before its work was done, something of it can be used, and no part goes on with it yet",
    )
    site: str = ""
    wf_version: str = ""
    overlap: Real | None = Field(
        None,
        description="time that the stage `limited_by` did not wait ÷ wall_s: 1 if it hides all other work; None if "
        "that stage is not known",
    )
    limited_by: str = Field(
        "",
        description="the stage that works while the others wait; empty if the records do not show it "
        "(`limit_unknown`), without live streams, or if the run did not succeed",
    )
    limit_unknown: str = Field("", description="why `limited_by` is not known; empty if it is known, or does not apply")
    limit_evidence: str = Field("", description="how long `limited_by` and the others waited, and how sure that is")

    @property
    def verdict(self) -> str:
        """`succeeded`, `succeeded, 5 of 6 members`."""
        return ", ".join(filter(None, (self.state, self.lacks)))


class RunLine(ReportPart):
    """A run in a list of runs."""

    name: str = Field(description="name of the run directory; its path, where it is not below runs/")
    state: RunVerdict
    lacks: str = Field(
        "", description="of a run that succeeded, what has failed in it: `5 of 6 members`, `without look`"
    )
    violated: int = Field(0, description="for a run that succeeded: number of expectations that it did not meet")
    reason: str = Field("", description="why it did not succeed, or why it counts as lost")
    started: Real | None = Field(None, description="Unix seconds")
    wall_s: Real | None = Field(None, description="until its last event")
    host: str = Field("", description="where its supervisor runs, or ran")
    job: str = Field("", description="job in which it runs or ran, or for which it waits: `slurm job 12`")
    site: str = ""
    tags: list[str] = Field([], description="tags that users have added to the run")
    note: str = Field("", description="the newest note on the run")
    part: int = Field(1, description="which part of a run it is, counted from the one with which all began")
    parts: int = Field(1, description="of a job that wf submitted: how many may follow each other (`allocation.parts`)")
    goes_on_with: str = Field("", description="the run of which it is the next part")
    next_part: str = Field("", description="the run that goes on with it")
    reused_from: str = Field("", description="the run from which stages are re-used (`wf run --reuse`)")
    restarts: dict[str, int] = Field({}, description="stage → how often it was started again in this run")
    skipped: dict[str, list[int]] = Field(
        {}, description="stage → steps of what it read at which it failed twice, and that its output lacks"
    )


class StepTimes(ReportPart):
    """Seconds per step, over the steps of a run; between two measured values it is interpolated.

    Known where each step has a record of its own: of up to 1000 steps of each stream.
    """

    p50: Real = Field(description="median")
    p95: Real = Field(description="95 % of the steps took no longer")
    max: Real = Field(description="of the slowest step")


class RankSpread(ReportPart):
    """Seconds over all steps of the median rank and of the slowest one.

    Known of several ranks that each open the stream, with an ADIOS2 built with MPI.
    """

    median: Real
    slowest: Real
    rank: int = Field(description="number of the slowest rank")
    imbalance: Real | None = Field(description="slowest ÷ median; None: the median is 0")


class StagePart(ReportPart):
    """One stage. wall_s = open_s + compute_s + device_s + io_s + wait_s + other_s (start, imports, the end).

    For a stage without metrics these are None; `cpu_s` tells how busy it was.
    """

    name: str
    kind: str
    program: str = Field(description="the component's name, or the command")
    ensemble: str = Field("", description="the ensemble that it is a member of; empty: none")
    values: dict[str, Scalar] = Field({}, description="of a member of an ensemble its own values, by name")
    ranks: int
    hosts: list[str] = Field(
        [], description="the nodes of a job on which it ran last, in the plan's order; []: this machine, or not known"
    )
    state: StageVerdict = Field(description="ended: its process is gone, and it has no verdict")
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    first_step: int | None = Field(
        0,
        description="the step at which it begins, more than 0 in a later part of a run; None: it does not run, because "
        "it had done its work in an earlier part, or is re-used",
    )
    started: Real | None = None
    ended: Real | None = Field(None, description="None while it runs")
    wall_s: Real | None = None
    open_s: Real | None = Field(None, description="opening its streams: the rendezvous with the other stages")
    compute_s: Real | None = None
    device_s: Real | None = Field(None, description="copying arrays to and from a device; None: it copied none")
    io_s: Real | None = Field(None, description="moving data: reads, writes")
    wait_s: Real | None = Field(None, description="readers: for the next step; writers: for room in the queue")
    other_s: Real | None = None
    cpu_s: Real | None = Field(
        None, description="CPU time of all its processes, also of those that poll; None where the system does not tell"
    )
    ready_s: Real | None = Field(
        None,
        description="for a stage without metrics: time in which it was ready to run while other processes had the CPU",
    )
    steps_in: int | None = Field(None, description="those included that it skipped")
    steps_out: int | None = None
    skipped: list[int] = Field(
        default_factory=list, description="steps of what it read at which it failed twice, and that its output lacks"
    )
    bytes_in: int | None = None
    bytes_out: int | None = None
    step_times: StepTimes | None = Field(
        None, description="computing, device copies, moving data and waiting, from one step to the next"
    )
    compute_ranks: RankSpread | None = Field(
        None, description="the ranks' computing, until the last stream that they were compared on was closed"
    )
    overlap: Real | None = Field(None, description="share of wall_s during which another stage ran too")
    observed: Literal["metrics", "evidence"] = "metrics"
    figures: dict[str, float] = Field({}, description="figures that the program measured itself, from its figures.json")
    figures_problem: str = Field("", description="what is wrong with its figures.json; empty: nothing, or it has none")
    notes: list[str] = Field([], description="what the program says of its run, by `stage.note`; the last five")
    last_lines: list[str] = Field([], description="last lines of stderr of a stage that did not succeed")
    last_output: list[str] = Field([], description="the same of stdout, where many programs report their errors")

    def seconds(self, activity: Activity) -> float | None:
        """Time that the stage spent on this activity."""
        seconds: float | None = getattr(self, f"{activity}_s")
        return seconds

    def share(self, activity: Activity) -> float | None:
        """Share of the stage's wall time that it spent on this activity, 0 … 1; of the CPU, cores used on average."""
        seconds = self.seconds(activity)
        return None if seconds is None or not self.wall_s else seconds / self.wall_s

    def parts(self) -> dict[Activity, float]:
        """The shares of its wall time that are known, one activity beside the other: {} where nothing is.

        Of a stage without metrics: how far its ranks had the CPU, or were ready to run; together at most 1.
        """
        if self.compute_s is None:
            if (share := self.share("cpu")) is None:
                return {}
            cpu = min(1.0, share / self.ranks)
            return {"cpu": cpu, "ready": min(1.0 - cpu, (self.share("ready") or 0.0) / self.ranks)}
        activities: tuple[Activity, ...] = ("compute", "device", "io", "wait", "open", "other")
        return {activity: share for activity in activities if (share := self.share(activity)) is not None}


class AccuracyPart(ReportPart):
    """Errors of a compressed variable at a reader, measured on values that the writer also sent uncompressed."""

    variable: str
    operator: str
    bound: float = Field(description="largest absolute error allowed; 0: lossless")
    largest: float | None = Field(description="largest error found; None: infinite, where bits or NaN differ")
    compared: int = Field(description="values compared, over all steps and ranks")
    steps: int


class ReaderPart(ReportPart):
    """One reading end of a stream."""

    stage: str
    steps: int | None = Field(description="read; None: unknown, because the program does not use workflow.stage")
    bytes: int | None
    io_s: Real | None = None
    wait_s: Real | None = Field(None, description="time spent waiting in begin_step for the writer's next step")
    load_times: StepTimes | None = Field(None, description="io_s of each step")
    load_ranks: RankSpread | None = Field(None, description="the ranks' io_s")
    device_s: Real | None = Field(None, description="copying what was read to a device; None: nothing was")
    device_times: StepTimes | None = Field(None, description="device_s of each step")
    device_ranks: RankSpread | None = Field(None, description="the ranks' device_s")
    throughput: Real | None = Field(None, description="bytes ÷ time from opening the stream to its close or last step")
    transfer_rate: Real | None = Field(None, description="bytes ÷ io_s (loads and end_step, not the waiting)")
    dropped: int | None = Field(None, description="steps written but never read; None while the stream is open")
    lost: int | None = Field(
        None,
        description="for a live reader that ended without closing the stream: steps that never arrived; otherwise None",
    )
    complete: bool | None = Field(None, description="read to the end of the stream; None while it is open")
    accuracy: list[AccuracyPart] = Field([], description="errors of the compressed variables that it read")


class StreamPart(ReportPart):
    """One stream."""

    name: str
    writer: str
    via: str
    engine: str
    coupling: Literal["live", "after"]
    queue_limit: int | None = Field(None, description="None for files, which hold all steps")
    when_full: Literal["block", "discard"] | None = None
    parameters: dict[str, str] = Field({}, description="engine parameters of the writer")
    transport: str = Field(
        "", description="SST's transport, from its log: tcp, rdma, ucx, mpi; empty: not SST, or unknown"
    )
    steps: int | None = Field(description="written; None: unknown, as for readers")
    step_size: int | None = Field(None, description="bytes of a step as planned: stated in the file, or by shapes")
    queue_memory: int | None = Field(None, description="bytes that the queue was planned to hold at most")
    bytes: int | None = Field(None, description="moved through the stream, see `bytes_are`")
    bytes_are: Literal["written", "stored", "read", "at_least", "unknown"] = Field(
        "unknown",
        description="written: recorded by the writer; stored: the size of its data files, in which engines leave gaps, "
        "and which may be compressed; read: bytes that the reader that read "
        "most received; at_least: bytes that the first rank of such a reader received; unknown: nobody counted them, "
        "or they are 0",
    )
    passed_on: bool = Field(
        False, description="its steps are those of another stream, by a pipe, a relay or a spool: sums count them once"
    )
    stored: int | None = Field(None, description="bytes on disk of its data files that still exist; None: no file")
    compressed: bool = Field(False, description="some of its variables were written with an operator")
    unread: list[str] = Field([], description="compressed variables that no stage read")
    io_s: Real | None = None
    wait_s: Real | None = Field(None, description="time that the writer waited for room in the queue")
    write_times: StepTimes | None = Field(None, description="io_s + wait_s of each step of the writer")
    write_ranks: RankSpread | None = Field(None, description="the io_s + wait_s of the writer's ranks")
    device_s: Real | None = Field(None, description="of the writer: copying from a device; None: it copied nothing")
    device_times: StepTimes | None = Field(None, description="device_s of each step of the writer")
    device_ranks: RankSpread | None = Field(None, description="the device_s of the writer's ranks")
    throughput: Real | None = Field(
        None, description="bytes ÷ time of the stream: from its opening by the writer to its close or last step"
    )
    transfer_rate: Real | None = Field(
        None,
        description="of the writer: bytes ÷ (io_s + wait_s), i.e. from begin_step to the return of end_step, latency "
        "and synchronisation included (Poeschel et al. 2021, arXiv:2107.06108, call it perceived throughput)",
    )
    complete: bool | None = Field(None, description="closed properly; None while it is open")
    first_step: Real | None = Field(None, description="when the writer ended its first step")
    last_step: Real | None = None
    idle: Real | None = Field(None, description="share of the writer's time from open to close spent waiting")
    limited_by: str = Field("", description="the end that the others wait for; empty if it is not known")
    limit_unknown: str = Field("", description="why `limited_by` is not known; empty if it is known, or does not apply")
    longest_queue: int | None = Field(
        None, description="largest number of steps written and not yet read by the slowest reader"
    )
    readers: list[ReaderPart] = Field([])


class ExpectationPart(ReportPart):
    """One expectation of the pipeline file, and what the run measured."""

    figure: str = Field(description="`streams.field.throughput`, as in campaigns")
    expected: str = Field(description="the condition as it was written: `> 1 GB/s`")
    limit: float = Field(description="its quantity, in `unit`")
    unit: str = Field(description="of the figure: s, B, B/s, steps, steps/s, 1 for shares, ratio; empty: not known")
    measured: float | None = Field(None, description="None: the run did not measure it, so the expectation is not met")
    state: ExpectationState = Field(
        description="not_checked: the run is in progress, or did not succeed; then only its verdict counts"
    )
    key: str = Field(description="of the pipeline file")
    place: str = Field(description="where it is written: `pipeline.yaml:14:9`, or the option")

    @property
    def is_violated(self) -> bool:
        """Whether it was not kept; a figure that was not measured keeps no expectation."""
        return self.state in ("violated", "not_measured")


class RestartPart(ReportPart):
    """That stages were started again after a failure."""

    t: Real = Field(description="when that was decided, Unix seconds")
    stage: str = Field(description="the stage that had failed")
    stages: list[str] = Field(description="the stages that were started again, that one included")
    reason: str
    attempt: int | None = Field(description="the attempt that began then, counted from 1; None: it did not begin")
    first_step: int | None = Field(description="the index of its first step")
    replayed: int | None = Field(description="number of steps that the failed stage had finished and did again")
    gap_s: Real | None = Field(description="from the decision until the stage had finished its next step")
    skipped: int | None = Field(
        None, description="the step that the failed stage skips from then on, because it had failed there twice"
    )


class SteeringPart(ReportPart):
    """That values of a stage were changed while it ran, or were to be."""

    t: Real = Field(description="when the stage has taken them, or they were refused; Unix seconds")
    stage: str
    by: str = Field(description="who has asked: `user@host`, a stage, or the pipeline file")
    step: int | None = Field(description="the first step that was computed with them; None: they were not taken")
    old: dict[str, bool | int | float | str] = {}
    new: dict[str, bool | int | float | str]
    units: dict[str, str] = Field({}, description="of the values that have one")
    exact: bool = Field(True, description="false: the program reads a file, so that the step is known by about")
    refused: str = Field("", description="why they were not taken; empty: they were")


class Report(ReportPart):
    """What a run did."""

    report_version: Literal[2] = 2
    run: RunPart
    params: dict[str, ParameterPlan] = Field({}, description="of the pipeline, by name")
    tags: list[str] = Field([], description="tags that users have added to the run")
    user_notes: list[RunNote] = Field([], description="notes that users have added to the run, in order")
    stages: list[StagePart]
    streams: list[StreamPart]
    restarts: list[RestartPart] = Field([], description="stages that were started again, in order")
    steering: list[SteeringPart] = Field(
        [], description="values that were changed while it ran, in order; the newest 100"
    )
    attached: list[RunLine] = Field([], description="the runs that are or were attached to it (`wf attach`)")
    expectations: list[ExpectationPart] = Field(
        [], description="in the order of the pipeline file; one that is not met makes `exit_code` 3"
    )
    notes: list[str] = Field([], description="what to consider when reading these numbers")
    unfinished_files: list[str] = Field(
        [],
        description="files that stages had not finished at the end of the run: paths and numbers of steps",
    )
    warnings: list[str] = Field(
        [], description="for a run in progress: which stages the others have waited for, and how long"
    )

    def stage(self, name: str) -> StagePart:
        """The stage of that name. Raises KeyError."""
        return {stage.name: stage for stage in self.stages}[name]

    def stream(self, name: str) -> StreamPart:
        """The stream of that name. Raises KeyError."""
        return {stream.name: stream for stream in self.streams}[name]

    def to_json(self) -> str:
        """The text of `report.json`."""
        return self.model_dump_json(indent=2) + "\n"
