"""Programs of others under wf: `make test-programs`.

Here belong the shapes of programs that nobody here wrote (examples and tools of ADIOS2 and openPMD, codes of users):
unchanged programs, which use ADIOS2 directly and know nothing of wf, and whose data are asserted. Nothing of others is
in this folder: each shape has a program of our own, in C++ in `tests/support/cpp`, or in Python in its test.
`make test` leaves this folder out. CI has five minutes for all of it: short programs, and many runs in one test.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pipelines import ROOT


@pytest.fixture(scope="session")
def mpi_python() -> str:
    """The Python whose ADIOS2 and MPI the programs use."""
    python = os.environ.get("WF_MPI_PYTHON", "")
    if not python:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    return python


@pytest.fixture(scope="session")
def compiled(mpi_python: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles `tests/support/cpp/NAME.cpp` with MPI, once; returns the program."""
    folder, tools = tmp_path_factory.mktemp("programs"), Path(mpi_python).parent

    def compile_one(name: str) -> Path:
        program = folder / name
        if not program.exists():
            asked = subprocess.run(
                [str(tools / "adios2-config"), "--mpi", "--cxx"], capture_output=True, text=True, check=True
            )
            source = ROOT / "tests/support/cpp" / f"{name}.cpp"
            line = [str(tools / "mpicxx"), "-std=c++17", "-o", str(program), str(source), *asked.stdout.split()]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return program

    return compile_one
