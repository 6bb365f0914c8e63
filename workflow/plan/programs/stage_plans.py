"""Stages → what is started for each: program, environment, directory, files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from workflow.formats.sides import Side
from workflow.formatting import duration, plural
from workflow.plan.placeholders import checkpoint_path, literal_all, stage_dir, work_dir
from workflow.plan.plan_model import (
    RUN_DIR,
    CheckpointPlan,
    EndPlan,
    LaunchPlan,
    MemberPlan,
    Placement,
    RestartPlan,
    StagePlan,
)
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.programs.config_files import config_files, user_files
from workflow.plan.programs.openpmd import environment, picongpu_arguments
from workflow.plan.programs.placeholder_expansion import Filler, stage_values
from workflow.plan.programs.stage_environment import MallocPolicy, decide_memory, memory_environment, site_environment
from workflow.plan.programs.steering_plans import plan_steering
from workflow.plan.streams.transports import stage_environment
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import KEY_OF_SIDE, StageKind
from workflow.plan.visible_steps import LOG_LEVEL, visibility
from workflow.redaction import FILE, VARIABLE
from workflow.site.interpreters import PYTHON_VARIABLES, executed
from workflow.site.site_model import Site
from workflow.spec.file_formats import chosen_format
from workflow.spec.models.pipeline import Scalar, Secret, SubmittersVariable
from workflow.spec.origins import Origins
from workflow.spec.placeholder_syntax import literal, scalar_text

if TYPE_CHECKING:
    from workflow.formats.steering_files import ValueChange

_SCRIPT = re.compile(r"[^/$-].*\.(py|sh|pl|jl|lua|rb|R)")


def to_stage_plan(
    stage: DeclaredStage,
    kind: StageKind,
    ends: list[EndPlan],
    placement: Placement,
    waits: list[str],
    launch: LaunchPlan,
    restart: RestartPlan | None,
    from_start: str,
    *,
    values: Mapping[str, str],
    changes: Sequence[ValueChange],
    keep_freed: int,
    site: Site,
    origins: Origins,
    notes: Notes,
) -> StagePlan:
    """Everything of one stage. Notes what is wrong with its command, placeholders and environment.

    Args:
        values: the placeholders that are the same in every stage (`pipeline_values`).
        changes: what was changed of it while an earlier run went on that this one repeats.
        keep_freed: bytes that a rank may keep where no size is written (`kept_by_default`).
    """
    problems = notes.problems
    filler = Filler(stage.name, stage_values(stage, ends, values), stage.spec.files, notes)
    parameters = _parameters(stage, filler, problems)
    openpmd = picongpu_arguments(ends)
    program = [*_program(stage, values, filler, problems), *openpmd]
    configs = config_files(ends)
    memory = decide_memory(stage, ends, placement, keep_freed, site, origins, notes)
    notes.why(f"stages.{stage.name}.memory", memory.why)
    own = user_files(stage, filler, ends, problems)
    configs = {**configs, **own.written}
    steering = plan_steering(stage, parameters, changes, filler, problems)
    if taken := next((path for path in steering.files if path in configs or path in own.copied), None):
        text = f"{PurePosixPath(taken).name} is a file of `files:` or a config, and would be replaced"
        problems.add(f"stages.{stage.name}.steer", text, "give the control file another name")
    environment = _environment(stage, ends, placement, memory, filler, site, notes)
    made = StagePlan(
        name=stage.name,
        kind=kind,
        component=stage.spec.component,
        parameters=parameters,
        file_parameters=_file_parameters(stage),
        program=program,
        launch=launch,
        env=environment,
        secrets=_secrets(stage, values),
        cwd=work_dir(stage.name),
        ranks=stage.spec.ranks,
        placement=placement,
        ends=ends,
        memory=memory.settings,
        random_sst_ids=_has_random_ids(stage, program[0] == values["wf.python"], environment, site),
        stop_signal=stage.spec.stop_signal,
        starts_after=waits,
        files={**configs, **steering.files},
        copies=own.copied,
        edited=own.edited,
        added=stage.role,
        optional=stage.is_optional or stage.spec.on_failure.may_ignore,
        member=_member(stage),
        restart=restart,
        checkpoint=_checkpoint(stage, values, filler, openpmd, notes),
        from_start=from_start,
        kept_files=_kept_files(stage, parameters),
        steer=steering.steer,
        changes=steering.changes,
        answered=steering.answered,
        observed="metrics" if stage.spec.uses_stage else "evidence",
    )
    _check_signal(made, problems)
    return made


def _member(stage: DeclaredStage) -> MemberPlan | None:
    found = stage.member
    if found is None:
        return None
    return MemberPlan(ensemble=found.ensemble, index=found.index, values=dict(found.values))


def _check_signal(stage: StagePlan, problems: Problems) -> None:
    """A program gets the signal for a checkpoint, or a new value, when one of its streams has been seen to open."""
    asks = "checkpoint" if stage.checkpoint is not None and stage.checkpoint.signal else ""
    asks = asks or next((f"steer.{name}" for name, each in stage.steer.items() if each.signal), "")
    if not asks or any(visibility(stage, end)[0] for end in stage.ends):
        return
    text = f"wf cannot tell when {stage.name} is ready for the signal: it sees none of its streams while it runs"
    hint = "let it write one by `via: sst` or `via: bp5`"
    if any(end.traits.counted_by == "log" for end in stage.ends):
        hint = "remove SstVerbose from its `env`: at level 3 the log of SST says when a stream is open"
    removed = "`signal` and `every`" if asks == "checkpoint" else "`signal`"
    problems.add(f"stages.{stage.name}.{asks}.signal", text, f"{hint}; or remove {removed}")


def _checkpoint(
    stage: DeclaredStage,
    values: Mapping[str, str],
    filler: Filler,
    more: Sequence[str],
    notes: Notes,
) -> CheckpointPlan | None:
    """What a stage saves. `more`: arguments that wf adds to its command."""
    declared = stage.spec.checkpoint
    if declared is None:
        return None
    if stage.component is not None and stage.component.state != "saved":
        text = f"component `{stage.component.component}` saves no state, so that this has no effect"
        notes.problems.add(
            f"stages.{stage.name}.checkpoint", text, "remove it; a component that does has `state: saved`"
        )
    what = f"the newest of {declared.files}" if declared.files else "the newest state that it has saved"
    what += f", for which it gets SIG{declared.signal} every {duration(declared.every)}" if declared.signal else ""
    notes.why(f"stages.{stage.name}.checkpoint", f"`wf resume` and the next job of a chain go on from {what}")
    if declared.files is None or declared.outputs is None:
        return CheckpointPlan(every_s=declared.every)
    again = filler.with_values({"checkpoint.path": checkpoint_path(stage.name, declared.files)})
    return CheckpointPlan(
        every_s=declared.every,
        files=f"{work_dir(stage.name)}/{literal(declared.files.removeprefix('./'))}",
        every=declared.outputs.every,
        first=declared.outputs.first,
        signal=declared.signal or "",
        again=declared.outputs.again,
        program=[*_argv(stage, "checkpoint.command", declared.command or [], values, again, notes.problems), *more],
    )


def _parameters(stage: DeclaredStage, filler: Filler, problems: Problems) -> dict[str, Any]:
    """A component's parameters, outputs below the run directory."""
    if stage.component is None:
        return {}
    component, found = stage.component, dict[str, Any]()
    for key, value in stage.parameters.items():
        kind, place = component.parameters[key].type if key in component.parameters else "", f"stages.{stage.name}.with"
        if kind == "file":  # found and made absolute when it was loaded
            found[key] = literal_all(value)
            continue
        found[key] = filler.fill_all(f"{place}.{key}", value)
        if kind == "output" and isinstance(value, str) and not found[key].startswith(("/", RUN_DIR)):
            if ".." in PurePosixPath(value).parts:
                hint = "an absolute path writes elsewhere"
                problems.add(f"{place}.{key}", f"`{value}` leaves the run directory", hint)
            found[key] = f"{RUN_DIR}/{found[key]}"
    return found


