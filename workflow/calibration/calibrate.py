"""All measurements of a site, in turn: each repetition goes through all settings, so that drift hits all alike.

Meanwhile it is recorded how many cores other programs use.
"""

from __future__ import annotations

import ctypes
import datetime
import importlib.metadata
import os
import platform
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from workflow import __version__
from workflow.calibration.compressor_measurement import SHIPPED_DATA, compressors_here, make_data, measure_compressor
from workflow.calibration.measured_run import MeasurementEndedError, MeasuringPlace, NotMeasuredError
from workflow.calibration.stream_measurement import (
    LaunchSamples,
    StreamSamples,
    file_settings,
    measure_stream,
    transport_settings,
)
from workflow.forecast.calibration_model import (
    Calibration,
    CompressorRates,
    MeasuredPart,
    MeasuringConditions,
    StreamRates,
)
from workflow.forecast.quartiles import Quartiles, quartiles

REPETITIONS = 3
COPIED_BYTES = 64_000_000
COPIES = 12
WARM_COPIES = 2
PROC_STAT = Path("/proc/stat")
# Of the lines of /proc/stat for each CPU (man 5 proc): user, nice, system, irq, softirq and steal, not idle and iowait.
# The time of guests is in that of user and nice.
_BUSY = (0, 1, 2, 5, 6, 7)
# A shorter time holds too few ticks of 10 ms.
SAMPLE_S = 1.0


@dataclass(frozen=True)
class GivenData:
    """What is compressed: a BP file of the user, and one of its variables."""

    file: Path
    variable: str


class Measurement:
    """What has been measured so far; it may be kept at any time."""

    def __init__(self, place: MeasuringPlace, parts: Sequence[MeasuredPart], data: GivenData | None) -> None:
        self.skipped: list[str] = []
        """What could not be measured, and why."""
        self.others: float | None = None
        """Cores that other programs used meanwhile; None: not known."""
        self.interrupted = False
        self._place, self._parts, self._data = place, parts, data
        self._cores = len(place.site.usable_cores)
        transports = transport_settings(place) if {"transports", "launch"} & set(parts) else []
        files = file_settings(place, self._cores) if "file_system" in parts else []
        self._transports = [StreamSamples(setting) for setting in transports]
        self._files = [StreamSamples(setting) for setting in files]
        self._launches = LaunchSamples()
        self._memory: Quartiles | None = None
        self._compressors: list[CompressorRates] = []

    def measure(self, show: Callable[[str], None]) -> None:
        """Measure all; `show` gets a line before each. Ctrl-C ends it in order."""
        todo, before = self._todo(), cpu_times()
        try:
            for number, (name, measurement) in enumerate(todo, 1):
                show(f"{number:3}/{len(todo)} {name}")
                try:
                    measurement()
                except NotMeasuredError as error:
                    self.skipped.append(f"{name}: {error}")
        except (MeasurementEndedError, KeyboardInterrupt):
            self.interrupted = True
        self.others = cores_of_others(before, cpu_times())

    def _todo(self) -> list[tuple[str, Callable[[], None]]]:
        todo: list[tuple[str, Callable[[], None]]] = []
        if "memory" in self._parts:
            todo.append(("memcpy", self._measure_memory))
        for repetition in range(1 if self._place.quick else REPETITIONS):
            again = f" ({repetition + 1} of {REPETITIONS})" if not self._place.quick else ""
            for samples in (*self._transports, *self._files):
                todo.append((samples.setting.name + again, partial(self._measure_stream, samples)))
        if "compressors" in self._parts:
            settings = compressors_here(self._place.site)
            todo += [(name, partial(self._measure_compressor, setting)) for name, setting in settings.items()]
            if not settings:
                self.skipped.append("compressors: this ADIOS2 has no operators; `make adios2-mpi` builds one that has")
        return todo

    def _measure_memory(self) -> None:
        self._memory = measure_memory()

    def _measure_stream(self, samples: StreamSamples) -> None:
        measure_stream(samples, self._launches, self._place, self._cores)

    def _measure_compressor(self, setting: str) -> None:
        if self._data is None:
            file, variable = make_data(self._place)
            data = f"{variable} of {SHIPPED_DATA}"
        else:
            file, variable = self._data.file, self._data.variable
            data = f"{self._data.file.name}:{variable}"
        self._compressors.append(measure_compressor(setting, file, variable, data, self._place))

    def into(self, old: Calibration) -> Calibration:
        """The calibration with what was measured in place of the same parts of the old one; the other parts stay."""
        changes: dict[str, object] = {}
        if self._memory is not None:
            changes["memory"] = self._memory
        for part, samples in (("transports", self._transports), ("file_system", self._files)):
            if part in self._parts and (found := [each.to_rates() for each in samples if each.by_size]):
                changes[part] = found
        if "launch" in self._parts and self._launches.begin_s:
            changes["launch"] = self._launches.to_costs()
        if self._compressors:
            changes["compressors"] = self._compressors
        now = self._conditions()
        changes = {part: _widened(value, now.free) for part, value in changes.items()} if now.is_disturbed else changes
        measured = {**old.measured, **{part: now for part in self._parts if part in changes}}
        return old.model_copy(update={**changes, "measured": measured})

    def _conditions(self) -> MeasuringConditions:
        return MeasuringConditions(
            date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            host=socket.gethostname(), cores=self._cores, wf_version=__version__, python=platform.python_version(),
            adios2=_adios2_version(), parallel_adios2=_known(self._place.site.parallel_adios2),
            quick=self._place.quick, complete=not self.interrupted, others=self.others,
        )  # fmt: skip


