"""What the stages of a plan need and this machine lacks: for `wf check`, `wf run` and `wf doctor`.

Programs, launchers, scripts, Python modules, engines of ADIOS2. Nothing is imported here, and no stage is started.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from workflow.engines import KEPT_VIA
from workflow.errors import Problem, Severity
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.placeholders import fill_run_dir
from workflow.plan.plan_model import RUN_DIR, EndPlan, Plan, StagePlan
from workflow.plan.topology.ports import KEY_OF_SIDE
from workflow.redaction import SecretMissingError, read_secrets
from workflow.site.adios2_library import lacks_engine, library_of
from workflow.site.interpreters import PYTHON_VARIABLES, ask_modules, executed, is_own_python, is_python
from workflow.site.site_model import Site, is_here
from workflow.spec.file_formats import chosen_format
from workflow.spec.models.stage_policies import OPENPMD
from workflow.spec.suggest import did_you_mean, nearest_name, shortened
from workflow.spec.user_paths import exists, is_file

if TYPE_CHECKING:
    from workflow.plan.topology.declared_stages import CompletePipeline
    from workflow.spec.models.component import Component
    from workflow.spec.models.pipeline import StageSpec
    from workflow.spec.origins import Origins

# A Python by its path, and the variables of a stage that decide what it finds.
PythonInStage = tuple[str, tuple[tuple[str, str], ...]]
# By a Python and the modules that it was asked for: what waits for its answer.
Answers = dict[tuple[PythonInStage, tuple[str, ...]], Callable[[], list[str] | str]]


@dataclass(frozen=True)
class Need:
    """One thing that a stage needs, with the key that asks for it.

    `state`: for `missing`, `detail` is what is wrong; for `unchecked`, why nobody knows. `certain`: False where the
    stage may succeed all the same.
    """

    stage: str
    key: str
    state: Literal["ok", "missing", "unchecked"]
    detail: str
    hint: str = ""
    certain: bool = True


@dataclass(frozen=True)
class _Modules:
    """Python modules that a stage needs, by their top-level names. `asked_by`: for messages."""

    stage: str
    key: str
    python: PythonInStage
    modules: tuple[str, ...]
    asked_by: str
    certain: bool


def other_machine(site: Site) -> str:
    """Why the stages of a site do not run on this machine; empty where they do."""
    if LAUNCHERS[site.launcher].other_machines:
        return f"{site.launcher} starts its stages on other machines"
    if site.detect and not is_here(site.detect):
        return "this machine is not recognised as that one"
    here = os.cpu_count() or 1
    if site.cores_per_node > here:
        return f"its nodes have {site.cores_per_node} cores, and this machine has {here}"
    return ""


def preflight(pipeline: CompletePipeline, plan: Plan, site: Site) -> list[Problem]:
    """What is missing, and notes on what cannot be known here, with their places.

    An error where the stage fails for certain; a warning where it may succeed all the same.
    """
    return start_preflight(pipeline, plan, site)()


def start_preflight(
    pipeline: CompletePipeline, plan: Plan, site: Site, run: bool = False, answers: Answers | None = None
) -> Callable[[], list[Problem]]:
    """Begins `preflight`; the result waits for its end. In between a Python besides that of wf may answer.

    `run`: the launchers are started here, also those that start ranks on other machines. `answers`: what Pythons were
    asked before; the same is not asked again.
    """
    origins = pipeline.origins
    if why := other_machine(site):
        message = (
            f"programs, launchers and Python modules are not checked: site {site.site} is not this machine ({why})"
        )
        note = Problem(*origins.place("site"), "site", message, "`wf check` on that machine checks them", "note")
        launchers = [need for stage in plan.stages if run for need in _launcher(stage)]
        return lambda: [*pipeline.warnings, note, *to_problems(launchers, origins)]
    finish = start_look_up(pipeline, plan, {} if answers is None else answers)
    missing = origins.as_written(_missing_secrets(plan, origins))
    return lambda: [*pipeline.warnings, *missing, *to_problems(finish(), origins)]


def start_look_up(pipeline: CompletePipeline, plan: Plan, answers: Answers) -> Callable[[], list[Need]]:
    """Looks up what each stage needs, in the order of the plan.

    One process is started for each Python that is not that of wf; the result waits for their answers.
    """
    needs = [need for stage in plan.stages for need in _of_stage(stage, pipeline)]
    wanted: dict[PythonInStage, set[str]] = {}
    for need in needs:
        if isinstance(need, _Modules):
            wanted.setdefault(need.python, set()).update(need.modules)
    questions = {python: (python, tuple(sorted(names))) for python, names in wanted.items()}
    for question in questions.values():
        if question not in answers:
            (path, variables), names = question
            answers[question] = ask_modules(path, names, dict(variables))

    def finish() -> list[Need]:
        missing = {python: answers[question]() for python, question in questions.items()}
        return [need if isinstance(need, Need) else _answered(need, missing[need.python]) for need in needs]

    return finish


def to_problems(needs: Sequence[Need], origins: Origins) -> list[Problem]:
    """The needs that are not met, at the keys that ask for them."""
    problems = []
    for need in needs:
        if need.state != "ok":
            level: Severity = "note" if need.state == "unchecked" else "error" if need.certain else "warning"
            detail = f"not checked: {need.detail}" if level == "note" else need.detail
            problems.append(Problem(*origins.place(need.key), origins.written(need.key), detail, need.hint, level))
    return problems


def _missing_secrets(plan: Plan, origins: Origins) -> Iterator[Problem]:
    """The secrets that no stage could read, at the keys of the plan's stages."""
    for stage in plan.stages:
        for name, source in stage.secrets.items():
            key = f"stages.{stage.name}.env.{name}"
            try:
                read_secrets({name: source})
            except SecretMissingError as error:
                hint = "`wf run` reads it when the stage starts"
                yield Problem(*origins.place(key), key, str(error), hint)


