"""How far the forecast of the time per step is off, on runs that were not used to calibrate.

First `wf calibrate` measures memory, transports and files. Then each pipeline runs once with a file between its stages,
`wf calibrate --from` keeps what the stages took, and the compressors are measured on one variable of the simulation's
file. After that the same pipelines run in other ways: by every transport that this ADIOS2 has, with another queue, with
compression, written asynchronously. `forecast.json` of each run, made before it started, is compared with the time per
step that its stages recorded. The error is |forecast ÷ measured − 1| of the writer's time per step; "inside" counts
trials whose measured median lies between the quartiles of the forecast. Takes the Python that WF_MPI_PYTHON names,
else this one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import streams
from tests.bench.streams import Row

TARGET_PERCENT = 15
PIPELINES = {
    "1 MB, 5 ms": ("synthetic", "{bytes: 1 MB, compute_time: 5 ms, spin: true, steps: 300}", "null", "{}"),
    "16 MB, 20 ms": ("synthetic", "{bytes: 16 MB, compute_time: 20 ms, spin: true, steps: 100}", "null", "{}"),
    "16 MB, 1 ms": ("synthetic", "{bytes: 16 MB, compute_time: 1 ms, spin: true, steps: 100}", "null", "{}"),
    "gray_scott": (
        "gray_scott", "{size: [64], steps: 300, write_every: 3}", "histogram", "{variable: V, range: [0.0, 1.0]}",
    ),
}  # fmt: skip
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
        found: dict[str, list[tuple[float, bool, str]]] = {}
        for number, trial in enumerate(trials(streams.planes())):
            report = run(folder, trial, f"run-{number}")
            line = next(each for each in report["forecast"] if each["what"] == "time per step of make")
            inside = line["low"] <= line["measured"] <= line["high"]
            said = f"{trial.name}: forecast {line['forecast'] * 1e3:.1f} ms, measured {line['measured'] * 1e3:.1f} ms"
            print(f"{100 * line['difference']:+6.1f} %  {said}  {report['off']}", file=sys.stderr, flush=True)
            found.setdefault(trial.kind, []).append((abs(100 * line["difference"]), inside, said))
    return rows(found)


def rows(found: dict[str, list[tuple[float, bool, str]]]) -> list[Row]:
    """The median error over all trials, and by kind."""
    every = [each for kind in found.values() for each in kind]
    errors = [error for error, _, _ in every]
    worst = max(every)
    said = [
        streams.row(
            "median error of the time per step", statistics.median(errors), "%", TARGET_PERCENT, "lower",
            f"{len(every)} trials; {sum(inside for _, inside, _ in every)} inside the forecast's quartiles",
        ),
        streams.row("largest error", worst[0], "%", better="lower", detail=worst[2]),
    ]  # fmt: skip
    return said + [
        streams.measured(f"error, {kind}", [error for error, _, _ in of_kind], "%", better="lower")
        for kind, of_kind in found.items()
    ]


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    streams.serve({}, measure)
