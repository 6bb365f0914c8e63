"""Who looks at the run's directory before the stages start, and how often the supervisor looks for their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workflow.launch.launch_request import RankLayout
from workflow.run.proof import rank_probe
from workflow.run.proof.directory_check import PULSE_S, DirectoryCheck
from workflow.run.proof.placement_probe import LOOKING_NODES, DirectoryAnswer, PulseSeen, choose_lookers


def layout(first: int, nodes: int, ranks: int) -> RankLayout:
    return RankLayout(nodes, first, ranks, 1)


def test_one_rank_of_each_node_looks_whatever_the_number_of_stages() -> None:
    lookers = choose_lookers([("md", layout(0, 2, 8)), ("saxs", layout(0, 3, 4)), ("keep", layout(2, 1, 1))])
    assert lookers == {"md": {0, 8}, "saxs": {8}}


def test_of_many_nodes_some_look() -> None:
    lookers = choose_lookers([("md", layout(0, 10_000, 8))])["md"]
    assert LOOKING_NODES / 2 < len(lookers) <= LOOKING_NODES
    nodes = sorted(rank // 8 for rank in lookers)
    assert nodes[0] == 0 and nodes[-1] >= 9_960, "they are spread over all"


@pytest.mark.parametrize(("rank", "looks"), [("8", True), ("1", False)])
def test_only_the_ranks_that_are_named_look(tmp_path: Path, rank: str, looks: bool) -> None:
    (tmp_path / rank_probe.ANSWERS).mkdir()
    DirectoryCheck(tmp_path, "")  # a token that is empty: the probe does not wait for the pulse
    argv = [sys.executable, "-I", "-S", rank_probe.__file__, str(tmp_path), "md", "RANK", "LOCAL_RANK", "0,8"]
    env = {**os.environ, "RANK": rank, "LOCAL_RANK": "1"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=True)
    keys = [set(json.loads(line)) for line in done.stdout.splitlines()]
    assert any("token" in each for each in keys) == looks
    assert bool(list((tmp_path / rank_probe.ANSWERS).iterdir())) == looks


def test_pulse_is_changed_a_few_times_a_second(tmp_path: Path) -> None:
    check = DirectoryCheck(tmp_path, "t")
    for turn in range(20):
        check.beat(turn * 0.05)
    assert (tmp_path / rank_probe.PULSE).read_text() == str(int(1 / PULSE_S) - 1)


def test_files_that_come_late_are_found_by_one_listing_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / rank_probe.ANSWERS).mkdir()
    check = DirectoryCheck(tmp_path, "t")
    names = [f"n{number}.md.0" for number in range(100)]
    for number, name in enumerate(names):
        check.take(DirectoryAnswer(f"n{number}", "t", name), 10.0)
    (tmp_path / rank_probe.ANSWERS / names[7]).write_text("t")
    reads: list[Path] = []
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path: reads.append(path) or read(path))  # type: ignore[func-returns-value]
    for turn in range(40):
        check.beat(10.0 + turn * 0.05)
    assert reads == [tmp_path / rank_probe.ANSWERS / names[7]]
    assert [each.host for each in check.seen() if each.answer_seen_s is not None] == ["n7"]


def test_change_that_a_node_saw_is_timed_by_the_supervisor(tmp_path: Path) -> None:
    check = DirectoryCheck(tmp_path, "t")
    check.take(DirectoryAnswer("n1", "t", "n1.md.0"), 9.0)
    check.beat(10.0)
    check.beat(11.0)
    check.take(PulseSeen("n1", 1), 11.5)
    assert [each.change_seen_s for each in check.seen()] == [0.5]
