"""Which operators a stage's ADIOS2 was built with, seen in its library: nothing is started or imported.

Only for stages that compress, because it takes about 20 ms.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from workflow.operators import built_into
from workflow.site.elf import read_links
from workflow.site.machine import core_library
from workflow.site.program_lookup import is_own_python
from workflow.spec.models.pipeline import PipelineSpec, StageSpec
from workflow.spec.models.stage_policies import OPENPMD

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
    if program is None or not is_own_python(str(program)):
        return _linked(program)
    # A script of this Python has its adios2; but openPMD-api's wheel brings one of its own.
    return None if any(port.spoken in OPENPMD for port in stage.writes.values()) else core_library()


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
