"""A reader of a stream in shared memory is killed, or stopped and then killed, at a random moment: the writer and the
other readers do not notice. (Its memory has no name, and so cannot be left behind.)"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shared_memory_cycles import STEPS, make_cycles, run_cycle


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.reliability)])
def test_a_reader_that_dies_hurts_nobody(count: int, tmp_path: Path) -> None:
    begun = [run_cycle(cycle, tmp_path) for cycle in make_cycles(count)]
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".shm"]  # contact files
    # Some were hurt before their first step, some in the midst.
    assert 0 in begun and any(0 < steps < STEPS for steps in begun), begun
