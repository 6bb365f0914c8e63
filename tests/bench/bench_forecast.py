"""How far the forecast of the time per step is off, on runs that were not used to calibrate.

First `wf calibrate` measures memory, transports and files. Then each pipeline runs once with a file between its stages,
`wf calibrate --from` keeps what the stages took, and the compressors are measured on one variable of the simulation's
file. After that the same pipelines run in other ways: by every transport that this ADIOS2 has, with another queue, with
compression, written asynchronously. `forecast.json` of each run, made before it started, is compared with the time per
step that its stages recorded. The error is |forecast ÷ measured − 1| of the writer's time per step; "inside" counts
trials whose measured median lies in the interval of the forecast, which is to hold 80 % of them. Then the trials of
three studies (examples/campaigns), each once, one after the other: what is not known of a trial is calibrated from its
run, and every other one is forecast before it starts. From these two the width of the interval was chosen. The third
part judges it: pipelines of other shapes, which nothing was chosen from. The control compares each of their runs with
the forecast of another one, drawn at random. Takes the Python that WF_MPI_PYTHON names, else this one.
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
from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.file.trials import make_trials
from workflow.engines import NODE_VIA

TARGET_PERCENT, LEAST_INSIDE = 10, 70
SYNTHETIC = "{{component: synthetic, with: {{bytes: {bytes}, compute_time: {time}, spin: true, steps: {steps}}}{more}}}"
GRAY_SCOTT = "{{component: gray_scott, with: {{size: [{size}], steps: {steps}, write_every: {every}}}{more}}}"
NULL = '{component: "null", place: {cores_per_rank: 1}}'
HISTOGRAM = "{component: histogram, with: {variable: V, range: [0.0, 1.0]}}"


def synthetic(amount: str, compute: str, steps: int, ranks: str = "") -> str:
    """Stages that write and that read, without the policies of the output."""
    return f"make: {SYNTHETIC.format(bytes=amount, time=compute, steps=steps, more=ranks + '%s')}\n  take: {NULL}"


def gray_scott(size: int, steps: int, every: int, analysis: str = HISTOGRAM, ranks: str = "") -> str:
    """The simulation and an analysis, whose output nobody needs."""
    make = GRAY_SCOTT.format(size=size, steps=steps, every=every, more=ranks + "%s")
    return f'make: {make}\n  take: {analysis}\n  keep: {{component: "null"}}'


OUT = "\n  out: {from: take, to: keep, via: bp5}"
# The stages, with a place for the policies of the output; and what follows behind the stream.
PIPELINES = {
    "1 MB, 5 ms": (synthetic("1 MB", "5 ms", 300), ""),
    "16 MB, 20 ms": (synthetic("16 MB", "20 ms", 100), ""),
    "16 MB, 1 ms": (synthetic("16 MB", "1 ms", 100), ""),
    "gray_scott": (gray_scott(64, 300, 3), OUT),
}
TWO_RANKS = ", ranks: 2"
# Of other shapes: small steps, two readers, an analysis that accumulates, a chain, ranks that share cores with others.
UNSEEN = {
    "64 kB, 2 ms": (synthetic("64 kB", "2 ms", 1000), ""),
    "6 MB, 10 ms, two readers": (synthetic("6 MB", "10 ms", 200) + f"\n  other: {NULL}", ""),
    "statistics": (gray_scott(48, 900, 6, "{component: statistics, with: {variable: V}}"), OUT),
    "larger gray_scott": (gray_scott(96, 60, 1), OUT),
    "chain": (gray_scott(56, 600, 6) + "\n  stat: {component: statistics, with: {variable: pdf}}",
              OUT.replace("to: keep", "to: stat") + "\n  stat: {from: stat, to: keep, via: bp5}"),
    "two ranks of gray_scott": (gray_scott(64, 400, 4, ranks=TWO_RANKS), OUT),
    "two ranks, 8 MB, 10 ms": (synthetic("8 MB", "10 ms", 150, TWO_RANKS), ""),
}  # fmt: skip
# A study, and the stage whose time per step is forecast.
STUDIES = {"async-io": "simulation", "coupled-pipeline": "md", "adios-at-scale/asynchronous": "simulation"}
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
    low: float
    high: float
    measured: float

    @property
    def error(self) -> float:
        """In percent."""
        return abs(100 * (self.forecast / self.measured - 1))

    @property
    def is_inside(self) -> bool:
        """Whether the interval has held it."""
        return self.low <= self.measured <= self.high

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
    output: str = ""
    queue: int = 2

    @property
    def name(self) -> str:
        """For the details of a row."""
        parts = [self.pipeline, self.via, self.output, f"queue {self.queue}" if self.queue != 2 else ""]
        return ", ".join(part for part in parts if part)

    def text(self) -> str:
        """The pipeline file."""
        stages, others = {**PIPELINES, **UNSEEN}[self.pipeline]
        output = f", output: {{{self.output}}}" if self.output else ""
        readers = "[take, other]" if "\n  other:" in stages else "take"
        way = f"via: {self.via}, queue: {{limit: {self.queue}}}"
        return TEXT.format(stages=stages % output, readers=readers, way=way, others=others)


def trials(planes: tuple[str, ...]) -> list[ForecastTrial]:
    """All that is forecast."""
    transports = [*(f"sst-{name}" for name in planes if name != "mpi"), NODE_VIA]
    found = [ForecastTrial(via, name, via) for name in PIPELINES for via in transports]
    found += [ForecastTrial("queue", "16 MB, 20 ms", "sst-tcp", queue=limit) for limit in (1, 8)]
    found += [ForecastTrial("async", name, output="async: guided") for name in ("16 MB, 20 ms", "1 MB, 5 ms")]
    if "mpi" in planes:  # the same build has the operators
        for codec in ("lz4", "zstd"):
            output = f'compression: {{"*": {{blosc: {{codec: {codec}}}}}}}'
            found += [ForecastTrial("compression", "gray_scott", via, output) for via in ("bp5", "sst-tcp")]
    return found


def unseen_trials(planes: tuple[str, ...]) -> list[ForecastTrial]:
    """Ways to run the pipelines of other shapes, in random order."""
    transports = [f"sst-{name}" for name in planes if name in ("tcp", "ucx")] + [NODE_VIA]
    found = [ForecastTrial(via, name, via) for name in UNSEEN for via in transports]
    found += [
        ForecastTrial("queue", name, via, queue=limit)
        for name in UNSEEN
        for via, limit in (("sst-tcp", 1), (NODE_VIA, 8))
    ]
    found += [ForecastTrial("async", name, output="async: guided") for name in UNSEEN]
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


def run(folder: Path, trial: ForecastTrial, number: str) -> dict[str, Any]:
    """The report of a run."""
    (folder / "pipeline.yaml").write_text(trial.text())
    wf(folder, "run", "pipeline.yaml", "--run-dir", number, "-q")
    report: dict[str, Any] = json.loads(wf(folder, "report", number, "--json"))
    return report


def measure() -> list[Row]:
    """The rows of the page."""
    planes = streams.planes()
    with streams.folder() as place:
        folder = Path(place)
        quick = ["--quick"] if streams.QUICK else []
        (folder / "measured").mkdir()
        parts = [word for part in ("memory", "transports", "file_system") for word in ("--only", part)]
        wf(folder, "calibrate", "--dir", "measured", *parts, *quick)
        learn(folder, PIPELINES)
        if "mpi" in planes:
            # The data of the last one, which is a simulation's.
            data = f"{former(list(PIPELINES)[-1])}/streams/data.bp:U"
            wf(folder, "calibrate", "--only", "compressors", "--data", data, *quick)
        found = judge_all(folder, trials(planes))
        of_studies = study_errors(folder)
        learn(folder, UNSEEN)
        unseen = judge_all(folder, unseen_trials(planes))
    of_unseen = " of pipelines of other shapes"
    rows = [*summary("", found), *kind_rows("", found)]
    rows += [*summary(" over the studies", of_studies), *kind_rows("", of_studies)]
    return [*rows, *summary(of_unseen, unseen), *control(of_unseen, unseen), *kind_rows(of_unseen, unseen)]


def former(name: str) -> str:
    """The directory of the run from which the stages of a pipeline are known."""
    return f"former-{[*PIPELINES, *UNSEEN].index(name)}"


def learn(folder: Path, pipelines: Iterable[str]) -> None:
    """Run each once, and keep what its stages took."""
    for name in pipelines:
        run(folder, ForecastTrial("former", name), former(name))
        wf(folder, "calibrate", "--from", former(name))


def judge_all(folder: Path, every: Iterable[ForecastTrial]) -> Found:
    """Each run once. Its data are removed: those of all are more than memory holds."""
    found: Found = {}
    for number, trial in enumerate(every):
        directory = f"run-{number}"
        report = run(folder, trial, directory)
        line = next(each for each in report["forecast"] if each["what"] == "time per step of make")
        found.setdefault(trial.kind, []).append(judged(line, trial.name))
        shutil.rmtree(folder / directory)
    return found


def study_errors(folder: Path) -> Found:
    """Of each study, the trials of which every stage was known."""
    found: Found = {}
    for study, stage in STUDIES.items():
        campaign = streams.ROOT / "examples/campaigns" / study
        for number, trial in enumerate(make_trials(load_campaign(campaign / "campaign.yaml"))):
            name = f"{study.replace('/', '-')}-{number}"
            values = [f"--set={key}={json.dumps(value)}" for key, value in trial.parameters.items()]
            wf(folder, "run", str(campaign / "pipeline.yaml"), *values, "--run-dir", name, "-q")
            report = json.loads(wf(folder, "report", name, "--json"))
            lines = (each for each in report["forecast"] if each["what"] == f"time per step of {stage}")
            line = next(lines, None)
            if line is None or not line["complete"]:
                wf(folder, "calibrate", "--from", name)
            else:
                said = ", ".join([study, *map(str, trial.parameters.values())])
                found.setdefault(study, []).append(judged(line, said))
            shutil.rmtree(folder / name)
    return found


def judged(line: dict[str, Any], name: str) -> Judged:
    """What a report says of a forecast."""
    found = Judged(name, *(line[key] for key in ("forecast", "low", "high", "measured")))
    off, low, high = found.forecast / found.measured - 1, found.low * 1e3, found.high * 1e3
    print(f"{100 * off:+6.1f} %  {found}, {low:.1f} to {high:.1f}", file=sys.stderr, flush=True)
    return found


def summary(of: str, found: Found) -> list[Row]:
    """The median and the largest error, and how many runs the intervals have held."""
    every = [each for kind in found.values() for each in kind]
    worst = max(every, key=lambda each: each.error)
    inside = 100 * statistics.fmean(each.is_inside for each in every)
    name = f"median error of the time per step{of}"
    return [
        streams.row(name, errors(every), "%", TARGET_PERCENT, "lower", f"{len(every)} runs"),
        streams.row(f"inside the interval of 80 %{of}", inside, "%", LEAST_INSIDE, detail="70 to 90 % would be right"),
        streams.row(f"largest error{of}", worst.error, "%", better="lower", detail=str(worst)),
    ]


def control(of: str, found: Found) -> list[Row]:
    """The same with the forecast of another run of these."""
    every = [each for kind in found.values() for each in kind]
    others = random.Random(0).sample(every, len(every))
    swapped = [each._replace(forecast=other.forecast) for each, other in zip(every, others, strict=True)]
    return [streams.row(f"median error with the forecast of another run{of}", errors(swapped), "%", better="lower")]


def errors(found: Iterable[Judged]) -> float:
    """Their median."""
    return statistics.median(each.error for each in found)


def kind_rows(of: str, found: Found) -> list[Row]:
    """The errors of each kind of trials."""
    return [
        streams.measured(f"error, {kind}{of}", [each.error for each in every], "%", better="lower")
        for kind, every in found.items()
    ]


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    streams.serve({}, measure)
