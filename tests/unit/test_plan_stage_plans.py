"""Programs, environment and files of stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planner import COMPONENTS, SITE, Planner, line_of, with_launcher
from workflow.errors import SpecError
from workflow.plan.plan_model import LaunchPlan
from workflow.run.records.run_directory import fill_plan

OWN = """
stages:
  sim:
    command: [./sim, -n, 4, --fast, true, "${{ streams.field.path }}", "${{ streams.field.engine }}"]
    ranks: 2
    writes: {field: {io: Out, config: cfg/adios2.xml}}
    reads: {start: {io: In, config: cfg/adios2.xml}}
    files: {input/settings.json: settings.in, table.bin: table.bin}
    env: {OMP_NUM_THREADS: 3, OUT: "${{ stage.dir }}/${{ stage.name }}", FAST: true}
  first: {command: [python3, -m, first, "${{ streams.start.config }}"], writes: {start: {io: F, config: f.yaml}}}
  keep: {component: keep}
streams:
  start: {from: first, to: sim}
  field: {from: sim, to: keep}
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "settings.in").write_text(
        '{"out": "${{ streams.field.path }}", "tpl": "$${{ x }}", "n": ${{ stage.ranks }}}'
    )
    (tmp_path / "table.bin").write_bytes(b"\xff\xfe\x00")
    return OWN


def test_command(plan_of: Planner, own: str, tmp_path: Path) -> None:
    plan = plan_of(own)
    sim = plan.stage("sim")
    field = "${{ run.dir }}/streams/field"
    assert sim.program == [f"{tmp_path}/sim", "-n", "4", "--fast", "true", field, "SST"]
    assert line_of(plan, "sim") == ["/env/bin/mpiexec", "-n", "2", "-bind-to", "user:0,1", *sim.program]
    assert (sim.launch.launcher, sim.kind, sim.observed) == ("mpiexec", "analysis", "evidence")
    assert sim.cwd == "${{ run.dir }}/stages/sim/work"
    first = plan.stage("first")
    assert first.program == ["python3", "-m", "first", "${{ run.dir }}/stages/first/work/f.yaml"]
    assert (first.launch, line_of(plan, "first")) == (LaunchPlan(launcher="none"), first.program)


def test_programs_with_a_slash_are_relative_to_the_file(plan_of: Planner, own: str, tmp_path: Path) -> None:
    for word, program in [
        ("bin/sim", f"{tmp_path}/bin/sim"), ("../sim", f"{tmp_path}/../sim"), ("/opt/sim", "/opt/sim"), ("sim", "sim"),
        ('"${{ pipeline.dir }}/sim"', f"{tmp_path}/sim"), ('"${{ run.dir }}/sim"', "${{ run.dir }}/sim"),
        ('"${{ wf.python }}"', "/env/bin/python"),
    ]:  # fmt: skip
        assert plan_of(own.replace("./sim", word)).stage("sim").program[0] == program


def test_environment(plan_of: Planner, own: str) -> None:
    plan = plan_of(own, site=SITE.model_copy(update={"env": {"FI_PROVIDER": "tcp", "OMP_NUM_THREADS": "1"}}))
    assert plan.stage("sim").env == {
        "FI_PROVIDER": "tcp",
        "OMP_NUM_THREADS": "3",
        "PYTHONUNBUFFERED": "1",
        "SstVerbose": "3",
        "OUT": "${{ run.dir }}/stages/sim/work/sim",
        "FAST": "true",
    }
    keep = plan_of(own).stage("keep").env
    assert keep["WF_STAGE"] == "${{ run.dir }}/stages/keep/stage.json"
    assert keep["OMP_NUM_THREADS"] == "1"
    threads = plan_of(sets=("stages.walk.place.cores_per_rank=2", "stages.walk.env={SstVerbose: 5}")).stage("walk").env
    assert (threads["OMP_NUM_THREADS"], threads["SstVerbose"]) == ("2", "5")


def test_files(plan_of: Planner, own: str, tmp_path: Path) -> None:
    sim = plan_of(own).stage("sim")
    work = "${{ run.dir }}/stages/sim/work"
    assert sim.copies == {f"{work}/table.bin": str(tmp_path / "table.bin")}
    assert set(sim.files) == {f"{work}/cfg/adios2.xml", f"{work}/input/settings.json"}
    assert sim.files[f"{work}/input/settings.json"] == (
        '{"out": "${{ run.dir }}/streams/field", "tpl": "$${{ x }}", "n": 2}'
    )
    config = sim.files[f"{work}/cfg/adios2.xml"]
    assert config.count("<io name=") == 2
    assert config.index('"In"') < config.index('"Out"')  # in the order of the streams


