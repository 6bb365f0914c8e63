"""Real openPMD programs, coupled unchanged in each dialect: what they are told arrives, and the data too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import openpmd_programs

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/support/openpmd_programs.py"
# dialect → (what the writer's port says, what its command is given after the path)
TOLD = {
    "json": ("{config: openpmd.json}", ', "@${{ streams.field.config }}"'),
    "toml": ("{config: my.toml}", ', "@${{ streams.field.config }}"'),
    "other-name": ("{config: series.conf, dialect: openpmd.json}", ', "@${{ streams.field.config }}"'),
    "env": ("{config: env}", ""),
}


def pipeline(dialect: str, stream: str) -> str:
    port, options = TOLD[dialect]
    return f"""
wf: 1
name: openpmd
deadlines: {{start: 30 s, step: 30 s, run: 60 s}}
stages:
  sim:
    command: ["${{{{ wf.python }}}}", {PROGRAM}, write, "${{{{ streams.field.path }}}}"{options}]
    writes: {{field: {port}}}
  look:
    command: ["${{{{ wf.python }}}}", {PROGRAM}, read, "${{{{ streams.field.path }}}}", found.npz{options or ', "{}"'}]
    reads: {{field: {port}}}
streams:
  field: {{from: sim, to: look, {stream}}}
"""


def run(folder: Path, text: str) -> dict[str, Any]:
    (folder / "pipeline.yaml").write_text(text)
    argv = [sys.executable, "-m", "workflow.cli", "run", "pipeline.yaml", "--run-dir", "run"]
    answer = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120)
    logs = "".join(path.read_text() for path in (folder / "run/stages").glob("*/std*.log"))
    assert answer.returncode == 0, answer.stdout + answer.stderr + logs
    report: dict[str, Any] = json.loads((folder / "run/report.json").read_text())
    return report


def check_data(folder: Path) -> None:
    with np.load(folder / "run/stages/look/work/found.npz") as found:
        for step, number in enumerate(openpmd_programs.NUMBERS):
            for path, values in openpmd_programs.expected(step).items():
                got = found[f"{number}/{path}"]
                assert got.dtype == values.dtype, path
                assert got.tobytes() == values.tobytes(), path


@pytest.mark.parametrize("dialect", TOLD)
def test_by_stream(dialect: str, tmp_path: Path) -> None:
    # What is no default can only be told by a file.
    queue = "" if dialect == "env" else ", queue: {limit: 3, when_full: discard}"
    report = run(tmp_path, pipeline(dialect, f"via: sst{queue}"))
    check_data(tmp_path)
    stream = report["streams"][0]
    assert stream["steps"] == openpmd_programs.STEPS
    assert stream["readers"][0]["steps"] == openpmd_programs.STEPS
    log = (tmp_path / "run/stages/sim/stderr.log").read_text()
    effective = dict(re.findall(r"Param -\s+(\w+)=(\S+)", log))
    wanted = ("2", "Block") if dialect == "env" else ("3", "Discard")
    assert (effective["QueueLimit"], effective["QueueFullPolicy"]) == wanted
    assert "Opening Stream" in log
    assert "unused" not in log
    assert not list(tmp_path.rglob("*.sst"))


@pytest.mark.parametrize("coupling", ["after", "live"])
@pytest.mark.parametrize("dialect", TOLD)
def test_by_file(dialect: str, coupling: str, tmp_path: Path) -> None:
    report = run(tmp_path, pipeline(dialect, f"via: bp5, coupling: {coupling}"))
    check_data(tmp_path)
    assert report["streams"][0]["steps"] == openpmd_programs.STEPS
    assert (tmp_path / "run/streams/field.bp/md.idx").is_file()


# A deck that says other things first.
DECK = """
diagnostics.diags_names = diag1
diag1.format = plotfile
diag1.file_prefix = somewhere
"""
LIKE = {
    "warpx": ("inputs]", "files: {inputs: deck.in}\n    writes: {field: {io: diag1, config: inputs, dialect: warpx}}"),
    "picongpu": ("--openPMD.period, 10]", "writes: {field: {dialect: picongpu}}"),
}


@pytest.mark.parametrize("via", ["sst", "bp5"])
@pytest.mark.parametrize("code", LIKE)
def test_programs_that_find_out_in_their_own_way(code: str, via: str, tmp_path: Path) -> None:
    (tmp_path / "deck.in").write_text(DECK)
    arguments, told = LIKE[code]
    text = pipeline("json", f"via: {via}")
    port, options = TOLD["json"]
    text = text.replace(f'write, "${{{{ streams.field.path }}}}"{options}]', f"{code}, {arguments}", 1)
    report = run(tmp_path, text.replace(f"writes: {{field: {port}}}", told, 1))
    check_data(tmp_path)
    assert report["streams"][0]["steps"] == openpmd_programs.STEPS


@pytest.mark.parametrize("via", ["sst", "bp5"])
def test_a_config_of_a_fixed_name_in_the_working_directory(via: str, tmp_path: Path) -> None:
    report = run(
        tmp_path,
        f"""
wf: 1
name: lammps
stages:
  md:
    command: ["${{{{ wf.python }}}}", {PROGRAM}, lammps, "${{{{ streams.atoms.path }}}}"]
    writes: {{atoms: {{io: atom, config: adios2_config.xml}}}}
  keep: {{component: archive, with: {{path: atoms.bp}}}}
streams:
  atoms: {{from: md, to: keep, via: {via}}}
""",
    )
    assert report["streams"][0]["readers"][0]["steps"] == openpmd_programs.STEPS


def test_variables_have_one_name_in_all_steps(tmp_path: Path) -> None:
    """What the generated options ask for, so that readers of plain ADIOS2 can follow a variable."""
    from workflow import stage

    run(tmp_path, pipeline("json", "via: bp5"))
    with stage.open_reader(path=tmp_path / "run/streams/field.bp") as stream:
        names = [set(step.names()) for step in stream]
    assert all("/data/meshes/E/x" in each for each in names)
    assert "/rankTable" in names[0]
