"""When a repetition of which no node answers has lost them: by the starts of others on the same pilot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workflow.campaign.execution.on_pilots import ANSWER_S, StartWatch, unanswered
from workflow.campaign.execution.repetition import StartedAttempt

HOSTS = ["n1.site.org", "n3", "n4"]
LATE = 100 + ANSWER_S


def begun(folder: Path, *events: str, visibility_s: float = 0.0) -> StartedAttempt:
    """A repetition on two nodes that began at 100, with its supervisor on n1, and what its run has recorded."""
    first = {"event": "run_started", "events_version": 3, "t": 100.5, "host": "n1", "visibility_s": visibility_s}
    lines = [first, {"event": "allocation_received", "t": 100.5}, *({"event": name, "t": 101.0} for name in events)]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return StartedAttempt(folder, 1, 2, 100.0)


def after(nodes: int, t: float, pilot: str = "p1") -> StartWatch:
    watch = StartWatch()
    watch.note_success(pilot, StartedAttempt(Path("other"), 1, nodes, t))
    watch.note_success(pilot, StartedAttempt(Path("another"), 1, nodes, 50.0))
    return watch


def test_nodes_that_have_not_answered_while_later_repetitions_succeeded_are_lost(tmp_path: Path) -> None:
    start, watch = begun(tmp_path), after(2, 101.0)
    assert watch.silent_nodes("p1", start, HOSTS, LATE - 0.1) == []
    assert watch.silent_nodes("p1", start, HOSTS, LATE) == ["n3", "n4"]


@pytest.mark.parametrize(
    "watch",
    [StartWatch(), after(2, 99.0), after(1, 101.0), after(2, 101.0, "p2")],
    ids=["none", "began before", "fewer nodes", "another pilot"],
)
def test_without_a_later_repetition_of_its_size_there_the_deadline_of_the_start_decides(
    watch: StartWatch, tmp_path: Path
) -> None:
    assert watch.silent_nodes("p1", begun(tmp_path), HOSTS, LATE + 100) == []


@pytest.mark.parametrize("event", ["node_seen", "proof_taken", "stage_started"])
def test_a_run_of_which_a_node_has_answered_knows_better(event: str, tmp_path: Path) -> None:
    start, watch = begun(tmp_path, event), after(2, 101.0)
    assert watch.silent_nodes("p1", start, HOSTS, LATE) == []
    assert unanswered(tmp_path, HOSTS) == []
    (tmp_path / "events.jsonl").unlink()  # it is not read again
    assert watch.silent_nodes("p1", begun(tmp_path), HOSTS, LATE) == []


def test_records_that_are_visible_late_are_waited_for(tmp_path: Path) -> None:
    start, watch = begun(tmp_path, visibility_s=40.0), after(2, 101.0)
    assert watch.silent_nodes("p1", start, HOSTS, LATE + 39) == []
    assert watch.silent_nodes("p1", start, HOSTS, LATE + 40) == ["n3", "n4"]


def test_a_run_that_its_worker_has_not_begun_has_lost_nothing(tmp_path: Path) -> None:
    start, watch = StartedAttempt(tmp_path, 1, 2, 100.0), after(2, 101.0)
    assert watch.silent_nodes("p1", start, HOSTS, LATE) == []
    assert watch.silent_nodes("p1", begun(tmp_path), HOSTS, LATE) == ["n3", "n4"]