# What the run itself creates is not known yet: what lies in its directory, and what is searched there.


def _of_stage(stage: StagePlan, pipeline: CompletePipeline) -> Iterator[Need | _Modules]:
    yield from _launcher(stage)
    spec = pipeline.spec.stages[stage.name]
    if spec.component is not None:
        yield from _of_component(stage, pipeline.components[spec.component])
    else:
        yield from _of_command(stage, spec)


def _launcher(stage: StagePlan) -> Iterator[Need]:
    """The launcher that starts the ranks: that of the site."""
    name, path = _plain(stage.launch.executable), _path_of(stage)
    if not name or ("/" not in name and _in_run_dir(stage, "PATH")):
        return
    key = f"stages.{stage.name}.ranks"
    if found := shutil.which(name, path=path):
        yield Need(stage.name, key, "ok", found)
    elif "/" in name:
        hint = f"set `launcher_path` of the site to the path that `which {shlex.quote(Path(name).name)}` prints"
        yield Need(stage.name, key, "missing", f"there is no launcher {name}", hint)
    else:
        launchers = [each for each in LAUNCHERS.values() if each.executable == name]
        hint = f"load an MPI module, or `{shlex.quote(sys.executable)} -m pip install mpich`"
        if launchers and all(each.other_machines for each in launchers):
            hint = "run wf where this launcher is, for example in a job; or use `--site local` for this machine"
        yield Need(stage.name, key, "missing", f"the launcher `{shortened(name)}` is not on PATH", hint)


