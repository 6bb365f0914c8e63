"""What a run is expected to take, as frozen models: `forecast.json` of a run, versioned.

Times are seconds per step, sizes bytes, rates bytes per second.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from workflow.forecast.quartiles import Estimate, Quartiles

FORECAST_VERSION = 2
FORECAST_FILE = "forecast.json"
TermName = Literal["compute", "read", "decompress", "compress", "write", "write behind"]


class ForecastPart(BaseModel):
    """Settings of all models of the forecast."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Term(ForecastPart):
    """A part of the time that a stage needs for one step."""

    name: TermName
    stream: str = Field("", description="which it moves; empty: computing")
    seconds: Quartiles
    source: str = Field(description="the source of the value")


class StageForecast(ForecastPart):
    """One stage: per step of its own."""

    name: str
    terms: list[Term]
    work: Quartiles = Field(description="sum of the terms: the time per step if the stage never waits")
    cpu: Quartiles | None = Field(description="CPU time of all its ranks; null: not known")
    complete: bool = Field(description="false: a term is not known, so `work` is too small")
    step: Estimate = Field(description="time per step in the pipeline, waiting included; the bounds hold 80 % of runs")
    steps_per_step: float = Field(description="its steps for each step of the pipeline's source")


class StreamForecast(ForecastPart):
    """One stream."""

    name: str
    bytes: float | None = Field(description="of a step; null: not known")
    source: str = Field("", description="where the size comes from")
    throughput: Estimate | None = Field(
        description="bytes ÷ time per step of its writer, with its bounds; None where only a bound of that is known"
    )
    capacity: Quartiles | None = Field(
        description="throughput of the transport or file system when nothing else was done"
    )
    queue_memory: float | None = Field(description="that its writer may hold on a node; null: no queue, or not known")


class GroupForecast(ForecastPart):
    """Stages that wait for each other, and therefore have the same pace."""

    stages: list[str]
    step: Estimate = Field(description="time per step of the pipeline's source; the bounds hold 80 % of runs")
    complete: bool = Field(description="false: a stage is not known, so the time may be longer")
    limited_by: str = Field(description="stage NAME, CPU of stage NAME, stream NAME, or cores of node N")


class Forecast(ForecastPart):
    """The forecast of a run."""

    forecast_version: int = FORECAST_VERSION
    site: str
    calibrated: str = Field(description="when and where")
    groups: list[GroupForecast]
    stages: list[StageForecast]
    streams: list[StreamForecast]
    missing: list[str] = Field(description="what is not known, and how to get it")
    notes: list[str] = Field([], description="what to consider when reading these numbers")
    warnings: list[str] = Field([], description="`stream NAME: …`: what the measurements advise against")

    @property
    def is_empty(self) -> bool:
        """Whether nothing that a run takes is known."""
        return not any(stage.terms for stage in self.stages) and all(stream.bytes is None for stream in self.streams)

    def stage(self, name: str) -> StageForecast:
        """The stage of that name. Raises KeyError."""
        return {stage.name: stage for stage in self.stages}[name]

    def stream(self, name: str) -> StreamForecast:
        """The stream of that name. Raises KeyError."""
        return {stream.name: stream for stream in self.streams}[name]

    def to_json(self) -> str:
        """The text of `forecast.json`."""
        return self.model_dump_json(indent=1) + "\n"
