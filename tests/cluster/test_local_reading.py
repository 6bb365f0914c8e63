"""`strategy: hostname` reads only blocks of the own node: seen at the nodes' interfaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cluster_runs import SITE, run_in_job, wf_run
from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
NUMBERS, STEPS, RANKS = 1_000_000, 4, 2
STREAM_BYTES = NUMBERS * 8 * STEPS * RANKS
# The first rank writes the second half: slabs, which follow the index, lie on the other node.
WRITE = f"""
import numpy as np
from workflow import stage
place = {NUMBERS} * (stage.size() - 1 - stage.rank())
with stage.open_writer("numbers") as out:
    for step in range({STEPS}):
        with out.step():
            values = np.arange(place, place + {NUMBERS}, dtype=float) + step
            out.write("x", values, shape=({NUMBERS} * stage.size(),), start=(place,))
"""
READ = """
import json
import numpy as np
from workflow import stage
seen = 0
with stage.open_reader("numbers") as numbers:
    for step in numbers:
        for piece in step.share("x"):
            first = piece.start[0]
            expected = np.arange(first, first + piece.values.size, dtype=float) + step.index
            assert np.array_equal(piece.values, expected)
            seen += piece.values.nbytes
with open(f"bytes-{stage.rank()}.json", "w") as file:
    json.dump(seen, file)
"""
PIPELINE = """
wf: 1
name: local-reading
stages:
  write:
    command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/write.py"]
    ranks: 2
    place: {{nodes: 2}}
    writes: {{numbers: {{}}}}
  read:
    command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/read.py"]
    ranks: 2
    place: {{share: write}}
    reads: {{numbers: {{}}}}
streams:
  numbers: {{from: write, to: read, strategy: {strategy}}}
"""


@pytest.mark.parametrize(
    ("strategy", "read_bytes", "crossing"),
    [
        ("hostname", STREAM_BYTES, 0.0),
        ("auto", STREAM_BYTES, 0.0),
        ("hyperslab", STREAM_BYTES, 1.0),
        ("all", 2 * STREAM_BYTES, 1.0),
    ],
)
def test_bytes_between_the_nodes(
    strategy: str, read_bytes: int, crossing: float, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """`crossing`: how much of the stream must pass the interfaces, as a part of all its bytes."""
    for name, text in (("write.py", WRITE), ("read.py", READ), ("pipeline.yaml", PIPELINE.format(strategy=strategy))):
        (tmp_path / name).write_text(text)
    run_dir, hosts = tmp_path / "run", ("n1", "n2")
    before = {host: cluster.interface_bytes(host) for host in hosts}
    seen = run_in_job(cluster, wf_run(tmp_path / "pipeline.yaml", run_dir, {}, "--site", SITE), run_dir, 2)
    moved = {host: cluster.interface_bytes(host).received - before[host].received for host in hosts}
    assert seen.hosts("write") == seen.hosts("read") == ["n1", "n2"]
    read = [json.loads(path.read_text()) for path in run_dir.glob("stages/read/work/bytes-*.json")]
    assert sum(read) == read_bytes
    # Headers, what Slurm and MPI say besides, and the index of each step.
    assert crossing * STREAM_BYTES / 2 <= min(moved.values()), moved
    assert sum(moved.values()) < (crossing + 0.05) * STREAM_BYTES, moved
