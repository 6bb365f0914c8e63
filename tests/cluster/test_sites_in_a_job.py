"""What a job really has: found from Slurm's own words, compared with the plan, and written as a site file."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.support.slurm_cluster import SlurmCluster
from workflow.site.load_site import load_site

WF = [sys.executable, "-m", "workflow.cli"]
PIPELINE = """
wf: 1
name: three
stages:
  a: {command: [sh, -c, hostname > out], ranks: 1, place: {nodes: 1}}
  b: {command: [sh, -c, hostname > out], ranks: 1, place: {nodes: 1}}
  c: {command: [sh, -c, hostname > out], ranks: 1, place: {nodes: 1}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return tmp_path / "pipeline.yaml"


def test_the_nodes_of_the_job_are_found(cluster: SlurmCluster, pipeline: Path) -> None:
    run = pipeline.parent / "run"
    began = time.time()
    cluster.client(
        "salloc", "--quiet", "--nodes=3", "--nodelist=n2,n3,n4", "--exclusive", "--mem=300", "--time=7",
        "env", f"XDG_STATE_HOME={pipeline.parent}", *WF, "run", str(pipeline), "--site", "auto", "--run-dir", str(run),
        "--quiet",
    )  # fmt: skip
    received = json.loads((run / "allocation.json").read_text())
    assert (received["source"], received["notes"]) == ("slurm", [])
    assert [(host["name"], host["cores"], host["memory"]) for host in received["hosts"]] == [
        (name, cluster.settings.cpus_per_node, 300 * 2**20) for name in ("n2", "n3", "n4")
    ]
    assert began + 419 <= received["end_time"] <= time.time() + 421  # whole seconds
    on = {name: (run / "stages" / name / "work/out").read_text().strip() for name in "abc"}
    assert on == {"a": "n2", "b": "n3", "c": "n4"}
    assert json.loads((run / "plan.json").read_text())["site"] == "slurm"


WAITS = """
wf: 1
name: {name}
stages:
  {name}:
    command: [sh, -c, "hostname > out; until [ -e {ends} ]; do sleep 0.1; done"]
    ranks: 1
    place: {{nodes: {nodes}}}
"""
# Two runs at once in one job; the third finds nothing free.
BESIDE = """
export XDG_STATE_HOME={here}/state
wf() {{ {wf} run {here}/$1.yaml --site auto --run-dir {here}/$2 --quiet; }}
until_running() {{
    for _ in $(seq 300); do [ -s {here}/$1/stages/$1/work/out ] && return; sleep 0.1; done
    echo "$1 has not started"
}}
wf a a & until_running a
wf b b & until_running b
wf c refused; echo "c: exit code $?"
touch {here}/ends
wait
wf c c; echo "c again: exit code $?"
"""


def test_two_runs_of_one_job_take_different_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The third, for which no node is free, says which runs have them; when they have ended it runs."""
    for name, nodes in {"a": 2, "b": 1, "c": 2}.items():
        ends = tmp_path / "ends" if name != "c" else tmp_path
        (tmp_path / f"{name}.yaml").write_text(
            WAITS.format(name=name, nodes=nodes, ends=ends).replace("ranks: 1", f"ranks: {nodes}")
        )
    (tmp_path / "runs.sh").write_text(BESIDE.format(here=tmp_path, wf=" ".join(WF)))
    said = cluster.client(
        "salloc", "--quiet", "--nodes=3", "--nodelist=n2,n3,n4", "--exclusive", "--mem=300", "--time=7",
        "sh", "-c", f"bash {tmp_path}/runs.sh 2>&1",
    )  # fmt: skip
    assert "has not started" not in said
    assert "c: exit code 1" in said and "c again: exit code 0" in said, said
    assert "has 3 nodes, 0 of them free: run " in said
    assert f"run {tmp_path}/a uses n2, n3; run {tmp_path}/b uses n4; wait for it, or end it: " in said
    received = {
        name: [host["name"] for host in json.loads((tmp_path / name / "allocation.json").read_text())["hosts"]]
        for name in "abc"
    }
    assert received == {"a": ["n2", "n3", "n4"], "b": ["n4"], "c": ["n2", "n3", "n4"]}
    assert (tmp_path / "b/stages/b/work/out").read_text().strip() == "n4"


def test_fewer_nodes_than_the_plan_needs_start_nothing(cluster: SlurmCluster, pipeline: Path) -> None:
    """A plan that was made outside: the supervisor compares it with the job."""
    plan = pipeline.parent / "made.py"
    plan.write_text(
        "import sys\nfrom workflow import create_run, load_pipeline, make_plan\n"
        "loaded = load_pipeline(sys.argv[1], site='test-slurm')\n"
        "create_run(loaded, make_plan(loaded), sys.argv[2])\n"
    )
    run = pipeline.parent / "run"
    cluster.client(sys.executable, str(plan), str(pipeline), str(run))
    said = cluster.client(
        "salloc", "--quiet", "--nodes=2", "--time=5",
        "sh", "-c", f"{sys.executable} -m workflow.run.supervisor {run}; echo exit code $?",
    )  # fmt: skip
    assert "exit code 1" in said
    status = cluster.client(*WF, "status", str(run))
    assert "the plan needs 3 nodes, and Slurm job " in status
    assert " has 2: n1, n2: ask for 3: `sbatch --nodes=3`" in status
    assert not list(run.glob("stages/*/work/out"))


def test_a_plan_for_one_machine_names_the_better_site(cluster: SlurmCluster, pipeline: Path) -> None:
    said = cluster.client(
        "salloc", "--quiet", "--nodes=3", "--exclusive", "--time=5",
        "sh", "-c", f"{' '.join(WF)} run {pipeline} --set oversubscribe=true --run-dir {pipeline.parent / 'run'} 2>&1",
    )  # fmt: skip
    assert "has 3 nodes, and the plan for site local uses 1: 2 stay idle" in said
    assert "use them: `--site slurm`" in said


def test_a_node_describes_itself(cluster: SlurmCluster, tmp_path: Path) -> None:
    cluster.client("srun", "--nodes=1", "--exclusive", *WF, "site", "probe", "--write", str(tmp_path / "mine.yaml"))
    site = load_site("./mine.yaml", tmp_path)
    assert (site.site, site.nodes, site.scheduler, site.launcher) == ("mine", cluster.settings.nodes, "slurm", "srun")
    assert site.memory_per_node == cluster.settings.memory_per_node_mib * 2**20
    assert site.queues["debug"].default and site.queues["debug"].nodes == (1, cluster.settings.nodes)
    assert site.queues["short"].walltime == cluster.settings.short_limit_min * 60


def test_doctor_shows_the_job(cluster: SlurmCluster) -> None:
    said = cluster.client("salloc", "--quiet", "--nodes=2", "--time=5", *WF, "doctor")
    assert "2 nodes (n1, n2), until " in said
