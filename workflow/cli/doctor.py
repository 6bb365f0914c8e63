"""`wf doctor`: what is installed here, and how to get the rest.

ADIOS2 is examined in a process of its own, because it aborts a process that uses an operator which is not compiled in.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from workflow import __version__
from workflow.engines import ENGINES
from workflow.errors import Problem, Severity, WfError
from workflow.formatting import moment, plural
from workflow.installation import install_command
from workflow.own_process import module_command

if TYPE_CHECKING:
    from workflow.report.show.text_table import Column
    from workflow.site.site_model import Site
    from workflow.spec.load import Loaded

PROBE_TIMEOUT_S = 30


@dataclass
class Finding:
    """One thing examined: `state` is ok, missing, or note (it works, but may surprise).

    `problem`: the message for a finding that has a place in a pipeline file.
    """

    name: str
    state: Literal["ok", "missing", "note"]
    detail: str
    hint: str = ""
    required: bool = False
    problem: Problem | None = None

    def fields(self) -> dict[str, object]:
        """For JSON."""
        place = self.problem.place if self.problem is not None else ""
        return {name: value for name, value in vars(self).items() if name != "problem"} | {"place": place}


def examine(loaded: Loaded | None) -> list[Finding]:
    """Examine everything that a run may need, required things first; then what the stages of one pipeline need."""
    from workflow.api.plans import find_site
    from workflow.site.load_site import load_site

    site = load_site("local") if loaded is None else find_site(loaded)
    return [
        Finding("wf", "ok", f"{__version__}, Python {platform.python_version()} at {sys.executable}"),
        _machine(),
        *_site_and_allocation(),
        *_adios2(),
        _mpi_launcher(site),
        _module("mpi4py", "stages of several ranks", install_command("laptop")),
        *_components(),
        *_surprises(),
        *([] if loaded is None else _stages(loaded, site)),
    ]


def readiness(findings: Sequence[Finding], pipeline: Path | None) -> str:
    """The last line of `wf doctor`: whether pipelines can run here, and what to do next."""
    missing = [finding for finding in findings if finding.state == "missing"]
    if required := [finding for finding in missing if finding.required]:
        named = ", ".join(finding.name for finding in required)
        return f"not ready: {named} missing\n  next: {required[0].hint or required[0].detail}"
    then = "`wf init first`" if pipeline is None else f"`wf run {shlex.quote(str(pipeline))}`"
    if missing:
        return f"ready, except for what needs {', '.join(finding.name for finding in missing)}\n  next: {then}"
    return f"ready\n  next: {then}"


def show_findings(findings: Sequence[Finding], pipeline: Path | None) -> None:
    """Print the findings, one a row, then how to get what is missing; at the end whether pipelines can run here."""
    from workflow.report.show.printing import show_messages
    from workflow.report.show.terminal import make_output
    from workflow.report.show.text_table import make_table, prose_column, state_column, text_column

    columns: list[Column[Finding]] = [
        text_column("what", lambda finding: finding.name),
        state_column("state", lambda finding: finding.state),
        prose_column("found", lambda finding: finding.detail),
    ]
    make_output().draw(make_table(columns, findings))
    click.echo("")
    show_messages([_to_message(finding) for finding in findings if finding.hint])
    click.echo(readiness(findings, pipeline))


def _to_message(finding: Finding) -> Problem:
    """What to do about a finding: an error where nothing works without it."""
    if finding.state != "missing":
        level: Severity = "note"
    else:
        level = "error" if finding.required else "warning"
    if finding.problem is not None:
        return finding.problem
    return Problem("", 0, 0, finding.name, finding.detail, finding.hint, level)


def _machine() -> Finding:
    from workflow.site.load_site import load_site

    site = load_site("local")
    memory = site.memory_per_node / 2**30
    return Finding("machine", "ok", f"{site.cores_per_node} cores, {memory:.0f} GiB of memory, {platform.node()}")


def _site_and_allocation() -> list[Finding]:
    """Which known site this machine is, and what the batch job has that wf is in."""
    from workflow.schedulers.scheduler import ask
    from workflow.site.discover import discover_allocation
    from workflow.site.load_site import detected_sites
    from workflow.site.site_probe import answering_scheduler

    found = detected_sites()
    hint = "" if found else "on a cluster: `wf sites` lists what is known, `wf site probe` describes a new machine"
    named = ", ".join(found) or "none is recognised here"
    site = Finding("known site", "ok" if found else "note", named, hint)
    try:
        allocation = discover_allocation()
    except WfError as error:
        return [site, Finding("batch job", "missing", error.message, error.hint)]
    if not allocation.host_names:
        unanswered = answering_scheduler(allocation.source, ask)[1]
        return [site, Finding("batch job", "note", "none: runs are on this machine", unanswered)]
    detail = f"{allocation.source} {allocation.job}: {_nodes(allocation.host_names)}"
    if allocation.end_time is not None:
        detail += f", until {moment(allocation.end_time)}"
    return [site, Finding("batch job", "note" if allocation.notes else "ok", detail, "; ".join(allocation.notes))]


def _nodes(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return f"{plural(len(names), 'node')} ({shown})"


def _adios2() -> list[Finding]:
    if _missing(["adios2"]):
        hint = f"{install_command('laptop')}, or load your site's ADIOS2 module with its Python bindings"
        return [Finding("adios2", "missing", "required by all stages that open a stream", hint, required=True)]
    answer = subprocess.run(
        module_command("workflow.stage.adios.probe"),
        capture_output=True,
        text=True,
        timeout=PROBE_TIMEOUT_S * 8,
    )
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:] or ["no message"]
        return [
            Finding(
                "adios2",
                "missing",
                f"installed, but it cannot be used: {last[0]}",
                install_command("laptop"),
                required=True,
            )
        ]
    found = json.loads(answer.stdout)
    rest = (
        "`make adios2-mpi` in a clone of wf builds one with MPI, UCX, libfabric, blosc, zfp and bzip2; "
        "then use `.venv-mpi/bin/wf`"
    )
    serial = "" if found["mpi"] else "built without MPI: stages of several ranks gather their data on rank 0. " + rest
    return [
        Finding("adios2", "ok", f"{found['version']}, {'MPI' if found['mpi'] else 'serial'}", serial),
        Finding("SST transports", "ok" if found["planes"] else "missing", ", ".join(found["planes"]) or "none works"),
        *_engines(found["engines"]),
        Finding("device data", "note", _device_data(found["gpu"])),
        Finding("operators", "ok" if found["operators"] else "note", ", ".join(found["operators"]) or "none built in"),
    ]


def _engines(found: Sequence[str]) -> list[Finding]:
    """The engines that ADIOS2 may have been built without."""
    findings = []
    for engine in (each for each in ENGINES.values() if each.optional):
        has, via = engine.name in found, f"`via: {engine.name.lower()}`"
        which = f"programs that use adios2 directly can{'' if has else 'not'} use {via}"
        other = "" if has else f"; components and workflow.stage can: they use {engine.library}"
        findings.append(Finding(f"engine {engine.name}", "ok" if has else "note", which + other))
    return findings


def _device_data(gpu: bool) -> str:
    """What this ADIOS2 can do with arrays in the memory of a device."""
    backend = "a GPU backend, for programs that use adios2 directly" if gpu else "no GPU backend"
    return f"this ADIOS2 has {backend}; workflow.stage copies them through pinned memory of the host (`device=`)"


def _mpi_launcher(site: Site) -> Finding:
    """The launcher of the site: another one that is installed is of no use to its stages."""
    from workflow.launch.launchers import LAUNCHERS
    from workflow.site.this_machine import find_program

    if not LAUNCHERS[site.launcher].starts_ranks:
        return Finding("MPI launcher", "note", f"site {site.site} has none, so stages have one rank")
    path = shutil.which(site.launcher_path)
    if path is not None:
        return Finding("MPI launcher", "ok", f"{path} (site {site.site})")
    own = LAUNCHERS[site.launcher]
    # MPICH comes with an mpirun, too: only one of the other kind is certainly something else.
    kinds = {name: each for name, each in LAUNCHERS.items() if each.other_machines != own.other_machines}
    known = {name: each for name, each in kinds.items() if each.executable not in ("", own.executable)}
    others = [name for name, each in known.items() if find_program(each.executable)]
    hint = f"{install_command('laptop')}, or load an MPI module"
    hint += f"; or use a site with `launcher: {others[0]}`, which is here" if others else ""
    detail = f"required by stages of several ranks; site {site.site} has `launcher: {site.launcher}`"
    return Finding("MPI launcher", "missing", detail, hint)


def _missing(modules: Sequence[str]) -> list[str]:
    """Those of `modules` that this Python does not have."""
    from workflow.site.interpreters import ask_modules

    lacks = ask_modules(sys.executable, modules, {})()
    return lacks if isinstance(lacks, list) else []


def _module(name: str, purpose: str, hint: str) -> Finding:
    if _missing([name]):
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
        lacks = _missing(load_component(name).needs)
        if lacks:
            findings.append(
                Finding(f"component {name}", "missing", f"needs {', '.join(lacks)}", install_command("laptop"))
            )
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


def _stages(loaded: Loaded, site: Site) -> list[Finding]:
    """What the stages of a pipeline need here."""
    from workflow.api.plans import make_plan
    from workflow.plan.topology.implicit_stages import complete_pipeline
    from workflow.preflight import other_machine, preflight, start_look_up, to_problems

    plan, pipeline = make_plan(loaded, site), complete_pipeline(loaded)
    if other_machine(site):
        return [
            Finding(f"site {site.site}", "note", each.message, each.hint, problem=each)
            for each in preflight(pipeline, plan, site)
        ]
    found = []
    for each in start_look_up(pipeline, plan, {})():
        problem = next(iter(to_problems([each], pipeline.origins)), None)
        state: Literal["ok", "missing", "note"] = "note" if each.state == "unchecked" else each.state
        missing = each.state == "missing"
        found.append(Finding(f"stage {each.stage}", state, each.detail, each.hint, missing, problem))
    return found
