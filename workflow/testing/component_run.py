"""One stage, run between the component `replay`, which feeds it, and `archive`, which keeps what it writes."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow.api.runs import run_pipeline
from workflow.data_files.read_steps import open_data
from workflow.engines import KEPT_VIA
from workflow.errors import Problem, SpecError
from workflow.report.notebook_report import RunReport
from workflow.spec.component_files import component_dir, load_component_file

ComponentPath = str | os.PathLike[str]
# The steps of a port: the file of a recorded stream, or for each step the values of its variables.
Steps = str | os.PathLike[str] | Iterable[Mapping[str, Any]]
_TESTED = "tested"
_LOG_LINES = 30


class StepData(dict[str, Any]):
    """The variables of one step: name → array, number or text. `attributes`: those that are known at this step.

    The attribute `unit` of variable `V` is called `V/unit`.
    """

    def __init__(self, variables: Mapping[str, Any] = {}, attributes: Mapping[str, Any] = {}) -> None:
        super().__init__(variables)
        self.attributes = dict(attributes)


class ComponentRunFailed(AssertionError):  # noqa: N818
    """The stage, or another one of its run, failed. The message has the reason and the end of its log."""


@dataclass(frozen=True)
class ComponentResult:
    """What became of the stage.

    `state`: `succeeded`, `failed`, …; `reason`: why it failed; `exit_code`: None if a signal ended it; `log`: what it
    printed, standard output first; `streams`: port → its steps; `run_dir`: files that it wrote by a relative path are
    there; `report`: of the whole run.
    """

    state: str
    reason: str
    exit_code: int | None
    log: str
    streams: Mapping[str, list[StepData]]
    run_dir: Path
    report: RunReport

    def __getitem__(self, port: str) -> list[StepData]:
        """The steps that it wrote to a port."""
        return self.streams[port]

    def read(self, path: str | os.PathLike[str]) -> list[StepData]:
        """The steps of a file that it wrote, BP or HDF5, relative to `run_dir`. Raises RunError."""
        return read_steps(self.run_dir / path)


def run_component(
    component: ComponentPath | Sequence[str],
    *,
    reads: Mapping[str, Steps] = {},
    writes: Sequence[str] | None = None,
    parameters: Mapping[str, Any] = {},
    ranks: int = 1,
    via: str = KEPT_VIA,
    timeout_s: float = 120.0,
    folder: str | os.PathLike[str] | None = None,
    check: bool = True,
) -> ComponentResult:
    """Run one stage as a process of its own, as `wf run` does, and return what it wrote.

    >>> result = run_component("./spectrum", reads={"field": [{"V": values}]}, parameters={"bins": 16})
    >>> result["spectrum"][0]["power"].shape
    (16,)

    Args:
        component: the name of a component, the folder of one, or the command of a program that uses `workflow.stage`.
        reads: port → its steps: a mapping of names to arrays for each (a `StepData` has attributes, too), or the path
            of a recorded stream, BP or HDF5.
        writes: the ports whose steps are returned; by default all that the component has. A command has none.
        parameters: those of the component.
        ranks: number of MPI ranks.
        via: how the streams go: `bp5`, files that are read when they are complete, or `sst`, live.
        timeout_s: how long the run may take.
        folder: where the run and its files go; by default a new temporary folder.
        check: raise when the run has failed; otherwise look at `state` and `reason`.

    Raises:
        ComponentRunFailed: the run has failed.
        SpecError: there is no such component, port or parameter, or the steps do not have what it needs.
    """
    for port, steps in reads.items():
        if isinstance(steps, str | os.PathLike) and not Path(steps).exists():
            hint = f"relative paths start at the current folder, {Path.cwd()}"
            raise SpecError([Problem("", 0, 0, f'reads["{port}"]', f"there is no file {os.fspath(steps)}", hint)])
    where = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
    is_command = not isinstance(component, str | os.PathLike)
    if writes is None:
        writes = [] if is_command else _ports_written(component)  # type: ignore[arg-type]
    stage: dict[str, Any] = {"ranks": ranks}
    if isinstance(component, str | os.PathLike):
        stage |= {"component": _named(component), "with": dict(parameters)}
    else:
        stage |= {"command": list(component), "reads": {port: {} for port in reads}}
        stage |= {"writes": {port: {} for port in writes}}
    stages, streams = {_TESTED: stage}, dict[str, Any]()
    for port, steps in reads.items():
        path = Path(steps).absolute() if isinstance(steps, str | os.PathLike) else _write(where, port, steps)
        stages[f"feed-{port}"] = {"component": "replay", "with": {"path": str(path)}}
        streams[f"read-{port}"] = {"from": f"feed-{port}", "to": f"{_TESTED}.{port}", "via": via}
    for port in writes:
        stages[f"keep-{port}"] = {"component": "archive", "with": {"path": f"written/{port}.bp"}}
        streams[f"write-{port}"] = {"from": f"{_TESTED}.{port}", "to": f"keep-{port}", "via": via}
    limits = dict.fromkeys(("start", "step", "run"), f"{timeout_s} s")
    pipeline = {"wf": 1, "name": "test", "oversubscribe": True, "deadlines": limits, "stages": stages}
    file = where / "pipeline.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(pipeline | ({"streams": streams} if streams else {}), indent=1), encoding="utf-8")
    try:
        report = run_pipeline(file, run_dir=where / "run", progress=False)
    except SpecError as error:  # it names the pipeline file, which the caller has not written
        raise SpecError([_of_argument(each) for each in error.problems]) from None
    result = _result(report, where / "run", writes)
    if check and report.run.state != "succeeded":
        who = "" if report.run.stage in (None, _TESTED) else f"{report.run.stage} "
        raise ComponentRunFailed(f"{component}: {who}{report.run.reason}\n{_end_of(result.log)}\n(in {where})")
    return result


# Key of the pipeline file → the argument that it was made of; `N`: the name of a port or parameter.
_ARGUMENTS = (
    (re.compile(rf"stages\.{_TESTED}\.with\.([^.\[]+)"), 'parameters["N"]'),
    (re.compile(rf"stages\.{_TESTED}\.(?:component|command)"), "component"),
    (re.compile(r"(?:stages\.feed|streams\.read)-([^.\[]+)"), 'reads["N"]'),
    (re.compile(r"(?:stages\.keep|streams\.write)-([^.\[]+)"), 'writes: "N"'),
    (re.compile(rf"stages\.{_TESTED}\.ranks"), "ranks"),
    (re.compile(r"deadlines\."), "timeout_s"),
)


def _of_argument(problem: Problem) -> Problem:
    """The same of an argument of `run_component`."""
    key = "component"
    for pattern, argument in _ARGUMENTS:
        if found := pattern.match(problem.key):
            key = argument.replace("N", found[1]) if found.groups() else argument
            break
    return problem._replace(source="", line=0, column=0, key=key)


def read_steps(path: Path) -> list[StepData]:
    """All steps of a file, whole. Raises RunError where it cannot be read."""
    with open_data(path) as steps:
        return [StepData({name: step.read(name, (), ()) for name in step.kinds()}, step.attributes()) for step in steps]


def _result(report: RunReport, run_dir: Path, writes: Sequence[str]) -> ComponentResult:
    tested = next(stage for stage in report.stages if stage.name == _TESTED)
    logs = [run_dir / "stages" / _TESTED / f"{name}.log" for name in ("stdout", "stderr")]
    # Of a run that has failed what is there of a stream stands under its unfinished name.
    files = {port: run_dir / "written" / f"{port}.bp" for port in writes}
    return ComponentResult(
        state=tested.state,
        reason=tested.reason,
        exit_code=tested.exit_code,
        log="".join(log.read_text(errors="replace") for log in logs if log.exists()),
        streams={port: read_steps(path) if path.exists() else [] for port, path in files.items()},
        run_dir=run_dir,
        report=report,
    )


def _end_of(log: str) -> str:
    """Its last traceback, or its last lines: ADIOS2 may print much after an error."""
    lines = log.splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("Traceback")]
    return "\n".join(lines[errors[-1] :][:_LOG_LINES] if errors else lines[-_LOG_LINES:])


def _named(component: ComponentPath) -> str:
    """As the pipeline file names it: a folder by its whole path."""
    text = os.fspath(component)
    return str(Path(text).absolute()) if "/" in text else text


def _ports_written(component: ComponentPath) -> list[str]:
    folder = component_dir(_named(component), Path.cwd())
    return list(load_component_file(folder / "component.yaml").writes)


def _write(folder: Path, port: str, steps: Iterable[Mapping[str, Any]]) -> Path:
    """A file with these steps."""
    from workflow.stage import open_writer

    path = folder / "given" / f"{port}.bp"
    path.parent.mkdir(exist_ok=True)
    with open_writer(path=path) as out:
        for step in steps:
            for name, value in getattr(step, "attributes", {}).items():
                out.attribute(name, value)
            with out.step():
                for name, value in step.items():
                    shape = getattr(value, "shape", ())
                    out.write(name, value, shape=shape or None)
    return path
