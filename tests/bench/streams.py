"""What the benchmarks of streams share: programs started in pairs or under mpiexec, told by a plan, taking turns.

A benchmark with programs of its own ends with `streams.serve(PROGRAMS)`; started as `python FILE PROGRAM SETTINGS` it
is one of them, and what the function returns on one rank goes back as JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from workflow.report.read.stage_metrics import StageMetrics

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("WF_MPI_PYTHON") or sys.executable
QUICK = bool(os.environ.get("WF_BENCH_QUICK"))
TIMEOUT_S = 120
ROOM = 8e9  # bytes in memory, more than a measurement writes
_MARK = "measured: "

Row = dict[str, Any]
Program = Callable[[dict[str, Any]], Any]
T = TypeVar("T")


class NotMeasured(Exception):
    """A benchmark cannot run here: what is missing. What was measured before stays on the page."""


def repetitions(usual: int) -> int:
    """How often everything is measured; 1 with `--quick`."""
    return int(os.environ.get("WF_BENCH_REPEAT") or (1 if QUICK else usual))


def folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for files that are measured: in memory, where the system has a place for it with room.

    A disk that is written back would be all there is to see; and the page cache of a virtual machine whose host takes
    unused memory back was five times slower in some runs than in others, whatever was measured.
    """
    memory = Path("/dev/shm")
    room = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM
    return tempfile.TemporaryDirectory(dir=memory if room else None)


@cache
def planes() -> tuple[str, ...]:
    """The transports that the measured Python's ADIOS2 has; `mpi` among them says that it has MPI at all."""
    asks = "from workflow.site.this_machine import adios2_planes as a; print(*a()[0])"
    done = subprocess.run([PYTHON, "-c", asks], env=environment({}), check=True, capture_output=True, text=True)
    return tuple(done.stdout.split())


def by_name(pipeline: str) -> list[str]:
    """The option by which `via: sst` of a pipeline is SST: without it, shared memory may take its place."""
    return ["--via", "sst"] if re.search(r"via: sst\b(?!-)", pipeline) else []


@cache
def plan_of(pipeline: str) -> dict[str, Any]:
    """The plan that `wf plan --json` makes under the Python that is measured."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(pipeline)
        argv = [PYTHON, "-m", "workflow.cli", "plan", str(file), "--json", *by_name(pipeline)]
        done = subprocess.run(argv, env=environment({}), check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def metrics_of_run(folder: Path, pipeline: str, stage: str) -> StageMetrics:
    """What a stage of this pipeline recorded in a run of `wf`, of which nothing is left."""
    from workflow.report.read.stage_metrics import read_metrics

    file, run_dir = folder / "pipeline.yaml", folder / "run"
    file.write_text(pipeline)
    argv = [PYTHON, "-m", "workflow.cli", "run", str(file), "--run-dir", str(run_dir), "-q", *by_name(pipeline)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=env)
    metrics = read_metrics(run_dir / "stages" / stage / "metrics.jsonl")
    shutil.rmtree(run_dir)
    return metrics


def told(stage: Mapping[str, Any]) -> dict[str, str]:
    """What the plan puts into a stage's environment for speed: the allocator's settings and a transport's."""
    words = ("GLIBC", "MALLOC", "UCX", "FABRIC", "FI_", "OMP")
    return {key: value for key, value in stage["env"].items() if key.startswith(words)}


def launch(script: str, program: str, ranks: int, settings: Mapping[str, Any], env: Mapping[str, str]) -> Any:
    """Start one of a file's programs, in its own process or under mpiexec."""
    beside = Path(PYTHON).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"
    argv = [PYTHON, script, program, json.dumps(settings)]
    return subprocess.Popen(
        [mpiexec, "-n", str(ranks), *argv] if ranks > 1 else argv, env=environment(env), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def results(*processes: Any) -> list[Any]:
    """What these programs measured, when all have ended; when one fails, or hangs, none is left."""
    found = []
    try:
        for process in processes:
            said, errors = process.communicate(timeout=TIMEOUT_S)
            if process.returncode:
                raise RuntimeError(f"{process.args!r}: exit code {process.returncode}\n{errors[-2000:]}")
            found.append(result_in(said))
    finally:
        for process in processes:
            _stop(process)
    return found


def result_in(printed: str) -> Any:
    """What a program that prints this has measured; None where it says nothing."""
    lines = [line.removeprefix(_MARK) for line in printed.splitlines() if line.startswith(_MARK)]
    return json.loads(lines[0]) if lines else None


def _stop(process: Any) -> None:
    """End a program. Asked to end, mpiexec takes its ranks along; killed, it leaves them, and a hung one spins on."""
    if process.poll() is None:
        process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def alone(script: str, program: str, settings: Mapping[str, Any], *, ranks: int = 1, env: Any = None) -> Any:
    """Run one program; what it measured."""
    return results(launch(script, program, ranks, settings, env or {}))[0]


def median(times: list[float]) -> float:
    """Of what came back as JSON."""
    return statistics.median(times)


def take_turns(ways: Mapping[str, Callable[[], T]], repeat: int) -> dict[str, list[T]]:
    """Each way measured `repeat` times, all of them in turn, each turn beginning with another: noise hits all alike.

    Not forth and back: of three or more the way at the end would run twice in a row, and find the memory that it has
    just left (of two each does so).
    """
    names = list(ways)
    found: dict[str, list[T]] = {name: [] for name in names}
    for turn in range(repeat):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(ways[name]())
    return found


def row(
    name: str,
    value: float,
    unit: str,
    target: float | None = None,
    better: str = "higher",
    detail: str = "",
    **more: Any,
) -> Row:
    """One line of the page. `more`: picture, curve and x of a point that `pictures.py` draws."""
    return {"name": name, "value": value, "unit": unit, "target": target, "better": better, "detail": detail, **more}


def measured(name: str, values: Iterable[float], unit: str, target: float | None = None, **more: Any) -> Row:
    """One line of the page: the median, with the range in its detail."""
    values = list(values)
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    detail = ". ".join(filter(None, [f"{low} to {high}" if low != high else "", more.pop("detail", "")]))
    return row(name, statistics.median(values), unit, target, detail=detail, low=min(values), high=max(values), **more)


def against(name: str, ours: list[float], theirs: list[float], target: float | None = None, **more: Any) -> Row:
    """One line of the page: the ratio of two things that took turns, turn by turn."""
    pairs = [our / their for our, their in zip(ours, theirs, strict=True)]
    return measured(name, pairs, "×", target, **more)


def serve(programs: Mapping[str, Program], measure: Callable[[], list[Row]]) -> None:
    """`PROGRAM SETTINGS`: be one of the programs. Nothing: measure and print."""
    if len(sys.argv) < 3:
        for each in measure():
            print(f"{each['name']:64} {each['value']:8.3g} {each['unit']:6} {each['detail']}", flush=True)
        return
    found = programs[sys.argv[1]](json.loads(sys.argv[2]))
    if found is not None:
        print(_MARK + json.dumps(found), flush=True)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """This environment with `more`, under which the programs find this checkout."""
    # Another ADIOS2 named there would win over the one that is measured.
    clean = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    return {**clean, "PYTHONPATH": str(ROOT), **more}
