"""What the guards of the nodes say, and when a node is lost. Lines and times, no processes."""

from __future__ import annotations

import pytest

from workflow.run.guard.guard_lines import NodeLoad, parse_line, to_lines
from workflow.run.guard.node_guard import HeartbeatMonitor
from workflow.run.guard.rank_processes import RankProcess
from workflow.run.nodes.lost_nodes import NodeMonitor, RankSeen
from workflow.run.processes.kernel_oom_kills import MemoryFacts
from workflow.run.state.events import Event, GuardActed, NodeLost, NodeSeen, NodeSilent, NodesUnwatched


def beat(node: str) -> bytes:
    return b"".join(to_lines(node)).rstrip(b"\n")


def watch_of(*hosts: str, own: str = "n1", limit_s: float = 60.0) -> NodeMonitor:
    watch = NodeMonitor(hosts, own, limit_s)
    watch.take([beat(host) for host in hosts], 0.0)
    return watch


def test_first_line_of_each_node_is_an_event() -> None:
    watch = NodeMonitor(["n1.site.org", "n2"], "n1", 60)
    assert watch.take([beat("n2"), beat("n1"), beat("n2")], 3.0) == [
        NodeSeen(3.0, 1, "n2"),
        NodeSeen(3.0, 0, "n1.site.org"),
    ]


# Of n2, which was heard at 0 s.
SILENT = [NodeSilent(5, 1, "n2", 5), NodeSilent(10, 1, "n2", 10)]


def silences(watch: NodeMonitor, seconds: range, *speak: str) -> list[Event]:
    """What becomes known while these nodes speak and the others do not, second by second."""
    found: list[Event] = []
    for second in seconds:
        found += [*watch.take([beat(host) for host in speak], second), *watch.look(second)]
    return found


def test_silent_node_is_lost_once_while_another_one_speaks() -> None:
    found = silences(watch_of("n1", "n2", "n3"), range(1, 80), "n1", "n3")
    assert found == [*SILENT, NodeLost(60, 1, "n2", 60, "no rank there")]


def test_limit_of_the_silence_can_be_set() -> None:
    found = silences(watch_of("n1", "n2", limit_s=10), range(1, 20), "n1")
    assert found == [*SILENT, NodeLost(10, 1, "n2", 10, "no rank there")]


def test_node_whose_stage_has_failed_is_lost_after_10_s() -> None:
    """A connection has closed: that and the silence are two signs."""
    watch = watch_of("n1", "n2", "n3")
    watch.failing = [1]
    found = silences(watch, range(1, 40), "n1")
    lost = NodeLost(10, 1, "n2", 10, "no rank there", "a stage that runs there, or is joined to one, has failed")
    assert found == [
        SILENT[0], NodeSilent(5, 2, "n3", 5), SILENT[1], NodeSilent(10, 2, "n3", 10), lost,
    ]  # fmt: skip


def test_node_that_the_scheduler_calls_down_is_lost_after_10_s() -> None:
    watch = watch_of("n1", "n2")
    watch.down = {"n2": "down*"}
    lost = NodeLost(10, 1, "n2", 10, "no rank there", "the scheduler says `down*`")
    assert silences(watch, range(1, 40), "n1") == [*SILENT, lost]


def test_nodes_that_are_silent_for_half_a_minute_are_not_lost() -> None:
    """A switch that restarts: 512 of 9,000 nodes at once."""
    hosts = [f"n{number}" for number in range(9000)]
    watch = watch_of(*hosts, own="n0", limit_s=300)
    found = silences(watch, range(2, 34, 2), *hosts[:-512])
    found += silences(watch, range(34, 35), *hosts)
    assert [type(event) for event in found] == [NodeSilent] * 1024 + [NodeSeen] * 512


def test_node_that_speaks_again_is_seen_again() -> None:
    watch = watch_of("n1", "n2")
    watch.take([beat("n1")], 6.0)
    assert watch.look(2.0) + watch.look(4.0) + watch.look(6.0) == [NodeSilent(6.0, 1, "n2", 6.0)]
    (seen,) = watch.take([beat("n2"), beat("n2")], 31.0)
    assert seen == NodeSeen(31.0, 1, "n2", 31.0)
    assert isinstance(seen, NodeSeen)
    assert seen.text == "node n2 gave no sign of life for 31 s; nothing was ended because of that"


