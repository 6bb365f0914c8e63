"""What the stages of a plan need on the machine where they run, each with the key that asks for it. Pure.

Whether it is there is looked up by `workflow.site.availability`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workflow.plan.placeholders import fill_run_dir
from workflow.plan.plan_model import RUN_DIR, Plan, StagePlan
from workflow.plan.topology.declared_stages import CompletePipeline
from workflow.plan.topology.ports import KEY_OF_SIDE
from workflow.site.availability import (
    ConfigNeed,
    EngineNeed,
    IoNeed,
    ModuleNeed,
    NewFileNeed,
    OwnOpenNeed,
    ProgramNeed,
    ScriptNeed,
    StageNeed,
    Thing,
)
from workflow.site.interpreters import PYTHON_VARIABLES, Executed, executed, is_interpreter, is_python
from workflow.spec.file_formats import chosen_format
from workflow.spec.models.component import Component
from workflow.spec.models.pipeline import StageSpec
from workflow.spec.models.stage_policies import OPENPMD

_VARIABLES = ("PATH", *PYTHON_VARIABLES)


def stage_needs(plan: Plan, pipeline: CompletePipeline) -> list[StageNeed]:
    """Everything that the stages of a plan need, in its order. Programs that the run itself creates are left out."""
    return [need for stage in plan.stages for need in _of_stage(stage, pipeline)]


def _of_stage(stage: StagePlan, pipeline: CompletePipeline) -> Iterator[StageNeed]:
    """Modules of a Python whose search path leads into the run directory are left out: the run may create them.

    A file that the stage executes may be written by a stage before it.
    """
    created, path_known = _in_run_dir(stage, "PYTHONPATH"), not _in_run_dir(stage, "PATH")
    for need in _of_program(stage, pipeline):
        written_before = bool(stage.starts_after) and _is_own_file(need.thing)
        known = replace(need, path_known=path_known, certain=need.certain and not written_before)
        if not created:
            yield known
        elif not isinstance(need.thing, ModuleNeed):
            yield replace(known, modules_known=False)


def _is_own_file(thing: Thing) -> bool:
    """Whether a need is a script, or a program by its path. The launcher is that of the site."""
    by_path = isinstance(thing, ProgramNeed) and thing.role != "launcher" and "/" in thing.program
    return by_path or isinstance(thing, ScriptNeed)


def _in_run_dir(stage: StagePlan, variable: str) -> bool:
    """Whether a search path of a stage leads into the run directory: a relative entry means the stage's directory."""
    text = stage.env.get(variable, "")
    return RUN_DIR in text or any(not entry.startswith("/") for entry in text.split(":") if text)


def _of_program(stage: StagePlan, pipeline: CompletePipeline) -> Iterator[StageNeed]:
    key, env, launch = f"stages.{stage.name}", _environment(stage), stage.launch
    if launch.executable and ("/" in launch.executable or not _in_run_dir(stage, "PATH")):
        launcher = ProgramNeed(_plain(launch.executable), "launcher")
        yield StageNeed(stage.name, f"{key}.ranks", launcher, env=env)
    spec = pipeline.spec.stages[stage.name]
    component = None if spec.component is None else pipeline.components[spec.component]
    if component is not None:
        yield from _of_component(stage, component, env)
    else:
        yield from _of_command(stage, spec, pipeline.path.parent, env)


def _of_component(stage: StagePlan, component: Component, env: Mapping[str, str]) -> Iterator[StageNeed]:
    key, python = f"stages.{stage.name}.component", _plain(stage.program[0])
    # A component declares adios2, and needs it where it opens a stream through it.
    modules = [module for module in component.needs if module != "adios2"]
    chosen = chosen_format(component, stage.parameters)
    modules += [*_of_streams(stage), *_of_ranks(stage), *(chosen[1].needs if chosen is not None else ())]
    needed = ModuleNeed(tuple(dict.fromkeys(modules)), python, f"component {component.component}")
    yield StageNeed(stage.name, key, needed, env=env)
    known = component.file_formats
    if known is not None and str(path := stage.parameters.get(known.path, "")).startswith("/"):
        yield StageNeed(stage.name, f"stages.{stage.name}.with.{known.path}", NewFileNeed(_plain(str(path))))
    if not component.needs:
        yield StageNeed(stage.name, key, ScriptNeed(_plain(stage.program[1]), python), env=env)


