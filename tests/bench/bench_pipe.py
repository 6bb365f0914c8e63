"""How much of the time of file writing `async: pipe` hides.

A simulation computes between dumps (it keeps its core busy) and writes each to a BP5 file: by itself, and through a
pipe, a stage that takes the steps by SST and writes the file. The time of file writing that the simulation sees is
that from its open to its close, less the computing; hidden is what the pipe takes away of it. The runs take turns.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.bench import streams

STEPS, COMPUTE_S = 12, 0.5
SIZES = {"16 MB": 16_000_000, "64 MB": 64_000_000}
PIPELINE = """
wf: 1
name: pipe
oversubscribe: true
stages:
  sim:
    component: synthetic
    with: {{bytes: {size}, steps: {steps}, compute_time: {compute} s, spin: true}}
    output: {{async: {how}}}
  count: {{component: "null", with: {{read_data: false}}}}
streams:
  data: {{from: sim, to: count, via: bp5, keep: false}}
"""


def measure() -> list[dict[str, Any]]:
    """The share that is hidden, for two sizes of a dump."""
    return [row for name, size in SIZES.items() for row in rows(name, size)]


def rows(name: str, size: int) -> list[dict[str, Any]]:
    """One size."""
    with tempfile.TemporaryDirectory() as folder:
        turns = range(streams.repetitions(3))
        seen = [{how: visible_s(Path(folder), how, size) for how in ("off", "pipe")} for _ in turns]
    times = {how: sorted(each[how] for each in seen) for how in ("off", "pipe")}
    alone, piped = (statistics.median(times[how]) for how in ("off", "pipe"))
    shares = sorted(100 * (1 - each["pipe"] / each["off"]) for each in seen)
    detail = (
        f"{STEPS} dumps of {name}, {COMPUTE_S:g} s of computing before each: {alone:.2f} s of writing by itself, "
        f"{piped:.2f} s left with a pipe; {len(shares)} runs: {', '.join(f'{share:.0f}' for share in shares)} %"
    )
    return [
        {"name": f"file time hidden by a pipe, {name}", "value": statistics.median(shares), "unit": "%",
         "better": "higher", "detail": detail},
        *(
            {"name": f"file time that the simulation sees, {name}, async: {how}", "value": statistics.median(own),
             "unit": "s", "picture": "pipe", "group": name, "curve": how, "low": own[0], "high": own[-1]}
            for how, own in times.items()
        ),
    ]  # fmt: skip


def visible_s(folder: Path, how: str, size: int) -> float:
    """Seconds of the simulation from open to close that it did not compute."""
    pipeline = PIPELINE.format(size=size, steps=STEPS, compute=COMPUTE_S, how=how)
    metrics = streams.metrics_of_run(folder, pipeline, "sim")
    ((opened, _),), (closed,) = metrics.opened.values(), metrics.closed.values()
    return closed.t - opened - sum(step.compute_s for step in metrics.steps)
