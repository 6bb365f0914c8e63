"""`wf doctor`: what is installed here, and how to get the rest.

ADIOS2 is examined in a process of its own, because it aborts a process that uses an operator which is not compiled in.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from workflow import __version__
from workflow.errors import Problem, Severity

if TYPE_CHECKING:
    from workflow.plan.plan_model import Plan
    from workflow.report.show.text_table import Column
    from workflow.spec.origins import Origins

LAPTOP = "pip install 'wf-hpc[laptop]'"
PROBE_TIMEOUT_S = 30


@dataclass
class Finding:
    """One thing examined: `state` is ok, missing, or note (it works, but may surprise)."""

    name: str
    state: Literal["ok", "missing", "note"]
    detail: str
    hint: str = ""
    required: bool = False


def examine() -> list[Finding]:
    """Examine everything that a run may need, required things first."""
    return [
        Finding("wf", "ok", f"{__version__}, Python {platform.python_version()} at {sys.executable}"),
        _machine(),
        *_adios2(),
        _mpi_launcher(),
        _module("mpi4py", "stages of several ranks", LAPTOP),
        *_components(),
        *_surprises(),
    ]


def show_findings(findings: Sequence[Finding]) -> None:
    """Print the findings, one a row, then how to get what is missing."""
    from workflow.report.show.printing import show_messages, show_table
    from workflow.report.show.text_table import make_table, state_column, text_column

    columns: list[Column[Finding]] = [
        text_column("what", lambda finding: finding.name),
        state_column("state", lambda finding: finding.state),
        text_column("found", lambda finding: finding.detail),
    ]
    show_table(make_table(columns, findings))
    click.echo("")
    show_messages([_to_message(finding) for finding in findings if finding.hint])


def missing_programs(plan: Plan, origins: Origins, level: Severity) -> list[Problem]:
    """A message for each stage whose program is not on this machine: for `wf check` a note, for `wf run` an error."""
    from workflow.launch.launchers import LAUNCHERS
    from workflow.plan.plan_model import RUN_DIR

    found = []
    for stage in plan.stages:
        elsewhere = LAUNCHERS[stage.launch.launcher].other_machines
        if "PATH" in stage.env or elsewhere or stage.program[0].startswith(RUN_DIR):
            continue  # searched elsewhere, or created by the run
        path = Path(stage.program[0])
        if not (path.exists() if path.is_absolute() else shutil.which(stage.program[0])):
            key = f"stages.{stage.name}.command"
            message = f"{stage.program[0]} is not on this machine"
            found.append(Problem(*origins.place(key), key, message, "build it, or correct `command`", level))
    return found


def _to_message(finding: Finding) -> Problem:
    """What to do about a finding: an error where nothing works without it."""
    if finding.state != "missing":
        level: Severity = "note"
    else:
        level = "error" if finding.required else "warning"
    return Problem("", 0, 0, finding.name, finding.detail, finding.hint, level)


def _machine() -> Finding:
    from workflow.site.load_site import load_site

    site = load_site("local")
    memory = site.memory_per_node / 2**30
    return Finding("machine", "ok", f"{site.cores_per_node} cores, {memory:.0f} GiB of memory, {platform.node()}")


def _adios2() -> list[Finding]:
    if importlib.util.find_spec("adios2") is None:
        hint = f"{LAPTOP}, or load your site's ADIOS2 module with its Python bindings"
        return [Finding("adios2", "missing", "required by all stages that open a stream", hint, required=True)]
    answer = subprocess.run(
        [sys.executable, "-m", "workflow.stage.adios.probe"],
        capture_output=True,
        text=True,
        timeout=PROBE_TIMEOUT_S * 8,
    )
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:] or ["no message"]
        return [Finding("adios2", "missing", f"installed, but it cannot be used: {last[0]}", LAPTOP, required=True)]
    found = json.loads(answer.stdout)
    rest = (
        "`make adios2-mpi` in a clone of wf builds one with MPI, UCX, libfabric, blosc, zfp and bzip2; "
        "then use `.venv-mpi/bin/wf`"
    )
    serial = "" if found["mpi"] else "built without MPI: stages of several ranks gather their data on rank 0. " + rest
    return [
        Finding("adios2", "ok", f"{found['version']}, {'MPI' if found['mpi'] else 'serial'}", serial),
        Finding("SST transports", "ok" if found["planes"] else "missing", ", ".join(found["planes"]) or "none works"),
        Finding("SSC", "ok" if found["mpi"] else "note", _ssc(found["mpi"])),
        Finding("operators", "ok" if found["operators"] else "note", ", ".join(found["operators"]) or "none built in"),
    ]


def _ssc(mpi: bool) -> str:
    return "`via: ssc` works" if mpi else "`via: ssc` does not work: it needs an ADIOS2 built with MPI"


def _mpi_launcher() -> Finding:
    from workflow.launch.launchers import LAUNCHERS
    from workflow.site.machine import find_program

    programs = [launcher.executable for launcher in LAUNCHERS.values() if launcher.starts_ranks]
    path = next((path for path in map(find_program, programs) if path is not None), None)
    if path is None:
        return Finding(
            "MPI launcher", "missing", "required by stages of several ranks", f"{LAPTOP}, or load an MPI module"
        )
    return Finding("MPI launcher", "ok", path)


def _module(name: str, purpose: str, hint: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(name, "missing", f"required by {purpose}", hint)
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = "version unknown"
    return Finding(name, "ok", version)


def _components() -> list[Finding]:
    from workflow.spec.component_files import known_components, load_component

    findings = []
    for name in known_components():
        lacks = [module for module in load_component(name).needs if importlib.util.find_spec(module) is None]
        if lacks:
            findings.append(Finding(f"component {name}", "missing", f"needs {', '.join(lacks)}", LAPTOP))
        else:
            findings.append(Finding(f"component {name}", "ok", "all its imports are installed"))
    return findings


def _surprises() -> list[Finding]:
    """Settings of this user that change ADIOS2's behaviour outside of any pipeline file."""
    findings = []
    settings = Path.home() / ".config" / "adios2" / "adios2.yaml"
    if settings.exists():
        findings.append(Finding("ADIOS2 user settings", "note", f"{settings} changes all runs of this user"))
    if port_range := os.environ.get("ADIOS2_PORT_RANGE"):
        hint = "unset it: with fixed ports, a stale contact file can crash a running writer"
        findings.append(Finding("ADIOS2_PORT_RANGE", "note", port_range, hint))
    return findings
