"""What to launch → the line of each launcher; and that a new launcher is one entry of the table."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import workflow
from tests.support.planner import SITE, Planner, line_of
from workflow.errors import SpecError
from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest, RankedProgram, RankLayout
from workflow.launch.launchers import LAUNCHERS, launch_line
from workflow.launch.process_spec import make_process
from workflow.plan.launch_requests import group_request, stage_request
from workflow.plan.plan_model import LaunchPlan
from workflow.report.show.plan_tables import launch_lines
from workflow.site.load_site import load_site

NODE = RankLayout(nodes=1, first_node=0, ranks_per_node=4, cores_per_rank=2)
WIDE = RankLayout(nodes=8, first_node=2, ranks_per_node=125, cores_per_rank=1)
PROG, OTHER = ["prog", "-x"], ["other", "a b"]
HOSTS = [f"host{number}" for number in range(12)]


def request(
    launcher: str, *programs: tuple[int, list[str]], layout: RankLayout = NODE, hosts: Sequence[str] = ()
) -> LaunchRequest:
    ranked = [RankedProgram(ranks, argv) for ranks, argv in programs]
    return LaunchRequest(
        "sim", launcher, LAUNCHERS[launcher].executable, ["--extra"], ranked, layout, "/run/folder", "/run/work",
        env={"A": "1"}, cores=[0, 1], hosts=hosts,
    )  # fmt: skip


def argv(launcher: str, *programs: tuple[int, list[str]], layout: RankLayout = NODE, hosts: Sequence[str] = ()) -> str:
    return " ".join(launch_line(request(launcher, *programs, layout=layout, hosts=hosts)).argv)


def test_without_a_launcher_the_program_is_started() -> None:
    assert argv("none", (1, PROG), hosts=HOSTS) == "prog -x"


def test_mpiexec() -> None:
    assert argv("mpiexec", (4, PROG)) == "mpiexec -n 4 --extra prog -x"
    assert argv("mpiexec", (1000, PROG), layout=WIDE) == "mpiexec -n 1000 -ppn 125 --extra prog -x"
    several = argv("mpiexec", (2, PROG), (1, OTHER))
    assert several == "mpiexec --extra -n 2 prog -x : -n 1 other a b"
    assert argv("mpiexec", (2, PROG), (1, OTHER), layout=WIDE).startswith("mpiexec --extra -ppn 125 -n 2 prog")
    assert "-gpus-per-proc 2" in argv("mpiexec", (4, PROG), layout=replace(NODE, gpus_per_rank=2))


def test_mpiexec_names_the_hosts_of_its_nodes() -> None:
    narrow = replace(WIDE, nodes=2)
    line = argv("mpiexec", (250, PROG), layout=narrow, hosts=HOSTS)
    assert line == "mpiexec -n 250 -ppn 125 -hosts host2,host3 --extra prog -x"
    line = argv("mpiexec", (250, PROG), (2, OTHER), layout=narrow, hosts=HOSTS)
    assert line.startswith("mpiexec --extra -ppn 125 -hosts host2,host3 -n 250 prog -x :")


def test_srun_takes_its_cores_and_nodes_within_the_allocation() -> None:
    line = argv("srun", (1000, PROG), layout=WIDE)
    assert line == (
        "srun --ntasks=1000 --nodes=8 --ntasks-per-node=125 --relative=2 --exact --cpus-per-task=1 --extra prog -x"
    )
    assert argv("srun", (1000, PROG), layout=WIDE, hosts=HOSTS) == line, "nodes are counted, hosts need no name"
    guest = argv("srun", (1, PROG), layout=replace(NODE, cores_per_rank=0))
    assert "--overlap" in guest
    assert "--exact" not in guest
    assert "--gpus-per-task=1" in argv("srun", (4, PROG), layout=replace(NODE, gpus_per_rank=1))


def test_srun_reads_several_programs_from_a_file() -> None:
    line = launch_line(request("srun", (2, PROG), (1, OTHER)))
    assert line.argv[:2] == ["srun", "--ntasks=3"]
    assert line.argv[-4:] == ["--extra", "--kill-on-bad-exit=1", "--multi-prog", "/run/folder/programs.conf"]
    assert line.files == {"/run/folder/programs.conf": "0-1 prog -x\n2 other 'a b'\n"}


def test_the_process_of_a_line() -> None:
    """Ranks inherit cores from hydra, and are bound by srun itself."""
    process = make_process(request("mpiexec", (4, PROG)))
    assert (process.name, process.cwd, process.folder, process.ranks) == ("sim", "/run/work", Path("/run/folder"), 4)
    assert (process.env, list(process.cores), process.argv[0]) == ({"A": "1"}, [0, 1], "mpiexec")
    assert list(make_process(request("srun", (4, PROG))).cores) == []
    assert make_process(request("srun", (4, PROG), (1, OTHER))).files.keys() == {"/run/folder/programs.conf"}


def test_plans_name_nodes_where_a_line_names_hosts(plan_of: Planner) -> None:
    cluster = SITE.model_copy(update={"nodes": 4})
    sets = ("stages.walk.ranks=8", "stages.walk.place.nodes=2", "stages.count.ranks=4")
    plan = plan_of(site=cluster, sets=sets)
    lines = {names: " ".join(line) for names, line in launch_lines(plan)}
    assert "-ppn 4 -hosts node[0],node[1] " in lines["walk"]
    assert "-n 4 -hosts node[2] " in lines["count"]
    assert "node[" not in lines["keep"]
    assert "node[" not in str(launch_lines(plan_of())), "one node needs no host"
    real = launch_line(stage_request(plan.stage("count"), hosts=["a", "b", "c", "d"])).argv
    assert real[3:5] == ["-hosts", "c"]


def test_only_processes_with_sst_need_ids_far_apart(plan_of: Planner) -> None:
    sst, files = plan_of(), plan_of(via="bp5")
    assert stage_request(sst.stage("walk")).separate_ids
    assert not stage_request(files.stage("walk")).separate_ids
    both = plan_of(sets=("streams.positions.via=ssc", "streams.counts.via=sst"))
    assert group_request(both.groups[0], both).separate_ids
    alone = plan_of(via="ssc")
    assert not group_request(alone.groups[0], alone).separate_ids


@pytest.mark.parametrize(("own", "option"), [("1", "--cpus-per-task=1"), ("0", "--overlap")])
def test_a_line_has_cores_of_its_own_where_all_its_stages_do(plan_of: Planner, own: str, option: str) -> None:
    site = SITE.model_copy(update={"launcher": "srun"})
    plan = plan_of(via="ssc", site=site, sets=(f"stages.keep.place.cores_per_rank={own}",))
    assert option in launch_line(group_request(plan.groups[0], plan)).argv


def test_a_new_launcher_is_one_entry_of_the_table(
    plan_of: Planner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def line(request: LaunchRequest) -> LaunchLine:
        return LaunchLine([request.executable, *request.arguments, str(request.ranks), *request.programs[0].argv])

    monkeypatch.setitem(LAUNCHERS, "throw", Launcher(line, executable="throw"))
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites/own.yaml").write_text("site: own\nsummary: mine\nlauncher: throw\nlauncher_args: [far]\n")
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    plan = plan_of(site=load_site("own"), sets=("stages.walk.ranks=3", "oversubscribe=true"))
    assert plan.stage("walk").launch == LaunchPlan(launcher="throw", executable="throw", arguments=["far"])
    assert line_of(plan, "walk") == ["throw", "far", "3", *plan.stage("walk").program]
    with pytest.raises(SpecError, match="site own has throw, which starts one program"):
        plan_of(site=load_site("own"), via="ssc")


def test_an_unknown_launcher_is_refused_with_those_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites/own.yaml").write_text("site: own\nsummary: mine\nlauncher: mpirun\n")
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    with pytest.raises(SpecError) as caught:
        load_site("own")
    message = ':3:11: launcher: there is no launcher "mpirun"\n  launchers: `none`, `mpiexec`, `srun`'
    assert str(caught.value).endswith(message)


def test_no_other_room_names_a_launcher() -> None:
    names = {launcher.executable for launcher in LAUNCHERS.values() if launcher.executable}
    package = Path(workflow.__file__).parent
    for path in package.rglob("*.py"):
        if path.parent != package / "launch":
            words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            assert not names & {word for word in words if isinstance(word, str)}, path
