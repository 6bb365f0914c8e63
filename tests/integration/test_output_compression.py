"""Compression, proved from what lies on disk and from what arrived."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.packed_runs import (
    DENSITY,
    PACKED,
    SIDE,
    accuracy,
    bytes_of,
    chain,
    environment,
    operators_in,
    real_error,
    report_of,
    wf,
)  # fmt: skip
from workflow.operators import built_into
from workflow.site.adios2_library import core_library


@pytest.mark.parametrize("wiring", ["via: sst", "via: bp5", "via: bp5, coupling: live"])
def test_errors_are_measured_and_within_the_bound(wiring: str, mpi_python: str, programs: Path, tmp_path: Path) -> None:
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, wiring, PACKED, readers=3))
    assert done.returncode == 0, done.stderr
    found = accuracy(tmp_path)
    assert sorted(found) == ["density", "id"]
    density, ids = found["density"], found["id"]
    # something was lost, no more than allowed, and the samples show no more than there is
    assert 0 < density["largest"] <= real_error(tmp_path) <= density["bound"] == 1e-3
    assert (density["operator"], density["steps"], density["compared"]) == ("zfp", 3, 3 * 1024)
    # every reader read all of it, and every value is a sample
    assert (ids["operator"], ids["largest"], ids["bound"], ids["compared"]) == ("blosc", 0.0, 0.0, 3 * 3 * SIDE)
    said = subprocess.run(
        [mpi_python, "-m", "workflow.cli", "report", str(tmp_path / "run")],
        env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert re.search(r"field → look: density: zfp, largest error \S+ ≤ 0.001", said.stdout), said.stdout
    if "sst" not in wiring:
        file = tmp_path / "run/streams/field.bp"
        assert "zfp" in operators_in(file, "density")
        assert "blosc" in operators_in(file, "id")
        assert bytes_of(file) < 0.6 * 3 * 8 * SIDE**3  # and not as large as what it holds
        stored = report_of(tmp_path)["streams"][0]["stored"]
        assert stored == sum(each.stat().st_size for each in file.glob("data.*"))
        assert re.search(r"field: stored \S+ kB of \S+ kB \(\d+ %\)", said.stdout), said.stdout


def test_what_nobody_read_is_not_called_checked(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    text = chain(programs, mpi_python, "via: bp5", PACKED, readers=1).replace("read.py", "glance.py")
    done = wf(tmp_path, mpi_python, text)
    assert done.returncode == 0, done.stderr
    (stream,) = report_of(tmp_path)["streams"]
    assert (stream["unread"], [each["variable"] for each in stream["readers"][0]["accuracy"]]) == (["density"], ["id"])


@pytest.mark.parametrize(
    ("via", "compressor"),
    [("bp4", "blosc: {codec: zstd, level: 7, shuffle: shuffle, threads: 2}"), ("bp5", "bzip2: {level: 3}")],
)
def test_lossless_keeps_every_bit(via: str, compressor: str, mpi_python: str, programs: Path, tmp_path: Path) -> None:
    output = f"{{compression: {{density: {{{compressor}}}}}}}"
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, f"via: {via}", output, readers=1))
    assert done.returncode == 0, done.stderr
    assert real_error(tmp_path) == 0.0
    assert accuracy(tmp_path)["density"]["largest"] == 0.0
    if via == "bp5":  # bpls (2.12.1) lists no operators of BP4
        assert "bzip2" in operators_in(tmp_path / "run/streams/field.bp", "density")
    assert bytes_of(tmp_path / "run/streams/field.bp") < 0.95 * 3 * 8 * SIDE**3


def test_a_broken_bound_fails_the_run(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    output = "{compression: {density: {zfp: {accuracy: 0.1}, bound: 1e-6}}}"
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, "via: sst", output))
    assert done.returncode == 1, done.stdout
    report = report_of(tmp_path)
    assert report["run"]["stage"] == "look"
    assert re.search(
        r"density arrived in step \d with an error of 0\.0\d+; the bound for zfp is 1e-06; raise `bound`", done.stderr
    )
    density = accuracy(tmp_path)["density"]
    assert density["largest"] > density["bound"] == 1e-6


def test_an_array_of_nothing_is_an_error_and_no_crash(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    """ADIOS2 2.12.1 dies of it (SIGBUS)."""
    output = f"{{compression: {{{DENSITY}}}}}"
    text = chain(programs, mpi_python, "via: bp5", output, writers=1, readers=1, more=", empty")
    done = wf(tmp_path, mpi_python, text)
    assert done.returncode == 1
    assert "density has no elements in this step, and zfp cannot compress empty arrays" in done.stderr
    assert report_of(tmp_path)["stages"][0]["exit_code"] == 1


def test_a_variable_that_the_operator_cannot_do(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    """Not known before the first step, since the program declares nothing."""
    output = "{compression: {id: {zfp: {accuracy: 1}}}}"
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, "via: bp5", output, writers=1, readers=1))
    assert done.returncode == 1
    assert "zfp cannot compress id: it is of type int64" in done.stderr


def test_a_program_of_ones_own_is_told_and_not_checked(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    text = f"""
wf: 1
name: plain
stages:
  make:
    command: [{mpi_python}, {programs}/plain.py, "${{{{ streams.wave.path }}}}"]
    writes: {{wave: {{io: out, config: adios2.xml, variables: {{wave: {{type: float64, shape: [N]}}}}}}}}
    output: {{compression: {{"*": {{zfp: {{accuracy: 1e-4}}}}}}}}
  drop: {{component: "null"}}
