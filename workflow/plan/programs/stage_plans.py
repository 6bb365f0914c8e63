"""Stages → what is started: program, environment, directory, files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from workflow.launch.launch_line import Launch, launch_argv
from workflow.plan.making import Making, counted, stage_dir, work_dir
from workflow.plan.placement.nodes import node_count
from workflow.plan.plan_model import RUN_DIR, EndPlan, Placement, StageMemory, StagePlan
from workflow.plan.programs.config_files import config_files, user_files
from workflow.plan.programs.malloc_tuning import decide_memory, memory_environment
from workflow.plan.programs.openpmd import environment, picongpu_arguments
from workflow.plan.programs.placeholder_expansion import Filler
from workflow.plan.programs.placeholders import literal, literal_all
from workflow.plan.streams.transports import stage_environment
from workflow.plan.topology.ports import KEY_OF_SIDE
from workflow.spec.models.pipeline import Scalar, StageSpec

Kind = Literal["simulation", "analysis", "sink"]
_INTERPRETER = re.compile(r"(.*/)?(python[0-9.]*|sh|bash|perl|julia|lua|ruby|Rscript)")
_SCRIPT = re.compile(r"[^/$-].*\.(py|sh|pl|jl|lua|rb|R)")


def kind_of(stage: StageSpec, making: Making, reads: bool, writes: bool) -> Kind:
    """A component says it; of a command, the streams that it reads and writes."""
    if stage.component is not None:
        return making.loaded.components[stage.component].kind
    if not reads:
        return "simulation"
    return "analysis" if writes else "sink"


def to_stage_plan(
    name: str, kind: Kind, ends: list[EndPlan], placement: Placement, waits: list[str], making: Making
) -> StagePlan:
    """Everything of one stage. Notes what is wrong with its command, placeholders, ranks and environment."""
    stage = making.loaded.spec.stages[name]
    filler = Filler(name, ends, making)
    parameters = _parameters(name, stage, filler, making)
    program = [*_program(name, stage, filler, making), *picongpu_arguments(ends)]
    launcher, argv = _launch(name, stage, placement, program, making)
    configs = config_files(ends)
    memory = decide_memory(name, ends, placement, making)
    written, copied = user_files(name, filler, configs, ends, making)
    return StagePlan(
        name=name,
        kind=kind,
        component=stage.component,
        parameters=parameters,
        program=program,
        argv=argv,
        launcher=launcher,
        env=_environment(name, stage, ends, placement, memory, filler, making),
        cwd=work_dir(name),
        ranks=stage.ranks,
        placement=placement,
        ends=ends,
        memory=memory,
        starts_after=waits,
        files={**configs, **written},
        copies=copied,
        added=added.role if (added := making.loaded.implicit_stages.get(name)) is not None else None,
        observed="metrics" if stage.uses_stage else "evidence",
    )


def _parameters(name: str, stage: StageSpec, filler: Filler, making: Making) -> dict[str, Any]:
    """A component's parameters, outputs below the run directory."""
    if stage.component is None:
        return {}
    component, found = making.loaded.components[stage.component], dict[str, Any]()
    for key, value in making.loaded.parameters[name].items():
        kind = component.parameters[key].type if key in component.parameters else ""
        if kind == "file":  # found and made absolute when it was loaded
            found[key] = literal_all(value)
            continue
        found[key] = filler.fill_all(f"stages.{name}.with.{key}", value)
        if kind == "output" and isinstance(value, str) and not found[key].startswith(("/", RUN_DIR)):
            if ".." in PurePosixPath(value).parts:
                hint = "an absolute path writes elsewhere"
                making.problems.add(f"stages.{name}.with.{key}", f"`{value}` leaves the run directory", hint)
            found[key] = f"{RUN_DIR}/{found[key]}"
    return found


def _program(name: str, stage: StageSpec, filler: Filler, making: Making) -> list[str]:
    if stage.component is not None:
        component, folder = making.loaded.components[stage.component], making.loaded.component_dirs[stage.component]
        return [literal(making.python), literal(str(folder / component.program))]
    words = [_text(word) for word in stage.command or []]
    argv = [filler.fill(f"stages.{name}.command[{index}]", word) for index, word in enumerate(words)]
    if "/" in words[0] and not argv[0].startswith(("/", RUN_DIR)):
        argv[0] = f"{literal(str(making.loaded.path.parent))}/{argv[0].removeprefix('./')}"
    script = words[1] if len(words) > 1 and _INTERPRETER.fullmatch(argv[0]) else ""
    if _SCRIPT.fullmatch(script) and script not in stage.files:
        making.problems.add(
            f"stages.{name}.command[1]",
            f"`{script}` is not there: every stage runs in its own, new directory",
            f"write `${{{{ pipeline.dir }}}}/{PurePosixPath(script)}` for the file beside the pipeline file",
        )
    return argv


