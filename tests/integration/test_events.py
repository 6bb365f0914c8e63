"""`wf events` of real runs: all that has happened, as lines for people and for programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.pipelines import HOLDING, ROOT, run
from tests.support.waiting import wait_until
from tests.support.watching import guards
from workflow.cli import following
from workflow.cli.main import wf
from workflow.formats.lease_file import LEASE_FILE
from workflow.run.control.lease import read_lease
from workflow.run.processes.process_reaper import end_members, find_members
from workflow.run.records.job_record import JOB_FILE, JobRecord

SHORT = """
stages:
  sim: {component: gray_scott, with: {steps: 100, write_every: 20, size: [16]}}
  sink: {component: "null"}
streams:
  field: {from: sim, to: sink}
"""
# The reader stops at step 2 until the file `go` is there.
HELD = f"""
wf: 1
name: held
oversubscribe: true
deadlines: {{start: 60 s, run: 200 s, stop: 3 s}}
stages:
  sim: {{component: gray_scott, with: {{steps: 100, write_every: 20, size: [16]}}}}
  sink: {{component: {HOLDING}, with: {{at: 2, touch: "${{{{ run.dir }}}}/held", until: "${{{{ run.dir }}}}/go"}}}}
streams:
  field: {{from: sim, to: sink}}
"""
WITHIN_S = 120.0


def start(folder: Path, *argv: str) -> subprocess.Popen[str]:
    """A verb in a process of its own."""
    env = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "workflow.cli", *argv],
        cwd=folder, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def events(folder: Path, *argv: str) -> list[str]:
    """The lines of `wf events`, which says nothing else."""
    process = start(folder, "events", *argv)
    out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has succeeded, `run` in this folder."""
    folder = tmp_path_factory.mktemp("ended")
    done = run(folder, SHORT)
    assert done.code == 0, done.said
    return folder


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A run that waits for the file `go`: its directory. Nothing of it is left."""
    (tmp_path / "p.yaml").write_text(HELD)
    process = start(tmp_path, "run", "p.yaml", "-q", "--run-dir", "run")
    run_dir = tmp_path / "run"
    wait_until((run_dir / "held").exists, "the reader has come to step 2")
    yield run_dir
    (run_dir / "go").touch()
    process.communicate(timeout=WITHIN_S)
    end_members(str(run_dir))


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def read_until(process: subprocess.Popen[str], kind: str) -> list[dict[str, Any]]:
    """The events up to the first one of that kind."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        found.append(json.loads(line))
        if found[-1]["event"] == kind:
            return found
    raise AssertionError(f"it ended without `{kind}`: {found}")


