"""What a stage needs on its machine (programs, scripts, modules, engines, new files), and whether this machine has it.

The plan states the needs (`workflow.plan.stage_needs`, pure). Nothing is imported here, and no stage is started.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from workflow.engines import KEPT_VIA
from workflow.launch.launchers import LAUNCHERS
from workflow.site.adios2_library import lacks_engine, library_of
from workflow.site.interpreters import (
    LONGEST_LINE,
    ScriptSyntaxError,
    ask_modules,
    imports_of,
    interpreter_in,
    interpreter_of,
    is_beside,
    is_own_python,
    is_python,
    python_variables,
)
from workflow.site.site_model import Site, is_here
from workflow.spec.suggest import did_you_mean, nearest_name, shortened
from workflow.spec.user_paths import exists, is_file


@dataclass(frozen=True)
class ProgramNeed:
    """A program that is executed. A launcher starts the ranks of a stage; an interpreter a script."""

    program: str
    """An absolute path, or a name that is searched on PATH."""
    role: Literal["program", "interpreter", "launcher"] = "program"
    launched: bool = False
    """Whether a launcher starts it: one by `execvp`, which gives a script without `#!` to `sh`."""


@dataclass(frozen=True)
class ScriptNeed:
    """A file that an interpreter executes; of a Python script, also the modules that it imports."""

    script: str
    """Absolute."""
    python: str = ""
    """The Python that executes it, a path or a name on PATH; empty: another interpreter."""
    copied_with: tuple[str, ...] = ()
    """For a script of `files:`, the names of all files there: modules are searched among them, beside the copy.

    `wf` fills placeholders in such a script, so that it need not be valid Python before.
    """


@dataclass(frozen=True)
class ModuleNeed:
    """Python modules that a program imports, by their top-level names."""

    modules: tuple[str, ...]
    python: str
    """The Python that imports them, a path or a name on PATH."""
    asked_by: str
    """For messages: `component archive`, `via: hdf5`."""
    beside: Path | None = None
    """A folder that is searched first: that of the script."""
    copied: tuple[str, ...] = ()
    """Files that will be beside the script, by name."""
    lines: tuple[int, ...] = ()
    """Where a script imports them, one line each."""


@dataclass(frozen=True)
class EngineNeed:
    """An engine that a program opens through ADIOS2, without `workflow.stage`."""

    engine: str
    program: str
    """A path, or a name on PATH."""


@dataclass(frozen=True)
class ConfigNeed:
    """The config files of ADIOS2 that are made for a script, which has to read one of them."""

    configs: tuple[str, ...]
    script: str
    """Absolute."""


@dataclass(frozen=True)
class IoNeed:
    """The IO of ADIOS2 that a script has to declare, so that its config holds for it."""

    io: str
    script: str
    """Absolute."""


@dataclass(frozen=True)
class OwnOpenNeed:
    """A script that is taken to open this stream through `workflow.stage`, because its port names no `io`."""

    stream: str
    script: str
    """Absolute."""


@dataclass(frozen=True)
class NewFileNeed:
    """A file that the stage creates outside of the run directory, and that must not exist before."""

    path: str
    """Absolute."""


Thing = ProgramNeed | ScriptNeed | ModuleNeed | EngineNeed | ConfigNeed | IoNeed | OwnOpenNeed | NewFileNeed


@dataclass(frozen=True)
class StageNeed:
    """One thing that a stage needs, with the key of the pipeline file that asks for it."""

    stage: str
    key: str
    thing: Thing
    written: str = ""
    """The program or script as the user wrote it; empty where the user did not."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The environment variables of the stage that decide what is found: PATH and those of Python."""
    modules_known: bool = True
    """False where the run may create modules that a script imports."""
    path_known: bool = True
    """False where PATH leads into a directory that the run creates."""
    certain: bool = True
    """False where the stage may succeed although the need is not met: what a script imports, what a stage before it
    may write."""


class NeedState(NamedTuple):
    """Whether a need is met. `missing`: what is wrong and what to type; `unchecked`: why nobody knows."""

    need: StageNeed
    state: Literal["ok", "missing", "unchecked"]
    detail: str
    hint: str = ""