def _of_command(stage: StagePlan, spec: StageSpec, folder: Path, env: Mapping[str, str]) -> Iterator[StageNeed]:
    key, written = f"stages.{stage.name}.command", [str(word) for word in spec.command or []]
    program = stage.program[0]
    if "/" not in program and _in_run_dir(stage, "PATH"):
        return  # the run may create it
    if not program.startswith(RUN_DIR):
        thing = _program(_plain(program), launched=bool(stage.launch.executable))
        yield StageNeed(stage.name, f"{key}[0]", thing, written[0], env)
    if not spec.uses_stage:
        yield from _of_engines(stage, env)
    if not is_interpreter(program):
        return
    python = _plain(program) if is_python(program) else ""
    target = executed(stage.program)
    if target is not None:
        place = f"{key}[{target.word}]"
        executes = _executed(target, stage.program, python, spec, folder)
        if executes is not None:
            known = not isinstance(executes, ModuleNeed)
            yield StageNeed(stage.name, place, executes, written[target.word], env, certain=known)
        if isinstance(executes, ScriptNeed) and not executes.copied_with:
            yield from _of_configs(stage, executes.script)
            ends = [end for end in stage.ends if end.traits.has_steps] if python and spec.uses_stage else []
            for end in ends[:1]:
                port = f"stages.{stage.name}.{KEY_OF_SIDE[end.side]}.{end.port}"
                yield StageNeed(stage.name, port, OwnOpenNeed(end.stream, executes.script), certain=False)
    # Files that are handed over are opened without workflow.stage. A port with `config:` tells nothing of the Python
    # program, which may start another one that opens the stream.
    if python and spec.uses_stage and any(end.traits.has_steps for end in stage.ends):
        modules = ("workflow", "numpy", *_of_streams(stage), *_of_ranks(stage))
        needed = ModuleNeed(tuple(dict.fromkeys(modules)), python, "workflow.stage")
        yield StageNeed(stage.name, f"{key}[0]", needed, env=env, certain=False)


def _of_configs(stage: StagePlan, script: str) -> Iterator[StageNeed]:
    """The config files of ADIOS2 that a script is to read: it fails without one, or opens streams as it likes."""
    ends = [end for end in stage.ends if end.config is not None and end.dialect in ("adios2.xml", "adios2.yaml")]
    names = tuple(dict.fromkeys(Path(str(end.config)).name for end in ends))
    for end in ends:
        key = f"stages.{stage.name}.{KEY_OF_SIDE[end.side]}.{end.port}.io"
        yield StageNeed(stage.name, key, IoNeed(_plain(end.io), script), certain=False)
    if ends:
        key = f"stages.{stage.name}.{KEY_OF_SIDE[ends[0].side]}.{ends[0].port}.config"
        yield StageNeed(stage.name, key, ConfigNeed(names, script), certain=False)


def _of_engines(stage: StagePlan, env: Mapping[str, str]) -> Iterator[StageNeed]:
    """The engines that the ADIOS2 of a program may lack. openPMD-api has an ADIOS2 of its own."""
    for end in stage.ends:
        if end.traits.optional and end.dialect not in OPENPMD:
            thing = EngineNeed(end.traits.name, _plain(stage.program[0]))
            yield StageNeed(stage.name, f"streams.{end.stream}.via", thing, env=env)


def _program(program: str, *, launched: bool) -> ProgramNeed:
    return ProgramNeed(program, "interpreter" if is_interpreter(program) else "program", launched)


def _of_streams(stage: StagePlan) -> list[str]:
    """The modules by which `workflow.stage` opens the streams of a stage."""
    libraries = {end.traits.library for end in stage.ends}
    return [each for each in ("h5py", "adios2") if each in libraries]


def _of_ranks(stage: StagePlan) -> list[str]:
    return ["mpi4py"] if stage.ranks > 1 else []


def _executed(
    target: Executed, program: Sequence[str], python: str, spec: StageSpec, folder: Path
) -> ScriptNeed | ModuleNeed | None:
    """The script or module that an interpreter executes; None where only the run creates it."""
    word = program[target.word]
    name = _plain(word)
    if target.kind == "module":
        top = name.partition(".")[0]
        mine = any(file.partition(".")[0] == top or file.startswith(f"{top}/") for file in spec.files)
        return None if mine else ModuleNeed((top,), python, f"`-m {name}`")
    if name.startswith("/"):
        return ScriptNeed(name, python)
    source = spec.files.get(name.removeprefix("./"))
    return None if source is None else ScriptNeed(str(folder / source), python, tuple(spec.files))


def _environment(stage: StagePlan) -> dict[str, str]:
    """The variables that decide which programs and modules are found; those below the run directory are not known."""
    found = {name: stage.env[name] for name in _VARIABLES if name in stage.env}
    unknown = [name for name in ("PATH", "PYTHONPATH") if _in_run_dir(stage, name)]
    return {name: _plain(text) for name, text in found.items() if name not in unknown and RUN_DIR not in text}


def _plain(text: str) -> str:
    """A plan string as what it stands for; the run directory is not known yet."""
    return fill_run_dir(text, RUN_DIR)
