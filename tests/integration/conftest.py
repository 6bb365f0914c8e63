"""What several files of these tests need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.packed_runs import MPI_PYTHON, PROGRAMS


@pytest.fixture(scope="module")
def mpi_python() -> str:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    return MPI_PYTHON


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text)
    return folder