streams:
  wave: {{from: make, to: drop, via: bp5}}
"""
    done = wf(tmp_path, mpi_python, text)
    assert done.returncode == 0, done.stderr
    assert "zfp" in operators_in(tmp_path / "run/streams/wave.bp", "wave")
    assert bytes_of(tmp_path / "run/streams/wave.bp") < 0.5 * 800_000
    (note,) = [each for each in report_of(tmp_path)["notes"] if "compression" in each]
    assert note == "what compression did to wave was not checked for drop: make does not use workflow.stage"


def test_an_openpmd_program_is_told(programs: Path, tmp_path: Path) -> None:
    """The wheel of openPMD-api has an ADIOS2 of its own, with zfp."""
    text = f"""
wf: 1
name: openpmd
stages:
  make:
    command: [{sys.executable}, {programs}/openpmd.py, "${{{{ streams.wave.path }}}}"]
    writes: {{wave: {{config: openpmd.json}}}}
    output: {{compression: {{"*": {{zfp: {{accuracy: 1e-4}}}}}}}}
  drop: {{component: "null", with: {{read_data: false}}}}
streams:
  wave: {{from: make, to: drop, via: bp5}}
"""
    done = wf(tmp_path, sys.executable, text)
    assert done.returncode == 0, done.stderr
    assert bytes_of(tmp_path / "run/streams/wave.bp") < 0.5 * 800_000
    assert any(
        "not known which operators" in line for line in json.loads((tmp_path / "run/plan.json").read_text())["advice"]
    )


# An ADIOS2 that lacks the operator

serial = pytest.mark.skipif(
    "zfp" in (((lib := core_library()) and built_into(lib)) or []), reason="this Python's adios2 has zfp"
)


@serial
def test_the_plan_refuses_what_is_not_built(programs: Path, tmp_path: Path) -> None:
    done = wf(tmp_path, sys.executable, chain(programs, sys.executable, "via: bp5", PACKED), "check")
    assert done.returncode == 2
    assert "the ADIOS2 of stage make is built without zfp: it has none" in done.stderr


@serial
def test_the_stage_refuses_what_is_not_built(programs: Path, tmp_path: Path) -> None:
    """A site's file may be wrong about it; ADIOS2 itself would abort."""
    (tmp_path / "sites").mkdir()
    liar = "site: liar\nsummary: says that it can more\noperators: [zfp, blosc]\n"
    (tmp_path / "sites/liar.yaml").write_text(liar)
    text = chain(programs, sys.executable, "via: bp5", PACKED, writers=1, readers=1).replace(
        "wf: 1", "wf: 1\nsite: liar"
    )
    (tmp_path / "pipeline.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", "run", tmp_path / "pipeline.yaml", "--run-dir", tmp_path / "run", "-q"],
        env={**environment(), "WF_CONFIGS": str(tmp_path)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "this ADIOS2 is built without zfp (it has no operators); `make adios2-mpi`" in done.stderr
    stage = report_of(tmp_path)["stages"][0]
    assert (stage["exit_code"], stage["signal"]) == (1, None)


# The size of steps


def test_steps_larger_than_stated_are_noted(programs: Path, tmp_path: Path) -> None:
    wiring = "via: sst, step_size: 10 kB"
    done = wf(tmp_path, sys.executable, chain(programs, sys.executable, wiring, "{}", writers=1, readers=1))
    assert done.returncode == 0, done.stderr
    (note,) = [each for each in report_of(tmp_path)["notes"] if "step_size" in each]
    assert re.match(r"steps of field were 111 kB on average, and the queue up to 332 kB, but planned as", note)
