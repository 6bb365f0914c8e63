"""What to launch → the line of each launcher; and that a new launcher is one entry of the table."""

from __future__ import annotations

import ast
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workflow
from tests.support.planner import SITE, Planner, line_of
from workflow.errors import SpecError
from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest, NodeFacts, RankLayout
from workflow.launch.launchers import LAUNCHERS, launch_line, make_process
from workflow.plan.launch_requests import GrantedNodes, stage_request
from workflow.plan.plan_model import LaunchPlan
from workflow.report.show.plan_tables import launch_lines
from workflow.site.load_site import launcher_options, load_site

PROG = ["prog", "-x"]
HOSTS = [f"host{number}" for number in range(60)]
GOLDEN = Path(__file__).parents[1] / "golden/launchers"
PLAIN = NodeFacts(cores=8)
CUDA = NodeFacts(cores=8, threads_per_core=2, gpus=4, gpu_variable="CUDA_VISIBLE_DEVICES")
PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7]]


def layout(nodes: int = 1, first: int = 0, per_node: int = 4, **more: Any) -> RankLayout:
    values: dict[str, Any] = {"cores_per_rank": 2, "cores": PAIRS[:per_node]}
    return RankLayout(nodes, first, per_node, **values | more)


FREE = layout(cores_per_rank=0, cores=[])
# name → (nodes as the launcher sees them, ranks, layout)
CASES: dict[str, tuple[NodeFacts, int, RankLayout]] = {
    "one node": (PLAIN, 4, layout()),
    "two nodes, one rank less": (PLAIN, 7, layout(nodes=2, first=1)),
    "50 nodes": (PLAIN, 200, layout(nodes=50, first=3)),
    "without cores of its own": (PLAIN, 4, FREE),
    "beside stages with GPUs": (CUDA, 4, layout()),
    "GPUs and adapters": (
        CUDA, 8, layout(nodes=2, gpus=[[3], [2], [1], [0]], nics=["mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"]),
    ),
    "GPUs, variable not known": (CUDA._replace(gpu_variable=""), 4, layout(gpus=[[3], [2], [1], [0]])),
    "one adapter": (PLAIN, 4, layout(nics=["hsn0"] * 4)),
}  # fmt: skip


def request(
    launcher: str, case: str, *, hosts: Sequence[str] = HOSTS, version: str | None = None, **more: Any
) -> LaunchRequest:
    node, ranks, where = CASES[case]
    return LaunchRequest(
        "sim", launcher, LAUNCHERS[launcher].executable, ["--extra"], PROG, ranks, where, "/run/folder", "/run/work",
        node, launcher_options(launcher, version), env={"A": "1"}, hosts=hosts, start_s=119.5, **more,
    )  # fmt: skip


def shown(launcher: str, case: str, **more: Any) -> str:
    line = launch_line(request(launcher, case, **more))
    files = "".join(f"  {path}:\n{_shortened(text)}" for path, text in line.texts().items())
    env = "".join(f"  {name}={value}\n" for name, value in line.env.items())
    return f"{case}\n  {shlex.join(line.argv)}\n{env}{files}\n"


def _shortened(text: str) -> str:
    lines = text.splitlines()
    kept = [*lines[:12], f"… {len(lines)} lines", lines[-1]] if len(lines) > 14 else lines
    return "".join(f"    {line}\n" for line in kept)


@pytest.mark.parametrize("launcher", [name for name in LAUNCHERS if name != "none"])
def test_lines_files_and_environment(launcher: str, bless: bool) -> None:
    """After a deliberate change: `pytest tests/unit/test_launch_lines.py --bless`, then read the difference."""
    text = "".join(shown(launcher, case) for case in CASES)
    text += "".join(shown(launcher, case, hosts=[]).replace(case, f"{case}, no hosts") for case in ("one node",))
    golden = GOLDEN / f"{launcher}.txt"
    if bless:
        golden.write_text(text)
    assert golden.is_file(), f"no {golden.name}: run with --bless, then read it"
    assert text == golden.read_text()


def test_without_a_launcher_the_program_is_started() -> None:
    one = replace(request("none", "one node"), ranks=1, layout=FREE)
    assert launch_line(one) == LaunchLine(PROG)
    with_gpu = replace(one, node=CUDA, layout=layout(per_node=1, gpus=[[2, 3]]))
    assert launch_line(with_gpu).env == {"CUDA_VISIBLE_DEVICES": "2,3"}


