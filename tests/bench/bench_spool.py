"""What a spool costs the simulation: the time of a step from Put to the end of EndStep, with one and without.

A simulation computes between steps (it keeps its core busy) and sends each by SST to a reader that takes all data.
With `spool: auto` a second reader writes the steps to a BP5 file. The runs take turns; on a machine of two cores reader
and spool share the one that the simulation leaves free.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from tests.bench import streams

STEPS, COMPUTE_S = 24, 0.5
SIZES = {"16 MB": 16_000_000, "64 MB": 64_000_000}
PIPELINE = """
wf: 1
name: spool
oversubscribe: true
stages:
  sim: {{component: synthetic, with: {{bytes: {size}, steps: {steps}, compute_time: {compute}, spin: true}}}}
  count: {{component: "null"}}
streams:
  data: {{from: sim, to: count, via: sst{spool}}}
"""


def measure() -> list[dict[str, Any]]:
    """The ratio of the times, for two sizes of a step."""
    return [row for name, size in SIZES.items() for row in rows(name, size)]


def rows(name: str, size: int) -> list[dict[str, Any]]:
    """One size."""
    with streams.folder() as folder:
        seen = [
            {spool: step_times(Path(folder), spool, size) for spool in ("", ", spool: auto")}
            for _ in range(streams.repetitions(3))
        ]
    alone, spooled = ([t for each in seen for t in each[spool]] for spool in ("", ", spool: auto"))
    found = []
    for what, of in (("median", statistics.median), ("95th percentile", _most)):
        detail = (
            f"{what} of {len(alone)} steps of {name}, {COMPUTE_S:g} s of computing before each: "
            f"{1000 * of(alone):.1f} ms without, {1000 * of(spooled):.1f} ms with a spool"
        )
        found.append(
            {"name": f"a step from Put to EndStep with a spool ÷ without, {name}, {what}",
             "value": of(spooled) / of(alone), "unit": "×", "better": "lower", "target": 1.1, "detail": detail}
        )  # fmt: skip
    return found


def _most(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def step_times(folder: Path, spool: str, size: int) -> list[float]:
    """Seconds of each step but the first two, in which buffers are made."""
    pipeline = PIPELINE.format(size=size, steps=STEPS, compute=COMPUTE_S, spool=spool)
    metrics = streams.metrics_of_run(folder, pipeline, "sim")
    return [step.io_s + step.wait_s for step in metrics.of("data", "write")[2:]]
