"""Cores of the plan → cores of this machine; and what is noted where it lacks them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from workflow.launch.binding import choose_cores
from workflow.launch.process_spec import ProcessSpec
from workflow.run.processes.stage_processes import Crew

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no binding on this system")
SHOW = "import os; print(sorted(os.sched_getaffinity(0)))"


def test_indices_are_those_of_the_cores_that_may_be_used() -> None:
    assert choose_cores([0, 2], [3, 5, 8]) == ({3, 8}, "")
    assert choose_cores([], [3]) == (set(), "")


def test_a_core_that_is_not_there_leaves_all_unbound() -> None:
    cores, note = choose_cores([0, 1, 2, 3], [3, 5])
    assert cores == set(), "ranks would crowd on the first cores"
    assert note == "not bound to cores: the plan has core 2, 3, and 2 cores may be used here"
    assert "core 1, 2, 3, 4, 5, 6, 7, 8, …, and" in choose_cores(range(64), [3])[1]


@needs_affinity
@pytest.mark.parametrize("beyond", [False, True])
def test_a_process_is_bound_or_its_log_says_why_not(tmp_path: Path, beyond: bool) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    cores = [len(allowed)] if beyond else [0]
    spec = ProcessSpec("sim", [sys.executable, "-c", SHOW], tmp_path, str(tmp_path), "none", cores=cores)
    with Crew(tmp_path) as crew:
        crew.start(spec)
        assert crew.wait(60) == ["sim"]
        crew.collect("sim", tmp_path)
    assert (tmp_path / "stdout.log").read_text() == f"{allowed if beyond else allowed[:1]}\n"
    noted = f"wf: not bound to cores: the plan has core {len(allowed)}, and {len(allowed)} cores may be used here\n"
    assert (tmp_path / "stderr.log").read_text() == (noted if beyond else "")
    assert sorted(os.sched_getaffinity(0)) == allowed
