"""What the installed ADIOS2 was built with, seen in its library: SST transports, MPI, engines, operators. Nothing is
loaded.

ADIOS2 replaces a transport that it was not built with by another one, without a message. Which it was built with shows
in what the library links: libucp for `ucx`, libfabric for `rdma`, libmpi for `mpi` (source/adios2/toolkit/sst/dp). That
is read from its ELF header: System V ABI, chapters 4 and 5
(https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html). The operators take about 20 ms: only for stages that
compress.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import re
import shutil
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from workflow.operators import built_into
from workflow.site.interpreters import is_own_python
from workflow.spec.models.pipeline import PipelineSpec, StageSpec
from workflow.spec.models.stage_policies import OPENPMD
from workflow.sst_transports import TRANSPORTS, Transport

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29
_LONGEST_NAME = 4096


class Links(NamedTuple):
    """The libraries that it needs, by file name, and the folders where the loader searches for them."""

    needed: list[str]
    runpath: list[str]


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


def read_links(path: Path) -> Links | None:
    """What a 64-bit little-endian library links; None for any other file, or when it cannot be read."""
    try:
        with path.open("rb") as file:
            return _read_elf(file)
    except (OSError, struct.error, ValueError, StopIteration):
        return None


def _read_elf(file: BinaryIO) -> Links | None:
    if file.read(6) != b"\x7fELF\x02\x01":
        return None
    segments = list(_segments(file))
    dynamic = next(each for each in segments if each.kind == _DYNAMIC)
    file.seek(dynamic.offset)
    data = file.read(dynamic.size)
    entries = list(struct.iter_unpack("<qQ", data[: len(data) // 16 * 16]))
    table = _file_offset(next(value for tag, value in entries if tag == _STRTAB), segments)
    needed = [_name_at(file, table + value) for tag, value in entries if tag == _NEEDED]
    paths = [_name_at(file, table + value) for tag, value in entries if tag in (_RUNPATH, _RPATH)]
    return Links(needed, [folder for path in paths for folder in path.split(":") if folder])


def _segments(file: BinaryIO) -> Iterator[_Segment]:
    file.seek(32)
    (table,) = struct.unpack("<Q", file.read(8))
    file.seek(54)
    size, count = struct.unpack("<HH", file.read(4))
    for index in range(count):
        file.seek(table + index * size)
        kind, _, offset, address, _, length = struct.unpack("<IIQQQQ", file.read(40))
        yield _Segment(kind, offset, address, length)


def _file_offset(address: int, segments: list[_Segment]) -> int:
    home = next(s for s in segments if s.kind == _LOAD and s.address <= address < s.address + s.size)
    return address - home.address + home.offset


def _name_at(file: BinaryIO, offset: int) -> str:
    file.seek(offset)
    return file.read(_LONGEST_NAME).split(b"\0", 1)[0].decode("utf-8", errors="replace")


# A message of EVPath's trace that our patch adds, tools/patches/evpath-unique-process-id.patch.
_RANDOM_IDS = b"CM - CManager_ID of this process: "


def adios2_planes() -> tuple[list[Transport], str]:
    """(SST transports of the adios2 of this Python, what was seen); [] when that is not known."""
    library = core_library()
    if library is None:
        return [], "no adios2 is installed beside this Python"
    found = _planes(library)
    return (found, f"linked by {library.name}") if found else ([], f"{library} cannot be read")


def _planes(library: Path) -> list[Transport]:
    """[]: the library cannot be read."""
    links = read_links(library)
    if links is None:
        return []
    return [
        name
        for name, transport in TRANSPORTS.items()
        if not transport.linked or any(re.match(rf"{transport.linked}\b", need) for need in links.needed)
    ]


def adios2_parallel() -> bool | None:
    """Whether the adios2 of this Python is built with MPI; None when there is none."""
    library = core_library()
    return None if library is None else _is_parallel(library)


def _is_parallel(library: Path) -> bool:
    return any(library.parent.glob("libadios2_core_mpi.so*"))


def adios2_build(packages: Iterable[Path], prefix: Path) -> str:
    """What tells builds of one version apart, `MPI; tcp, rdma`, of the adios2 in these folders of packages.

    `prefix`: of their Python. Empty where there is none, or its library is not found.
    """
    library = _find_core([folder / "adios2" for folder in packages], prefix)
    if library is None:
        return ""
    return "; ".join(filter(None, ["MPI" if _is_parallel(library) else "serial", ", ".join(_planes(library))]))


def adios2_random_ids() -> bool:
    """Whether the adios2 of this Python has our patch of EVPath (tools/patches), which gives each process a random id.

    Its trace message says so: a string in the library, so that it holds for the file that stages load.
    """
    core = core_library()
    library = None if core is None else next(iter(sorted(core.parent.glob("libadios2_evpath.so*"))), core)
    try:
        return library is not None and _RANDOM_IDS in library.read_bytes()
    except OSError:
        return False


def core_library() -> Path | None:
    """The library of the installed adios2 that holds SST and the operators."""
    found = importlib.util.find_spec("adios2")
    folders = [Path(place) for place in (found.submodule_search_locations or [])] if found else []
    return _find_core(folders, Path(sys.prefix))


def _find_core(folders: Iterable[Path], prefix: Path) -> Path | None:
    """In these folders of the package, or where they load it from."""
    for folder in filter(Path.is_dir, folders):
        for place in (folder, *_searched(folder / "bindings"), prefix / "lib"):
            library = next(iter(sorted(place.glob("libadios2_core.so*"))), None)
            if library is not None:
                return library
    return None


def _searched(bindings: Path) -> Iterator[Path]:
    """Where the loader searches for what the bindings link: their rpath, then the user's path."""
    for extension in sorted(bindings.glob("*.so")):
        links = read_links(extension) or Links([], [])
        for folder in links.runpath:
            yield Path(folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(bindings.resolve())))
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            yield Path(folder)


