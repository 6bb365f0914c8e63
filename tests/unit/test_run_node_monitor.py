"""What the guards of the nodes say, and when a node is lost. Lines and times, no processes."""

from __future__ import annotations

import pytest

from workflow.run.guard.guard_lines import NodeLoad, parse_line, to_lines
from workflow.run.guard.node_guard import HeartbeatMonitor
from workflow.run.guard.rank_processes import RankProcess
from workflow.run.nodes.lost_nodes import NodeMonitor, RankSeen
from workflow.run.processes.kernel_oom_kills import MemoryFacts
from workflow.run.state.events import NodeLost, NodeSeen, NodeSilent, NodesUnwatched


def beat(node: str) -> bytes:
    return b"".join(to_lines(node)).rstrip(b"\n")


def watch_of(*hosts: str, own: str = "n1") -> NodeMonitor:
    watch = NodeMonitor(hosts, own)
    watch.take([beat(host) for host in hosts], 0.0)
    return watch


def test_first_line_of_each_node_is_an_event() -> None:
    watch = NodeMonitor(["n1.site.org", "n2"], "n1")
    assert watch.take([beat("n2"), beat("n1"), beat("n2")], 3.0) == [
        NodeSeen(3.0, 1, "n2"),
        NodeSeen(3.0, 0, "n1.site.org"),
    ]


def test_silent_node_is_lost_once_while_another_one_speaks() -> None:
    watch = watch_of("n1", "n2", "n3")
    events = []
    for second in range(1, 20):
        watch.take([beat("n1"), beat("n3")], second)
        events += watch.look(second)
    assert events == [NodeSilent(5, 1, "n2"), NodeLost(10, 1, "n2", 10, "no rank there")]


def test_node_that_speaks_again_is_seen_again() -> None:
    watch = watch_of("n1", "n2")
    watch.take([beat("n1")], 6.0)
    assert watch.look(2.0) + watch.look(4.0) + watch.look(6.0) == [NodeSilent(6.0, 1, "n2")]
    assert watch.take([beat("n2"), beat("n2")], 7.0) == [NodeSeen(7.0, 1, "n2")]


def test_no_node_is_lost_when_the_launcher_of_the_guards_is_silent() -> None:
    watch = watch_of("n1", "n2", "n3", own="login")
    assert [event for second in range(1, 30) for event in watch.look(second)] == []


def test_node_of_the_supervisor_is_not_lost() -> None:
    """Its guard writes into the same pipe as the others: the pipe is at fault."""
    watch = watch_of("n1", "n2", "n3")
    events = []
    for second in range(1, 30):
        watch.take([beat("n3")], second)
        events += watch.look(second)
    assert events == []


def test_only_node_of_an_allocation_is_lost_when_it_is_silent() -> None:
    watch = watch_of("n1", own="login")
    assert [event for second in range(1, 15) for event in watch.look(second)] == [
        NodeSilent(5, 0, "n1"),
        NodeLost(10, 0, "n1", 10, "no rank there"),
    ]


def test_pause_of_the_supervisor_loses_no_node() -> None:
    watch = watch_of("n1", "n2")
    watch.look(1)
    watch.take([beat("n1")], 61)
    assert watch.look(61) == []
    events = []
    for second in range(62, 80):
        watch.take([beat("n1")], second)
        events += watch.look(second)
    assert events == [NodeSilent(65, 1, "n2"), NodeLost(70, 1, "n2", 10, "no rank there")]


def test_lines_come_back_as_they_were() -> None:
    ranks = [RankProcess("md", number, 100 + number, "0-3,8") for number in range(100)]
    facts = MemoryFacts(
        limit_bytes=10, cgroup="/job", cgroup_kills=1, cgroup_is_own=True, node_kills=2, log=("killed",)
    )
    lines = list(
        to_lines("n1", ranks=ranks, gone=[("md", 3)], memory={"md": facts}, load=NodeLoad(1.5, 2**30), sees_beats=True)
    )
    assert max(map(len, lines)) <= 4096, "longer ones could mix with those of another node"
    reports = [parse_line(line) for line in lines]
    assert [rank for report in reports if report for rank in report.ranks] == ranks
    assert reports[0] is not None and reports[0].load == NodeLoad(1.5, 2**30) and reports[0].sees_beats is True
    assert [dict(report.memory) for report in reports if report and report.memory] == [{"md": facts}]
    assert [report.gone for report in reports if report and report.gone] == [(("md", 3),)]


@pytest.mark.parametrize(
    "line", [b"", b"srun: error: n3: task 2: Killed", b'{"node":"n1"}{"node":"n2"}', b"[1]", b'{"node":"n1","ranks":3}']
)
def test_other_lines_are_left_out(line: bytes) -> None:
    watch = NodeMonitor(["n1"], "login")
    assert watch.take([line], 1.0) == []


