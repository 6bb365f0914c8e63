"""What runs on a site have measured: `calibration/SITE.json`, versioned, validated when it is read.

Sizes are bytes, times seconds.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from workflow.forecast.quartiles import Quartiles
from workflow.formats.sides import Side
from workflow.formatting import plural

CALIBRATION_VERSION = 2
VERSION_KEY = "calibration_version"


class CalibrationPart(BaseModel):
    """Settings of all models of the calibration."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class EndKind(CalibrationPart):
    """What ends have in common whose times of moving a step are compared. Other engine parameters, and who is at the
    other end, are not recorded."""

    engine: str
    transport: str = Field(description="SST's transport: tcp, rdma, ucx, mpi; empty: a file, or shared memory")
    side: Side
    ranks: int = Field(description="of the stage at this end")
    apart: bool = Field(description="whether the other end has ranks on other nodes only")
    subfiles: int | None = Field(description="of a writer: number of data files; null: no file, or not known")
    asynchronous: str = Field(description="off, guided or naive: whether a thread writes the file")
    operator: str = Field(description="the compressor and its parameters; empty: none")

    @property
    def text(self) -> str:
        """`SST tcp, written by 4 ranks, between nodes`."""
        verb = "written" if self.side == "write" else "read"
        parts = [f"{self.engine} {self.transport}".strip(), f"{verb} by {plural(self.ranks, 'rank')}"]
        parts += ["between nodes"] if self.apart else []
        parts += [plural(self.subfiles, "data file")] if self.subfiles is not None and self.subfiles > 1 else []
        parts += [f"async {self.asynchronous}"] if self.asynchronous != "off" else []
        return ", ".join([*parts, self.operator] if self.operator else parts)


class MovingRecord(CalibrationPart):
    """What moving a step took at one end of a stream, without waiting for the other end."""

    kind: EndKind
    bytes: float = Field(description="that this end moves per step, all ranks, before they are compressed")
    seconds: Quartiles = Field(description="per step: writer, from begin_step to the return of end_step; reader, loads")
    run: str
    host: str


class PortRecord(CalibrationPart):
    """What a stage moves at one of its ports."""

    port: str
    side: Side
    bytes_per_step: float
    share: float = Field(
        gt=0, description="of the bytes of a step of the stream; 1 of its writer; 0.5: it reads one half"
    )
    per_step: float = Field(description="steps at this port for each step of the stage")


class StageRecord(CalibrationPart):
    """The computing time of a stage, without moving data and waiting."""

    program: str = Field(description="component, or command line")
    parameters: dict[str, Any] = Field(description="of the component, without those that only say how many steps")
    ranks: int
    seconds: Quartiles = Field(description="per step")
    ports: list[PortRecord]
    run: str
    host: str

    def port(self, name: str, side: Side) -> PortRecord | None:
        """What it moved at this port; None where that is not known."""
        return next((each for each in self.ports if (each.port, each.side) == (name, side)), None)


class Calibration(CalibrationPart):
    """Everything that was measured on a site, the newest first."""

    calibration_version: int = CALIBRATION_VERSION
    site: str
    stages: list[StageRecord] = Field([])
    ends: list[MovingRecord] = Field([], description="what moving data took")

    def to_json(self) -> str:
        """The text of the file."""
        return self.model_dump_json(indent=1) + "\n"
