"""The ledger: what is written is read again, whatever a kill leaves behind."""

from __future__ import annotations

import dataclasses
import errno
import math
import os
from pathlib import Path

import pytest

from workflow.campaign.ledger import LEDGER_FILE, Attempt, Ledger, OpenAttempt, Repetition, TrialContent, read_history
from workflow.errors import RunError

FIRST, SECOND = Repetition("abc", 1), Repetition("abc", 2)


def attempt(state: str = "succeeded", number: int = 1, wall_s: float = 2.0) -> Attempt:
    assert state in ("succeeded", "failed", "interrupted")
    return Attempt(
        "succeeded" if state == "succeeded" else "failed" if state == "failed" else "interrupted",
        number, "run", 1e9, wall_s, nodes=3, reason="why", figures={"run.wall_s": 1.5},
    )  # fmt: skip


def test_a_missing_ledger_is_empty(tmp_path: Path) -> None:
    history = read_history(tmp_path)
    assert not history.ended and not history.started and history.unreadable == 0


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.begin(FIRST, OpenAttempt("run", ledger.history.begin(FIRST), 1e9))
        ledger.end(FIRST, attempt())
        ledger.begin(SECOND, OpenAttempt("run-2", ledger.history.begin(SECOND), 1e9))
    history = read_history(tmp_path)
    assert history.ended == {FIRST: attempt()}
    assert history.started == {FIRST: 1, SECOND: 1}
    assert history.open == {(SECOND, 1): OpenAttempt("run-2", 1, 1e9)}
    assert history.succeeded(FIRST) and not history.succeeded(SECOND)
    assert (history.spent_s, history.spent_node_s) == (2.0, 6.0)


def test_large_figures_and_infinite_values_are_read_again(tmp_path: Path) -> None:
    """A density of 1e25 per cubic metre is no damage."""
    measured = dataclasses.replace(attempt(), figures={"stages.sim.figures.density": 1e25, "run.wall_s": -1e300})
    content = TrialContent({"stages.sim.with.limit": math.inf}, {}, [], {}, [])
    with Ledger(tmp_path) as ledger:
        ledger.note_trial("abc", content)
        ledger.end(FIRST, measured)
    history = read_history(tmp_path)
    assert (history.ended, history.contents, history.unreadable) == ({FIRST: measured}, {"abc": content}, 0)


def test_warm_up_and_measurement_are_different_repetitions(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.end(Repetition("abc", 1, warmup=True), attempt())
    assert not read_history(tmp_path).succeeded(FIRST)
    assert (FIRST.name, Repetition("abc", 1, warmup=True).name) == ("abc-r01", "abc-w1")


def test_failures_are_counted_and_the_last_attempt_holds(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.end(FIRST, attempt("failed"))
        ledger.end(FIRST, attempt("interrupted", 2))
        ledger.end(FIRST, attempt("succeeded", 3))
    history = read_history(tmp_path)
    assert history.failures[FIRST] == 1 and history.succeeded(FIRST)
    assert history.spent_s == 6.0


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_line_that_is_cut_off_is_none_and_the_next_one_is_whole(cut: int, tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.end(FIRST, attempt())
        ledger.end(SECOND, attempt())
    path = tmp_path / LEDGER_FILE
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(read_history(tmp_path).ended) == ([FIRST, SECOND] if cut == 1 else [FIRST])
    with Ledger(tmp_path) as ledger:
        ledger.end(Repetition("xyz", 1), attempt())
    assert read_history(tmp_path).succeeded(Repetition("xyz", 1))
    assert read_history(tmp_path).unreadable == (0 if cut == 1 else 1)


def test_foreign_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / LEDGER_FILE).write_text('[1]\nnonsense\n{"event": "ended"}\n{"event": "later", "key": "a"}\n')
    assert read_history(tmp_path).unreadable == 4


def test_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / LEDGER_FILE).write_text('{"event": "campaign", "ledger_version": 99}\n')
    with pytest.raises(RunError, match="version 99"):
        read_history(tmp_path)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with Ledger(tmp_path), pytest.raises(RunError, match=r"another process runs this campaign\n  wf campaign watch"):
        Ledger(tmp_path)
    with Ledger(tmp_path):
        pass


@pytest.mark.parametrize(("number", "refused"), [(errno.ENOLCK, False), (errno.ENOSYS, False), (errno.EIO, True)])
def test_a_file_system_without_locks_is_no_other_process(
    number: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", fail)
    if refused:
        with pytest.raises(RunError, match=f"cannot lock .*{LEDGER_FILE}: {os.strerror(number)}"):
            Ledger(tmp_path)
    else:
        with Ledger(tmp_path) as ledger:
            ledger.end(FIRST, attempt())
        assert read_history(tmp_path).ended == {FIRST: attempt()}
