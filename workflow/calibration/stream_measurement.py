"""What streams of each kind give: transports between two ranks, files by numbers of writers and aggregators.

Every setting is one run of a pipeline of two programs (`programs/sweep.py`) with the engine parameters, the environment
and the placement that any pipeline gets here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from workflow.calibration.measured_run import MeasuredRun, MeasuringPlace, measured_run
from workflow.engines import ENGINES, EngineTraits
from workflow.forecast.calibration_model import LaunchCost, StreamPoint, StreamRates
from workflow.forecast.quartiles import quartiles
from workflow.formatting import plural
from workflow.report.read.stage_metrics import StepRecord
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StageStarted

SIZES = (65_536, 1_000_000, 4_000_000, 16_000_000, 64_000_000)
QUICK_SIZES = (65_536, 1_000_000, 16_000_000)
ASYNCHRONOUS = ("guided", "naive")
# The first steps of a size find memory of another one.
WARM_CROWDED, WARM_PAUSED = 4, 2
PIPELINE = """
stages:
  make:
    command: ["${{{{ wf.python }}}}", -m, workflow.calibration.programs.sweep, write, "{sizes}"{computes}]
    writes: {{data: {{}}}}
    ranks: {writers}
    place: {place}
    output: {output}
  take:
    command: ["${{{{ wf.python }}}}", -m, workflow.calibration.programs.sweep, read]
    reads: {{data: {{}}}}
    place: {place_of_reader}
streams:
  data: {{from: make, to: take, via: {via}, keep: false}}