def _of_component(stage: StagePlan, component: Component) -> Iterator[Need | _Modules]:
    # A component declares adios2, and needs it where it opens a stream through it.
    modules = [module for module in component.needs if module != "adios2"]
    chosen = chosen_format(component, stage.parameters)
    modules += [*_to_open_streams(stage), *(chosen[1].needs if chosen is not None else ())]
    key, asked_by = f"stages.{stage.name}.component", f"component {component.component}"
    yield from _modules(stage, key, modules, asked_by, certain=True)
    known = component.file_formats
    file = "" if known is None else _plain(str(stage.parameters.get(known.path, "")))
    if known is not None and file.startswith("/") and exists(Path(file)):
        hint = "remove it, or give a relative path: every run then writes a file of its own"
        detail = f"{file} already exists, and is not overwritten"
        yield Need(stage.name, f"stages.{stage.name}.with.{known.path}", "missing", detail, hint)


def _of_command(stage: StagePlan, spec: StageSpec) -> Iterator[Need | _Modules]:
    key, program = f"stages.{stage.name}.command", stage.program[0]
    written = [str(word) for word in spec.command or []]
    if "/" not in program and _in_run_dir(stage, "PATH"):
        return
    if not program.startswith(RUN_DIR):
        yield _program(stage, f"{key}[0]", written[0])
    if not spec.uses_stage:
        yield from _engines(stage)
    # Files that are handed over are opened without workflow.stage.
    opens_streams = is_python(program) and spec.uses_stage and any(end.traits.has_steps for end in stage.ends)
    target = executed(stage.program)
    if target is not None:
        name, place = _plain(stage.program[target.word]), f"{key}[{target.word}]"
        if target.kind == "module":
            module = name.partition(".")[0]
            if not any(file.startswith((f"{module}.", f"{module}/")) for file in spec.files):
                yield from _modules(stage, place, [module], f"`-m {name}`", certain=False)
        elif name.startswith("/"):
            yield _script(stage, place, Path(name), written[target.word])
            yield from _text_of_script(stage, Path(name), opens_streams)
    if opens_streams:
        modules = ["workflow", "numpy", *_to_open_streams(stage)]
        yield from _modules(stage, f"{key}[0]", modules, "workflow.stage", certain=False)


def _program(stage: StagePlan, key: str, written: str) -> Need:
    """A program of the user: an absolute path, or a name that is searched on PATH."""
    name, search = _plain(stage.program[0]), _path_of(stage)
    if found := shutil.which(name, path=search):
        return Need(stage.name, key, "ok", found)
    shown, path = shortened(written, 200), Path(name)
    if "/" not in name:
        return Need(stage.name, key, "missing", f"`{shown}` is not on PATH", _hint_on_path(name, search))
    certain = not stage.starts_after  # a stage before it may write it
    if exists(path) and path.is_dir():
        return Need(stage.name, key, "missing", f"`{shown}` is a folder", "name a program in it", certain)
    if exists(path):
        change = f"`chmod +x {shlex.quote(_from_here(path))}`"
        own = f'`command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/{path.name}"]`'
        hint = f"{change}, or {own}" if path.suffix == ".py" else change
        return Need(stage.name, key, "missing", f"`{shown}` is not executable", hint, certain)
    hint = _nearest_file(path, written) or "build it, or correct `command`"
    return Need(stage.name, key, "missing", f"there is no program `{shown}`", hint, certain)


def _script(stage: StagePlan, key: str, path: Path, written: str) -> Need:
    """A file that an interpreter executes."""
    shown, certain = shortened(written, 200), not stage.starts_after  # a stage before it may write it
    if not exists(path):
        hint = _nearest_file(path, written) or "write it, or correct `command`"
        return Need(stage.name, key, "missing", f"there is no file `{shown}`", hint, certain)
    if path.is_dir() and not exists(path / "__main__.py"):  # which Python executes
        return Need(stage.name, key, "missing", f"`{shown}` is a folder", "name a script in it", certain)
    return Need(stage.name, key, "ok", str(path))


