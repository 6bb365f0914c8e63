"""The CPU time of a stage: of its processes while they run, and of all of them at its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tests.unit.test_run_processes import process
from workflow.run.processes import process_tree
from workflow.run.processes.process_tree import CpuSchedule, cpu_use, descendants
from workflow.run.processes.stage_processes import StageProcesses

# A quarter of a second of CPU time here, and as much in a child that ends before the rest is printed.
BURN = "import time\nwhile time.process_time() < 0.25: pass\n"
PROGRAM = f"import subprocess, sys\n{BURN}subprocess.run([sys.executable, '-c', {BURN!r}])\n"


def test_a_stage_has_the_cpu_time_of_its_processes_also_of_those_that_ended(tmp_path: Path) -> None:
    with StageProcesses(tmp_path) as processes:
        waits = f"{PROGRAM}print('done', flush=True); sys.stdin.read()"
        processes.start(process("one", [sys.executable, "-c", f"{waits}\nimport signal; signal.pause()"], tmp_path))
        deadline = time.monotonic() + 60
        while not (tmp_path / "stdout.log").read_text():
            assert time.monotonic() < deadline, "the program did not end its work"
            processes.wait(0.05)
        used = processes.cpu_use("one")
        assert used is not None
        assert 0.45 < used.cpu_s < 5
        assert used.ready_s >= 0
        processes.end("one", tmp_path)
        assert processes.wait(60) == ["one"]
        ending = processes.collect("one")
        assert ending.cpu_s is not None
        assert ending.cpu_s == pytest.approx(used.cpu_s, abs=0.1)
        assert processes.cpu_use("one") is None


def test_ranks_on_other_nodes_have_no_cpu_time(tmp_path: Path) -> None:
    """What srun uses itself says nothing of its ranks."""
    with StageProcesses(tmp_path) as processes:
        here = process("one", [sys.executable, "-c", "import signal; signal.pause()"], tmp_path)
        processes.start(replace(here, launcher="srun"))
        assert processes.cpu_use("one") is None
        processes.end("one", tmp_path)
        assert processes.wait(60) == ["one"]
        assert processes.collect("one").cpu_s is None


def test_the_time_of_several_processes_adds_up_and_those_that_are_gone_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    for pid, times, delay in ((7, (3, 4, 5, 6), 2_000_000_000), (8, (1, 0, 0, 0), 500_000_000)):
        folder = tmp_path / str(pid)
        folder.mkdir()
        fields = ["S", *["0"] * 10, *(str(value * ticks) for value in times), "20"]
        (folder / "stat").write_text(f"{pid} (a) b 1) {' '.join(fields)}\n")
        (folder / "schedstat").write_text(f"123 {delay} 9\n")
    monkeypatch.setattr(process_tree, "PROC", tmp_path)
    assert cpu_use([7, 8, 9]) == (19.0, 2.5)
    assert cpu_use([9]) is None
    (tmp_path / "8/schedstat").unlink()  # a kernel without it
    assert cpu_use([8]) == (1.0, 0.0)


def test_a_process_that_is_not_a_child_can_be_read_until_it_is_gone() -> None:
    child = subprocess.Popen(["sleep", "60"])
    assert cpu_use([child.pid]) is not None
    child.kill()
    child.wait()
    assert cpu_use([child.pid]) is None


def sampled(schedule: CpuSchedule, stage: str, end_s: float) -> list[float]:
    """When samples are taken of a stage that is looked at every quarter of a second."""
    return [t for t in (quarter / 4 for quarter in range(int(end_s * 4))) if schedule.is_due(stage, t)]


def test_samples_become_rarer_with_the_time() -> None:
    times = sampled(CpuSchedule(1), "md", 10_000)
    assert times[:4] == [0.0, 0.5, 1.0, 1.5]
    assert len(times) < 1100
    assert times[-1] - times[-2] == pytest.approx(50, abs=0.5)


def test_of_many_stages_each_is_sampled_less_often() -> None:
    schedule = CpuSchedule(1000)
    counts = [len(sampled(schedule, f"stage-{number}", 100)) for number in range(20)]
    assert set(counts) == {5}, "50 samples a second over all"


def test_a_launcher_that_spins_does_not_work() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 60 & while :; do :; done"], start_new_session=True) as launcher:
        try:
            wait_until(lambda: descendants(launcher.pid), "the launcher has started its program")
            pids = [launcher.pid, *descendants(launcher.pid)]
            wait_until(lambda: (used := cpu_use(pids)) and used.cpu_s > 0.3, "the launcher uses CPU time")
            programs = cpu_use(pids, {launcher.pid})
            assert programs is not None
            assert programs.cpu_s < 0.1
        finally:
            os.killpg(launcher.pid, signal.SIGKILL)