# The endings of scripts, and their interpreters: the kernel starts them only by a first line `#!INTERPRETER`.
_SCRIPTS = {
    ".py": "python3",
    ".sh": "sh",
    ".pl": "perl",
    ".jl": "julia",
    ".lua": "lua",
    ".rb": "ruby",
    ".R": "Rscript",
}
_MOST_NAMES = 10_000


def look_up_program(need: StageNeed, thing: ProgramNeed) -> NeedState:
    """Whether a program is there, executable, and, where it is a script, has an interpreter."""
    name = thing.program
    if "/" not in name:
        found = shutil.which(name, path=need.env.get("PATH"))
        if found is not None:
            return NeedState(need, "ok", found)
        what = "the launcher " if thing.role == "launcher" else ""
        return NeedState(need, "missing", f"{what}`{shortened(name)}` is not on PATH", _hint_on_path(need, thing))
    path = Path(name)
    if thing.role == "launcher" and not is_file(path):
        hint = f"set `launcher_path` of the site to the path that `which {shlex.quote(path.name)}` prints"
        return NeedState(need, "missing", f"there is no launcher {name}", hint)
    if not is_file(path):
        if exists(path):
            return NeedState(need, "missing", f"`{_shown(need, name)}` is a folder", "name a program in it")
        hint = _nearest_file(need, path) or "build it, or correct `command`"
        return NeedState(need, "missing", f"there is no program `{_shown(need, name)}`", hint)
    if not os.access(path, os.X_OK):
        return NeedState(need, "missing", f"`{_shown(need, name)}` is not executable", _hint_not_executable(path))
    return _look_up_first_line(need, thing, path)


def look_up_script(need: StageNeed, thing: ScriptNeed) -> NeedState:
    """Whether a script is there."""
    path = Path(thing.script)
    if exists(path) and path.is_dir():
        if thing.python and is_file(path / "__main__.py"):
            return NeedState(need, "ok", str(path))
        hint = "add `__main__.py` to it, or name a script in it" if thing.python else "name a script in it"
        return NeedState(need, "missing", f"`{_shown(need, thing.script)}` is a folder", hint)
    if exists(path):  # a file, a pipe or a device
        return NeedState(need, "ok", str(path))
    hint = _nearest_file(need, path) or "write it, or correct `command`"
    return NeedState(need, "missing", f"there is no file `{_shown(need, thing.script)}`", hint)


def look_up_new_file(need: StageNeed, thing: NewFileNeed) -> NeedState:
    """Whether the place of a new file is free."""
    if not exists(Path(thing.path)):
        return NeedState(need, "ok", thing.path)
    hint = "remove it, or give a relative path: every run then writes a file of its own"
    return NeedState(need, "missing", f"{thing.path} already exists, and is not overwritten", hint)


# Where a script names the config file: `adios2.Adios("adios2.xml")`.
_CONFIG = re.compile(r"""\bA(?:dios|DIOS)\s*\(\s*(?:config_file\s*=\s*)?["']([^"']+\.(?:xml|yaml))["']""")


