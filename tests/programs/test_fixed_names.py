"""Programs whose names of streams and files are in their source, as in most examples of ADIOS2 and openPMD."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import adios2
import numpy as np
import pytest

from tests.integration.test_resume import BY_CHECKPOINT, UNCHANGED
from tests.support.pipelines import ROOT, Done, run
from tests.support.resumed_runs import ANALYSIS, first_step, resume
from workflow.compare.compare_runs import compare_runs

STEPS = 4
PIPELINE = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py"]
    writes: {field: {path: WRITTEN}}
  look:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/look.py"]
    reads: {field: {path: READ}}
  keep:
    component: archive
    with: {path: kept.bp}
streams:
  field: {from: sim, to: [look, keep], VIA}
"""
SIM = """
import adios2
import numpy as np

io = adios2.Adios().declare_io("Out")
io.set_engine("ENGINE")
io.set_parameter("RendezvousReaderCount", "2")
with adios2.Stream(io, "NAME", "w") as stream:
    for step in range(STEPS):
        stream.begin_step()
        stream.write("x", np.arange(6.0) + 10 * step, [6], [0], [6])
        stream.end_step()
"""
LOOK = """
import adios2

io = adios2.Adios().declare_io("In")
io.set_engine("ENGINE")
io.set_parameter("OpenTimeoutSecs", "30")
with adios2.Stream(io, "NAME", "r") as stream:
    for _ in stream.steps():
        print(f"{stream.read('x').sum():g}", flush=True)
"""
SUMS = [f"{15 + 60 * step:g}" for step in range(STEPS)]


def coupled(
    folder: Path,
    engine: str,
    written: str,
    read: str,
    via: str,
    *,
    opens: tuple[str, str] | None = None,
    name: str = "run",
) -> Done:
    """The run of a program that writes and one that reads; `opens`: what they open, where `path:` is another name."""
    names = opens or (written, read)
    for script, text, opened in (("sim.py", SIM, names[0]), ("look.py", LOOK, names[1])):
        (folder / script).write_text(
            text.replace("ENGINE", engine).replace("NAME", opened).replace("STEPS", str(STEPS))
        )
    text = PIPELINE.replace("WRITTEN", written).replace("READ", read).replace("VIA", via)
    return run(folder, text, name=name)


def values(path: Path) -> list[float]:
    with adios2.FileReader(str(path)) as file:
        return [float(np.sum(file.read("x", step_selection=[step, 1]))) for step in range(file.num_steps())]


@pytest.mark.parametrize(
    ("engine", "names", "via"),
    [
        ("SST", ("output", "input"), "via: sst"),
        # Names with suffixes of files: SST adds its own one.
        ("SST", ("output.bp", "out/input.h5"), "via: sst"),
        ("BP5", ("output.bp", "output.bp"), "via: bp5"),
        ("BP5", ("data/output", "input.bp"), "via: bp5, coupling: live"),
        ("BP4", ("output.bp", "input.bp"), "via: bp4"),
    ],
)
def test_each_end_opens_the_name_in_its_source(engine: str, names: tuple[str, str], via: str, tmp_path: Path) -> None:
    done = coupled(tmp_path, engine, *names, via)
    assert done.code == 0, done.said
    assert done.printed("look") == SUMS
    assert values(done.folder / "kept.bp") == [float(each) for each in SUMS]
    assert [stream.steps for stream in done.report.streams if stream.name == "field"] == [STEPS]
    contacts = [path.name for path in done.folder.rglob("*.sst") if not path.is_symlink()]
    assert contacts == []


def test_the_name_of_a_contact_file_is_taken_for_its_stream(tmp_path: Path) -> None:
    """openPMD programs open `simData.sst`, of which ADIOS2 sees `simData`."""
    done = coupled(tmp_path, "SST", "simData.sst", "simData.sst", "via: sst", opens=("simData", "simData"))
    assert done.code == 0, done.said
    assert done.printed("look") == SUMS


OPENPMD = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py"]
    writes: {series: {path: simData.sst}}
  look:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/look.py"]
    reads: {series: {path: simData.sst}}
streams:
  series: {from: sim, to: look, via: sst}
"""
OPENPMD_SIM = """
import numpy as np
import openpmd_api as io

series = io.Series("simData.sst", io.Access.create)
for step in range(STEPS):
    iteration = series.write_iterations()[step]
    mesh = iteration.meshes["E"]["x"]
    mesh.reset_dataset(io.Dataset(np.dtype("float64"), [6]))
    mesh.store_chunk(np.arange(6.0) + 10 * step)
    iteration.close()
