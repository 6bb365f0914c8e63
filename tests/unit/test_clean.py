"""`wf clean` removes what it listed and nothing else."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.sample_run import make_events, make_plan, simulate, write_lines, write_run
from workflow.cli.clean_verb import find_runs, remove
from workflow.cli.main import wf
from workflow.formats import node_folder
from workflow.formats.lease_file import LEASE_FILE
from workflow.formats.node_folder import folders_here, make_here
from workflow.run.control.lease import Heartbeat, Lease
from workflow.run.records.run_directory import ATTACHED, PLAN_FILE

ROOT = Path(__file__).parents[2]
METRICS = simulate(1, 0.01, 0.01, 0.01)
LONG_AGO = time.time() - 1e6


def make_run(name: str, number: int, state: str = "succeeded", folder: Path = Path("runs")) -> Path:
    """A run that has ended, the older the smaller its number."""
    run = write_run(folder / name, make_plan(), make_events(METRICS, state), METRICS)
    (run / "streams").mkdir()
    (run / "streams/atoms.bp").write_bytes(bytes(100_000))
    os.utime(run / PLAN_FILE, (LONG_AGO + number, LONG_AGO + number))
    return run.absolute()


def clean(*options: str, code: int = 0) -> Result:
    result = CliRunner().invoke(wf, ["clean", *options])
    found = result.exit_code if result.exception is None or isinstance(result.exception, SystemExit) else 2
    assert found == code, f"{result.output}\n{result.exception}"
    return result


def removed(result: Result) -> set[str]:
    return {run["name"] for run in json.loads(result.stdout)["runs"] if run["action"] == "removed"}


def names() -> set[str]:
    return {path.name for path in Path("runs").iterdir()}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_newest_stay_the_others_go_and_nothing_else_is_touched(tmp_path: Path) -> None:
    runs = [make_run(f"r{number}", number) for number in range(8)]
    data = tmp_path / "data"
    data.mkdir()
    (data / "precious.bp").write_text("kept")
    (runs[0] / "linked").symlink_to(data)
    (runs[1] / "dangling").symlink_to(tmp_path / "nowhere")
    Path("runs/latest").symlink_to("r0")
    Path("runs/notes.txt").write_text("mine")
    (Path("runs/no-run") / "streams").mkdir(parents=True)
    listed = clean("--dry-run")
    assert [line.split()[0] for line in listed.stdout.splitlines() if line.startswith("r")] == ["run", "r2", "r1", "r0"]
    assert "to remove: 3 of 8 runs" in listed.stdout
    assert "nothing was removed" in listed.stdout
    refused = clean(code=2)
    assert "to remove: 3 of 8 runs" in refused.stdout
    assert "--yes" in str(refused.exception)
    assert len(names()) == 11
    result = json.loads(clean("--json", "--yes").stdout)
    gone = {run["name"]: run["bytes"] for run in result["runs"] if run["action"] == "removed"}
    assert set(gone) == {"r0", "r1", "r2"}
    assert sum(gone.values()) == result["removed_bytes"] >= 3 * 100_000
    assert names() == {"r3", "r4", "r5", "r6", "r7", "latest", "notes.txt", "no-run"}
    assert (data / "precious.bp").read_text() == "kept"
    assert Path("runs/latest").resolve() == runs[7], "the link of the newest run led nowhere"
    clean("--keep", "0", "--yes")
    assert names() == {"notes.txt", "no-run"}
    assert "nothing to remove" in clean("--yes").stdout


def test_ages_and_names_choose() -> None:
    for number, state in enumerate(("failed", "succeeded", "interrupted", "failed")):
        make_run(f"r{number}", number, state)
    events = Path("runs/r3/events.jsonl").read_text().splitlines()
    last = json.loads(events[-1])
    Path("runs/r3/events.jsonl").write_text("\n".join([*events[:-1], json.dumps(last | {"t": time.time()})]) + "\n")
    assert removed(clean("--json", "--yes", "r1", "runs/r2")) == {"r1", "r2"}
    assert removed(clean("--json", "--yes", "--keep", "0", "--older-than", "7d")) == {"r0"}
    assert "there is no run" in str(clean("--yes", "r1", code=2).exception)
    assert names() == {"r3"}


def test_what_has_no_verdict_or_may_be_written_stays(tmp_path: Path) -> None:
    """Only its verdict makes a run one that can be removed; its lease can forbid it."""
    for name in ("unfinished", "submitted", "lost", "alive", "writing"):
        run = make_run(name, 1)
        if name != "writing":
            write_lines(run / "events.jsonl", make_events(METRICS)[:-1])
    (tmp_path / "runs/unfinished/events.jsonl").unlink()
    (tmp_path / "runs/submitted/events.jsonl").unlink()
    (tmp_path / "runs/submitted/job.json").write_text(json.dumps({"scheduler": "slurm", "name": "x", "job": "12"}))
    (tmp_path / "runs/lost" / LEASE_FILE).write_text(json.dumps(asdict(Lease("n1", 1, 0, "", "", 0))))
    os.utime(tmp_path / "runs/lost" / LEASE_FILE, (LONG_AGO, LONG_AGO))
    (tmp_path / "elsewhere").mkdir()
    make_run("target", 1, folder=tmp_path / "elsewhere")
    Path("runs/link").symlink_to(tmp_path / "elsewhere/target")
    before = names()
    with Heartbeat(tmp_path / "runs/alive"), Heartbeat(tmp_path / "runs/writing"):
        result = clean("--keep", "0", "--json", "--yes")
        for name, why in {
            "alive": "it is running; `wf cancel alive` ends what is left of it",
            "link": "a link",
            "li": "type the whole name: link",
        }.items():
            assert why in str(clean(name, "--yes", code=2).exception)
    stays = {run["name"]: run["reason"] for run in json.loads(result.stdout)["runs"] if run["action"] == "stays"}
    assert set(stays) == {"unfinished", "submitted", "lost", "alive", "writing", "link"}
    assert "`wf cancel lost`" in stays["lost"]
    assert "may still write" in stays["writing"]
    assert "a link to a run elsewhere" in stays["link"]
    assert names() == before
    assert (tmp_path / "elsewhere/target" / PLAN_FILE).exists()


def test_repetitions_of_a_campaign_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("key-r1", 1, folder=tmp_path / "campaigns/study/runs")
    (tmp_path / "campaigns/study/ledger.jsonl").write_text("")
    assert "a repetition of a campaign" in str(clean(str(run), "--yes", code=2).exception)
    monkeypatch.chdir(tmp_path / "campaigns/study")
    assert "nothing to remove" in clean("--keep", "0", "--yes").stdout
    assert run.exists()


@pytest.mark.parametrize("inner", ["runs/in", "stages/md/work/second", "campaigns/study/runs/key-r1"])
def test_a_run_with_other_runs_in_it_stays(inner: str, tmp_path: Path) -> None:
    """Started in the directory of a run, or put there by `--run-dir`; data and links are not searched."""
    outer = make_run("r", 1)
    plain = make_run("plain", 2)
    (plain / "streams/deep.bp").mkdir()
    (plain / "streams/deep.bp" / PLAN_FILE).write_text("a file of an engine")
    (plain / "other").symlink_to(outer)
    place = Path("runs/r") / inner
    write_lines(make_run(place.name, 3, folder=place.parent) / "events.jsonl", make_events(METRICS)[:-1])
    with Heartbeat(tmp_path / place):
        result = json.loads(clean("--keep", "0", "--json", "--yes").stdout)
        assert f"r stays: it has other runs in it: {inner}" in str(clean("r", "--yes", code=2).exception)
    assert {run["name"]: run["action"] for run in result["runs"]} == {"r": "stays", "plain": "removed"}
    assert (place / PLAN_FILE).exists()


def test_a_campaign_in_a_run_keeps_it() -> None:
    ledger = make_run("r", 1) / "campaigns/study/ledger.jsonl"
    ledger.parent.mkdir(parents=True)
    ledger.touch()
    assert "other runs in it: campaigns/study" in clean("--keep", "0", "--dry-run").stdout


def test_the_run_that_one_is_in_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("r", 1)
    monkeypatch.chdir(run / "stages")
    assert "the working directory is in it" in str(clean("..", "--yes", code=2).exception)
    assert run.exists()


def test_a_run_directly_below_the_root_can_be_listed() -> None:
    (run,) = find_runs([Path("/no-such-run")])
    assert run.stays


def test_a_run_in_which_somebody_works_since_it_was_listed_stays() -> None:
    runs = {name: make_run(name, 1) for name in ("alive", "inside", "other", "same", "gone")}
    listed = find_runs(list(runs.values()))
    assert not any(run.stays for run in listed)
    (runs["alive"] / LEASE_FILE).write_text(json.dumps(asdict(Lease("n1", 1, 0))))
    make_run("second", 3, folder=runs["inside"] / "runs")
    shutil.rmtree(runs["gone"])
    shutil.rmtree(runs["other"])
    make_run("other", 1, "failed")
    failed = {path.name: reason for path, reason in remove(listed, []).items()}
    assert set(failed) == {"alive", "inside", "other", "gone"}
    assert failed["other"] == "it has changed since it was listed"
    assert failed["alive"] == "its supervisor may still write the report"
    assert names() == {"alive", "inside", "other"}


def test_a_run_in_which_somebody_works_since_its_size_was_summed_up_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("r", 1)
    listed = find_runs([run])

    def walk(folder: Path, **_: object) -> Iterator[object]:
        yield from whole(folder)
        (run / LEASE_FILE).write_text(json.dumps(asdict(Lease("n1", 1, 0))))

    whole = os.walk
    monkeypatch.setattr(os, "walk", walk)
    assert remove(listed, []) == {run: "its supervisor may still write the report"}
    assert names() == {"r"}


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_run_stays_with_one_that_is_attached_and_has_no_verdict(has_begun: bool) -> None:
    run = make_run("r", 1)
    attached = make_run("joined", 2, folder=run / ATTACHED)
    write_lines(attached / "events.jsonl", make_events(METRICS)[:-1])
    if not has_begun:
        (attached / "events.jsonl").unlink()
    (found,) = find_runs([run])
    assert found.stays.startswith("joined, which is attached to it, is ")
    assert found.stays.endswith("wf detach r joined")


def test_what_a_killed_run_has_left_in_memory_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its guard was killed as well: nobody has removed its spool."""
    monkeypatch.setattr(node_folder, "MEMORY", tmp_path)
    run, other = make_run("a", 1), make_run("b", 2)
    for each in (run, other):
        make_here(each / "streams/field-spool.bp", each, "/dev/shm")
    assert remove(find_runs([run]), []) == {}
    assert not folders_here(run)
    assert folders_here(other)


