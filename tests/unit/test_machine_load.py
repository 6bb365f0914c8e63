"""How many cores others use: of those CPUs that this process may use."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from workflow.calibration import calibrate
from workflow.calibration.calibrate import cores_of_others, cpu_times

TICKS = os.sysconf("SC_CLK_TCK")


def stat(busy_s: dict[int, float]) -> str:
    """The text of /proc/stat for CPUs that were busy for so long."""
    lines = [f"cpu{cpu} {int(busy * TICKS)} 0 0 5 0 0 0 0 0 0" for cpu, busy in busy_s.items()]
    return "\n".join([f"cpu  {int(sum(busy_s.values()) * TICKS)} 0 0 5 0 0 0 0 0 0", *lines, "intr 1"])


@pytest.mark.parametrize(("allowed", "cores"), [({0}, 0.0), ({1}, 1.0), ({1, 2}, 1.5), ({0, 1, 2, 3}, 2.5)])
def test_only_the_cpus_that_this_process_may_use_count(
    allowed: set[int], cores: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "PROC_STAT", tmp_path / "stat")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    monkeypatch.setattr(os, "times", lambda: os.times_result((0.0, 0.0, 0.0, 0.0, 0.0)))
    found = []
    for second, busy in enumerate(({0: 5.0, 1: 1.0, 2: 2.0, 3: 0.0}, {0: 5.0, 1: 3.0, 2: 3.0, 3: 2.0})):
        monkeypatch.setattr(time, "monotonic", lambda at=second: 10.0 + 2 * at)
        (tmp_path / "stat").write_text(stat(busy))
        found.append(cpu_times())
    assert cores_of_others(*found) == pytest.approx(cores)


def test_a_system_without_the_table_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "PROC_STAT", tmp_path / "none")
    assert cpu_times() is None