series.close()
"""
OPENPMD_LOOK = """
import openpmd_api as io

series = io.Series("simData.sst", io.Access.read_linear)
for iteration in series.read_iterations():
    x = iteration.meshes["E"]["x"].load_chunk()
    iteration.close()
    print(f"{x.sum():g}", flush=True)
"""


def test_two_openpmd_programs_with_the_name_of_their_series_in_the_source(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(OPENPMD_SIM.replace("STEPS", str(STEPS)))
    (tmp_path / "look.py").write_text(OPENPMD_LOOK)
    done = run(tmp_path, OPENPMD)
    assert done.code == 0, done.said
    assert done.printed("look") == SUMS
    assert [stream.steps for stream in done.report.streams] == [STEPS]


def wf(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workflow.cli", *map(str, argv)], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_what_is_done_with_the_data_afterwards(tmp_path: Path) -> None:
    done = coupled(tmp_path, "BP5", "output.bp", "input.bp", "via: bp5")
    data = done.folder / "stages/sim/work/output.bp"
    assert values(data) == [float(each) for each in SUMS]
    link = done.folder / "stages/look/work/input.bp"
    assert link.is_symlink()
    assert link.resolve() == data
    stored = sum(path.stat().st_size for path in data.iterdir())
    assert 0 < (done.report.stream("field").stored or 0) <= stored
    # A link counts neither as data of its own nor as a difference.
    other = coupled(tmp_path, "BP5", "output.bp", "input.bp", "via: bp5", name="other")
    compared = wf("compare", done.folder, other.folder, "--json")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    assert sorted(each["path"] for each in json.loads(compared.stdout)["files"]) == [
        "kept.bp", "stages/sim/work/output.bp",
    ]  # fmt: skip
    replayed = wf("replay", done.folder, "--run-dir", tmp_path / "replayed", "-q")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert (tmp_path / "replayed/stages/look/stdout.log").read_text().split() == SUMS
    archived = wf("archive", done.folder, "-o", tmp_path / "kept", "--data")
    assert archived.returncode == 0, archived.stdout + archived.stderr
    inside = [path.parent for path in (tmp_path / "kept").rglob("md.idx")]
    assert sorted(path.name for path in inside) == ["kept.bp", "output.bp"]
    assert [values(path) for path in inside] == 2 * [[float(each) for each in SUMS]]


def test_a_stream_that_is_not_kept_is_removed_where_its_program_wrote_it(tmp_path: Path) -> None:
    done = coupled(tmp_path, "BP5", "output.bp", "input.bp", "via: bp5, keep: false")
    assert done.code == 0, done.said
    assert not (done.folder / "stages/sim/work/output.bp").exists()
    assert done.printed("look") == SUMS


@pytest.mark.parametrize("field", ["via: bp5, coupling: live", "via: sst"])
def test_a_run_goes_on_with_what_its_program_wrote_by_a_name_of_its_own(field: str, tmp_path: Path) -> None:
    text = BY_CHECKPOINT.replace("${{{{ streams.field.path }}}}", "output.bp")
    text = text.replace("config: adios2.xml}}", "config: adios2.xml, path: output.bp}}")
    text = text.format(folder=tmp_path, field=field, again="again", is_again="true")
    (tmp_path / "sim.py").write_text(UNCHANGED)
    (tmp_path / "mean.py").write_text(ANALYSIS)
    assert run(tmp_path, text, name="whole").code == 0
    (tmp_path / "fails").write_text("75")
    assert run(tmp_path, text).code == 1
    assert resume(tmp_path, "part2").code == 1, "its checkpoint is damaged"
    done = resume(tmp_path, "part3", before="part2")
    assert (done.code, first_step(done, "sim")) == (0, 3), done.said
    compared = compare_runs(done.folder, tmp_path / "whole")
    assert compared.identical, compared
    if "bp5" in field:
        assert "stages/sim/work/output.bp" in [each.path for each in compared.files]


HANDED = """
stages:
  prepare:
    command: [sh, -c, "printf 'topology 7' > built.tpr"]
    writes: {topology: {path: built.tpr}}
  md:
    command: [sh, -c, "cat topol.tpr"]
    reads: {topology: {path: topol.tpr}}
streams:
  topology: {from: prepare, to: md, via: file}
"""


def test_any_file_is_handed_over_under_the_name_that_its_reader_insists_on(tmp_path: Path) -> None:
    done = run(tmp_path, HANDED)
    assert done.code == 0, done.said
    assert done.printed("md") == ["topology 7"]