def test_every_launcher_has_a_table_with_exactly_its_options() -> None:
    for name, launcher in LAUNCHERS.items():
        assert launcher_options(name).keys() == launcher.options, name


@pytest.mark.parametrize(
    ("launcher", "case", "version", "there", "gone"),
    [
        ("srun", "GPUs, variable not known", "23.11", "--gpus-per-task=1", "--tres-per-task"),
        ("srun", "GPUs, variable not known", "24.05.3", "--tres-per-task=gres/gpu:1", "--gpus-per-task"),
        ("srun", "one node", "20.02", "--cpu-bind=mask_cpu", "--overlap"),
        ("openmpi", "one node", "4.1.4", "--rankfile /run/folder/rankfile", "--map-by"),
        ("openmpi", "one node", "5.0.11", "--map-by rankfile:file=/run/folder/rankfile", "--rankfile"),
        ("flux", "GPUs, variable not known", "0.50", "--gpus-per-task=1", "gpu-affinity"),
    ],
)
def test_options_are_those_of_the_version(launcher: str, case: str, version: str, there: str, gone: str) -> None:
    line = " ".join(launch_line(request(launcher, case, version=version)).argv)
    assert there in line
    assert gone not in line


def test_srun_binds_by_itself_only_where_it_has_whole_nodes() -> None:
    argv = launch_line(request("srun", "one node", whole_nodes=False)).argv
    assert "--exact" in argv and "--cpus-per-task=2" in argv
    assert not any("mask" in word or "overlap" in word for word in argv)
    threads = launch_line(request("srun", "one node", whole_nodes=False, cpus_per_core=2)).argv
    assert "--cpus-per-task=4" in threads, "two cores of two hardware threads"
    assert "--cpu-bind=none" in launch_line(request("srun", "without cores of its own", whole_nodes=False)).argv


def test_srun_drops_the_options_of_the_job_and_keeps_the_job() -> None:
    without = launch_line(request("srun", "one node")).without
    exact = {name for name in without if not name.endswith("*")}
    beginnings = tuple(name[:-1] for name in without if name.endswith("*"))
    for name in ("SLURM_CPUS_PER_TASK", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_TRES_PER_TASK",
                 "SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_NODE", "SLURM_CPU_BIND_LIST", "SLURM_EXPORT_ENV"):  # fmt: skip
        assert name in exact or name.startswith(beginnings), name
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_CONF", "SLURM_JOB_PARTITION"):
        assert name not in exact and not name.startswith(beginnings), name


def test_the_process_of_a_line() -> None:
    process = make_process(request("srun", "GPUs and adapters"))
    assert (process.name, process.cwd, process.folder, process.ranks) == ("sim", "/run/work", Path("/run/folder"), 8)
    assert (process.env, process.argv[0], list(process.cores)) == ({"A": "1"}, "srun", [])
    assert process.files.keys() == {"/run/folder/rank_settings.sh"}
    assert "SLURM_CPUS_PER_TASK" in process.without
    alone = replace(request("none", "one node"), ranks=1, layout=layout(per_node=1, cores=[[3, 1]]))
    assert make_process(alone).cores == [1, 3], "inherited by the program"
    adapter = make_process(request("mpiexec", "one adapter"))
    assert adapter.env == {"A": "1", "FABRIC_IFACE": "hsn0", "SLURM_OVERLAP": "1"}


def test_whether_all_ranks_of_a_line_are_on_this_machine() -> None:
    here = platform.node()
    for launcher in ("mpiexec", "openmpi"):
        assert make_process(request(launcher, "one node", hosts=[here])).is_here
        assert make_process(request(launcher, "one node", hosts=[])).is_here, "it starts its ranks beside itself"
        assert not make_process(request(launcher, "one node", hosts=["host0"])).is_here
        assert not make_process(request(launcher, "two nodes, one rank less", hosts=[here, here, "host0"])).is_here