def _widened(part: Any, free: float) -> Any:
    """A part of the calibration whose figures may be better on a quiet machine: times shorter, rates higher."""
    if isinstance(part, list):
        return [_widened(each, free) for each in part]
    if isinstance(part, Quartiles):  # memory: a rate
        return part.widened_rate(free)
    spread = {name: value for name, value in part if isinstance(value, Quartiles)}
    rates = isinstance(part, CompressorRates)
    changes: dict[str, Any] = {
        name: value.widened_rate(free) if rates else value.widened(free) for name, value in spread.items()
    }
    if isinstance(part, StreamRates):
        changes["points"] = _widened(part.points, free)
    return part.model_copy(update=changes)


def _adios2_version() -> str:
    try:
        return importlib.metadata.version("adios2")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _known(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def measure_memory() -> Quartiles:
    """Bytes per second from one block to another, both larger than caches and touched before."""
    source, target = ctypes.create_string_buffer(COPIED_BYTES), ctypes.create_string_buffer(COPIED_BYTES)
    ctypes.memset(source, 1, COPIED_BYTES)
    rates = []
    for _ in range(WARM_COPIES + COPIES):
        begin = time.perf_counter()
        ctypes.memmove(target, source, COPIED_BYTES)
        rates.append(COPIED_BYTES / (time.perf_counter() - begin))
    return quartiles(rates[WARM_COPIES:])


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds up to a moment: of all programs on the CPUs that this process may use, and of this process with its
    children that have ended."""

    t: float
    all_s: float
    own_s: float


def cpu_times() -> CpuTimes | None:
    """Up to now; None where the system does not tell."""
    try:
        own_cpus = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in PROC_STAT.read_text().splitlines()]
        times = [line[1:] for line in lines if line and line[0] in own_cpus]
        busy = sum(int(ticks[place]) for ticks in times for place in _BUSY)
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    own = os.times()
    own_s = own.user + own.system + own.children_user + own.children_system
    return CpuTimes(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), own_s)


def cores_of_others(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Cores that others used on average between two moments; None: not known."""
    if before is None or after is None or after.t <= before.t:
        return None
    return max(0.0, (after.all_s - before.all_s) - (after.own_s - before.own_s)) / (after.t - before.t)


def sample_others() -> float | None:
    """Cores that others use now. Takes a second."""
    before = cpu_times()
    time.sleep(SAMPLE_S)
    return cores_of_others(before, cpu_times())
