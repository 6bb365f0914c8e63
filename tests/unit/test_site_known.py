"""Which sites there are, and which of them this machine is."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.planner import CHAIN, COMPONENTS, HEAD
from workflow.api import find_site, make_plan
from workflow.cli.json_output import SiteList
from workflow.cli.main import wf
from workflow.errors import SpecError, WfError
from workflow.launch.allocation import Allocation, Host
from workflow.site.known_sites import better_site, detected_sites, known_sites, site_for, site_here
from workflow.spec import shipped
from workflow.spec.load import Loaded, load_pipeline

LOCAL = Allocation("local", "", (Host("laptop", 2),))
JOB = Allocation("slurm", "7", (Host("n1", 4), Host("n2", 4), Host("n3", 4)))


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [COMPONENTS])
    for name in ("LMOD_SYSTEM_NAME", "NERSC_HOST", "CLUSTER_NAME", "SYSTEMNAME", "PBS_JOBID"):
        monkeypatch.delenv(name, raising=False)


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
    assert "wrote my machine.yaml" in written.stdout and "this is not a node of a batch job" in written.stderr
    assert find_site(loaded(tmp_path, "./my machine.yaml"), LOCAL).site == "my-machine"
    again = run.invoke(wf, ["site", "probe", "--write", "my machine.yaml"])
    assert isinstance(again.exception, WfError) and again.exception.message == "my machine.yaml exists"