def test_the_script_of_a_rank_sets_what_is_its_own(tmp_path: Path) -> None:
    """In a real shell: words with spaces arrive whole, and a rank that is not planned does not start."""
    ((_, text),) = launch_line(request("srun", "GPUs and adapters")).texts().items()
    script = tmp_path / "rank_settings.sh"
    script.write_text(text)
    show = "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['FABRIC_IFACE'], sys.argv[1:])"

    def start(rank: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", script, sys.executable, "-c", show, "a b"],
            env={"SLURM_LOCALID": rank}, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    assert start("2").stdout == "1 mlx5_1 ['a b']\n"
    ended = start("4")
    assert (ended.returncode, ended.stderr) == (127, "wf: SLURM_LOCALID=4: no rank of this node has that number\n")


def test_plans_name_nodes_where_a_line_names_hosts(plan_of: Planner) -> None:
    cluster = SITE.model_copy(update={"nodes": 4})
    sets = ("stages.walk.ranks=8", "stages.walk.place.nodes=2", "stages.count.ranks=4")
    plan = plan_of(site=cluster, sets=sets)
    lines = {names: " ".join(line) for names, line in launch_lines(plan)}
    assert "-ppn 4 -hosts node[0],node[1] " in lines["walk"]
    assert "-n 4 -hosts node[2] " in lines["count"]
    assert "-n 1 -hosts node[2] " in lines["keep"], "wf itself is on node[0]"
    assert "node[" not in str(launch_lines(plan_of())), "one node needs no host"
    real = launch_line(stage_request(plan.stage("count"), plan, received=GrantedNodes(["a", "b", "c", "d"]))).argv
    assert real[3:5] == ["-hosts", "c"]


def test_only_processes_with_sst_need_ids_far_apart(plan_of: Planner) -> None:
    sst, files = plan_of(via="sst"), plan_of(via="bp5")
    assert stage_request(sst.stage("walk"), sst).separate_ids
    assert not stage_request(files.stage("walk"), files).separate_ids


@pytest.mark.parametrize(
    ("stage", "separate"),
    [
        ("{component: walker}", False),
        ("{component: walker, env: {OMP_NUM_THREADS: 1}}", False),
        ("{component: walker, env: {LD_LIBRARY_PATH: /other/lib}}", True),
        ("{component: walker, env: {PYTHONPATH: /other/lib}}", True),
        ('{command: ["${{ wf.python }}", -c, "pass"], writes: {positions: {}}}', False),
        ('{command: ["${{ wf.python }}", -c, "pass"], writes: {positions: {io: P, config: adios2.xml}}}', True),
        ("{command: [/opt/sim], writes: {positions: {}}}", True),
    ],
)
def test_ids_need_not_be_far_apart_where_adios2_is_known_to_make_its_own(
    plan_of: Planner, stage: str, separate: bool
) -> None:
    """The site knows the ADIOS2 of wf's Python only."""
    text = f"""
stages:
  walk: {stage}
  keep: {{component: keep}}
streams:
  positions: {{from: walk, to: keep}}
"""
    random_ids = SITE.model_copy(update={"random_sst_ids": True})
    plan = plan_of(text, via="sst", site=random_ids)
    assert [stage_request(each, plan).separate_ids for each in plan.stages] == [separate, False]
    unknown = plan_of(text, via="sst")
    assert all(stage_request(each, unknown).separate_ids for each in unknown.stages)


def test_a_new_launcher_is_one_entry_of_the_table(
    plan_of: Planner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def line(request: LaunchRequest) -> LaunchLine:
        return LaunchLine([request.executable, *request.arguments, str(request.ranks), *request.program])

    monkeypatch.setitem(LAUNCHERS, "throw", Launcher(line, executable="throw"))
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites/own.yaml").write_text("site: own\nsummary: mine\nlauncher: throw\nlauncher_args: [far]\n")
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    plan = plan_of(site=load_site("own"), sets=("stages.walk.ranks=3", "oversubscribe=true"))
    assert plan.stage("walk").launch == LaunchPlan(launcher="throw", executable="throw", arguments=["far"])
    assert line_of(plan, "walk") == ["throw", "far", "3", *plan.stage("walk").program]


def test_an_unknown_launcher_is_refused_with_those_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites/own.yaml").write_text("site: own\nsummary: mine\nlauncher: mpirun\n")
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    with pytest.raises(SpecError) as caught:
        load_site("own")
    message = ':3:11: launcher: there is no launcher "mpirun"\n  launchers: '
    message += "`none`, `mpiexec`, `pals`, `openmpi`, `srun`, `jsrun`, `flux`"
    assert str(caught.value).endswith(message)


def test_no_other_room_names_a_launcher() -> None:
    names = {launcher.executable for launcher in LAUNCHERS.values() if launcher.executable}
    names -= {"flux"}  # that of a scheduler, too
    package = Path(workflow.__file__).parent
    naming = (package / "launch", package / "schedulers")  # some come with a scheduler
    for path in package.rglob("*.py"):
        if path.parent not in naming:
            words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not names & {word for word in words if isinstance(word, str)}, path
