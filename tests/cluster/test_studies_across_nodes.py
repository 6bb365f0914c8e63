"""Studies on four nodes: what the strategies of coupled-pipeline send over the network, and trials side by side."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.campaigns import ledger_records
from tests.support.cluster_runs import ROOT, SITE, run_in_job, wf_run
from tests.support.packed_runs import MPI_PYTHON
from tests.support.pilot_campaigns import overlapping, ran_at
from tests.support.slurm_cluster import SlurmCluster
from workflow.api.campaigns import campaign_status
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs

pytestmark = [
    pytest.mark.turns(3),
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
STUDIES = ROOT / "examples/campaigns"
PIPELINE = STUDIES / "coupled-pipeline/pipeline.yaml"
# As scale `four-nodes` of its campaign, with fewer atoms.
FOUR_NODES = {
    "stages.md.ranks": "4", "stages.md.place": "{nodes: 4}", "stages.xrd.ranks": "4",
    "stages.md.with.cells": "[10, 10, 80]", "streams.atoms.transport": "tcp",
}  # fmt: skip
HOSTS = ("n1", "n2", "n3", "n4")


def test_bin_packing_alone_sends_atoms_to_other_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    crossed = {}
    for strategy in ("hostname:binpacking", "binpacking", "hyperslab"):
        run_dir = tmp_path / strategy.replace(":", "-")
        before = {host: cluster.interface_bytes(host) for host in HOSTS}
        settings = FOUR_NODES | {"streams.atoms.strategy": strategy}
        run_in_job(cluster, wf_run(PIPELINE, run_dir, settings, "--site", SITE), run_dir, 4)
        moved = sum(cluster.interface_bytes(host).received - before[host].received for host in HOSTS)
        loaded = read_report(run_dir).stream("atoms").readers[0].bytes
        assert loaded is not None and loaded > 11 * 32000 * 28
        crossed[strategy] = moved / loaded
    # LAMMPS's own messages and the index of each step cross always, in all three alike: about as much as the atoms. Of
    # these bin packing sends one half to other nodes, hyperslabs 1 %; the bounds leave 2 MB to all else that crosses.
    by_bin_packing = crossed["binpacking"] - crossed["hostname:binpacking"]
    by_hyperslab = crossed["hyperslab"] - crossed["hostname:binpacking"]
    assert by_bin_packing > 0.25 and by_hyperslab < by_bin_packing / 2, crossed


def run_study(study: str, directory: Path, sets: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, Path]:
    """All its trials at their smallest scale: the run of the first repetition of each, by the values of the trial."""
    settings = {"scale": "tiny", "keep": "all", **sets}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    argv = [MPI_PYTHON, "-m", "workflow.cli", "campaign", "run", str(STUDIES / study / "campaign.yaml"), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        [*argv, "--dir", str(directory)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    status = campaign_status(directory)
    assert status.complete, status
    runs = {each["key"]: each["run"] for each in ledger_records(directory, "ended") if each["number"] == 1}
    names = {trial.trial: json.dumps([trial.parameters, trial.is_baseline]) for trial in status.trials}
    return {name: directory / "runs" / runs[key] for key, name in names.items()}


@pytest.mark.parametrize(
    ("study", "sets"),
    [
        ("async-io", {}),
        # A rank that writes and one that reads on each of two nodes.
        ("coupled-pipeline", {"set.stages.md.place": "{nodes: 2}"}),
    ],
)
def test_its_trials_run_side_by_side_in_pilots(
    study: str, sets: dict[str, str], cluster: SlurmCluster, tmp_path: Path
) -> None:
    alone = run_study(study, tmp_path / "alone", {}, {})
    in_pilots = {"site": SITE, "jobs": "{nodes: 4, time: 10 min}", "repetitions": "2", **sets}
    pilots = run_study(study, tmp_path / "pilots", in_pilots, cluster.environment)
    ran = ran_at(tmp_path / "pilots")
    assert len(ran) == 2 * len(alone) and {len(each.hosts) for each in ran} == {2 if sets else 1}
    assert overlapping(ran)
    for one, two in overlapping(ran):
        assert not one.hosts & two.hosts, f"{one.run} and {two.run} at the same time on {one.hosts & two.hosts}"
    # The same data as on this machine alone; sums over the atoms of two ranks may differ in their last digits.
    for values, run in alone.items():
        found = compare_runs(run, pilots[values], tolerance=1e-6)
        assert found.identical and found.files, (values, found)
