"""How far the forecast of the time per step is off, on runs that were not measured before.

First a campaign as that of examples/calibration measures streams and files by the size of their steps. Then each
pipeline runs once with a file between its stages. `wf calibrate` keeps what both have measured. After that the same
pipelines run in other ways: by every transport that this ADIOS2 has, and with another queue. The error is
|forecast ÷ measured − 1| of the time per step of the writer; measured is the median over its steps. The control
compares each run with the forecast of another one, drawn at random. Takes the Python that WF_MPI_PYTHON names, else
this one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench import streams
from tests.bench.streams import Row
from workflow.calibration.calibration_file import read_calibration
from workflow.engines import NODE_VIA
from workflow.forecast.make_forecast import make_forecast
from workflow.plan.read_plan import read_plan

TARGET_PERCENT = 10
SYNTHETIC = "{{component: synthetic, with: {{bytes: {bytes}, compute_time: {time}, spin: true, steps: {steps}}}}}"
GRAY_SCOTT = "{{component: gray_scott, with: {{size: [{size}], steps: {steps}, write_every: {every}}}}}"
NULL = '{component: "null", place: {cores_per_rank: 1}}'
HISTOGRAM = "{component: histogram, with: {variable: V, range: [0.0, 1.0]}}"


def synthetic(amount: str, compute: str, steps: int) -> str:
    """Stages that write and that read."""
    return f"make: {SYNTHETIC.format(bytes=amount, time=compute, steps=steps)}\n  take: {NULL}"


def gray_scott(size: int, steps: int, every: int, analysis: str = HISTOGRAM) -> str:
    """The simulation and an analysis, whose output nobody needs."""
    make = GRAY_SCOTT.format(size=size, steps=steps, every=every)
    return f'make: {make}\n  take: {analysis}\n  keep: {{component: "null"}}'


OUT = "\n  out: {from: take, to: keep, via: bp5}"
# The stages, and what follows behind the stream.
PIPELINES = {
    "64 kB, 2 ms": (synthetic("64 kB", "2 ms", 1000), ""),
    "1 MB, 5 ms": (synthetic("1 MB", "5 ms", 300), ""),
    "16 MB, 20 ms": (synthetic("16 MB", "20 ms", 100), ""),
    "16 MB, 1 ms": (synthetic("16 MB", "1 ms", 100), ""),
    "6 MB, 10 ms, two readers": (synthetic("6 MB", "10 ms", 200) + f"\n  other: {NULL}", ""),
    "gray_scott": (gray_scott(64, 300, 3), OUT),
    "larger gray_scott": (gray_scott(96, 60, 1), OUT),
    "statistics": (gray_scott(48, 900, 6, "{component: statistics, with: {variable: V}}"), OUT),
    "chain": (gray_scott(56, 600, 6) + "\n  stat: {component: statistics, with: {variable: pdf}}",
              OUT.replace("to: keep", "to: stat") + "\n  stat: {from: stat, to: keep, via: bp5}"),
}  # fmt: skip
CALIBRATION = streams.ROOT / "examples/calibration"
SIZES = "[1 kB, 64 kB, 1 MB, 4 MB, 16 MB, 64 MB]"
TEXT = """
wf: 1
name: forecast
oversubscribe: true
stages:
  {stages}
streams:
  data: {{from: make, to: {readers}, {way}}}{others}
