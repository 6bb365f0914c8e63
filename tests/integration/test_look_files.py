"""`wf look` on real files: what is found, read and refused."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from adios2 import Stream
from click.testing import CliRunner

from tests.support.sample_run import make_plan, write_sample
from workflow.api.archives import look_at
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
    from workflow.data_files import read_steps
    from workflow.data_files.reading_process import ReadingProcess
    from workflow.look import read_numbers

    monkeypatch.setattr(read_numbers, "boxes", lambda shape, kind: read_steps.boxes(shape, kind, 3 * 33 * 8))
    # In this process, where the boxes are small.
    monkeypatch.setattr(ReadingProcess, "call", lambda _, function, *arguments: function(*arguments))
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
            file[f"data/{number}/meshes/rho"].attrs.update(unitSI=1e-9, unitDimension=np.eye(7)[0])
            file[f"data/{number}/particles/e/position/x"].attrs["unitSI"] = 1e-10
            file[f"data/{number}/particles/e/position"].attrs["unitDimension"] = np.eye(7)[0]
            file[f"data/{number}"].attrs.update(time=number / 10, timeUnitSI=1e-15)
    look_at(tmp_path / "run.h5", page=tmp_path / "page.html")
    (file,) = model_of(tmp_path / "page.html")["files"]
    assert (file["steps"], file["times"], file["timeUnit"]) == ([0, 100], [[0.0, 10.0]], "fs")
    columns = {view["name"]: view["columns"] for view in file["views"]}
    assert columns["/data/meshes/rho"] == [{"name": "/data/meshes/rho", "label": "rho", "unit": "nm", "factor": 1.0}]
    assert columns["data/particles/e"][0] == {"name": "position x", "label": "position x", "unit": "Å", "factor": 1.0}
    assert {view["name"]: view["kind"] for view in file["views"]} == {
        "data/particles/e": "particles",
        "/data/meshes/rho": "image",
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


@pytest.mark.parametrize("damage", ["cut", "encrypted", "folder"])
def test_an_archive_that_cannot_be_unpacked(tmp_path: Path, damage: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["Step0/a"] = np.arange(4.0)
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        if damage == "folder":
            archive.writestr("records/plots.h5/", "")
        archive.write(tmp_path / "a.h5", "records/a.h5")
    packed = bytearray((tmp_path / "run.zip").read_bytes())
    if damage == "cut":
        packed[500:600] = bytes(range(100))
    elif damage == "encrypted":
        packed[6] |= 1
        packed[packed.rindex(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "run.zip").write_bytes(packed)
    if damage == "folder":
        assert look_at(tmp_path / "run.zip", page=tmp_path / "page.html").summary.startswith("1 file, 1 variable")
        return
    with pytest.raises(RunError, match=r"run.zip: cannot be unpacked: .*\n  copy it again; or unpack it, and look at"):
        look_at(tmp_path / "run.zip", page=tmp_path / "page.html")


def views_of(page: Path) -> dict[str, Any]:
    """Name → kind, and how many numbers each column has in each step, of the first run."""
    return {
        view["name"]: (
            view["kind"],
            {
                column["name"]: [
                    values and len(base64.b64decode(values)) // view["itemBytes"] for values in carried["values"]
                ]
                for column, carried in zip(view["columns"], view["runs"][0]["columns"], strict=True)
            },
        )
        for view in model_of(page)["files"][0]["views"]
    }


def test_steps_that_lack_a_column_or_have_other_axes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        for step, (components, rows) in enumerate(((3, 5), (2, 7), (2, 5))):
            file[f"Step#{step}/position"] = np.ones((rows, components))
            file[f"Step#{step}/box"] = np.ones((5, 3))
            file[f"Step#{step}/E"] = np.ones((4, 4, 4, components))
            file[f"Step#{step}/B"] = np.ones((4, 4, 4, 3 if step else 2))
        file["Step#1/velocity"] = np.ones((7, 2))
    written = look_at(tmp_path / "run.h5", page=tmp_path / "page.html")
    found = views_of(written.path)
    assert found["particles"] == (
        "particles",
        {
            "position x": [5, 7, 5], "position y": [5, 7, 5], "position z": [5, None, None],
            "velocity x": [None, 7, None], "velocity y": [None, 7, None],
        },
    )  # fmt: skip
    # As long as the particles by chance: not in step 1.
    assert found["box"] == ("vectors", {"x": [5, 5, 5], "y": [5, 5, 5], "z": [5, 5, 5]})
    assert found["E"] == ("volume", {"x": [64] * 3, "y": [64] * 3, "z": [64, None, None]})
    assert found["B"] == ("volume", {"x": [64] * 3, "y": [64] * 3})
    assert written.notes == ["run.h5: left out: B (in steps where its shape has other axes)"]


def test_runs_and_steps_of_different_types_keep_their_digits(tmp_path: Path) -> None:
    exact = np.array([1 + 1e-10, 1e300, 2])
    for name, types in (("a.h5", [np.float32, np.float32]), ("b.h5", [np.float32, np.float64])):
        with h5py.File(tmp_path / name, "w") as file:
            for step, kind in enumerate(types):
                file[f"Step#{step}/v"] = np.arange(3, dtype=kind) if kind is np.float32 else exact
                file[f"Step#{step}/text_in_a"] = "text" if name == "a.h5" else np.arange(4.0)
    written = look_at(tmp_path / "a.h5", tmp_path / "b.h5", page=tmp_path / "page.html")
    views = {view["name"]: view for view in model_of(written.path)["files"][0]["views"]}
    carried = views["v"]["runs"][1]["columns"][0]
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(carried["values"][1])), exact)
    assert carried["high"] == 1e300
    assert views["text_in_a"]["runs"][0]["columns"][0]["values"] == [None, None]
    assert None not in views["text_in_a"]["runs"][1]["columns"][0]["values"]
    assert written.notes == ["a.h5: left out: text_in_a (text in some steps)"]


def test_runs_whose_arrays_differ_in_shape_have_no_difference_but_a_page(tmp_path: Path) -> None:
    write_bp(tmp_path / "a/field.bp", steps=2)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["Step0/field"] = np.ones((2, 2))
        file["Step0/more"] = np.ones(3)
    written = look_at(tmp_path / "a", tmp_path / "b.h5", page=tmp_path / "page.html")
    (file,) = model_of(written.path)["files"]
    assert [view["name"] for view in file["views"]] == ["field", "more", "time"]


def test_a_note_names_the_run_and_not_the_word_that_means_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = write_sample(tmp_path / "runs/one", steps=3)
    (run / "events.jsonl").write_text("")
    (tmp_path / "runs/latest").symlink_to("one")
    write_bp(run / "pattern.bp")
    assert look_at("latest").notes[0] == "one has not ended: its files may be incomplete"


def test_what_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = write_sample(tmp_path / "runs/one", steps=3)
    of_campaign = write_sample(tmp_path / "campaigns/x/runs/r01", steps=3, plan=make_plan(engine="BP5"))
    (tmp_path / "campaigns/x/schedule.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no archive")
    for given, message in (
        (run, r"one has no BP or HDF5 file.*\n  add a sink, `keep: \{component: archive\}`"),
        ("empty", r"empty is no run, and there is no BP and no HDF5 file in it\n  the runs here: wf runs"),
        ("campaigns/x", r"x is a campaign, not a run\n  look at one of its runs \(1\): wf look campaigns/x/runs/r01"),
        (of_campaign, r"r01 has no data; with `keep: records` its campaign removes them\n  `keep: all` at the top"),
        ("notes.txt", "neither a run, an archive of one, nor a BP or HDF5 file"),
        ("no", "there is no run `no`\n  the newest runs here: one"),
    ):
        with pytest.raises(WfError, match=f"(?s){message}"):
            look_at(given)
    with Stream(str(tmp_path / "open.bp"), "w") as out:
        out.begin_step()
        out.write("a", 1.0)
        out.end_step()
        # Of no run: whether its writer lives is not known.
        notes = look_at("open.bp", page="open.html").notes
        assert "open.bp: its writer has not closed it: shown as far as it goes" in notes
    assert not look_at("open.bp").notes
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


def test_the_page_has_a_name_and_replaces_only_its_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shock").mkdir()
    monkeypatch.chdir(tmp_path / "shock")
    write_bp(Path("field.bp"), 1)
    for _ in range(2):
        written = look_at(".")
        assert str(written.path) == "shock.html" and model_of(written.path)["runs"] == ["shock"]
    Path("shock.html").write_text("<title>the thesis</title>")
    with pytest.raises(RunError, match=r"shock.html exists, and is no page of wf look\n  name another file: `-o"):
        look_at(".")
    Path("p.yaml").write_text("wf: 1\n")
    with pytest.raises(RunError, match=r"p.yaml exists, and is no page of wf look\n  name another file: `-o"):
        look_at(".", page="p.yaml")
    assert Path("p.yaml").read_text() == "wf: 1\n"
    assert Path("shock.html").read_text() == "<title>the thesis</title>"
    look_at(".", page="shock.html")  # named by the user
    with pytest.raises(WfError, match=r"\.: is a directory\n  name another file: `-o FILE.html`"):
        look_at("field.bp", page=".")


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


def test_a_page_for_a_pipe_goes_through_it(tmp_path: Path) -> None:
    """And does not take its place, nor that of /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    look_at(write_bp(tmp_path / "field.bp"), page=pipe)
    reader.join(60)
    assert pipe.is_fifo() and found[0].rstrip().endswith("</html>")