def test_no_node_is_lost_when_the_launcher_of_the_guards_is_silent() -> None:
    watch = watch_of("n1", "n2", "n3", own="login")
    said = "the nodes give no sign of life since 10 s: the launcher of the guards, or a link, is at fault"
    assert silences(watch, range(1, 90)) == [NodesUnwatched(10, said)]


def test_node_of_the_supervisor_is_not_lost() -> None:
    """Its guard writes into the same pipe as the others: the pipe is at fault."""
    (said,) = silences(watch_of("n1", "n2", "n3"), range(1, 90), "n3")
    assert isinstance(said, NodesUnwatched)


def test_only_node_of_an_allocation_is_lost_when_it_is_silent() -> None:
    found = silences(watch_of("n1", own="login"), range(1, 65))
    assert found == [NodeSilent(5, 0, "n1", 5), NodeSilent(10, 0, "n1", 10), NodeLost(60, 0, "n1", 60, "no rank there")]


def test_pause_of_the_supervisor_loses_no_node() -> None:
    watch = watch_of("n1", "n2", "n3", limit_s=10)
    watch.look(1)
    watch.take([beat("n1")], 61)
    assert watch.look(61) == []
    found = silences(watch, range(62, 80), "n1", "n3")
    lost = NodeLost(70, 1, "n2", 10, "no rank there")
    assert found == [NodeSilent(65, 1, "n2", 5), NodeSilent(70, 1, "n2", 10), lost], (
        "a second before the pause, and nine after it"
    )


def test_lines_come_back_as_they_were() -> None:
    ranks = [RankProcess("md", number, 100 + number, "0-3,8") for number in range(100)]
    facts = MemoryFacts(limit_bytes=10, cgroup="/job", cgroup_kills=1, cgroup_is_own=True)
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
    watch = NodeMonitor(["n1"], "login", 60)
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
    watch.take([*to_lines("n2", gone=[("md", 1)], memory={"md": MemoryFacts(cgroup_kills=1)})], 2)
    assert watch.take_changed() == []
    assert watch.memory_facts("md") == [("n2", MemoryFacts(cgroup_kills=1))]
    found = silences(watch, range(1, 70), "n1")
    assert found == [
        NodeSilent(7, 1, "n2", 5),
        NodeSilent(12, 1, "n2", 10),
        NodeLost(62, 1, "n2", 60, "ranks there: 1 of saxs"),
    ]


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


def test_guard_that_ends_the_run_on_its_node_says_so() -> None:
    watch = watch_of("n1", "n2")
    assert watch.take([*to_lines("n2", ended="no heartbeat for 60 s")], 70) == [
        GuardActed(70, "n2", "no heartbeat for 60 s")
    ]


def looks(monitor: HeartbeatMonitor, *beats: int | None, passed_s: float = 0.5) -> HeartbeatMonitor:
    for number in beats:
        monitor.look(number, passed_s)
    return monitor


def listens(monitor: HeartbeatMonitor, seconds: int, *, heard: bool = False, closed: bool = False) -> HeartbeatMonitor:
    for _ in range(seconds):
        monitor.listen(heard, closed, 1.0)
    return monitor


def test_lease_alone_decides_after_the_limit() -> None:
    """The launcher passes no beats."""
    monitor = looks(HeartbeatMonitor(300), *range(10))
    assert looks(monitor, *[9] * 20).sees_beats is False, "said after 10 s"
    assert not looks(monitor, *[9] * 576).why_dead
    assert looks(monitor, *[9] * 4).why_dead == "no heartbeat of the supervisor in the run directory for 300 s"


def test_guard_that_has_never_seen_a_lease_knows_nothing() -> None:
    monitor = looks(HeartbeatMonitor(10), *[None] * 100)
    assert (monitor.why_dead, monitor.sees_beats) == ("", False)