def rest(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it prints until its end, after what was read line by line."""
    assert process.stdout is not None and process.stderr is not None
    with process, process.stdout, process.stderr:
        said = process.stdout.read(), process.stderr.read()
        process.wait(WITHIN_S)
    return said


def test_json_is_the_file_line_by_line(ended: Path) -> None:
    kept = (ended / "run/events.jsonl").read_text().splitlines()
    assert events(ended, "run", "--json") == kept
    assert events(ended, "run", "--json", "--follow") == kept, "a run that has ended is followed to its end"
    assert events(ended, "run", "--json", "--since", "3") == kept[3:]
    assert events(ended, "run", "--json", "--since", str(len(kept))) == []


def test_words_say_what_has_happened_without_the_samples(ended: Path) -> None:
    kept = [json.loads(line) for line in (ended / "run/events.jsonl").read_text().splitlines()]
    everything, told = events(ended, "run", "--all"), events(ended, "run")
    samples = [each for each in kept if each["event"] in ("stream_progress", "stage_cpu")]
    assert len(everything) == len(kept) and len(told) == len(kept) - len(samples)
    assert all(re.match(r" {,7}\d+\.\d s  \S", line) for line in everything)
    texts = [line[12:] for line in told]
    assert texts[0].startswith("run run started on ") and texts[-1] == "the run succeeded"
    assert {"sim: its streams are open", "sink: ended with exit code 0", "sim: succeeded"} < set(texts)
    assert any(re.fullmatch(r"field: sim has written 6 steps, \d+ kB, and closed it", text) for text in texts)
    assert events(ended, "run", "--since", "1")[0] == told[1], "times are since the start of the run"


def test_lines_that_cannot_be_read_are_left_out(ended: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "plan.json").write_bytes((ended / "run/plan.json").read_bytes())
    kept = (ended / "run/events.jsonl").read_text().splitlines()
    damage = ["{", "\x00\x00", '{"event": "unheard_of", "t": 1.0}', '{"event": "stage_open", "t": "then"}', "7"]
    (folder / "events.jsonl").write_text("\n".join([*kept[:4], *damage, *kept[4:], '{"event": "sta']))
    assert events(tmp_path, "damaged", "--json") == kept
    assert events(tmp_path, "damaged", "--json", "--follow") == kept


def test_a_run_is_followed_to_its_verdict(held: Path) -> None:
    process = start(held.parent, "events", "run", "--follow", "--json")
    words = start(held.parent, "events", "run", "--follow")
    seen = read_until(process, "stage_open")
    assert "run_finished" not in (held / "events.jsonl").read_text(), "the lines come while the run goes on"
    assert seen[0]["event"] == "run_started"
    (held / "go").touch()
    out, err = rest(process)
    assert (process.returncode, err) == (0, "")
    kept = (held / "events.jsonl").read_text().splitlines()
    assert [json.dumps(each, ensure_ascii=False) for each in seen] + out.splitlines() == kept
    verdict = json.loads(kept[-1])
    assert (verdict["event"], verdict["state"]) == ("run_finished", "succeeded")
    told, err = words.communicate(timeout=WITHIN_S)
    assert (words.returncode, err) == (0, "") and told.endswith(" s  the run succeeded\n")


def test_a_run_whose_supervisor_is_killed_is_lost(held: Path) -> None:
    process = start(held.parent, "events", "run", "--follow", "--json")
    read_until(process, "stage_open")
    lease = read_lease(held)
    assert lease is not None
    # Without its guard, which would write the verdict.
    for pid in [*guards(lease.pid), lease.pid]:
        os.kill(pid, signal.SIGKILL)
    out, err = rest(process)
    assert process.returncode == 0 and "run_finished" not in out
    assert re.fullmatch(
        rf"warning: run is lost: its supervisor on \S+ \(process {lease.pid}\) has died\n"
        r"  end what is left of it: wf cancel run\n",
        err,
    ), err
    assert find_members(str(held)), "the stages have ended by themselves"


def test_a_run_whose_guard_gives_the_verdict_ends_with_it(held: Path) -> None:
    process = start(held.parent, "events", "run", "--follow", "--json")
    read_until(process, "stage_open")
    lease = read_lease(held)
    assert lease is not None
    os.kill(lease.pid, signal.SIGKILL)
    out, err = rest(process)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out.splitlines()[-1])["cause"] == "supervisor_killed"


def test_a_reader_that_leaves_ends_it_although_nothing_happens(held: Path) -> None:
    """As `| head -1` does. No line follows that could not be printed: the supervisor is suspended."""
    lease = read_lease(held)
    assert lease is not None
    os.kill(lease.pid, signal.SIGSTOP)
    process = start(held.parent, "events", "run", "--follow", "--json")
    for line in (held / "events.jsonl").read_text().splitlines():
        assert read_line(process) == f"{line}\n"
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(WITHIN_S) == 0
    os.kill(lease.pid, signal.SIGCONT)
    with process.stderr:
        assert process.stderr.read() == "", "it has ended only when the run seemed to be lost"


def test_ctrl_c_ends_it_quietly_and_the_run_goes_on(held: Path) -> None:
    process = start(held.parent, "events", "run", "--follow", "--json")
    assert json.loads(read_line(process))["event"] == "run_started"
    process.send_signal(signal.SIGINT)
    _, err = rest(process)
    assert (process.returncode, err) == (130, "")
    (held / "go").touch()
    assert json.loads(events(held.parent, "run", "--follow", "--json")[-1])["state"] == "succeeded"


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    process = start(tmp_path, "events", "nope", "--follow")
    said = process.communicate(timeout=WITHIN_S)
    assert said == ("", "error: there is no run `nope`\n  start one: wf run PIPELINE\n")
    assert process.returncode == 2


def test_a_run_that_nobody_starts_is_not_awaited_for_ever(
    ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan.json").write_bytes((ended / "run/plan.json").read_bytes())
    process = start(tmp_path, "events", ".")
    _, err = rest(process)
    assert process.returncode == 2 and "no events: No such file" in err
    monkeypatch.setattr(following, "START_S", 0.0)
    result = CliRunner().invoke(wf, ["events", str(tmp_path), "--follow"])
    assert "was not started within 0 s" in str(result.exception)


def test_a_run_whose_job_waits_says_so_and_is_followed_when_it_starts(ended: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes((ended / "run/plan.json").read_bytes())
    (tmp_path / JOB_FILE).write_text(json.dumps({"scheduler": "slurm", "name": "wf-1", "job": "12"}))
    assert JobRecord("slurm", "wf-1", "12").text == "slurm job 12"
    process = start(tmp_path, "events", ".", "--follow", "--json")
    assert process.stderr is not None
    assert process.stderr.readline() == "note: slurm job 12 has not started\n"
    for name in (LEASE_FILE, "events.jsonl"):
        (tmp_path / f".{name}").write_bytes((ended / "run" / name).read_bytes())
        (tmp_path / f".{name}").replace(tmp_path / name)
    out, _ = rest(process)
    assert process.returncode == 0
    assert out.splitlines() == (ended / "run/events.jsonl").read_text().splitlines()
