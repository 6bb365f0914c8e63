"""Programs that open their output anew for each dump: read after them they are whole; live it is said what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.data_kinds import read_adios
from tests.support.pipelines import run

PROGRAM = """
import sys
import time
from pathlib import Path
import adios2
import numpy as np

awaited, limit = Path(sys.argv[2]), time.monotonic() + 30
for number in range(3):
    io = adios2.Adios("adios2.xml").declare_io("out")
    with adios2.Stream(io, sys.argv[1], "w" if number == 0 else "a") as stream:
        stream.begin_step()
        stream.write("T", np.arange(6.0) + number, [6], [0], [6])
        stream.end_step()
    while sys.argv[3] and not awaited.exists() and time.monotonic() < limit:
        time.sleep(0.05)
"""
PIPELINE = """
stages:
  sim:
    command:
      ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py", "${{ streams.data.path }}", "${{ run.dir }}/kept.bp", "WAITS"]
    writes: {data: {io: out, config: adios2.xml}}
  last: {component: archive, with: {path: kept.bp}}
streams: {data: {from: sim, to: last, VIA}}
"""


@pytest.mark.parametrize(
    ("via", "said"),
    [
        ("via: bp5", ""),
        ("via: bp5, coupling: live", "which it opened anew after it had closed it"),
        ("via: sst", "sim has opened data anew, after it had closed it, and waits for a reader, but last has ended"),
    ],
)
def test_steps_of_one_file_that_is_opened_anew_for_each(via: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(PROGRAM)
    done = run(
        tmp_path,
        PIPELINE.replace("VIA", via).replace("WAITS", "yes" if "live" in via else ""),
        "--set",
        "deadlines.start=15 s",
    )
    if not said:
        assert done.code == 0, done.said
        np.testing.assert_array_equal(
            [step["T"] for step in read_adios(str(done.folder / "kept.bp"))], np.arange(6.0) + np.arange(3)[:, None]
        )
        return
    assert done.code == 1
    assert said in done.said
