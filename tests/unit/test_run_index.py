"""Where runs of `--run-dir` are found again: hints that are looked at before they are believed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from workflow.cli.run_verbs import runs
from workflow.errors import RunError
from workflow.run.records import find_runs
from workflow.run.records.find_runs import index_file, listed_runs, note_run, noted_runs
from workflow.run.records.run_directory import PLAN_FILE


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory; the working directory is a project of the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "state/wf/runs.jsonl"


def make_run(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / PLAN_FILE).write_text("{}")
    return directory


def test_a_run_with_a_directory_of_its_own_is_listed_by_its_path(state: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "scratch/out")
    make_run(Path("runs/p-1"))
    note_run(run)
    listed = json.loads(CliRunner().invoke(runs, ["--json"], catch_exceptions=False).stdout)["runs"]
    assert sorted(each["name"] for each in listed) == [str(run), "p-1"]
    assert oct(state.parent.stat().st_mode & 0o777) == "0o700"


def test_the_verb_that_starts_a_run_notes_its_directory(state: Path, tmp_path: Path) -> None:
    Path("p.yaml").write_text("wf: 1\nname: p\nstages: {one: {command: ['true'], ranks: 1}}\n")
    out = tmp_path / "scratch/out"
    wf = [sys.executable, "-m", "workflow.cli"]
    subprocess.run([*wf, "run", "p.yaml", "--run-dir", str(out), "--quiet"], check=True, capture_output=True)
    assert noted_runs() == [out]
    subprocess.run([*wf, "run", "p.yaml", "--quiet"], check=True, capture_output=True)
    assert len(state.read_text().splitlines()) == 1, "a run below runs/ is found there"


@pytest.mark.usefixtures("state")
def test_runs_of_another_folder_are_listed_where_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "out")
    note_run(run)
    monkeypatch.chdir(tmp_path)
    assert listed_runs() == []
    assert listed_runs(everywhere=True) == [run]
    with pytest.raises(RunError, match="no runs here") as refused:
        CliRunner().invoke(runs, [], catch_exceptions=False)
    assert "`wf runs --all`" in refused.value.hint


def test_what_is_gone_or_was_noted_twice_or_is_below_runs_is_not_listed_again(state: Path, tmp_path: Path) -> None:
    gone, run, below = make_run(tmp_path / "gone"), make_run(tmp_path / "out"), make_run(Path("runs/p-1").absolute())
    for each in (gone, run, run, below):
        note_run(each)
    shutil.rmtree(gone)
    assert set(listed_runs()) == {run, Path("runs/p-1")}
    state.unlink()
    assert listed_runs() == [Path("runs/p-1")], "the index may be removed"


def test_foreign_lines_of_the_index_are_left_out(state: Path, tmp_path: Path) -> None:
    note_run(run := make_run(tmp_path / "out"))
    with state.open("ab") as index:
        index.write(b'{"run": 7}\n[]\n\xff\n{"run": "relative"}\n{"run": "/a\\u0000b"}\n{"run": "/cut of')
    assert noted_runs() == [run]


def test_a_state_directory_that_cannot_be_written_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in ("/dev/null", "/proc/self/nothing"):
        monkeypatch.setenv("XDG_STATE_HOME", state)
        note_run(make_run(tmp_path / state.replace("/", "_")))
        assert noted_runs() == []


def test_the_index_does_not_grow_for_ever(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_runs, "MOST_BYTES", 4000)
    made = [make_run(tmp_path / f"out-{number}") for number in range(60)]
    for run in made:
        note_run(run)
        assert state.stat().st_size <= 4000
    assert noted_runs() == made[-len(noted_runs()) :], "the newest are kept, in order"
    assert len(noted_runs()) > 5


def test_lines_of_several_writers_stay_whole(state: Path) -> None:
    count, writers = 50, 4
    code = (
        "from pathlib import Path\nimport sys\nfrom workflow.run.records.find_runs import note_run\n"
        f"for n in range({count}): note_run(Path('/scratch', 'x' * 200, sys.argv[1], str(n)))"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(writers)]
    assert [each.wait(60) for each in started] == [0] * writers
    assert len([json.loads(line) for line in state.read_text().splitlines()]) == count * writers


def test_tests_write_no_index() -> None:
    assert str(index_file()).startswith("/dev/null/")