def _kept_files(stage: DeclaredStage, parameters: Mapping[str, Any]) -> dict[str, int]:
    """The file of a component to which a later attempt can append."""
    form = None if stage.component is None else chosen_format(stage.component, stage.parameters)
    known = None if stage.component is None else stage.component.file_formats
    if form is None or known is None or not form[1].appends:
        return {}
    return {parameters[known.path]: int(parameters[known.every]) if known.every else 1}


def _file_parameters(stage: DeclaredStage) -> dict[str, Side]:
    """The parameters that the component declares as files to read or to write."""
    sides: dict[str, Side] = {"file": "read", "output": "write"}
    declared = stage.component.parameters if stage.component is not None else {}
    return {name: sides[parameter.type] for name, parameter in declared.items() if parameter.type in sides}


def _program(stage: DeclaredStage, values: Mapping[str, str], filler: Filler, problems: Problems) -> list[str]:
    if stage.component is not None and stage.component_dir is not None:
        return [values["wf.python"], literal(str(stage.component_dir / stage.component.program))]
    return _argv(stage, "command", stage.spec.command or [], values, filler, problems)


def _argv(
    stage: DeclaredStage,
    key: str,
    command: Sequence[Scalar],
    values: Mapping[str, str],
    filler: Filler,
    problems: Problems,
) -> list[str]:
    """A command of a stage with its placeholders filled. Notes what is wrong with it at `key` of the stage."""
    words = [scalar_text(word) for word in command]
    argv = [filler.fill(f"stages.{stage.name}.{key}[{index}]", word) for index, word in enumerate(words)]
    if "/" in words[0] and not argv[0].startswith(("/", RUN_DIR)):
        argv[0] = f"{values['pipeline.dir']}/{argv[0].removeprefix('./')}"
    found = executed([argv[0], *words[1:]])
    script = words[found.word] if found is not None and found.kind == "script" else ""
    if found is not None and _SCRIPT.fullmatch(script) and script not in stage.sources:
        problems.add(
            f"stages.{stage.name}.{key}[{found.word}]",
            f"`{script}` is not there: every stage runs in its own, new directory",
            f"write `${{{{ pipeline.dir }}}}/{PurePosixPath(script)}` for the file beside the pipeline file",
        )
    return argv