_CORE = "libadios2_core.so"
_OWN_PYTHON = re.compile(r"\$\{\{\s*wf\.python\s*\}\}")
# Libraries between a program and ADIOS2's core, e.g. its C++ bindings.
_MOST_LIBRARIES = 50


def operators_of(spec: PipelineSpec, base: Path) -> dict[str, list[str]]:
    """Stage → its operators, of stages that compress and whose ADIOS2 was found."""
    found = {name: _of(stage, base) for name, stage in spec.stages.items() if stage.output.compression}
    return {name: operators for name, operators in found.items() if operators is not None}


def _of(stage: StageSpec, base: Path) -> list[str] | None:
    library = core_library() if stage.uses_stage else _library(stage, base)
    return built_into(library) if library is not None else None


def _library(stage: StageSpec, base: Path) -> Path | None:
    program = _program(stage, base)
    # openPMD-api's wheel brings an ADIOS2 of its own.
    own = any(port.spoken in OPENPMD for port in stage.writes.values())
    return None if own and program is not None and is_own_python(str(program)) else library_of(program)


def library_of(program: Path | None) -> Path | None:
    """The library of ADIOS2 that a program opens its streams with: a script of this Python has its adios2, another
    program the one that it links; None where that is not known."""
    return core_library() if program is not None and is_own_python(str(program)) else _linked(program)


def lacks_engine(library: Path, engine: str) -> bool:
    """Whether a library of ADIOS2 was built without an engine: it then holds the message that says so."""
    said = f"this version didn't compile with {engine} library".encode()
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(said) >= 0
    except (OSError, ValueError):
        return False


def _program(stage: StageSpec, base: Path) -> Path | None:
    word = str((stage.command or [""])[0])
    if _OWN_PYTHON.fullmatch(word):
        return Path(sys.executable)
    found = str(base / word) if "/" in word and "$" not in word else shutil.which(word)
    return Path(found) if found else None


def _linked(program: Path | None) -> Path | None:
    """The ADIOS2 core that a program links, by its rpath and those of its libraries; None for scripts."""
    todo = [program] if program is not None else []
    seen: set[Path] = set()
    while todo and len(seen) < _MOST_LIBRARIES:
        here = todo.pop()
        seen.add(here)
        links = read_links(here)
        for folder in links.runpath if links is not None else []:
            place = Path(folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(here.resolve().parent)))
            for name in links.needed if links is not None else []:
                if (library := place / name).exists() and "adios2" in name and library not in seen:
                    if name.startswith(_CORE):
                        return library
                    todo.append(library)
    return None