def _engines(stage: StagePlan) -> Iterator[Need]:
    """The engines that the ADIOS2 of a program may lack. openPMD-api has an ADIOS2 of its own."""
    for end in stage.ends:
        if not end.traits.optional or end.dialect in OPENPMD:
            continue
        program = shutil.which(_plain(stage.program[0]), path=_path_of(stage))
        library = library_of(None if program is None else Path(program))
        if library is not None and lacks_engine(library, end.traits.name):
            detail = f"{stage.name} opens it through ADIOS2, and {library} was built without {end.traits.name}"
            hint = f"use `via: {KEPT_VIA}`; or let the program open it by `workflow.stage`, which needs h5py only"
            yield Need(stage.name, f"streams.{end.stream}.via", "missing", detail, hint)


# How a script names the config file and the IO of ADIOS2, if their names are in its text as they are.
_CONFIG = re.compile(r"""\bA(?:dios|DIOS)\s*\(\s*(?:config_file\s*=\s*)?["']([^"']+\.(?:xml|yaml))["']""")
_IO = re.compile(r"""declare_io\s*\(\s*(?:["']([^"']+)["'])?""")
_IMPORTS_ADIOS2 = re.compile(r"^\s*(?:import|from)\s(?:[^#\n]*[\s,])?adios2\b", re.MULTILINE)


def _text_of_script(stage: StagePlan, path: Path, opens_streams: bool) -> Iterator[Need]:
    """Whether a script reads the config that is made for it, and opens its streams as its ports say."""
    configured = [end for end in stage.ends if end.config is not None and end.dialect in ("adios2.xml", "adios2.yaml")]
    if not (configured or opens_streams) or not is_file(path):  # reading a pipe would take its text away, or wait
        return
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    if configured:
        made, named = [Path(str(end.config)).name for end in configured], _CONFIG.findall(text)
        if named and not any(Path(each).name in made for each in named):
            detail = f"{path.name} reads {named[0]}, and the pipeline names {made[0]}, which is made for it"
            hint = f"write `config: {Path(named[0]).name}`, or let the program read {made[0]}"
            yield Need(stage.name, f"{_port(stage, configured[0])}.config", "missing", detail, hint, certain=False)
        declared = [*dict.fromkeys(_IO.findall(text))]
        for end in configured:
            if declared and "" not in declared and (io := _plain(end.io)) not in declared:
                detail = f"{path.name} declares the IO {' and '.join(declared)}, and not `{io}`, which wf configures"
                hint = did_you_mean(io, declared) or f"write `io: {declared[0]}`"
                yield Need(stage.name, f"{_port(stage, end)}.io", "missing", detail, hint, certain=False)
    if opens_streams and "workflow" not in text and _IMPORTS_ADIOS2.search(text):
        end = next(end for end in stage.ends if end.traits.has_steps)
        detail = f"{path.name} imports adios2 and not workflow.stage, by which a port without `io` is opened"
        port = "{io: NAME, config: adios2.xml}"
        hint = f"for a program that opens {end.stream} by adios2: `{port}`, and let it read that file"
        yield Need(stage.name, _port(stage, end), "missing", detail, hint, certain=False)


def _port(stage: StagePlan, end: EndPlan) -> str:
    return f"stages.{stage.name}.{KEY_OF_SIDE[end.side]}.{end.port}"


def _to_open_streams(stage: StagePlan) -> list[str]:
    """The modules by which `workflow.stage` opens the streams of a stage."""
    libraries = {end.traits.library for end in stage.ends}
    ranks = ["mpi4py"] if stage.ranks > 1 else []
    return [*(each for each in ("h5py", "adios2") if each in libraries), *ranks]