def _has_random_ids(stage: DeclaredStage, own_python: bool, environment: Mapping[str, str], site: Site) -> bool:
    """Whether the ADIOS2 of a stage is known to give random ids (`run.processes.adios2_workarounds`).

    The site knows the one of wf's Python only. A program of the user's own, or one that is given other libraries, may
    load another.
    """
    known = own_python and stage.spec.uses_stage and not environment.keys() & {"LD_LIBRARY_PATH", *PYTHON_VARIABLES}
    return known and site.random_sst_ids is True


def _environment(
    stage: DeclaredStage,
    ends: list[EndPlan],
    placement: Placement,
    memory: MallocPolicy,
    filler: Filler,
    site: Site,
    notes: Notes,
) -> dict[str, str]:
    """The site's variables, then what wf needs, then the user's own."""
    name = stage.name
    found = site_environment(name, stage.spec.ranks, any(end.traits.over_network for end in ends), site, notes)
    found["PYTHONUNBUFFERED"] = "1"
    if placement.threads_per_rank:
        found["OMP_NUM_THREADS"] = str(placement.threads_per_rank)
        notes.why(f"stages.{name}.env.OMP_NUM_THREADS", f"threads_per_rank is {placement.threads_per_rank}")
        _note_threads(name, placement, site, notes)
    elif stage.component is not None and "OMP_NUM_THREADS" not in found:
        found["OMP_NUM_THREADS"] = str(max(1, placement.cores_per_rank))
        notes.why(f"stages.{name}.env.OMP_NUM_THREADS", f"cores_per_rank is {placement.cores_per_rank}")
    if any(end.traits.counted_by == "log" for end in ends):
        # workflow.stage reports the steps; those of other programs are read from SST's log, at level 3 one by one.
        found[LOG_LEVEL] = "2" if stage.spec.uses_stage else "3"
        notes.why(f"stages.{name}.env.SstVerbose", "SST's log is the evidence for transport and steps")
    found |= stage_environment(stage, ends, notes)
    found |= memory_environment(name, memory, site, notes)
    for end in ends:
        if end.dialect == "env":
            _add_openpmd(name, end, found, notes.problems)
    found |= _users_environment(stage, filler, found, notes.problems)
    if stage.component is not None:
        found["WF_STAGE"] = f"{stage_dir(name)}/stage.json"
    return found


def _secrets(stage: DeclaredStage, values: Mapping[str, str]) -> dict[str, str]:
    """Variable → where its value is read when the stage starts."""
    found = {}
    for key, value in stage.spec.env.items():
        if isinstance(value, Secret):
            asked = value.secret
            if isinstance(asked, SubmittersVariable):
                found[key] = f"{VARIABLE}{asked.env}"
            else:
                found[key] = f"{FILE}{PurePosixPath(values['pipeline.dir']) / asked}"
    return found


def _note_threads(name: str, placement: Placement, site: Site, notes: Notes) -> None:
    room = placement.cores_per_rank * site.threads_per_core
    if placement.cores and placement.threads_per_rank > room:
        smt = f" × {site.threads_per_core} hardware threads" if site.threads_per_core > 1 else ""
        notes.advise(
            f"stage {name}: {placement.threads_per_rank} threads of each rank share "
            f"{plural(placement.cores_per_rank, 'core')}{smt}: they slow each other down; "
            f"`--set stages.{name}.place.cores_per_rank={-(-placement.threads_per_rank // site.threads_per_core)}`"
        )


def _add_openpmd(name: str, end: EndPlan, found: dict[str, str], problems: Problems) -> None:
    """openPMD-api's variables hold for all series of a process."""
    for key, value in environment(end).items():
        if found.setdefault(key, value) != value:
            problems.add(
                f"stages.{name}.{KEY_OF_SIDE[end.side]}.{end.port}.config",
                f"{key} would have to be {found[key]} for one stream and {value} for {end.stream}: it holds for both",
                "let the program read a file for each: `config: openpmd.json`",
            )


def _users_environment(
    stage: DeclaredStage, filler: Filler, given: Mapping[str, str], problems: Problems
) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in stage.spec.env.items():
        if isinstance(value, Secret):
            continue
        place = f"stages.{stage.name}.env.{key}"
        text = scalar_text(value)
        found[key] = filler.fill(place, text)
        if key == "WF_STAGE":
            problems.add(place, "WF_STAGE is set by wf", "remove it")
        if key.startswith("OPENPMD_") and key in given:
            problems.add(place, f"{key} is set by wf, for `config: env`", "remove it")
        if key == LOG_LEVEL and key in given and not (text.isdigit() and int(text) >= 2):
            problems.add(place, "wf needs SstVerbose 2 or more: SST's summaries are its evidence", "remove it")
    return found
