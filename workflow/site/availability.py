"""Whether this machine has what the stages of a pipeline need. Nothing is imported, no stage is started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workflow.launch.launchers import LAUNCHERS
from workflow.site.detection import is_here
from workflow.site.need_model import ModuleNeed, NeedState, NewFileNeed, ProgramNeed, ScriptNeed, StageNeed
from workflow.site.program_lookup import (
    interpreter_of,
    is_own_python,
    is_python,
    look_up_new_file,
    look_up_program,
    look_up_script,
)
from workflow.site.python_modules import (
    ScriptSyntaxError,
    ask_modules,
    imports_of,
    is_beside,
    python_variables,
)
from workflow.site.site_model import Site

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