def _modules(
    stage: StagePlan, key: str, modules: Sequence[str], asked_by: str, *, certain: bool
) -> Iterator[Need | _Modules]:
    if not modules or _in_run_dir(stage, "PYTHONPATH"):
        return
    names, python = tuple(dict.fromkeys(modules)), _plain(stage.program[0])
    if (path := shutil.which(python, path=_path_of(stage))) is None:
        yield Need(stage.name, key, "unchecked", f"{', '.join(names)}: {python} is not here")
        return
    env = {name: _plain(text) for name in PYTHON_VARIABLES if (text := stage.env.get(name)) and RUN_DIR not in text}
    own = tuple((name, text) for name, text in env.items() if text != os.environ.get(name))
    yield _Modules(stage.name, key, (path, own), names, asked_by, certain)


# What a package is called on PyPI, where its module has another name.
_PACKAGES = {"openpmd_api": "openpmd-api", "yaml": "PyYAML"}


def _answered(need: _Modules, absent: list[str] | str) -> Need:
    """`absent`: the modules that the Python does not have, of all that it was asked for; or why it did not answer."""
    python, names = need.python[0], ", ".join(need.modules)
    quoted = shlex.quote(python)
    if isinstance(absent, str):
        hint = f"`{quoted} -c {shlex.quote(f'import {names}')}` shows why"
        return Need(need.stage, need.key, "unchecked", f"{names}: {python} {absent}", hint)
    missing = [name for name in need.modules if name in absent]
    if not missing:
        return Need(need.stage, need.key, "ok", names)
    what = ("modules " if len(missing) > 1 else "module ") + ", ".join(missing)
    where = f"{python}, the Python of wf," if is_own_python(python) else python
    hint = f"`{quoted} -m pip install {' '.join(_PACKAGES.get(name, name) for name in missing)}`"
    if "workflow" in missing:
        hint = "let `${{ wf.python }}` execute it, or install wf into that Python"
    elif "adios2" in missing:
        hint += ", or load your site's ADIOS2 module with its Python bindings"
    detail = f"{need.asked_by} needs the Python {what}, which {where} does not have"
    return Need(need.stage, need.key, "missing", detail, hint, need.certain)


def _hint_on_path(program: str, search: str | None) -> str:
    if is_python(program):
        return "did you mean `${{ wf.python }}`, the Python of wf?"
    if os.access(beside := Path(sys.executable).parent / program, os.X_OK):
        return f"it is beside the Python of wf: activate that environment, or write `{beside}`"
    folders = (os.environ.get("PATH", "") if search is None else search).split(":")
    names = [name for folder in folders for name in _names_in(Path(folder or "."))]
    return did_you_mean(program, names) or "install it, give its path, or correct `command`"


def _nearest_file(path: Path, written: str) -> str:
    """A file of a similar name, in the user's own words; or the folder that does not exist."""
    folder = path.parent
    if not folder.is_dir():
        while not folder.parent.is_dir():
            folder = folder.parent
        return f"there is no folder `{_from_here(folder)}`: build the program, or correct `command`"
    near = nearest_name(path.name, (name for name in _names_in(folder) if name != path.name))
    if near is None:
        return ""
    before = written.removesuffix(path.name) if written.endswith(path.name) else ""
    return f"did you mean `{before}{near}`?"


def _names_in(folder: Path, most: int = 10_000) -> list[str]:
    try:
        return os.listdir(folder)[:most]  # noqa: PTH208
    except OSError:
        return []


def _from_here(path: Path) -> str:
    """A path as it may be typed: relative where it is below the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _path_of(stage: StagePlan) -> str | None:
    """Where the stage searches programs; None: where this process does."""
    return _plain(stage.env["PATH"]) if "PATH" in stage.env and not _in_run_dir(stage, "PATH") else None


def _in_run_dir(stage: StagePlan, variable: str) -> bool:
    """Whether a search path of a stage leads into the run directory: a relative entry means the stage's directory."""
    text = stage.env.get(variable, "")
    return RUN_DIR in text or any(not entry.startswith("/") for entry in text.split(":") if text)


def _plain(text: str) -> str:
    """A plan string as what it stands for; the run directory is not known yet."""
    return fill_run_dir(text, RUN_DIR)