def test_a_placeholder_in_a_file_is_shown_in_that_file(plan_of: Planner, own: str, tmp_path: Path) -> None:
    (tmp_path / "settings.in").write_text("a\n  b = ${{ streams.feild.path }}\n")
    with pytest.raises(SpecError) as caught:
        plan_of(own)
    (problem,) = caught.value.problems
    assert (problem.source, problem.line, problem.column) == (str(tmp_path / "settings.in"), 2, 7)
    assert "did you mean `streams.field.path`" in problem.hint


def test_component(plan_of: Planner) -> None:
    plan = plan_of(sets=("stages.keep.with.path=deep/kept.bp",))
    keep, walk = plan.stage("keep"), plan.stage("walk")
    assert keep.program == ["/env/bin/python", str(COMPONENTS / "keep/program.py")]
    assert keep.parameters["path"] == "${{ run.dir }}/deep/kept.bp"
    assert (keep.kind, walk.kind, plan.stage("count").kind) == ("sink", "simulation", "analysis")
    assert walk.parameters["script"] == str(COMPONENTS / "walker/walk.txt")
    assert walk.parameters["box"] == [1.0, 1.0, 1.0]
    assert {stage.observed for stage in plan.stages} == {"metrics"}
    absolute = plan_of(sets=("stages.keep.with.path=/data/kept.bp",)).stage("keep")
    assert absolute.parameters["path"] == "/data/kept.bp"
    told = plan_of(sets=("stages.keep.with.path='${{ stage.dir }}/kept.bp'",)).stage("keep")
    assert told.parameters["path"] == "${{ run.dir }}/stages/keep/work/kept.bp"


def test_names_of_variables_come_from_parameters(plan_of: Planner) -> None:
    ends = plan_of().stage("count").ends
    assert list(ends[0].variables) == ["position"]
    assert ends[1].variables["counts"].shape == [10]
    more = plan_of(sets=("stages.count.with.bins=7",)).stage("count").ends
    assert more[1].variables["counts"].shape == [7]


def test_a_launcher_for_every_stage(plan_of: Planner) -> None:
    srun = with_launcher("srun", launch_single=True, launcher_args=["--mpi=pmi2"])
    plan = plan_of(site=srun)
    walk, argv = plan.stage("walk"), line_of(plan, "walk")
    assert walk.launch == LaunchPlan(launcher="srun", executable="srun", arguments=["--mpi=pmi2"])
    assert argv[argv.index("--mpi=pmi2") + 1 :] == walk.program
    bare = SITE.model_copy(update={"launcher": "none"})
    assert line_of(plan_of(site=bare), "walk")[0] == "/env/bin/python"
    with pytest.raises(SpecError, match="has no launcher"):
        plan_of(sets=("stages.walk.ranks=2",), site=bare)


def test_ports_without_io_are_opened_by_workflow_stage(plan_of: Planner) -> None:
    text = """
stages:
  sim: {command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py"], writes: {field: {}}}
  keep: {component: keep}
streams:
  field: {from: sim, to: keep}
"""
    plan = plan_of(text)
    assert plan.stage("sim").observed == "metrics"
    assert plan.stage("sim").ends[0].io == "field"
    assert not plan.advice


def test_programs_that_are_told_nothing_are_mentioned(plan_of: Planner) -> None:
    text = """
stages:
  sim: {command: [./sim], writes: {field: {io: Out}}}
  look: {command: [./look, "${{ streams.field.path }}"]}
streams:
  field: {from: sim, to: look}
"""
    plan = plan_of(text)
    advice = "\n".join(plan.advice)
    assert "stage sim: nothing in its command, env or files uses `${{ streams.field.path }}`" in advice
    assert "stage look: nothing" not in advice
    assert "stage sim: no config file for stream field" in advice
    assert fill_plan(plan, Path("/runs/1")).advice == plan.advice  # it speaks of placeholders and is not filled


def test_only_interpreters_are_asked_for_their_script(plan_of: Planner) -> None:
    for command in (
        "[./gen, out.py]",
        "[python3, -c, pass]",
        "[bash, /opt/run.sh]",
        '[sh, "${{ pipeline.dir }}/run.sh"]',
    ):
        assert plan_of(f"stages: {{one: {{command: {command}}}}}\n").advice == []
    with pytest.raises(SpecError, match=r"`run\.sh` is not there"):
        plan_of("stages: {one: {command: [/bin/bash, run.sh]}}\n")
    with pytest.raises(SpecError, match=r"`look\.py` is not there"):
        plan_of('stages: {one: {command: ["${{ wf.python }}", look.py]}}\n')
