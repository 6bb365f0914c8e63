"""`wf look` on real files: what is found, read and refused."""

from __future__ import annotations

import base64
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from adios2 import Stream
from click.testing import CliRunner

from tests.support.sample_run import write_sample
from workflow.api import look_at
from workflow.cli.main import wf
from workflow.errors import RunError, WfError


def write_bp(path: Path, steps: int = 3, shape: tuple[int, ...] = (6, 7, 8)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with Stream(str(path), "w") as out:
        for step in range(steps):
            out.begin_step()
            field = step + np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
            out.write("field", field, list(shape), [0] * len(shape), list(shape))
            out.write("name", "text")
            out.write("time", 0.5 * step)
            if step == 0:
                out.write_attribute("unit", "ps", "time")
            out.end_step()
    return path


def model_of(page: Path) -> dict[str, Any]:
    text = page.read_text().partition('id="model">')[2].partition("</script>")[0]
    return dict(json.loads(text))


def first_numbers(page: Path, name: str, step: int = 0, column: int = 0) -> Any:
    view = next(view for file in model_of(page)["files"] for view in file["views"] if view["name"] == name)
    values = view["runs"][0]["columns"][column]["values"][step]
    return np.frombuffer(base64.b64decode(values), dtype=f"<f{view['itemBytes']}")


def test_a_file_and_its_page(tmp_path: Path) -> None:
    written = look_at(write_bp(tmp_path / "field.bp"), page=tmp_path / "page.html")
    assert written.path == tmp_path / "page.html" and written.summary.startswith("1 file, 2 variables, 3 steps, ")
    assert written.notes == ["field.bp: left out: name (text)"]
    file = model_of(written.path)["files"][0]
    assert file["times"] == [[0.0, 0.5, 1.0]] and file["timeUnit"] == "ps"
    np.testing.assert_array_equal(first_numbers(written.path, "field", 2), 2 + np.arange(6 * 7 * 8))


def test_boxes_of_a_large_array_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from workflow.compare import array_difference
    from workflow.look import read_archive

    monkeypatch.setattr(read_archive, "boxes", lambda shape, kind: array_difference.boxes(shape, kind, 3 * 33 * 8))
    look_at(write_bp(tmp_path / "field.bp", 1, (20, 7, 33)), page=tmp_path / "page.html", limit=6000)
    view = next(view for view in model_of(tmp_path / "page.html")["files"][0]["views"] if view["name"] == "field")
    assert view["strides"] != [1, 1, 1]
    expected = np.arange(20 * 7 * 33).reshape(20, 7, 33)[tuple(slice(None, None, n) for n in view["strides"])]
    np.testing.assert_array_equal(first_numbers(tmp_path / "page.html", "field"), expected.ravel())


def test_openpmd_iterations_are_steps(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file.attrs["openPMD"] = "1.1.0"
        for number in (0, 100):
            file[f"data/{number}/particles/e/position/x"] = np.arange(4.0) + number
            file[f"data/{number}/particles/e/position/y"] = np.arange(4.0)
            file[f"data/{number}/meshes/rho"] = np.ones((2, 3))
            file[f"data/{number}"].attrs["time"] = number / 10
    look_at(tmp_path / "run.h5", page=tmp_path / "page.html")
    (file,) = model_of(tmp_path / "page.html")["files"]
    assert file["steps"] == [0, 100] and file["times"] == [[0.0, 10.0]]
    assert {view["name"]: view["kind"] for view in file["views"]} == {
        "data/particles/e": "particles",
        "data/meshes/rho": "image",
    }
    np.testing.assert_array_equal(first_numbers(tmp_path / "page.html", "data/particles/e", 1), np.arange(4.0) + 100)


def test_h5part_steps_and_particles(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5part", "w") as file:
        for step in range(11):
            for name in ("x", "y", "z", "id"):
                file[f"Step#{step}/{name}"] = np.arange(5.0) * step
    look_at(tmp_path / "run.h5part", page=tmp_path / "page.html")
    (file,) = model_of(tmp_path / "page.html")["files"]
    assert len(file["steps"]) == 11 and [view["kind"] for view in file["views"]] == ["particles"]
    np.testing.assert_array_equal(first_numbers(tmp_path / "page.html", "particles", 10), np.arange(5.0) * 10)


def test_an_archive_with_data_and_one_without(tmp_path: Path) -> None:
    write_bp(tmp_path / "records/field.bp")
    for name, folder in (("with.zip", "records"), ("without.zip", "source")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for path in sorted((tmp_path / folder).rglob("*.*")) if folder == "records" else []:
                archive.write(path, path.relative_to(tmp_path))
            archive.writestr("README.md", "a run")
    look_at(tmp_path / "with.zip", page=tmp_path / "page.html")
    assert [file["name"] for file in model_of(tmp_path / "page.html")["files"]] == ["field.bp"]
    with pytest.raises(RunError, match="holds no data of its run\n  archive it with its data: wf archive RUN --data"):
        look_at(tmp_path / "without.zip")


def test_runs_whose_arrays_differ_in_shape_have_no_difference_but_a_page(tmp_path: Path) -> None:
    write_bp(tmp_path / "a/field.bp", steps=2)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["Step0/field"] = np.ones((2, 2))
        file["Step0/more"] = np.ones(3)
    written = look_at(tmp_path / "a", tmp_path / "b.h5", page=tmp_path / "page.html")
    (file,) = model_of(written.path)["files"]
    assert [view["name"] for view in file["views"]] == ["field", "more", "time"]


def test_what_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = write_sample(tmp_path / "runs/one", steps=3)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no archive")
    for given, message in (
        (run, r"one has no file of data.*\n  add a sink, `keep: \{component: archive\}`"),
        ("empty", r"empty is no run, and there is no BP and no HDF5 file in it\n  the runs here: wf runs"),
        ("notes.txt", "neither a run, an archive of one, nor a BP or HDF5 file"),
        ("on", "there is no run `on`\n  the newest runs here: one"),
    ):
        with pytest.raises(WfError, match=f"(?s){message}"):
            look_at(given)
    with Stream(str(tmp_path / "open.bp"), "w") as out:
        out.begin_step()
        out.write("a", 1.0)
        out.end_step()
        with pytest.raises(
            RunError, match=r"open.bp: its writer has not closed it\n  if it is still being written, look again"
        ):
            look_at("open.bp")
    look_at("open.bp")
    (tmp_path / "broken.h5").write_bytes(b"no HDF5")
    with pytest.raises(RunError, match=r"(?s)broken.h5: cannot open .*look again when it has ended; .*: wf report"):
        look_at("broken.h5")
    (tmp_path / "both").mkdir()
    (tmp_path / "open.bp").rename("both/whole.bp")
    (tmp_path / "broken.h5").rename("both/broken.h5")
    assert any("broken.h5" in note for note in look_at("both", page="both.html").notes)
    with pytest.raises(
        RunError, match=r"cannot write nowhere/page.html: No such file or directory\n  name another file: `-o"
    ):
        look_at("both", page="nowhere/page.html")


def test_without_plotly_the_message_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_bp(tmp_path / "field.bp")
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(WfError, match=r"the page needs plotly\n  .*pip install .*\[look\]"):
        look_at(path)


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_bp(tmp_path / "field.bp")
    answer = CliRunner().invoke(wf, ["look", "field.bp", "--limit", "2 kB"])
    assert answer.exit_code == 0, answer.output
    assert answer.output.startswith("field.html: 1 file, 2 variables, 3 steps, ")
    assert "thinned: field.bp: field: every " in answer.output
