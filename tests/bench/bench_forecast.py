"""How far the forecast of the time per step is off, on runs that were not used to calibrate.

First `wf calibrate` measures memory, transports and files. Then each pipeline runs once with a file between its stages,
`wf calibrate --from` keeps what the stages took, and the compressors are measured on one variable of the simulation's
file. After that the same pipelines run in other ways: by every transport that this ADIOS2 has, with another queue, with
compression, written asynchronously. `forecast.json` of each run, made before it started, is compared with the time per
step that its stages recorded. The error is |forecast ÷ measured − 1| of the writer's time per step; "inside" counts
trials whose measured median lies in the interval of the forecast. Then the trials of three studies
(examples/campaigns), each once, one after the other: what is not known of a trial is calibrated from its run, and every
other one is forecast before it starts. Takes the Python that WF_MPI_PYTHON names, else this one.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import streams
from tests.bench.streams import Row
from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.file.trials import make_trials

TARGET_PERCENT = 15
PIPELINES = {
    "1 MB, 5 ms": ("synthetic", "{bytes: 1 MB, compute_time: 5 ms, spin: true, steps: 300}", "null", "{}"),
    "16 MB, 20 ms": ("synthetic", "{bytes: 16 MB, compute_time: 20 ms, spin: true, steps: 100}", "null", "{}"),
    "16 MB, 1 ms": ("synthetic", "{bytes: 16 MB, compute_time: 1 ms, spin: true, steps: 100}", "null", "{}"),
    "gray_scott": (
        "gray_scott", "{size: [64], steps: 300, write_every: 3}", "histogram", "{variable: V, range: [0.0, 1.0]}",
    ),
}  # fmt: skip
# A study, and the stage whose time per step is forecast.
STUDIES = {"async-io": "simulation", "coupled-pipeline": "md", "adios-at-scale/asynchronous": "simulation"}
TEXT = """
wf: 1
name: forecast
stages:
  make: {component: %s, with: %s%s}
  take: {component: "%s", with: %s, place: {cores_per_rank: 1}}
  %s
streams:
  data: {from: make, to: take, %s}
  %s
%s
"""


Judged = tuple[float, bool, str]
"""The error in percent, whether the measurement is inside the forecast's interval, and both in words."""


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
        make, its, take, ins = PIPELINES[self.pipeline]
        output = f", output: {{{self.output}}}" if self.output else ""
        third = second = ""
        if self.pipeline == "gray_scott":  # histogram writes; nobody needs it
            third, second = 'keep: {component: "null"}', "pdf: {from: take, to: keep, via: bp5}"
        stream = f"via: {self.via}, queue: {{limit: {self.queue}}}"
        return TEXT % (make, its, output, take, ins, third, stream, second, "")


def trials(planes: tuple[str, ...]) -> list[ForecastTrial]:
    """All that is forecast."""
    transports = [f"sst-{name}" for name in planes if name != "mpi"] + (["ssc"] if "mpi" in planes else [])
    found = [ForecastTrial(via, name, via) for name in PIPELINES for via in transports]
    found += [ForecastTrial("queue", "16 MB, 20 ms", "sst-tcp", queue=limit) for limit in (1, 8)]
    found += [ForecastTrial("async", name, output="async: guided") for name in ("16 MB, 20 ms", "1 MB, 5 ms")]
    if "mpi" in planes:  # the same build has the operators
        for codec in ("lz4", "zstd"):
            output = f'compression: {{"*": {{blosc: {{codec: {codec}}}}}}}'
            found += [ForecastTrial("compression", "gray_scott", via, output) for via in ("bp5", "sst-tcp")]
    return found


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
    with streams.folder() as place:
        folder = Path(place)
        quick = ["--quick"] if streams.QUICK else []
        (folder / "measured").mkdir()
        parts = [word for part in ("memory", "transports", "file_system") for word in ("--only", part)]
        wf(folder, "calibrate", "--dir", "measured", *parts, *quick)
        for number, name in enumerate(PIPELINES):
            run(folder, ForecastTrial("former", name), f"former-{number}")
            wf(folder, "calibrate", "--from", f"former-{number}")
        if "mpi" in streams.planes():
            # The data of the last one, which is a simulation's.
            data = f"former-{len(PIPELINES) - 1}/streams/data.bp:U"
            wf(folder, "calibrate", "--only", "compressors", "--data", data, *quick)
        found: dict[str, list[Judged]] = {}
        for number, trial in enumerate(trials(streams.planes())):
            report = run(folder, trial, f"run-{number}")
            line = next(each for each in report["forecast"] if each["what"] == "time per step of make")
            found.setdefault(trial.kind, []).append(judged(line, trial.name))
        return rows(found, study_errors(folder))


def study_errors(folder: Path) -> dict[str, list[Judged]]:
    """Of each study, the trials of which every stage was known."""
    found: dict[str, list[Judged]] = {}
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
            # The data of all trials are more than memory holds.
            shutil.rmtree(folder / name)
    return found


def judged(line: dict[str, Any], name: str) -> Judged:
    """The error in percent, whether the measurement is inside the forecast's interval, and both in words."""
    said = f"{name}: forecast {line['forecast'] * 1e3:.1f} ms, measured {line['measured'] * 1e3:.1f} ms"
    print(f"{100 * line['difference']:+6.1f} %  {said}", file=sys.stderr, flush=True)
    return abs(100 * line["difference"]), line["low"] <= line["measured"] <= line["high"], said


def rows(found: dict[str, list[Judged]], of_studies: dict[str, list[Judged]]) -> list[Row]:
    """The median error over all trials, and by kind; then the same of the studies."""
    said = [*summary("", found), *(kind_row(kind, each) for kind, each in found.items())]
    said += summary(" over the studies", of_studies)
    return said + [kind_row(study, each) for study, each in of_studies.items()]


def summary(of: str, found: dict[str, list[Judged]]) -> list[Row]:
    """The median and the largest error."""
    every = [each for kind in found.values() for each in kind]
    worst = max(every)
    inside = sum(each[1] for each in every)
    return [
        streams.row(
            f"median error of the time per step{of}", statistics.median(error for error, _, _ in every), "%",
            TARGET_PERCENT, "lower", f"{len(every)} trials; {inside} inside the forecast's interval",
        ),
        streams.row(f"largest error{of}", worst[0], "%", better="lower", detail=worst[2]),
    ]  # fmt: skip


def kind_row(kind: str, found: list[Judged]) -> Row:
    """The errors of one kind of trials."""
    return streams.measured(f"error, {kind}", [error for error, _, _ in found], "%", better="lower")


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    streams.serve({}, measure)