oversubscribe: {oversubscribe}
"""


@dataclass(frozen=True)
class StreamSetting:
    """A kind of stream, and between how many ranks."""

    via: str
    writers: int = 1
    aggregators: int | None = None
    async_write: str = "off"
    nodes: int = 1

    @property
    def name(self) -> str:
        """`sst-tcp between two nodes`, `bp5, 4 writers, 2 aggregators`."""
        parts = [f"{self.via} between two nodes" if self.nodes > 1 else self.via]
        if self.writers > 1:
            parts.append(plural(self.writers, "writer"))
            parts += [plural(self.aggregators, "aggregator")] if self.aggregators else []
        parts += [f"async {self.async_write}"] if self.async_write != "off" else []
        return ", ".join(parts)


@dataclass
class _Times:
    """What was measured of steps of one size, all repetitions."""

    step_s: list[float] = field(default_factory=list)
    write_s: list[float] = field(default_factory=list)
    read_s: list[float] = field(default_factory=list)
    write_cpu_s: list[float] = field(default_factory=list)
    read_cpu_s: list[float] = field(default_factory=list)
    behind_s: list[float] = field(default_factory=list)


@dataclass
class StreamSamples:
    """What was measured of one setting so far."""

    setting: StreamSetting
    engine: str = ""
    transport: str = ""
    by_size: dict[int, _Times] = field(default_factory=dict)

    def to_rates(self) -> StreamRates:
        """The medians and quartiles of all repetitions."""
        points = [
            StreamPoint(
                bytes=size,
                step_s=quartiles(times.step_s),
                write_s=quartiles(times.write_s),
                read_s=quartiles(times.read_s),
                write_cpu_s=quartiles(times.write_cpu_s),
                read_cpu_s=quartiles(times.read_cpu_s),
                behind_s=quartiles(times.behind_s) if times.behind_s else None,
            )
            for size, times in sorted(self.by_size.items())
        ]
        each = self.setting
        return StreamRates(
            via=each.via, engine=self.engine, transport=self.transport, writers=each.writers, readers=1,
            nodes=each.nodes, aggregators=each.aggregators, async_write=each.async_write, points=points,
        )  # fmt: skip


@dataclass
class LaunchSamples:
    """What starting stages took, by (launcher, ranks)."""

    begin_s: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    ready_s: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def to_costs(self) -> list[LaunchCost]:
        """The medians and quartiles of all runs."""
        return [
            LaunchCost(launcher=key[0], ranks=key[1], begin_s=quartiles(values), ready_s=quartiles(self.ready_s[key]))
            for key, values in sorted(self.begin_s.items())
        ]


def transport_settings(place: MeasuringPlace) -> list[StreamSetting]:
    """The transports that this ADIOS2 has, on one node, and those that work between nodes where there are two."""
    names = [f"sst-{each}" for each in place.site.planes if each != "mpi"]
    others = [each for each in _measured_whole() if each.in_memory]
    settings = [StreamSetting(name) for name in (*names, *map(_preset, others))]
    if place.nodes > 1:
        far = [_preset(each) for each in others if not each.one_node]
        settings += [StreamSetting(name, nodes=2) for name in (*names, *far)]
    return settings


def file_settings(place: MeasuringPlace, cores: int) -> list[StreamSetting]:
    """Files by 1, 2, 4, … writers on a node, each with one aggregator and with one for each writer.

    Written by a thread: by one writer, and by most of them with one aggregator.
    """
    return [
        setting
        for each in _measured_whole()
        if not each.in_memory
        for setting in _settings_of_file(_preset(each), place, cores)
    ]


def _measured_whole() -> list[EngineTraits]:
    """The engines that are measured as they are; of those over the network each transport is."""
    return [each for each in ENGINES.values() if each.calibrated and not each.over_network]


def _preset(engine: EngineTraits) -> str:
    return engine.name.lower()


def _settings_of_file(via: str, place: MeasuringPlace, cores: int) -> list[StreamSetting]:
    settings = [StreamSetting(via, 1, 1), *(StreamSetting(via, 1, 1, each) for each in ASYNCHRONOUS)]
    if not place.site.parallel_adios2:
        return settings  # rank 0 writes for all
    most = min(2, cores) if place.quick else cores
    for power in range(1, int(math.log2(most)) + 1 if most > 1 else 1):
        writers = 2**power
        settings += [StreamSetting(via, writers, count) for count in (1, writers)]
    if settings[-1].writers > 1:
        settings += [StreamSetting(via, settings[-1].writers, 1, each) for each in ASYNCHRONOUS]
    return settings


def measure_stream(samples: StreamSamples, launches: LaunchSamples, place: MeasuringPlace, cores: int) -> None:
    """One run of a setting. Raises NotMeasuredError, MeasurementEndedError."""
    sizes = QUICK_SIZES if place.quick else SIZES
    with measured_run(stream_pipeline(samples.setting, sizes, cores), place) as run:
        _take_steps(samples, run)
        _take_launches(launches, run)


def stream_pipeline(setting: StreamSetting, sizes: Sequence[int], cores: int) -> str:
    """The pipeline of a setting on nodes of so many cores. Both programs are bound, where there is a core for each."""
    apart, spare = setting.nodes > 1, cores > setting.writers
    own = "nodes: 1, cores_per_rank: 1"
    of_reader = own if apart else "share: make, cores_per_rank: 1" if spare else "share: make"
    output = []
    if setting.aggregators is not None and setting.writers > 1:
        output.append(f"aggregation: {{count: {setting.aggregators}}}")
    if setting.async_write != "off":
        output.append(f"async: {setting.async_write}")
    computes = ", compute" if setting.async_write != "off" else ""
    return PIPELINE.format(
        sizes=",".join(str(size) for size in sizes), computes=computes, writers=setting.writers, place=f"{{{own}}}",
        place_of_reader=f"{{{of_reader}}}", output=f"{{{', '.join(output)}}}", via=setting.via,
        oversubscribe="false" if spare or apart else "true",
    )  # fmt: skip


def _take_steps(samples: StreamSamples, run: MeasuredRun) -> None:
    plan = run.records.plan
    stream = plan.stream("data")
    samples.engine, samples.transport = stream.engine, stream.transport or ""
    marks, computes = run.printed["make"]["steps"][1:], samples.setting.async_write != "off"
    written = run.records.metrics["make"].of("data", "write")
    read = run.records.metrics["take"].of("data", "read")
    cpu = {stage: [mark[2] for mark in run.printed[stage]["steps"]] for stage in ("make", "take")}
    # The pace of live streams is that of the reader; a file is written at the pace of its writer.
    paced = read if stream.coupling == "live" else written
    for (size, paused), numbers in _blocks(marks):
        times = samples.by_size.setdefault(size, _Times())
        if paused:
            for number in numbers[WARM_PAUSED:]:
                times.write_s.append(written[number].io_s)
                times.read_s.append(read[number].io_s)
                times.behind_s += [max(0.0, marks[number][3])] if computes else []
            continue
        times.step_s += _periods([paced[number] for number in numbers[WARM_CROWDED - 1 :]])
        for number in numbers[WARM_CROWDED:]:
            times.write_cpu_s.append(cpu["make"][number + 1] - cpu["make"][number])
            times.read_cpu_s.append(cpu["take"][number + 1] - cpu["take"][number])


def _blocks(marks: Sequence[tuple[int, bool, float, float]]) -> Iterator[tuple[tuple[int, bool], list[int]]]:
    """Steps of one size that were written in the same way, by their numbers."""
    found: dict[tuple[int, bool], list[int]] = {}
    for number, (size, paused, _, _) in enumerate(marks):
        found.setdefault((size, paused), []).append(number)
    yield from found.items()


def _periods(steps: Sequence[StepRecord]) -> list[float]:
    return [after.t - before.t for before, after in pairwise(steps)]


def _take_launches(launches: LaunchSamples, run: MeasuredRun) -> None:
    plan = run.records.plan
    started = {event.stage: event.t for event in read_events(run.records.run_dir) if isinstance(event, StageStarted)}
    for stage in plan.stages:
        key, printed = (stage.launch.launcher, stage.ranks), run.printed[stage.name]
        launches.begin_s.setdefault(key, []).append(printed["began"] - started[stage.name])
        launches.ready_s.setdefault(key, []).append(printed["opened"] - started[stage.name])
