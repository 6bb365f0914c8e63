"""Which sites there are, and which of them this machine is."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.fake_schedulers import FakeScheduler
from tests.support.planner import CHAIN, COMPONENTS, HEAD
from workflow.api.plans import find_site, make_plan
from workflow.cli.json_output import SiteList
from workflow.cli.main import wf
from workflow.errors import RunError, SpecError, WfError
from workflow.launch.allocation import Allocation, Host
from workflow.site.load_site import better_site, detected_sites, known_sites, load_site, site_for, site_here
from workflow.spec import shipped
from workflow.spec.load import Loaded, load_pipeline
from workflow.submit.submission import check_submission

LOCAL = Allocation("local", "", (Host("laptop", 2),))
JOB = Allocation("slurm", "7", (Host("n1", 4), Host("n2", 4), Host("n3", 4)))


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [COMPONENTS])


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sites").mkdir()
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    return tmp_path / "sites"


def loaded(folder: Path, site: str) -> Loaded:
    (folder / "pipeline.yaml").write_text(HEAD + CHAIN)
    return load_pipeline(folder / "pipeline.yaml", site=site)


def test_a_machine_is_recognised_by_its_files(monkeypatch: pytest.MonkeyPatch, own: Path) -> None:
    assert detected_sites() == []
    monkeypatch.setenv("LMOD_SYSTEM_NAME", "frontier")
    assert detected_sites() == ["frontier"]
    (own / "wrong.yaml").write_text("site: wrong\n")
    (own / "frontier.yaml").write_text("site: frontier\nextends: frontier\nsubmit: {account: A}\n")
    (own / "mine.yaml").write_text("site: mine\nsummary: s\ndetect: [{variable: LMOD_SYSTEM_NAME}]\n")
    assert detected_sites() == ["frontier", "mine"]
    by_name = {site.name: site for site in known_sites()}
    assert by_name["wrong"].file is None
    assert [problem.message for problem in by_name["wrong"].problems] == ["is missing"]
    assert by_name["frontier"].files == (own / "frontier.yaml", shipped.SHIPPED / "configs/sites/frontier.yaml")


def test_what_auto_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert site_here(LOCAL) == "local"
    assert site_here(JOB) == "slurm"
    monkeypatch.setenv("SYSTEMNAME", "juwelsbooster")
    assert site_here(JOB) == site_here(LOCAL) == "juwels-booster"
    monkeypatch.delenv("SYSTEMNAME")
    monkeypatch.setenv("NERSC_HOST", "perlmutter")
    with pytest.raises(WfError, match="site auto: this machine is `perlmutter-cpu` or `perlmutter-gpu`"):
        site_here(LOCAL)


def test_auto_in_a_pipeline(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, "auto")
    assert find_site(pipeline, LOCAL).site == "local"
    site = find_site(pipeline, JOB)
    assert (site.site, site.nodes, make_plan(pipeline, site).site) == ("slurm", 3, "slurm")


def test_one_machine_inside_of_a_job_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (site_for(JOB, "local"), site_for(JOB, "frontier"), site_for(LOCAL, "local")) == ("slurm", "", "")
    assert better_site(LOCAL, "local") is None
    pipeline = loaded(tmp_path, "local")
    one = find_site(pipeline, JOB).model_copy(update={"cores_per_node": 1})
    with pytest.raises(SpecError) as caught:
        make_plan(pipeline, one, JOB)
    assert [str(each) for each in caught.value.problems if each.level == "note"] == [
        "note: site local is one machine, and the job has 3 nodes\n  use them: `--site slurm`"
    ]
    monkeypatch.setenv("LMOD_SYSTEM_NAME", "frontier")
    assert site_for(JOB, "local") == "frontier"


def test_a_job_of_fewer_nodes_than_the_plan_needs(tmp_path: Path, own: Path) -> None:
    (own / "four.yaml").write_text(
        "site: four\nsummary: s\nnodes: 4\ncores_per_node: 4\nmemory_per_node: 8 GiB\n"
        "launcher: srun\nlaunch_single: true\n"
    )
    loaded(tmp_path, "four")
    sets = ["stages.walk.ranks=12", "stages.walk.place.nodes=3"]
    pipeline = load_pipeline(tmp_path / "pipeline.yaml", site="four", sets=sets)
    for hosts in (1, 2, 3):
        pair = Allocation("slurm", "9", tuple(Host(f"n{i}", 4) for i in range(hosts)))
        with pytest.raises(SpecError) as caught:
            make_plan(pipeline, find_site(pipeline, pair), pair)
        (problem,) = caught.value.problems
        assert problem.message.startswith(f"the plan needs 4 nodes, and Slurm job 9 has {hosts}: n0")
        assert "ask for 4: `sbatch --nodes=4` or `salloc -N4`" in problem.hint
    sets[1] = "stages.walk.place.nodes=5"
    pipeline = load_pipeline(tmp_path / "pipeline.yaml", site="four", sets=sets)
    with pytest.raises(SpecError, match="site four has 4 nodes, not 5"):
        make_plan(pipeline, find_site(pipeline, pair), pair)


def test_no_job_for_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: Path) -> None:
    loaded(tmp_path, "frontier")
    pipeline, runs = str(tmp_path / "pipeline.yaml"), str(tmp_path / "run")
    given = [pipeline, "--site", "frontier", "--detach"]
    assert CliRunner().invoke(wf, ["plan", *given[:-1]]).exit_code == 0, "a plan may be for any machine"
    ended = CliRunner().invoke(wf, ["run", *given, "--run-dir", runs])
    assert isinstance(ended.exception, RunError) and not Path(runs).exists()
    assert str(ended.exception) == (
        "this machine is not frontier: LMOD_SYSTEM_NAME=frontier was not found here\n  `wf sites` shows which site is "
        "here; if it is, write a site file of your own with `extends: frontier` and `detect: []`"
    )
    with pytest.raises(RunError, match=r"this machine is not aurora: host aurora-uan-\*, or PBS_JOBID=.*-pbs-"):
        check_submission(make_plan(loaded(tmp_path, "aurora")), load_site("aurora"), tmp_path)
    (own / "frontier.yaml").write_text("site: frontier\nextends: frontier\ndetect: []\n")
    pipeline_here = loaded(tmp_path, "frontier")
    plan, site = make_plan(pipeline_here), find_site(pipeline_here, LOCAL)
    with pytest.raises(RunError, match="sbatch is not on PATH"):
        check_submission(plan, site, tmp_path)
    monkeypatch.setenv("PATH", FakeScheduler(tmp_path / "bin").path)
    check_submission(plan, site, tmp_path)


def test_the_list(monkeypatch: pytest.MonkeyPatch, own: Path) -> None:
    monkeypatch.setenv("LMOD_SYSTEM_NAME", "frontier")
    (own / "wrong.yaml").write_text("site: wrong\n")
    result = CliRunner().invoke(wf, ["sites"])
    rows = {line.split()[0]: line for line in result.output.splitlines() if line.strip()}
    assert result.exit_code == 0
    assert "9472 × 56 of 64" in rows["frontier"] and " yes " in rows["frontier"] and "comes with wf" in rows["frontier"]
    assert " yes " in rows["frontier-64"], "it is on the same machine"
    assert " yes " not in rows["andes"]
    assert "its file is wrong" in rows["wrong"] and str(own / "wrong.yaml") in rows["wrong"]
    sites = {
        site.name: site
        for site in SiteList.model_validate_json(CliRunner().invoke(wf, ["sites", "--json"]).output).sites
    }
    assert (sites["frontier"].here, sites["frontier"].usable_cores, sites["frontier"].gpus_per_node) == (True, 56, 8)
    assert (sites["slurm"].nodes, sites["slurm"].cores_per_node) == (None, None)
    assert [problem.message for problem in sites["wrong"].problems] == ["is missing"]


def test_one_site(own: Path) -> None:
    output = CliRunner().invoke(wf, ["sites", "frontier"]).output
    for text in (
        "kept by the system: cores 0,8,16",
        "GPU 4: cores 0-7, cxi2",
        "1 to 91 nodes 2 h",
        "PMI_MMAP_SYNC_WAIT_TIME=600",
    ):
        assert text in output, text
    (own / "wrong.yaml").write_text("site: wrong\n")
    assert isinstance(CliRunner().invoke(wf, ["sites", "wrong"]).exception, SpecError)
    with pytest.raises(WfError, match="did you mean `frontier`"):
        CliRunner().invoke(wf, ["sites", "fronteir"], catch_exceptions=False)


def test_a_node_is_probed_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    printed = run.invoke(wf, ["site", "probe", "--name", "here"])
    assert printed.exit_code == 0 and "\nsite: here\n" in printed.stdout
    written = run.invoke(wf, ["site", "probe", "--write", "my machine.yaml"])
    assert "wrote my machine.yaml" in written.stdout and "wf finds no batch job on this node" in written.stderr
    assert find_site(loaded(tmp_path, "./my machine.yaml"), LOCAL).site == "my-machine"
    again = run.invoke(wf, ["site", "probe", "--write", "my machine.yaml"])
    assert isinstance(again.exception, WfError) and again.exception.message == "my machine.yaml exists"
