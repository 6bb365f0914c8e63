"""What was measured on a site: `calibration/SITE.json`, versioned, validated when it is read.

Sizes are bytes, times seconds, rates bytes per second.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workflow.forecast.quartiles import Quartiles
from workflow.formatting import plural

CALIBRATION_VERSION = 1
VERSION_KEY = "calibration_version"
MeasuredPart = Literal["memory", "launch", "file_system", "compressors", "transports"]
PARTS: tuple[MeasuredPart, ...] = ("memory", "transports", "launch", "file_system", "compressors")
"""In the order in which they are measured."""
# Other programs that use a tenth of the cores change a measurement by more than it scatters.
DISTURBED = 0.9
LEAST_FREE = 0.1


class CalibrationPart(BaseModel):
    """Settings of all models of the calibration."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MeasuringConditions(CalibrationPart):
    """Where, when and with what a part was measured."""

    date: str = Field(description="ISO 8601, UTC")
    host: str
    cores: int
    wf_version: str
    python: str
    adios2: str = Field(description="its version; empty: no adios2")
    parallel_adios2: bool | None = Field(description="whether that ADIOS2 is built with MPI")
    quick: bool = Field(description="`--quick`: fewer sizes, everything once")
    complete: bool = Field(True, description="false: the measurement was interrupted")
    others: float | None = Field(
        None, description="cores of `host` that other programs used during the measurement, on average; null: not known"
    )

    @property
    def free(self) -> float:
        """The share of the cores that other programs left, 0 … 1."""
        return 1.0 if self.others is None else max(LEAST_FREE, 1 - self.others / self.cores)

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs used so much that the figures may be theirs."""
        return self.free < DISTURBED

    @property
    def busy_text(self) -> str:
        """`while other programs used 1.3 of 2 cores`."""
        return f"while other programs used {self.others:.1f} of {plural(self.cores, 'core')}"


class StreamPoint(CalibrationPart):
    """Times of a step of one size."""

    bytes: int = Field(description="of the step, all ranks")
    step_s: Quartiles = Field(description="time per step when both ends do nothing but move data")
    write_s: Quartiles = Field(
        description="of the writer, from begin_step to the return of end_step, in a stream at rest"
    )
    read_s: Quartiles = Field(description="of the reader: its loads and end_step, without the wait for the step")
    write_cpu_s: Quartiles = Field(description="CPU time of a writing rank, threads that move data included")
    read_cpu_s: Quartiles
    behind_s: Quartiles | None = Field(
        None,
        description="for a file that is written by a thread: how much longer the writer's ranks compute meanwhile, "
        "if each has one core, which the thread shares",
    )


class StreamRates(CalibrationPart):
    """A stream of one kind between given numbers of ranks."""

    via: str
    engine: str
    transport: str = Field("", description="SST's transport: tcp, rdma, ucx, mpi")
    writers: int
    readers: int
    nodes: int = Field(description="2: the reader on another node than the writer")
    aggregators: int | None = Field(None, description="of a file")
    async_write: str = Field("off", description="`output.async` of the writer")
    points: list[StreamPoint] = Field(description="by size")


class CompressorRates(CalibrationPart):
    """An operator on given data, on one core."""

    operator: str
    parameters: dict[str, str]
    data: str = Field(description="what was compressed: file and variable, or the component that made it")
    bytes: int
    ratio: float = Field(description="compressed ÷ uncompressed size")
    compress: Quartiles = Field(description="uncompressed bytes per second into the buffer of ADIOS2")
    decompress: Quartiles


class LaunchCost(CalibrationPart):
    """From the start of a stage to the first line of its program, by number of ranks."""

    launcher: str = Field(description="`none`: started without a launcher")
    ranks: int
    begin_s: Quartiles = Field(description="until the program's first line: the launcher, and the start of Python")
    ready_s: Quartiles = Field(description="until it opens its streams: imports too")


class PortRecord(CalibrationPart):
    """What a stage moves at one of its ports."""

    port: str
    side: Literal["read", "write"]
    bytes_per_step: float
    share: float = Field(description="of the bytes of a step of the stream; 1 of its writer; 0.5: it reads one half")
    steps: int


class StageRecord(CalibrationPart):
    """The computing time of a stage in a former run, without moving data and waiting."""

    program: str = Field(description="component, or command line")
    parameters: dict[str, Any] = Field(description="of the component, without those that only say how many steps")
    ranks: int
    run: str
    steps: int
    compute_s: Quartiles = Field(description="per step")
    cpu_s: float | None = Field(description="CPU time of its computing per step, all ranks; null: not known")
    ports: list[PortRecord]


class Calibration(CalibrationPart):
    """Everything that is known about a site."""

    calibration_version: int = CALIBRATION_VERSION
    site: str
    measured: dict[MeasuredPart, MeasuringConditions] = Field({})
    memory: Quartiles | None = Field(None, description="memcpy of one core, 64 MB, bytes per second")
    launch: list[LaunchCost] = Field([])
    file_system: list[StreamRates] = Field([])
    compressors: list[CompressorRates] = Field([])
    transports: list[StreamRates] = Field([])
    stages: list[StageRecord] = Field([], description="from `wf calibrate --from`, the newest first")

    def to_json(self) -> str:
        """The text of the file."""
        return self.model_dump_json(indent=1) + "\n"


def calibrated_text(calibration: Calibration) -> str:
    """`2026-11-22 on node17`; of parts measured at different times the oldest."""
    oldest = min(calibration.measured.values(), key=lambda each: each.date, default=None)
    if oldest is None:
        return ""
    busy = max(calibration.measured.values(), key=lambda each: 1 - each.free)
    return f"{oldest.date[:10]} on {oldest.host}" + (f" {busy.busy_text}" if busy.is_disturbed else "")
