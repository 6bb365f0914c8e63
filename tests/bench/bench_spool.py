"""What a spool costs: the time of a step from Put to the end of EndStep, the steps per second, and the CPU time.

A simulation sends its steps by SST to a reader that takes all data. With `keep: true` a second reader writes them to a
BP5 file in the run directory, here on a disk, with `keep: {where: /dev/shm}` to one in memory. The three take turns,
each time in another order. First the simulation computes between steps and keeps its core busy: what is measured is a
step. Then it sends as fast as it can. On a machine of two cores reader and spool share the one that the simulation
leaves free.
The CPU time is that of the whole run, with the start of all its programs.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.bench import streams

STEPS, COMPUTE_S = 24, 0.5
SIZES = {"16 MB": 16_000_000, "64 MB": 64_000_000}
# Of the steps as fast as they go, so many bytes in all.
AT_FULL_SPEED = 3.2e8 if streams.QUICK else 3.2e9
SPOOLS = {"without": "", "on disk": ", keep: true", "in memory": ", keep: {where: /dev/shm}"}
PIPELINE = """
wf: 1
name: spool
oversubscribe: true
stages:
  sim: {{component: synthetic, with: {{bytes: {size}, steps: {steps}, compute_time: {compute} s, spin: true}}}}
  count: {{component: "null"}}
streams:
  data: {{from: sim, to: count, via: sst{spool}}}
"""
T = TypeVar("T")


class Speed(NamedTuple):
    """Of a run at full speed."""

    steps_per_s: float
    cpu_s: float


def measure() -> list[streams.Row]:
    """The ratios of the times, speeds and CPU times, for two sizes of a step."""
    rows = [row for name, size in SIZES.items() for row in paced_rows(name, size)]
    return rows + [row for name, size in SIZES.items() for row in full_speed_rows(name, size)]


def in_turns(measured: Callable[[Path, str], T]) -> dict[str, list[T]]:
    """What is measured without a spool, and with each, in turns; the run directories are on a disk."""
    found: dict[str, list[T]] = {name: [] for name in SPOOLS}
    names = [*SPOOLS]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(streams.repetitions(5)):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                found[name].append(measured(Path(folder), SPOOLS[name]))
    return found


def paced_rows(name: str, size: int) -> list[streams.Row]:
    """The time of a step of one size."""
    seen = in_turns(lambda folder, spool: step_times(folder, spool, size))
    times = {spool: [t for each in runs for t in each] for spool, runs in seen.items()}
    rows = []
    for where in ("on disk", "in memory"):
        for what, of in (("median", statistics.median), ("95th percentile", _most)):
            alone, spooled = of(times["without"]), of(times[where])
            detail = (
                f"{what} of {len(times[where])} steps of {name}, {COMPUTE_S:g} s of computing before each: "
                f"{1000 * alone:.1f} ms without, {1000 * spooled:.1f} ms with a spool"
            )
            rows.append(
                {"name": f"a step from Put to EndStep with a spool {where} ÷ without, {name}, {what}",
                 "value": spooled / alone, "unit": "×", "better": "lower", "target": 1.1, "detail": detail}
            )  # fmt: skip
    return rows


def full_speed_rows(name: str, size: int) -> list[streams.Row]:
    """Steps per second of steps of one size, as fast as they go, and the CPU time of such a run."""
    steps = max(8, round(AT_FULL_SPEED / size))
    seen = in_turns(lambda folder, spool: full_speed(folder, spool, size, steps))
    what = f"{name}, as fast as they go"
    return [
        *_ratios(f"steps per second with a spool {{}} ÷ without, {what}", seen, "steps_per_s", "steps/s", steps),
        *_ratios(f"CPU time of a run with a spool {{}} ÷ without, {what}", seen, "cpu_s", "s", steps),
    ]


def _ratios(title: str, seen: Mapping[str, Sequence[Speed]], figure: str, unit: str, steps: int) -> list[streams.Row]:
    """The median of the ratios of the turns."""
    better = "higher" if figure == "steps_per_s" else "lower"
    values = {name: [float(getattr(each, figure)) for each in runs] for name, runs in seen.items()}
    rows = []
    for where in ("on disk", "in memory"):
        ratios = sorted(with_it / alone for with_it, alone in zip(values[where], values["without"], strict=True))
        alone, with_it = statistics.median(values["without"]), statistics.median(values[where])
        detail = (
            f"{steps} steps a run, ratios of {len(ratios)} turns from {ratios[0]:.2f} to {ratios[-1]:.2f}: medians "
            f"{alone:.3g} {unit} without, {with_it:.3g} {unit} with a spool"
        )
        row = {"name": title.format(where), "value": statistics.median(ratios), "unit": "×", "better": better}
        rows.append({**row, "detail": detail})
    return rows


def _most(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def step_times(folder: Path, spool: str, size: int) -> list[float]:
    """Seconds of each step but the first two, in which buffers are made."""
    pipeline = PIPELINE.format(size=size, steps=STEPS, compute=COMPUTE_S, spool=spool)
    metrics = streams.metrics_of_run(folder, pipeline, "sim")
    return [step.io_s + step.wait_s for step in metrics.of("data", "write")[2:]]


def full_speed(folder: Path, spool: str, size: int, steps: int) -> Speed:
    """Of a run without pauses, without its first two steps; the CPU time is that of all."""
    pipeline = PIPELINE.format(size=size, steps=steps, compute=0, spool=spool)
    before = os.times()
    ends = [step.t for step in streams.metrics_of_run(folder, pipeline, "sim").of("data", "write")[2:]]
    after = os.times()
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    return Speed((len(ends) - 1) / (ends[-1] - ends[0]), cpu_s)