def test_a_name_of_many_bytes_can_be_removed() -> None:
    name = "é" * 125
    make_run(name, 1)
    clean(name, "--yes")
    assert names() == set()


def test_an_interrupted_removal_leaves_each_run_whole_or_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [make_run(f"r{number}", number) for number in range(3)]
    Path("runs/latest").symlink_to("r0")

    def interrupted(path: Path) -> None:
        (path / "events.jsonl").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        result = CliRunner().invoke(wf, ["clean", "--keep", "0", "--yes"])
        assert isinstance(result.exception, KeyboardInterrupt) or result.exit_code == 1
    whole = {name for name in names() if not name.startswith(".") and name != "latest"}
    assert whole == {"r1", "r2"}
    assert all((Path("runs") / name / "streams/atoms.bp").exists() for name in whole)
    assert Path("runs/latest").resolve() == runs[2]
    listed = CliRunner().invoke(wf, ["runs", "--json"])
    assert {run["name"] for run in json.loads(listed.stdout)["runs"]} == whole, "the rest of a run is no run"
    assert "to remove: what is left of 1 removed run" in clean("--dry-run").stdout
    clean("--yes")
    assert names() == {*whole, "latest"}


def test_it_asks_on_a_terminal_and_removes_only_what_it_listed(tmp_path: Path) -> None:
    for number in range(3):
        make_run(f"r{number}", number)
    for answer, left in (("n", {"r0", "r1", "r2"}), ("y", {"r2", "new", "late"})):
        control, terminal = pty.openpty()
        env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "workflow.cli", "clean", "--keep", "1"]
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        said = read_until(control, "Remove 2 of 3 runs")
        assert "r0" in said
        if answer == "y":
            make_run("new", 5)
            make_run("late", -5)
        os.write(control, f"{answer}\n".encode())
        said = read_until(control, "removed")
        assert process.wait(timeout=60) == 0
        os.close(control)
        assert ("nothing was removed" in said) == (answer == "n")
        assert names() == left


def read_until(control: int, text: str) -> str:
    said, deadline = "", time.monotonic() + 60
    while text not in said:
        ready, _, _ = select.select([control], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no `{text}` within a minute: {said}"
        said += os.read(control, 65536).decode()
    return said