def test_ranks_that_run() -> None:
    watch = watch_of("n1", "n2")
    watch.take([*to_lines("n1", ranks=[RankProcess("md", 0, 11, "0")])], 1)
    watch.take([*to_lines("n2", ranks=[RankProcess("md", 1, 12, "0-1"), RankProcess("saxs", 0, 13, "1")])], 1)
    assert watch.take_changed() == [
        RankSeen("md", 0, 0, "n1", 11, "0"),
        RankSeen("md", 1, 1, "n2", 12, "0-1"),
        RankSeen("saxs", 0, 1, "n2", 13, "1"),
    ]
    watch.take([*to_lines("n2", gone=[("md", 1)], memory={"md": MemoryFacts(node_kills=1)})], 2)
    assert watch.take_changed() == []
    assert watch.memory_facts("md") == [("n2", MemoryFacts(node_kills=1))]
    events = [event for second in range(1, 20) for event in (*watch.take([beat("n1")], second), *watch.look(second))]
    assert events == [NodeSilent(7, 1, "n2"), NodeLost(12, 1, "n2", 10, "ranks there: 1 of saxs")]


def test_nodes_that_see_no_heartbeat_are_one_warning() -> None:
    watch = watch_of("n1", "n2", "n3")
    watch.take([line for host in ("n2", "n3") for line in to_lines(host, sees_beats=False)], 1)
    (event,) = watch.look(1)
    assert isinstance(event, NodesUnwatched)
    assert event.text == (
        "on n2 and 1 more node the run directory shows no heartbeat of this run: its file system is slow there, or is "
        "another one"
    )
    watch.take([*to_lines("n2", sees_beats=True)], 2)
    assert watch.look(2) == []


def looks(monitor: HeartbeatMonitor, *beats: int | None, passed_s: float = 0.5) -> HeartbeatMonitor:
    for number in beats:
        monitor.look(number, passed_s)
    return monitor


def test_supervisor_is_dead_when_its_counter_has_not_changed_for_10_s() -> None:
    monitor = looks(HeartbeatMonitor(), *(second // 4 for second in range(40)))
    assert not looks(monitor, *[9] * 16).is_dead
    assert looks(monitor, *[9] * 4).is_dead


def test_guard_that_has_never_seen_a_lease_knows_nothing() -> None:
    monitor = looks(HeartbeatMonitor(), *[None] * 100)
    assert (monitor.is_dead, monitor.sees_beats) == (False, False)


def test_run_whose_directory_was_removed_is_dead() -> None:
    assert looks(HeartbeatMonitor(), 1, 2, *[None] * 21).is_dead


def test_time_in_which_the_guard_could_not_look_does_not_count() -> None:
    """It was suspended, or the file system hung."""
    monitor = looks(HeartbeatMonitor(), 1)
    monitor.look(1, 3600.0)
    assert not monitor.is_dead


def test_file_system_that_shows_beats_late_has_more_time() -> None:
    late = [beat for beat in range(3) for _ in range(16)]  # a change each 8 s
    monitor = looks(HeartbeatMonitor(), *late)
    assert not looks(monitor, *[2] * 9).is_dead
    assert looks(monitor, *[2] * 10).is_dead


def test_lease_is_read_every_2_s_and_more_often_when_it_is_silent() -> None:
    """Of 10,000 nodes: 5,000 opens a second of a file that changes every 2 s."""
    monitor = looks(HeartbeatMonitor(), 1, 2, 3, passed_s=2.0)
    assert monitor.next_look_s == 2.0
    looks(monitor, 3, 3, 3, passed_s=2.0)
    assert monitor.next_look_s == 0.5


def test_supervisor_that_speaks_through_the_pipe_lives_without_a_lease_that_changes() -> None:
    monitor = looks(HeartbeatMonitor(), 1)
    for _ in range(200):
        monitor.look(1, 0.5)
        monitor.listen(True, 0.5)
    assert (monitor.is_dead, monitor.sees_beats) == (False, False)
    for _ in range(19):
        monitor.listen(False, 0.5)
    assert not monitor.is_dead
    monitor.listen(False, 0.5)
    assert monitor.is_dead


def test_a_node_that_nothing_reaches_is_cut_off() -> None:
    """A look at the lease hangs, and the launcher passes on no beat any more: what runs there is to end."""
    monitor = looks(HeartbeatMonitor(), 1)
    assert not monitor.is_cut_off(100.0), "the launcher may pass no beats"
    monitor.listen(True, 0.0)
    monitor.listen(False, 9.0)
    assert not monitor.is_cut_off(100.0)
    monitor.listen(False, 1.0)
    assert not monitor.is_dead, "time in which it could not look does not count"
    assert not monitor.is_cut_off(9.9)
    assert monitor.is_cut_off(10.0)


def test_lease_that_changes_is_enough_where_the_pipe_is_silent() -> None:
    monitor = HeartbeatMonitor()
    monitor.listen(True, 0.5)
    for beat in range(100):
        monitor.look(beat, 2.0)
        monitor.listen(False, 2.0)
    assert (monitor.is_dead, monitor.sees_beats) == (False, True)