def look_up_config(need: StageNeed, thing: ConfigNeed) -> NeedState:
    """Whether a script reads one of its config files; one that names none is taken to read it."""
    try:
        named = _CONFIG.findall(Path(thing.script).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        named = []
    if not named or any(Path(each).name in thing.configs for each in named):
        return NeedState(need, "ok", thing.configs[0])
    text = (
        f"{Path(thing.script).name} reads {named[0]}, and the pipeline names {thing.configs[0]}, which is made for it"
    )
    hint = f"write `config: {Path(named[0]).name}`, or let the program read {thing.configs[0]}"
    return NeedState(need, "missing", text, hint)


_DECLARED = re.compile(r"""declare_io\s*\(\s*["']([^"']+)["']""")


def look_up_io(need: StageNeed, thing: IoNeed) -> NeedState:
    """Whether a script declares its IO; one whose names are not in its text as they are is taken to do so."""
    try:
        text = Path(thing.script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = [*dict.fromkeys(_DECLARED.findall(text))]
    every = len(re.findall(r"declare_io\s*\(", text))
    if not named or every > len(_DECLARED.findall(text)) or thing.io in named:
        return NeedState(need, "ok", thing.io)
    script = Path(thing.script).name
    detail = f"{script} declares the IO {' and '.join(named)}, and not `{thing.io}`, which wf configures"
    return NeedState(need, "missing", detail, did_you_mean(thing.io, named) or f"write `io: {named[0]}`")


_IMPORT_LINE = re.compile(r"^\s*(?:import|from)\s(?:[^#\n]*[\s,])?adios2\b", re.MULTILINE)


def _imports_adios2(text: str) -> bool:
    """Whether a script names adios2 in an import, wherever and however."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError):  # it may be of another version of Python
        return _IMPORT_LINE.search(text) is not None
    names = [alias.name for each in nodes if isinstance(each, ast.Import) for alias in each.names]
    names += [each.module or "" for each in nodes if isinstance(each, ast.ImportFrom) and not each.level]
    return any(name.partition(".")[0] == "adios2" for name in names)


def look_up_own_open(need: StageNeed, thing: OwnOpenNeed) -> NeedState:
    """Whether a script may use `workflow.stage`: one that imports adios2, and does not name `workflow`, does not."""
    try:
        text = Path(thing.script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    if "workflow" in text or not _imports_adios2(text):
        return NeedState(need, "ok", thing.script)
    name = Path(thing.script).name
    detail = f"{name} imports adios2 and not workflow.stage, by which a port without `io` is opened"
    port = "{io: NAME, config: adios2.xml}"
    hint = f"for a program that opens {thing.stream} by adios2: `{port}`, and let it read that file"
    return NeedState(need, "missing", detail, hint)


def look_up_engine(need: StageNeed, thing: EngineNeed) -> NeedState:
    """Whether the ADIOS2 of a program has an engine; where its ADIOS2 is not found, it is taken to have it."""
    program = shutil.which(thing.program, path=need.env.get("PATH"))
    library = library_of(None if program is None else Path(program))
    if library is None or not lacks_engine(library, thing.engine):
        return NeedState(need, "ok", thing.engine)
    text = f"{need.stage} opens it through ADIOS2, and {library} was built without {thing.engine}"
    hint = f"use `via: {KEPT_VIA}`; or let the program open it by `workflow.stage`, which needs h5py only"
    return NeedState(need, "missing", text, hint)


def _look_up_first_line(need: StageNeed, thing: ProgramNeed, path: Path) -> NeedState:
    """The first line of a script names its interpreter."""
    try:
        with path.open("rb") as file:
            start = file.readline(LONGEST_LINE)
    except OSError:  # executable, not readable
        return NeedState(need, "ok", str(path))
    if not start.startswith(b"#!"):
        if path.suffix not in _SCRIPTS or thing.launched:
            return NeedState(need, "ok", str(path))
        detail = f"`{_shown(need, str(path))}` has no first line `#!INTERPRETER`, so that it cannot be started"
        return NeedState(need, "missing", detail, _hint_first_line(path, "sh"))
    if start.endswith(b"\r\n"):
        detail = f"`{_shown(need, str(path))}` has Windows line endings, so its interpreter is not found"
        return NeedState(need, "missing", detail, f"`sed -i 's/\\r$//' {shlex.quote(_from_here(path))}`")
    interpreter = interpreter_in(start)
    if _is_there(interpreter, need):
        return NeedState(need, "ok", str(path))
    line = shortened(start.decode("utf-8", "replace").strip())
    detail = f"`{_shown(need, str(path))}` begins with `{line}`, and there is no `{shortened(interpreter)}`"
    return NeedState(need, "missing", detail, _hint_first_line(path, Path(interpreter).name))


def _is_there(interpreter: str, need: StageNeed) -> bool:
    """Whether an interpreter of a first line is found. True where only the run creates what it is searched in."""
    if interpreter.startswith("/"):
        return is_file(Path(interpreter))
    return "/" in interpreter or not need.path_known or bool(shutil.which(interpreter, path=need.env.get("PATH")))


def _hint_first_line(path: Path, interpreter: str) -> str:
    return f"begin it with `#!/usr/bin/env {_SCRIPTS.get(path.suffix, interpreter)}`"


def _hint_on_path(need: StageNeed, thing: ProgramNeed) -> str:
    if thing.role == "launcher":
        launchers = [each for each in LAUNCHERS.values() if each.executable == thing.program]
        if launchers and all(each.other_machines for each in launchers):
            return "run wf where this launcher is, for example in a job; or use `--site local` for this machine"
        return f"load an MPI module, or `{shlex.quote(sys.executable)} -m pip install mpich`"
    if is_python(thing.program):
        return "did you mean `${{ wf.python }}`, the Python of wf?"
    if os.access(beside := Path(sys.executable).parent / thing.program, os.X_OK):
        return f"it is beside the Python of wf: activate that environment, or write `{beside}`"
    near = did_you_mean(thing.program, _programs(need.env.get("PATH", os.environ.get("PATH", ""))))
    return near or "install it, give its path, or correct `command`"


def _programs(path: str) -> Iterable[str]:
    names: set[str] = set()
    for folder in path.split(":"):
        try:
            names.update(os.listdir(folder or "."))  # noqa: PTH208
        except OSError:
            continue
        if len(names) > _MOST_NAMES:
            break
    return names


def _hint_not_executable(path: Path) -> str:
    change = f"`chmod +x {shlex.quote(_from_here(path))}`"
    if path.suffix != ".py":
        return change
    return f'{change}, or `command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/{path.name}"]`'


def _from_here(path: Path) -> str:
    """A path as it may be typed: relative where it is below the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _shown(need: StageNeed, path: str) -> str:
    return shortened(need.written or path, 200)


def _nearest_file(need: StageNeed, path: Path) -> str:
    """A file or folder of a similar name, in the user's own words; or the folder that does not exist."""
    folder = path.parent
    if not folder.is_dir():
        while not folder.parent.is_dir():
            folder = folder.parent
        near = _near(folder)
        other = f"did you mean `{near}`?" if near else "build the program, or correct `command`"
        return f"there is no folder `{_from_here(folder)}`: {other}"
    near = _near(path)
    if near is None:
        return ""
    words = need.written or str(path)
    return f"did you mean `{words.removesuffix(path.name) + near if words.endswith(path.name) else near}`?"


def _near(path: Path) -> str | None:
    try:
        names = [name for name in os.listdir(path.parent)[:_MOST_NAMES] if name != path.name]  # noqa: PTH208
        return nearest_name(path.name, names)
    except OSError:
        return None


# What a package is called on PyPI, where its module has another name.
_PACKAGES = {"openpmd_api": "openpmd-api", "yaml": "PyYAML"}
# A Python, and the variables of a stage that decide what it finds.
PythonInStage = tuple[str, tuple[tuple[str, str], ...]]


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


def start_look_up(needs: Sequence[StageNeed]) -> Callable[[], list[NeedState]]:
    """Looks up the needs. The result gives the state of each, in the same order, after the modules of its script.

    One process is started for each Python that is not that of wf; the result waits for their answers, with a deadline.
    """
    found: list[NeedState] = []
    modules: list[tuple[int, StageNeed, ModuleNeed]] = []
    for need in _with_imports(needs, found):
        if isinstance(need.thing, ModuleNeed):
            modules.append((len(found), need, need.thing))
            found.append(NeedState(need, "unchecked", ""))
    wanted: dict[PythonInStage, set[str]] = {}
    for _, need, thing in modules:
        if (python := _python_in_stage(need, thing)) is not None:
            wanted.setdefault(python, set()).update(thing.modules)
    answers = {python: ask_modules(python[0], names, dict(python[1])) for python, names in wanted.items()}

    def finish() -> list[NeedState]:
        lacks = {python: answer() for python, answer in answers.items()}
        reported: set[tuple[str, str]] = set()
        for index, need, thing in modules:
            found[index] = _module_state(need, thing, lacks, reported)
        return [state for state in found if state.detail]

    return finish


def _with_imports(needs: Sequence[StageNeed], found: list[NeedState]) -> Iterator[StageNeed]:
    """The needs of modules, those of the scripts among them; the states of all others are added to `found`."""
    for need in needs:
        thing = need.thing
        if isinstance(thing, ProgramNeed):
            state = look_up_program(need, thing)
            script = ScriptNeed(state.detail, _python_of(state)) if thing.role == "program" else None
            imported = _imported(need, script) if script is not None and script.python else None
            found.append(imported if isinstance(imported, NeedState) else state)
            if isinstance(imported, StageNeed):
                yield imported
        elif isinstance(thing, ModuleNeed):
            yield need
        elif isinstance(thing, NewFileNeed):
            found.append(look_up_new_file(need, thing))
        elif isinstance(thing, EngineNeed):
            found.append(look_up_engine(need, thing))
        elif isinstance(thing, ConfigNeed):
            found.append(look_up_config(need, thing))
        elif isinstance(thing, IoNeed):
            found.append(look_up_io(need, thing))
        elif isinstance(thing, OwnOpenNeed):
            found.append(look_up_own_open(need, thing))
        else:
            state = look_up_script(need, thing)
            imported = _imported(need, thing) if state.state == "ok" and thing.python else None
            found.append(imported if isinstance(imported, NeedState) else state)
            if isinstance(imported, StageNeed):
                yield imported


def _python_of(program: NeedState) -> str:
    """The Python that executes a program that is a Python script; empty for all others."""
    interpreter = interpreter_of(Path(program.detail)) if program.state == "ok" else ""
    return interpreter if is_python(interpreter) else ""


def _imported(need: StageNeed, thing: ScriptNeed) -> StageNeed | NeedState | None:
    """The modules that a Python script imports; a state where it cannot be compiled, None where there are none."""
    if not need.modules_known:
        return None
    path, python = Path(thing.script), shutil.which(thing.python, path=need.env.get("PATH"))
    try:
        imports = imports_of(path, lenient=bool(thing.copied_with) or python is None or not is_own_python(python))
    except ScriptSyntaxError as error:
        shown = f"`{shlex.quote(thing.python)} -m py_compile {shlex.quote(thing.script)}` shows the line"
        detail = f"{path.name}:{error.line} is not valid Python: {error}"
        return NeedState(replace(need, certain=False), "missing", detail, shown)
    imports = [each for each in imports if each.module not in sys.stdlib_module_names]
    if not imports:
        return None
    modules, lines = zip(*imports, strict=True)
    beside = None if thing.copied_with else path.parent
    asked = ModuleNeed(modules, thing.python, path.name, beside, thing.copied_with, lines)
    # A module that is imported before them may change the search path.
    return replace(need, thing=asked, certain=False)


def _python_in_stage(need: StageNeed, thing: ModuleNeed) -> PythonInStage | None:
    path = shutil.which(thing.python, path=need.env.get("PATH"))
    return None if path is None else (path, tuple(sorted(python_variables(need.env).items())))


def _module_state(
    need: StageNeed,
    thing: ModuleNeed,
    lacks: Mapping[PythonInStage, list[str] | str],
    reported: set[tuple[str, str]],
) -> NeedState:
    """Without detail where everything that is missing was reported for the same stage.

    `lacks`: the modules that are missing, a text where a Python did not answer; `reported`: (stage, module) so far.
    """
    names, python = ", ".join(thing.modules), _python_in_stage(need, thing)
    if python is None:
        return NeedState(need, "unchecked", f"{names}: {thing.python} is not here")
    path, absent = python[0], lacks[python]
    if isinstance(absent, str):
        hint = f"`{shlex.quote(path)} -c {shlex.quote(f'import {names}')}` shows why"
        return NeedState(need, "unchecked", f"{names}: {path} {absent}", hint)
    gone = [name for name in thing.modules if name in absent and not _is_beside(thing, name)]
    new = [name for name in gone if (need.stage, name) not in reported]
    reported.update((need.stage, name) for name in gone)
    if not new:
        return NeedState(need, "ok", "" if gone else names)
    lines = dict(zip(thing.modules, thing.lines, strict=False))
    what = ", ".join(f"{name} (line {lines[name]})" if name in lines else name for name in new)
    where = f"{path}, the Python of wf," if is_own_python(path) else path
    plural = "s" if len(new) > 1 else ""
    detail = f"{thing.asked_by} needs the Python module{plural} {what}, which {where} does not have"
    return NeedState(need, "missing", detail, _how_to_install(path, new))


def _is_beside(thing: ModuleNeed, module: str) -> bool:
    copied = any(name == f"{module}.py" or name.startswith(f"{module}/") for name in thing.copied)
    return copied or (thing.beside is not None and is_beside(thing.beside, module))


def _how_to_install(python: str, modules: Sequence[str]) -> str:
    if "workflow" in modules:
        return "let `${{ wf.python }}` execute it, or install wf into that Python"
    packages = " ".join(_PACKAGES.get(name, name) for name in modules)
    hint = f"`{shlex.quote(python)} -m pip install {packages}`"
    return f"{hint}, or load your site's ADIOS2 module with its Python bindings" if "adios2" in modules else hint
