"""Whether programs and scripts are on this machine and can be started, and whether places of new files are free."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from workflow.errors import did_you_mean, nearest_name, shortened
from workflow.launch.launchers import LAUNCHERS
from workflow.site.need_model import NeedState, NewFileNeed, ProgramNeed, ScriptNeed, StageNeed
from workflow.spec.user_paths import exists, is_file

# Interpreters by the names of their programs, and what their command lines let them execute.

_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
_OTHER = re.compile(r"(.*/)?(sh|bash|perl|julia|lua|ruby|Rscript)")
# Options of Python that take the next word, unless something follows their letter (python --help).
_WITH_VALUE = "WX"


class Executed(NamedTuple):
    """What an interpreter executes, and at which word of the command line it stands."""

    kind: Literal["script", "module"]
    word: int


def is_python(program: str) -> bool:
    """Whether a program is a Python, by its name or path."""
    return _PYTHON.fullmatch(program) is not None


def is_interpreter(program: str) -> bool:
    """Whether a program executes scripts, by its name or path."""
    return is_python(program) or _OTHER.fullmatch(program) is not None


def is_own_python(program: str) -> bool:
    """Whether a program, by its absolute path, is the Python that executes wf or another name of it in its folder.

    The same file in another folder is not: the Python of a virtual environment is a link to one that has other
    modules. Neither is another version in the same folder.
    """
    if program == sys.executable:
        return True
    if not is_python(program) or os.path.dirname(program) != os.path.dirname(sys.executable):  # noqa: PTH120
        return False
    return os.path.realpath(program) == os.path.realpath(sys.executable)


def executed(argv: Sequence[str]) -> Executed | None:
    """What an interpreter executes; None for commands such as `python -c …`, and where options hide it."""
    if not is_python(argv[0]):
        return Executed("script", 1) if len(argv) > 1 and not argv[1].startswith("-") else None
    index = 1
    while index < len(argv):
        word = argv[index]
        if not word.startswith("-"):
            return Executed("script", index)
        if word.startswith("--") or word == "-":
            return None
        for position, letter in enumerate(word[1:], start=1):
            at_end = position == len(word) - 1
            if letter == "m":
                return Executed("module", index + 1) if at_end and index + 1 < len(argv) else None
            if letter == "c":
                return None
            if letter in _WITH_VALUE:
                index += at_end
                break
        index += 1
    return None


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
_LONGEST_LINE = 256  # BINPRM_BUF_SIZE of Linux
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


def _look_up_first_line(need: StageNeed, thing: ProgramNeed, path: Path) -> NeedState:
    """The first line of a script names its interpreter."""
    try:
        with path.open("rb") as file:
            start = file.readline(_LONGEST_LINE)
    except OSError:  # executable, not readable
        return NeedState(need, "ok", str(path))
    if not start.startswith(b"#!"):
        if path.suffix not in _SCRIPTS or thing.launched:
            return NeedState(need, "ok", str(path))
        detail = f"`{_shown(need, str(path))}` has no first line `#!INTERPRETER`, so that it cannot be started"
        return NeedState(need, "missing", detail, _hint_first_line(path, "sh"))
    if start.endswith(b"\r\n"):
        detail = f"`{_shown(need, str(path))}` has line ends of Windows, so that its interpreter is not found"
        return NeedState(need, "missing", detail, f"`sed -i 's/\\r$//' {shlex.quote(_from_here(path))}`")
    interpreter = _interpreter(start)
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


def interpreter_of(path: Path) -> str:
    """The interpreter that the first line of a script names, a path or a name on PATH; empty where there is none."""
    try:
        with path.open("rb") as file:
            start = file.readline(_LONGEST_LINE)
    except OSError:
        return ""
    return _interpreter(start) if start.startswith(b"#!") else ""


def _interpreter(first_line: bytes) -> str:
    words = first_line[2:].decode("utf-8", "replace").split()
    by_env = len(words) > 1 and words[0].endswith("/env") and not words[1].startswith("-")
    return words[1] if by_env else (words or [""])[0]


def _hint_on_path(need: StageNeed, thing: ProgramNeed) -> str:
    if thing.role == "launcher":
        launchers = [each for each in LAUNCHERS.values() if each.executable == thing.program]
        if launchers and all(each.other_machines for each in launchers):
            return "run wf where this launcher is, for example in a job; or use `--site local` for this machine"
        return f"load an MPI module, or `{shlex.quote(sys.executable)} -m pip install mpich`"
    if is_python(thing.program):
        return "did you mean `${{ wf.python }}`, the Python of wf?"
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
