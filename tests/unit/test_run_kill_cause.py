"""What is said of a SIGKILL whose sender is not known, and where the facts come from: recorded contents of files."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.chains import make_plan, make_stage
from tests.support.imagined_run import Run, verdict_of
from workflow.run.processes import kernel_oom_kills
from workflow.run.processes.kernel_oom_kills import MemoryFacts, MemoryWatch, memory_cgroup
from workflow.run.records.events_file import from_record, to_line
from workflow.run.state.events import RanksEnded, StageExited, StageKilled
from workflow.run.verdict.end_causes import kill_cause

MB = 10**6
NOTHING = StageKilled(5.0, "md")
PEAK = replace(NOTHING, peak_bytes=60 * MB, limit_bytes=64 * MB)
V2_EVENTS = "low 0\nhigh 0\nmax 21\noom 2\noom_kill 1\noom_group_kill 0\n"
V1_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
V1_OWN = "9:name=systemd:/\n4:memory:/job/7\n1:cpu,cpuacct:/\n0::/\n"
V2_OWN = "0::/user.slice/job-7.scope\n"


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            replace(PEAK, cgroup="/job/7", cgroup_kills=1, cgroup_is_own=True),
            ": out of memory: the kernel killed 1 process of its cgroup /job/7; the limit is 64.0 MB",
        ),
        (
            replace(NOTHING, cgroup="/job/7", cgroup_kills=2, cgroup_is_own=True),
            ": out of memory: the kernel killed 2 processes of its cgroup /job/7",
        ),
        (
            replace(PEAK, cgroup="/user.slice", cgroup_kills=1),
            ": out of memory? the kernel killed 1 process of cgroup /user.slice, which may include processes "
            "of others; the sender of the signal is not known; its largest process had used "
            "60.0 MB of 64.0 MB",
        ),
        (
            replace(PEAK, cgroup="/job/7", cgroup_kills=0),
            ": not for lack of memory, as far as its cgroup tells; the sender of the signal is not known; its largest "
            "process had used 60.0 MB of 64.0 MB",
        ),
        (
            NOTHING,
            "; whether memory ran out is not known",
        ),
        (
            replace(NOTHING, is_here=False, peak_bytes=3 * MB),
            "; whether memory ran out there is not known; its largest process had used 3.00 MB",
        ),
        (replace(NOTHING, cgroup_kills=0, is_here=False), "; whether memory ran out there is not known"),
    ],
)  # fmt: skip
def test_only_what_the_evidence_allows_is_said(facts: StageKilled, text: str) -> None:
    assert kill_cause(facts) == text


def test_the_facts_are_events_and_the_verdict_follows_from_them() -> None:
    facts = replace(PEAK, cgroup="/job/7", cgroup_kills=1)
    assert from_record(json.loads(to_line(facts))) == facts
    run = Run(make_plan([make_stage("md", ["x"])]))
    run.feed_together(facts, StageExited(5.0, "md", None, 9, "one of its ranks"))
    said = f"md was killed by signal 9 (SIGKILL): one of its ranks{kill_cause(facts)}"
    assert verdict_of(run) == ("failed", "md", said)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (replace(NOTHING, is_here=False), "; whether memory ran out there is not known"),
        (
            replace(NOTHING, cgroup_kills=0),
            ": not for lack of memory, as far as its cgroup tells; the sender of the signal is not known",
        ),
    ],
)
def test_a_rank_on_another_node_is_named_before_what_is_known_of_memory(facts: StageKilled, text: str) -> None:
    """With evidence of that node's guard, and without."""
    run = Run(make_plan([make_stage("md", ["x"])]))
    run.feed_together(RanksEnded(5.0, "md", "killed", "x", "n3", "1", 9), facts, StageExited(5.0, "md", 137, None))
    assert verdict_of(run) == ("failed", "md", f"md was killed by signal 9 (SIGKILL) (rank 1 on n3){text}")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of a machine; at first there are none."""
    for name, place in {"PROC": "proc", "CGROUPS": "cgroup"}.items():
        monkeypatch.setattr(kernel_oom_kills, name, tmp_path / place)
    return tmp_path


def put(machine: Path, path: str, text: str) -> None:
    file = machine / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("own", "folder", "counter", "limit"),
    [
        (V2_OWN, "cgroup/user.slice/job-7.scope", ("memory.events", V2_EVENTS), "memory.max"),
        (V2_OWN, "cgroup/unified/user.slice/job-7.scope", ("memory.events", V2_EVENTS), "memory.max"),
        (V1_OWN, "cgroup/memory/job/7", ("memory.oom_control", V1_CONTROL), "memory.limit_in_bytes"),
    ],
    ids=["v2", "hybrid", "v1"],
)
def test_kills_of_a_cgroup_are_counted_from_when_it_was_seen(
    machine: Path, own: str, folder: str, counter: tuple[str, str], limit: str
) -> None:
    file, text = counter
    put(machine, f"{folder}/{file}", text)
    put(machine, f"{folder}/{limit}", "max\n" if limit == "memory.max" else "9223372036854771712\n")
    put(machine, f"{Path(folder).parent}/{limit}", f"{64 * MB}\n")
    put(machine, "proc/40/cgroup", own)
    put(machine, f"{folder}/cgroup.procs", "40\n")
    watch = MemoryWatch()
    watch.start("md", 40)
    name = own.splitlines()[-1 if folder.startswith("cgroup/u") else 1].split(":")[2]
    assert watch.facts("md") == MemoryFacts(64 * MB, name, 0, True)
    (machine / folder / file).write_text(text.replace("oom_kill 1", "oom_kill 2").replace("oom_kill 3", "oom_kill 4"))
    assert watch.facts("md") == MemoryFacts(64 * MB, name, 1, True)


@pytest.mark.parametrize(
    ("before", "at_last", "below", "is_own"),
    [
        ("40", "", "41", True),  # 41 is below the launcher 40
        ("40\n7", "", "", False),  # somebody was there, and may be the one that was killed
        ("40", "7", "", False),
        ("40\n0", "", "", False),  # of another container
        ("40", "", "7", False),
        (None, None, None, False),
    ],
)
def test_a_cgroup_is_its_own_if_only_its_processes_were_seen_there(
    machine: Path, before: str | None, at_last: str | None, below: str | None, is_own: bool
) -> None:
    for pid in (40, 41):
        put(machine, f"proc/{pid}/cgroup", V2_OWN)
    folder = "cgroup/user.slice/job-7.scope"
    put(machine, f"{folder}/memory.events", V2_EVENTS)
    if before is not None:
        put(machine, f"{folder}/cgroup.procs", before + "\n")
    watch = MemoryWatch()
    watch.start("md", 40)
    if below is not None:
        put(machine, f"{folder}/step/cgroup.procs", below + "\n")
    watch.look("md", [40, 41])
    if at_last is not None:
        put(machine, f"{folder}/cgroup.procs", at_last)
    assert watch.facts("md").cgroup_is_own is is_own


def test_a_launcher_and_its_ranks_in_different_cgroups(machine: Path) -> None:
    """The cgroup is that of the ranks; its kills count from when it was first seen."""
    put(machine, "proc/40/cgroup", "0::/launcher\n")
    put(machine, "proc/41/cgroup", "0::/ranks\n")
    for name in ("launcher", "ranks"):
        put(machine, f"cgroup/{name}/memory.events", V2_EVENTS)
    watch = MemoryWatch()
    watch.start("md", 40)
    watch.look("md", [40, 41])
    put(machine, "cgroup/ranks/memory.events", V2_EVENTS.replace("oom_kill 1", "oom_kill 2"))
    watch.look("md", [40, 41])
    facts = watch.facts("md")
    assert (facts.cgroup, facts.cgroup_kills) == ("/ranks", 1)


@pytest.mark.usefixtures("machine")
def test_where_nothing_can_be_read_nothing_is_known() -> None:
    watch = MemoryWatch()
    watch.start("md", 40)
    facts = watch.facts("md")
    assert facts == MemoryFacts(limit_bytes=facts.limit_bytes)
    assert facts.limit_bytes is not None and facts.limit_bytes > 2**27, "the memory of this machine"


@pytest.mark.usefixtures("machine")
def test_a_system_without_memory_cgroups() -> None:
    assert memory_cgroup("9:name=systemd:/\n0::/\n") is None
    assert memory_cgroup("") is None


def test_kills_in_cgroups_below_its_own_are_those_of_others(machine: Path) -> None:
    """Of a cgroup v2 `memory.events` counts those, too: another stage may have been moved into one."""
    put(machine, "proc/40/cgroup", "0::/job\n")
    put(machine, "cgroup/job/memory.events", V2_EVENTS)
    put(machine, "cgroup/job/memory.events.local", V2_EVENTS)
    watch = MemoryWatch()
    watch.start("md", 40)
    put(machine, "cgroup/job/memory.events", V2_EVENTS.replace("oom_kill 1", "oom_kill 2"))
    assert watch.facts("md").cgroup_kills == 0
    put(machine, "cgroup/job/memory.events.local", V2_EVENTS.replace("oom_kill 1", "oom_kill 2"))
    assert watch.facts("md").cgroup_kills == 1


@pytest.mark.usefixtures("machine")
def test_looks_come_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = MemoryWatch()
    watch.start("md", 40)
    looks = []
    while now[0] < 200:
        if watch.is_due("md"):
            looks.append(now[0] - 100)
        now[0] += 0.25
    assert looks == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64]