def _text(value: Scalar) -> str:
    """A scalar of the file as a word on a command line: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _launch(
    name: str, stage: StageSpec, placement: Placement, program: list[str], making: Making
) -> tuple[str, list[str]]:
    """(launcher, what is executed)"""
    site, key = making.site, f"stages.{name}.launcher"
    component = making.loaded.components[stage.component] if stage.component is not None else None
    if component is not None and component.max_ranks is not None and stage.ranks > component.max_ranks:
        making.problems.add(
            f"stages.{name}.ranks",
            f"component {component.component} takes at most {counted(component.max_ranks, 'rank')}, got {stage.ranks}",
            f"`ranks: {component.max_ranks}`",
        )
    if stage.ranks == 1 and not site.launch_single:
        making.notes.why(key, "one rank is started directly")
        return "none", program
    if site.launcher == "none" and stage.ranks > 1:
        making.problems.add(
            f"stages.{name}.ranks",
            f"site {site.site} has no launcher, so stages have one rank",
            "`ranks: 1`, or a site with a launcher",
        )
    start, _ = placement.nodes[0]
    launch = Launch(stage.ranks, node_count(placement), start, placement.ranks_per_node, placement.cores_per_rank)
    making.notes.why(key, f"{counted(stage.ranks, 'rank')} on site {site.site}")
    extra = [literal(word) for word in site.launcher_args]
    return site.launcher, launch_argv(site.launcher, launch, extra, program, literal(making.mpiexec))


def _environment(
    name: str,
    stage: StageSpec,
    ends: list[EndPlan],
    placement: Placement,
    memory: StageMemory | None,
    filler: Filler,
    making: Making,
) -> dict[str, str]:
    """The site's variables, then what wf needs, then the user's own."""
    found: dict[str, str] = {key: literal(value) for key, value in making.site.env.items()}
    found["PYTHONUNBUFFERED"] = "1"
    if stage.component is not None and "OMP_NUM_THREADS" not in found:
        found["OMP_NUM_THREADS"] = str(max(1, placement.cores_per_rank))
        making.notes.why(f"stages.{name}.env.OMP_NUM_THREADS", f"cores_per_rank is {placement.cores_per_rank}")
    if any(end.engine == "SST" for end in ends):
        # workflow.stage reports the steps; of another program SST's log tells them, at level 3 one by one.
        found["SstVerbose"] = "2" if stage.uses_stage else "3"
        making.notes.why(f"stages.{name}.env.SstVerbose", "SST's log is the evidence for transport and steps")
    found |= stage_environment(name, ends, making)
    found |= memory_environment(name, memory, making)
    for end in ends:
        if end.dialect == "env":
            _add_openpmd(name, end, found, making)
    found |= _users_environment(name, stage, filler, found, making)
    if stage.component is not None:
        found["WF_STAGE"] = f"{stage_dir(name)}/stage.json"
    return found


def _add_openpmd(name: str, end: EndPlan, found: dict[str, str], making: Making) -> None:
    """openPMD-api's variables hold for all series of a process."""
    for key, value in environment(end).items():
        if found.setdefault(key, value) != value:
            making.problems.add(
                f"stages.{name}.{KEY_OF_SIDE[end.side]}.{end.port}.config",
                f"{key} would have to be {found[key]} for one stream and {value} for {end.stream}: it holds for both",
                "let the program read a file for each: `config: openpmd.json`",
            )


def _users_environment(
    name: str, stage: StageSpec, filler: Filler, given: Mapping[str, str], making: Making
) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in stage.env.items():
        place = f"stages.{name}.env.{key}"
        text = _text(value)
        found[key] = filler.fill(place, text)
        if key == "WF_STAGE":
            making.problems.add(place, "WF_STAGE is set by wf", "remove it")
        if key.startswith("OPENPMD_") and key in given:
            making.problems.add(place, f"{key} is set by wf, for `config: env`", "remove it")
        if key == "SstVerbose" and key in given and not (text.isdigit() and int(text) >= 2):
            making.problems.add(place, "wf needs SstVerbose 2 or more: SST's summaries are its evidence", "remove it")
    return found
