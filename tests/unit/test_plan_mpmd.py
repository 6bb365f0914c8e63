"""`via: ssc`: which stages share a launch line, what it is for each launcher, and what is refused."""

from __future__ import annotations

import pytest

from tests.support.planner import CHAIN, SITE, Planner, end_of, line_of, with_launcher
from workflow.errors import SpecError
from workflow.launch.launch_request import LaunchLine
from workflow.launch.launchers import launch_line
from workflow.plan.launch_requests import GrantedNodes, bound_by_wrapper, group_request
from workflow.plan.plan_model import LaunchPlan, Plan
from workflow.report.show.plan_tables import launch_lines
from workflow.site.site_model import Site

SSC = ("streams.*.via=ssc",)
SLURM = with_launcher("srun", nodes=4, launcher_args=["--mpi=pmi2"], launch_single=True)
TWO_PAIRS = """
stages:
  walk: {component: walker}
  count: {component: tally, with: {variable: position}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: count, via: ssc}
  counts: {from: count, to: keep}
"""
SIX = tuple(f"stages.{name}.{key}" for name in ("walk", "count") for key in ("ranks=4", "place.nodes=2"))


def refused(plan_of: Planner, site: Site = SITE, sets: tuple[str, ...] = SSC) -> str:
    with pytest.raises(SpecError) as caught:
        plan_of(site=site, sets=sets)
    return str(caught.value)


def lines_of(plan: Plan) -> LaunchLine:
    """The launch line of the only group."""
    (group,) = plan.groups
    return launch_line(group_request(group, plan))


def wrapped(stage: str) -> list[str]:
    return ["/env/bin/python", "-m", "workflow.launch.mpmd_wrapper", f"${{{{ run.dir }}}}/stages/{stage}"]


def test_a_chain_is_one_line_of_mpiexec(plan_of: Planner) -> None:
    plan = plan_of(sets=(*SSC, "stages.count.ranks=2"))
    (group,) = plan.groups
    assert group.stages == ["walk", "count", "keep"]
    assert group.ranks == {"walk": (0, 1), "count": (1, 2), "keep": (3, 1)}
    assert group.streams == {"positions": ["walk", "count"], "counts": ["count", "keep"]}
    expected = ["/env/bin/mpiexec", "-n", "1", *wrapped("walk"), ":", "-n", "2", *wrapped("count")]
    assert lines_of(plan).argv == [*expected, ":", "-n", "1", *wrapped("keep")]
    for stage in plan.stages:
        assert stage.launch == LaunchPlan(launcher="mpiexec", group="walk", wrapper=wrapped(stage.name))
        assert stage.program[-1].endswith("program.py")
        assert "SSC finds its other end in MPI_COMM_WORLD" in plan.reasons[f"stages.{stage.name}.launcher"]


def test_only_stages_joined_by_ssc_share_a_line(plan_of: Planner) -> None:
    plan = plan_of(TWO_PAIRS)
    assert [group.stages for group in plan.groups] == [["walk", "count"]]
    assert line_of(plan, "keep") == plan.stage("keep").program


def test_without_ssc_there_are_no_groups(plan_of: Planner) -> None:
    assert plan_of().groups == []


def test_several_readers_are_in_the_group(plan_of: Planner) -> None:
    text = CHAIN.replace(
        "  keep: {component: keep}", "  keep: {component: keep}\n  too: {component: keep, with: {path: b}}"
    )
    plan = plan_of(text.replace("to: keep", "to: [keep, too]"), sets=SSC)
    assert plan.groups[0].streams["counts"] == ["count", "keep", "too"]


def test_srun_takes_a_file_of_programs(plan_of: Planner) -> None:
    together = ("stages.count.place.share=walk", "stages.keep.place.share=walk", "oversubscribe=true")
    plan = plan_of(sets=(*SSC, *together, "stages.walk.ranks=3", "stages.keep.place.cores_per_rank=1"), site=SLURM)
    argv, ((path, text),) = lines_of(plan).argv, lines_of(plan).texts().items()
    assert path == "${{ run.dir }}/launches/walk/programs.conf"
    assert argv[0] == "srun"
    assert argv[-4:] == ["--unbuffered", "--mpi=pmi2", "--multi-prog", path]
    assert "--ntasks=5" in argv
    ranks = [line.split()[0] for line in text.splitlines()]
    assert ranks == ["0-2", "3", "4"]
    assert text.splitlines()[1] == "3 /env/bin/python -m workflow.launch.mpmd_wrapper '${{ run.dir }}/stages/count'"


def test_nodes_of_one_line_may_have_different_ranks(plan_of: Planner) -> None:
    """walk has three ranks on two nodes, count two on a third one."""
    apart = ("stages.walk.place.nodes=2", "stages.count.ranks=2", "stages.count.place.nodes=1", "stages.walk.ranks=3")
    for site in (SITE.model_copy(update={"nodes": 4}), SLURM):
        plan = plan_of(TWO_PAIRS, sets=apart, site=site)
        line = launch_line(group_request(plan.groups[0], plan, granted=GrantedNodes(["a", "b", "c", "d"])))
        if site is SLURM:
            assert "--distribution=arbitrary" in line.argv
            assert line.texts()[line.env["SLURM_HOSTFILE"]].split() == ["a", "a", "b", "c", "c"]
        else:
            assert line.argv[1:3] == ["-hosts", "a:2,b:1,c:2"]
        assert bound_by_wrapper(plan.groups[0], plan), "the first rank of a node is one of walk, or one of count"
    same = plan_of(TWO_PAIRS, sets=(*apart, "stages.walk.ranks=4"), site=SITE.model_copy(update={"nodes": 4}))
    assert lines_of(same).argv[1:5] == ["-ppn", "2", "-bind-to", "user:0,1"]


def test_needs_a_launcher(plan_of: Planner) -> None:
    message = refused(plan_of, SITE.model_copy(update={"launcher": "none"}))
    assert "SSC joins programs of one MPI launch, and site test has no launcher" in message


def test_needs_an_adios2_with_mpi(plan_of: Planner) -> None:
    message = refused(plan_of, SITE.model_copy(update={"planes": ["tcp"], "seen": {"planes": "linked by lib.so"}}))
    assert "the ADIOS2 of this Python has no MPI (linked by lib.so), and SSC moves data by it" in message
    assert "`make adios2-mpi` builds one with MPI, then run `.venv-mpi/bin/wf`; or `via: sst`" in message


def test_its_ends_hold_one_step_and_leave_nothing(plan_of: Planner) -> None:
    plan = plan_of(sets=SSC)
    stream = plan.stream("positions")
    assert (stream.engine, stream.queue and stream.queue.limit, stream.on_disk) == ("SSC", 1, [])
    assert end_of(plan, "count", "positions").parameters == {}


def test_a_queue_of_the_file_may_stay_when_via_is_chosen_over_it(plan_of: Planner) -> None:
    text = CHAIN.replace("to: keep}", "to: keep, queue: {limit: 3}, transport: tcp}")
    plan = plan_of(text, via="ssc")
    assert "SSC has none and holds one step" in plan.reasons["streams.counts.queue"]


def test_people_see_one_line_and_what_each_stage_is_there(plan_of: Planner) -> None:
    lines = launch_lines(plan_of(TWO_PAIRS))
    assert [names.strip() for names, _ in lines] == ["walk, count", "walk there", "count there", "keep"]
    assert lines[0][1][:5] == ["/env/bin/mpiexec", "-bind-to", "user:0,1", "-n", "1"]
    assert lines[1][1][-1].endswith("walker/program.py")
