"""Heat transfer by programs with MPI: one that reads a stream by SST and writes another one is never stopped by chance.

The ranks of such a program share the file in which ADIOS2 logs what they open, and write into each other's lines.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.long_tables import long_table
from tests.support.pipelines import run

CELLS = 12 * 8
STEPS = 4
PIPELINE = """
stages:
  sim:
    command: ["{heat}", write, "${{{{ streams.temperature.path }}}}", "{steps}"]
    ranks: {ranks}
    writes: {{temperature: {{io: temperature, config: adios2.xml}}}}
  analysis:
    command: ["{heat}", change, "${{{{ streams.temperature.path }}}}", "${{{{ streams.difference.path }}}}"]
    ranks: {ranks}
    reads: {{temperature: {{io: temperature, config: adios2.xml}}}}
    writes: {{difference: {{io: change, config: adios2.xml}}}}
  total:
    command: ["{heat}", total, "${{{{ streams.difference.path }}}}"]
    reads: {{difference: {{io: change, config: adios2.xml}}}}
streams:
  temperature: {{from: sim, to: analysis, via: sst}}
  difference: {{from: analysis, to: total, via: sst}}
"""


RUNS = 10


@pytest.mark.timeout(900)
@pytest.mark.parametrize("batch", long_table(range(30), sample=3))
def test_no_run_is_stopped_by_chance(
    batch: int, compiled: Callable[[str], Path], mpi_python: str, tmp_path: Path
) -> None:
    heat = compiled("heat")
    for number in range(batch * RUNS, (batch + 1) * RUNS):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = run(folder, PIPELINE.format(heat=heat, steps=STEPS, ranks=2 + number % 3), python=mpi_python)
        assert done.code == 0, f"run {number}: {done.said}"
        # T is the square of the step: its change is 2 s - 1 in each cell.
        assert done.printed("total") == [str(CELLS * max(0, 2 * step - 1)) for step in range(STEPS)]
        shutil.rmtree(folder)