def test_run_whose_directory_was_removed_is_dead() -> None:
    assert looks(HeartbeatMonitor(10), 1, 2, *[None] * 21).why_dead


def test_time_in_which_the_guard_could_not_look_does_not_count() -> None:
    """It was suspended, or the file system hung."""
    monitor = looks(HeartbeatMonitor(10), 1)
    monitor.look(1, 3600.0)
    assert not monitor.why_dead
    listens(monitor, 1, heard=True)
    monitor.listen(False, False, 3600.0)
    assert not monitor.why_dead, "it was suspended"


def test_file_system_that_shows_beats_late_has_more_time() -> None:
    late = [beat for beat in range(3) for _ in range(16)]  # a change each 8 s
    monitor = looks(HeartbeatMonitor(300), *late)
    assert looks(monitor, *[2] * 10).sees_beats, "12.5 s, of 13"
    assert looks(monitor, 2).sees_beats is False


def test_a_stall_that_has_passed_adds_nothing_to_the_limit() -> None:
    """What is lost with the node is started again elsewhere some seconds after the limit."""
    monitor = looks(HeartbeatMonitor(300), 1, *[1] * 580, 2)
    assert not looks(monitor, *[2] * 599).why_dead
    assert looks(monitor, 2).why_dead == "no heartbeat of the supervisor in the run directory for 300 s"
    monitor = looks(HeartbeatMonitor(300), 1, *[1] * 580, 2)
    listens(listens(monitor, 1, heard=True), 1, closed=True)
    assert looks(monitor, *[2] * 600).why_dead.startswith("the supervisor has closed its connection")


def test_lease_is_read_every_2_s_and_more_often_when_it_is_silent() -> None:
    """Of 10,000 nodes: 5,000 opens a second of a file that changes every 2 s."""
    monitor = looks(HeartbeatMonitor(60), 1, 2, 3, passed_s=2.0)
    assert monitor.next_look_s == 2.0
    looks(monitor, 3, 3, 3, passed_s=2.0)
    assert monitor.next_look_s == 0.5


def test_stall_of_the_file_system_ends_nothing_while_the_pipe_speaks() -> None:
    """Five minutes: the looks return and find no change, and then hang."""
    monitor = looks(HeartbeatMonitor(60), 1)
    for _ in range(300):
        monitor.look(1, 1.0)
        monitor.listen(True, False, 1.0)
    assert (monitor.why_dead, monitor.sees_beats) == ("", False)
    assert not listens(monitor, 300, heard=True).why_dead


def test_silence_of_the_pipe_alone_ends_nothing() -> None:
    monitor = listens(HeartbeatMonitor(60), 1, heard=True)
    for beat in range(200):
        monitor.look(beat, 2.0)
        listens(monitor, 2)
    assert (monitor.why_dead, monitor.sees_beats) == ("", True)


@pytest.mark.parametrize("hangs", [False, True])
def test_silence_of_both_ends_after_the_limit(hangs: bool) -> None:
    """Also where the look at the lease hangs: another attempt may be about to begin on another node."""
    monitor = listens(looks(HeartbeatMonitor(60), 1), 1, heard=True)
    for second in range(60):
        assert not monitor.why_dead, second
        listens(monitor, 1)
        if not hangs:
            monitor.look(1, 1.0)
    assert monitor.why_dead == (
        "no heartbeat of the supervisor through the launcher for 60 s, and the run directory has shown none for 61 s"
    )


def test_closed_pipe_and_a_silent_lease_are_a_dead_supervisor() -> None:
    """The kernel closes the pipe of a supervisor that was killed; a launcher may be killed, too."""
    monitor = listens(looks(HeartbeatMonitor(60), 1), 1, heard=True)
    listens(monitor, 5, closed=True)
    assert not looks(monitor, *[1] * 19).why_dead
    assert looks(monitor, 1).why_dead == "the supervisor has closed its connection, and shows no heartbeat for 10 s"
    other = listens(looks(HeartbeatMonitor(60), 1), 5, closed=True)
    assert not looks(other, *[1] * 40).why_dead, "the launcher has passed on nothing: it may have closed the pipe"