"""


class Judged(NamedTuple):
    """What was forecast of a run, and what came: seconds per step of the writer."""

    name: str
    forecast: float
    measured: float

    @property
    def error(self) -> float:
        """In percent."""
        return abs(100 * (self.forecast / self.measured - 1))

    def __str__(self) -> str:
        return f"{self.name}: forecast {self.forecast * 1e3:.1f} ms, measured {self.measured * 1e3:.1f} ms"


Found = dict[str, list[Judged]]
"""Kind of trials → its trials."""


@dataclass(frozen=True)
class ForecastTrial:
    """One way to run one of the pipelines."""

    kind: str
    pipeline: str
    via: str = "bp5"
    queue: int = 2

    @property
    def name(self) -> str:
        """For the details of a row."""
        return f"{self.pipeline}, {self.via}" + (f", queue {self.queue}" if self.queue != 2 else "")

    def text(self) -> str:
        """The pipeline file."""
        stages, others = PIPELINES[self.pipeline]
        readers = "[take, other]" if "\n  other:" in stages else "take"
        way = f"via: {self.via}, queue: {{limit: {self.queue}}}"
        return TEXT.format(stages=stages, readers=readers, way=way, others=others)


def transports(planes: tuple[str, ...]) -> list[str]:
    """Every one that this ADIOS2 has."""
    return [*(f"sst-{name}" for name in planes if name != "mpi"), NODE_VIA]


def trials(planes: tuple[str, ...]) -> list[ForecastTrial]:
    """All that is forecast, in random order."""
    found = [ForecastTrial(via, name, via) for name in PIPELINES for via in transports(planes)]
    found += [
        ForecastTrial("queue", name, via, queue) for name in PIPELINES for via, queue in (("sst-tcp", 1), (NODE_VIA, 8))
    ]
    return random.Random(0).sample(found, len(found))


def wf(folder: Path, *argv: str) -> str:
    """One command."""
    env = streams.environment({"XDG_CONFIG_HOME": str(folder / "config"), "NO_COLOR": "1"})
    env.pop("WF_CONFIGS", None)
    command = [streams.PYTHON, "-m", "workflow.cli", *argv]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv}: exit code {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def measure() -> list[Row]:
    """The rows of the page."""
    planes = streams.planes()
    with streams.folder() as place:
        folder = Path(place)
        measure_streams(folder, planes)
        for number, name in enumerate(PIPELINES):
            (folder / "pipeline.yaml").write_text(ForecastTrial("former", name).text())
            wf(folder, "run", "pipeline.yaml", "--run-dir", f"former-{number}", "-q")
            wf(folder, "calibrate", f"former-{number}")
        found: Found = {}
        for trial in trials(planes):
            found.setdefault(trial.kind, []).append(judge(folder, trial))
    every = [each for kind in found.values() for each in kind]
    worst = max(every, key=lambda each: each.error)
    others = random.Random(0).sample(every, len(every))
    swapped = [each._replace(forecast=other.forecast) for each, other in zip(every, others, strict=True)]
    name = "median error of the time per step"
    return [
        streams.row(name, errors(every), "%", TARGET_PERCENT, "lower", f"{len(every)} runs"),
        streams.row("largest error", worst.error, "%", better="lower", detail=str(worst)),
        streams.row("median error with the forecast of another run", errors(swapped), "%", better="lower"),
        *(
            streams.measured(f"error, {kind}", [each.error for each in judged], "%", better="lower")
            for kind, judged in found.items()
        ),
    ]


def measure_streams(folder: Path, planes: tuple[str, ...]) -> None:
    """The shipped campaign, of all transports that are here."""
    (folder / "moving.yaml").write_text((CALIBRATION / "moving.yaml").read_text())
    (folder / "campaign.yaml").write_text((CALIBRATION / "transports.yaml").read_text())
    matrix = {"streams.data.via": [*transports(planes), "bp5"], "stages.make.with.bytes": SIZES}
    text = ", ".join(f"{key}: {json.dumps(value).replace(chr(34), '')}" for key, value in matrix.items())
    repetitions = ["--set", "repetitions=1"] if streams.QUICK else []
    wf(folder, "campaign", "run", "campaign.yaml", "--set", f"matrix={{{text}}}", *repetitions)
    wf(folder, "calibrate", "transports")


def judge(folder: Path, trial: ForecastTrial) -> Judged:
    """The forecast, and one run. Its data are removed: those of all are more than memory holds."""
    (folder / "pipeline.yaml").write_text(trial.text())
    plan = read_plan(wf(folder, "plan", "pipeline.yaml", "--json"), "plan")
    forecast = make_forecast(plan, read_calibration(folder / f"config/wf/calibration/{plan.site}.json"))
    (pace,) = (each for each in forecast.paces if "make" in each.stages)
    if not pace.complete:
        raise RuntimeError(f"{trial.name}: {[cost for cost in forecast.costs if cost.seconds is None]}")
    wf(folder, "run", "pipeline.yaml", "--run-dir", "judged", "-q")
    report: dict[str, Any] = json.loads(wf(folder, "report", "judged", "--json"))
    (make,) = (each for each in report["stages"] if each["name"] == "make")
    shutil.rmtree(folder / "judged")
    found = Judged(trial.name, pace.seconds.median, make["step_times"]["p50"])
    print(f"{found.error:6.1f} %  {found}", file=sys.stderr, flush=True)
    return found


def errors(found: Iterable[Judged]) -> float:
    """Their median."""
    return statistics.median(each.error for each in found)


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    streams.serve({}, measure)
