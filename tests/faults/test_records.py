"""Records that cannot be written, or are not visible yet.

The full disk is a real file system of 2 MB, in a mount namespace of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import chain
from tests.support.watching import describe, run_whole
from workflow.formats.json_lines import Tail
from workflow.run import run_loop
from workflow.run.observe import followed_stages, metrics_follower
from workflow.run.observe.followed_stages import VISIBILITY_S
from workflow.run.state.events import RecordsLost

UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
RUN = """
import contextlib, json, sys
from pathlib import Path
from tests.support.chains import chain, write_run
from workflow.report.read.run_states import list_runs
from workflow.report.report_files import compute_report, write_report
from workflow.run.control.follow import follow
from workflow.run.supervisor import supervise

folder, options, free = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3] == "free"
run_dir = write_run(chain("sst", steps=200, step_s=0.01, options=options), folder)
full = False
with contextlib.closing(supervise(run_dir)) as states:
    for state in states:
        ballast = next(run_dir.glob("stages/*/work/ballast"), None)
        if ballast is not None and not full:
            full = True
            # The rest of the page that events.jsonl has already: blank lines mean nothing.
            with contextlib.suppress(OSError), (run_dir / "events.jsonl").open("ab", buffering=0) as file:
                for _ in range(10_000):
                    file.write(b"\\n")
        if free and ballast is not None and state.warnings:
            ballast.unlink()
report = write_report(run_dir, state)
print(json.dumps({
    "verdict": [state.finished.state, state.finished.exit_code, state.finished.reason],
    "steps": {name: [stream.steps, stream.bytes, stream.readers[0].steps]
              for name in ("atoms", "pattern") for stream in [report.stream(name)]},
    "report": [report.run.state, report.run.exit_code],
    "status": [compute_report(run_dir).run.state, compute_report(run_dir).run.reason],
    "listed": list_runs([run_dir])[0].state,
    "followed": [*follow(run_dir, state.plan)][-1].finished.state,
    "reserve": (run_dir / "verdict.reserved").exists(),
    "notes": report.notes,
    "warnings": [warning.text for warning in state.warnings],
    "events": (run_dir / "events.jsonl").read_text(),
    "stderr": {path.parent.name: path.read_text() for path in run_dir.glob("stages/*/stderr.log")},
}))
"""


def run_on_a_small_disk(folder: Path, options: dict[str, list[str]], mode: str = "full") -> dict[str, Any]:
    """The run's end as its supervisor and the report tell it."""
    script = 'mount -t tmpfs -o size=2m tmpfs "$1" && exec "$2" -c "$3" "$1" "$4" "$5"'
    argv = [*UNSHARE, "sh", "-c", script, "sh", str(folder), sys.executable, RUN, json.dumps(options), mode]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode and ("unshare" in done.stderr or "mount:" in done.stderr):
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("stage", ["md", "saxs"])
def test_a_disk_that_gets_full_ends_nothing(stage: str, tmp_path: Path) -> None:
    """The stage that fills it has half of its steps before it; the verdict cannot be written, and is right."""
    end = run_on_a_small_disk(tmp_path, {stage: ["--fill", "step:100"]})
    assert end["verdict"] == ["succeeded", 0, ""], end
    assert end["report"] == ["succeeded", 0]
    assert end["steps"] == {"atoms": [200, 160_000, 200], "pattern": [200, 160_000, 200]}
    assert "run_finished" not in end["events"], "there was space: nothing has been tested"
    assert (end["status"], end["listed"], end["followed"]) == (["succeeded", ""], "succeeded", "succeeded")
    assert sum("events.jsonl cannot be written: No space left on device" in text for text in end["warnings"]) == 1
    assert any("events.jsonl cannot be written" in note for note in end["notes"])


def test_a_stage_that_can_record_nothing_is_judged_by_its_exit_code(tmp_path: Path) -> None:
    outcome = run_whole(chain("sst", steps=100, options={"keep": ["--mute", "open"]}, start=60), tmp_path)
    assert (outcome.verdict.state, outcome.verdict.exit_code) == ("succeeded", 0), describe(
        outcome.state, outcome.run_dir
    )
    assert RecordsLost(0, "keep", "its metrics cannot be written") in [
        replace(event, t=0) for event in outcome.events()
    ]


class Past(Tail):
    """Shows a file as it was `LAG_S` seconds ago: what a client of NFS sees of the files of another node."""

    LAG_S = 1.0

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sizes: list[tuple[float, int]] = []

    def read(self, *, fresh: bool = False) -> str:
        del fresh
        now = time.monotonic()
        self.sizes.append((now, self.path.stat().st_size if self.path.exists() else 0))
        visible = max((size for t, size in self.sizes if t <= now - self.LAG_S), default=0)
        if visible <= self.offset:
            return ""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read(visible - self.offset)
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode()


@pytest.mark.parametrize("shared", [True, False])
def test_files_of_another_node_may_be_seconds_old(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All stages close their streams; that their last records become visible after their ends is no failure."""
    monkeypatch.setattr(followed_stages, "Tail", Past)
    monkeypatch.setattr(metrics_follower, "read_progress", lambda _: {})
    monkeypatch.setattr(run_loop, "visibility_s", lambda _: VISIBILITY_S if shared else 0.0)
    outcome = run_whole(chain("sst", steps=10), tmp_path)
    story = describe(outcome.state, outcome.run_dir)
    if not shared:
        assert outcome.verdict.state == "failed", "the records were visible in time: nothing has been tested"
        return
    assert outcome.verdict.state == "succeeded", story
    assert outcome.state.steps("atoms") == (10, {"saxs": 10}), story


def test_lines_are_written_as_soon_as_there_is_space(tmp_path: Path) -> None:
    end = run_on_a_small_disk(tmp_path, {"md": ["--fill", "step:100"]}, mode="free")
    assert end["verdict"] == ["succeeded", 0, ""], end
    lines = [json.loads(line) for line in end["events"].splitlines() if line]
    assert lines[-1]["event"] == "run_finished" and not end["reserve"]
    assert {line["stage"] for line in lines if line["event"] == "stage_succeeded"} == {"md", "saxs", "keep"}
    assert end["steps"] == {"atoms": [200, 160_000, 200], "pattern": [200, 160_000, 200]}


def test_a_failure_on_a_full_disk_is_a_failure(tmp_path: Path) -> None:
    end = run_on_a_small_disk(tmp_path, {"md": ["--fill", "step:100"], "saxs": ["--exit", "step:150:3"]})
    assert end["verdict"][:2] == ["failed", 1], end
    assert end["verdict"][2].startswith("saxs ended with exit code 3"), end
    assert end["report"] == ["failed", 1] and end["status"] == ["failed", end["verdict"][2]]
