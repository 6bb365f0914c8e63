"""The placement that was found against the one that was planned: each mistake of a launcher, and no false alarm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from tests.support.chains import chain
from tests.support.imagined_run import Run, verdict_of
from workflow.run.nodes.lost_nodes import RankSeen
from workflow.run.proof.compare_placement import PlacementDifference, RankWatch, compare_placement, under_policy
from workflow.run.proof.placement_probe import ConcurrentStages, NodeFound, PlannedStage, RankFound, parse_answer
from workflow.run.proof.proof_processes import ProofDeadlines
from workflow.run.proof.smoke_streams import SmokeOutput, judge_smoke, other_transport, untested
from workflow.run.state.events import Interrupted, ProofTaken
from workflow.spec.models.pipeline import ProofByAspect, ProofPolicy

# Two stages of four ranks on two nodes of eight cores, with two cores for each rank; `saxs` has the upper half.
MD = PlannedStage("md", 4, 2, 2, ["n1", "n2"], [[0, 1], [2, 3]], 2, True)
SAXS = PlannedStage("saxs", 4, 2, 2, ["n1", "n2"], [[4, 5], [6, 7]], 2, True)
NODES = {
    host: NodeFound(host, tuple(range(8)), numa=((0, 1, 2, 3), (4, 5, 6, 7)), l3=((0, 1, 2, 3), (4, 5, 6, 7)))
    for host in ("n1", "n2", "n3")
}
BOTH = ConcurrentStages({"md": [], "saxs": []})


def as_planned(plan: PlannedStage) -> list[RankFound]:
    return [
        RankFound(plan.stage, rank, plan.hosts[rank // plan.ranks_per_node], tuple(sorted(plan.cores_of(rank))))
        for rank in range(plan.ranks)
    ]


def with_rank(plan: PlannedStage, number: int, **changes: object) -> list[RankFound]:
    return [replace(rank, **changes) if rank.rank == number else rank for rank in as_planned(plan)]  # type: ignore[arg-type]


def compare(
    planned: Sequence[PlannedStage], found: Iterable[RankFound], concurrent: ConcurrentStages = BOTH
) -> list[tuple[str, str, str]]:
    return [(each.level, each.stage, each.text) for each in compare_placement(planned, found, NODES, concurrent)]


def error(stage: str, text: str) -> list[tuple[str, str, str]]:
    return [("error", stage, text)]


def test_placement_as_planned_differs_in_nothing() -> None:
    assert compare([MD, SAXS], [*as_planned(MD), *as_planned(SAXS)]) == []


def test_name_of_a_node_may_have_its_domain() -> None:
    found = [replace(rank, host=f"{rank.host}.site.org") for rank in as_planned(MD)]
    assert compare([MD], found) == []


def test_launcher_that_ignored_the_binding() -> None:
    found = [replace(rank, cores=tuple(range(8))) for rank in as_planned(MD)]
    text = "rank 0 of md may use all cores 0-7 of n1, the plan binds it to cores 0-1: its launcher has not bound it"
    assert compare([MD], found) == error("md", f"{text} (and 3 more ranks)")


def test_rank_on_other_cores() -> None:
    found = with_rank(MD, 3, cores=(4, 5))
    assert compare([MD], found) == error("md", "rank 3 of md may use cores 4-5 of n2, the plan binds it to cores 2-3")


def test_rank_on_a_part_of_its_cores() -> None:
    assert compare([MD], with_rank(MD, 1, cores=(2,))) == error(
        "md", "rank 1 of md may use only core 2 of n1, the plan has cores 2-3"
    )


def test_two_stages_on_one_core() -> None:
    """The launcher numbers the cores of each stage from 0."""
    unbound = replace(SAXS, cores=[[0, 1], [2, 3]])
    texts = compare([MD, unbound], [*as_planned(MD), *as_planned(unbound)])
    assert texts == error("saxs", "core 0 of n1 has rank 0 of md and rank 0 of saxs (and 7 more cores)")


def test_stages_that_never_meet_may_have_the_same_cores() -> None:
    later = replace(SAXS, cores=[[0, 1], [2, 3]])
    concurrent = ConcurrentStages({"md": [], "keep": ["md"], "saxs": ["keep"]})
    assert compare([MD, later], [*as_planned(MD), *as_planned(later)], concurrent) == []


def test_two_ranks_of_a_stage_on_one_core() -> None:
    texts = compare([MD], with_rank(MD, 1, cores=(0, 1)))
    assert ("error", "md", "core 0 of n1 has rank 0 of md and rank 1 of md (and 1 more core)") in texts


def test_threads_of_a_core_are_that_core() -> None:
    nodes = {host: replace(node, siblings=tuple((core, core + 8) for core in range(8))) for host, node in NODES.items()}
    found = [replace(rank, cores=(*rank.cores, *(core + 8 for core in rank.cores))) for rank in as_planned(MD)]
    assert compare_placement([MD], found, nodes, BOTH) == []
    only_second = [replace(rank, cores=tuple(core + 8 for core in rank.cores)) for rank in as_planned(MD)]
    assert compare_placement([MD], only_second, nodes, BOTH) == []


def test_rank_on_the_wrong_node() -> None:
    text = "rank 2 of md is on n3, the plan has it on n2"
    assert compare([MD], with_rank(MD, 2, host="n3")) == error("md", text)


def test_ranks_in_turn_instead_of_blocks() -> None:
    found = [replace(rank, host=("n1", "n2")[rank.rank % 2]) for rank in as_planned(MD)]
    (difference,) = compare([replace(MD, cores=[], own_cores=False)], found)
    assert difference[2] == "rank 1 of md is on n2, the plan has it on n1 (and 1 more rank)"


def test_fewer_nodes_than_asked() -> None:
    found = [replace(rank, host="n1") for rank in as_planned(MD)]
    assert ("error", "md", "md runs on 1 node (n1), the plan has 2 (n1, n2)") in compare([MD], found)


def test_ranks_that_did_not_answer() -> None:
    found = as_planned(MD)[:2]
    assert compare([MD], found) == error("md", "2 of 4 ranks of md answered: ranks 2-3 did not")


def test_more_ranks_than_planned() -> None:
    found = [*as_planned(MD), replace(as_planned(MD)[3], rank=4)]
    assert ("error", "md", "md was started with 5 ranks, the plan has 4") in compare([MD], found)


def test_launcher_that_chose_cores_of_two_caches() -> None:
    """The plan leaves the choice to the launcher."""
    plan = replace(MD, cores=[])
    found = [replace(rank, cores=(3, 4) if rank.rank == 1 else rank.cores) for rank in as_planned(MD)]
    assert compare([plan], found) == [
        ("warning", "md", "rank 1 of md uses 2 L3 caches of n1 with cores 3-4"),
        ("warning", "md", "rank 1 of md uses 2 NUMA domains of n1 with cores 3-4"),
    ]


def test_rank_that_needs_two_caches_may_have_them() -> None:
    wide = PlannedStage("md", 2, 2, 1, ["n1", "n2"], [[0, 1, 2, 3, 4]], 5)
    assert compare([wide], as_planned(wide)) == []


def test_stage_without_cores_of_its_own_may_run_anywhere() -> None:
    sink = PlannedStage("keep", 1, 1, 1, ["n1"])
    found = RankFound("keep", 0, "n1", tuple(range(8)))
    assert compare([MD, sink], [*as_planned(MD), found], ConcurrentStages({"md": [], "keep": []})) == []


GPUS = replace(MD, gpus=[[0], [1]])


def on_gpus(*values: str) -> list[RankFound]:
    return [
        replace(rank, gpus={"ROCR_VISIBLE_DEVICES": value} if value else {})
        for rank, value in zip(as_planned(GPUS), values, strict=True)
    ]


def test_gpus_as_planned() -> None:
    assert compare([GPUS], on_gpus("0", "1", "0", "1")) == []


def test_gpu_that_two_ranks_see() -> None:
    texts = compare([GPUS], on_gpus("0", "0", "0", "1"))
    assert texts == error("md", "GPU 0 of n1 is seen by rank 0 of md and rank 1 of md")


def test_rank_that_sees_another_number_of_gpus() -> None:
    (first, *_) = compare([GPUS], on_gpus("0,1", "1", "0", "1"))
    assert first == ("error", "md", "rank 0 of md sees 2 GPUs of n1, the plan has 1")


def test_rank_that_is_not_restricted_to_its_gpus() -> None:
    texts = compare([GPUS], on_gpus("", "", "", ""))
    assert texts == error(
        "md", "rank 0 of md is not restricted to its GPUs: no variable of its launcher names any (and 3 more ranks)"
    )


@pytest.mark.parametrize("line", [b"srun: error: n3", b'{"node":"n1"}', b'{"node":"n1","stage":"md"}', b"[]", b""])
def test_lines_of_launchers_are_no_answers(line: bytes) -> None:
    assert parse_answer(line) is None


def output(host: str, *lines: str, log: str = "", ended: str = "") -> SmokeOutput:
    return SmokeOutput(host, [(0.1 * number, line.encode()) for number, line in enumerate(lines)], log, ended)


STEPS = ('{"opened": true}', '{"step": 0}', '{"step": 1}', '{"step": 2}', '{"done": true}')


def test_stream_that_crosses() -> None:
    tried = judge_smoke("atoms", "tcp", [output("n1", *STEPS), output("n3", *STEPS)], 10.0)
    assert (tried.seconds, tried.text) == (0.3, "")


def test_stream_that_does_not_cross_has_the_line_of_the_log_that_says_why() -> None:
    log = "Param -   verbose=2\n[n3] ucp_get_nbx() with: Endpoint timeout\nsummary info:\n\tTimesteps Consumed = 0\n"
    ends = [output("n1", *STEPS), output("n3", '{"opened": true}', log=log)]
    tried = judge_smoke("atoms", "ucx", ends, 10.0)
    assert tried.seconds is None
    assert tried.text == (
        "stream atoms: no step crossed from n1 to n3 in 10 s by ucx: [n3] ucp_get_nbx() with: Endpoint timeout"
    )


def test_stream_whose_data_does_not_come() -> None:
    """The steps are announced by TCP, the data go by another way. The launcher's last words are no cause."""
    log = "Param -   OpenTimeoutSecs=60 (timed out)\nsrun: error: n3: task 0: Killed\n"
    ends = [output("n1", *STEPS), output("n3", '{"opened": true}', '{"announced": 0}', log=log)]
    text = judge_smoke("atoms", "ucx", ends, 10.0).text
    assert text.endswith("by ucx: step 0 was announced to the reader, its data did not come")


def test_stream_whose_writer_ends_early() -> None:
    ends = [output("n1", ended="exit code 139"), output("n3", '{"opened": true}', '{"step": 0}')]
    text = judge_smoke("atoms", "tcp", ends, 10.0).text
    assert text == (
        "stream atoms: only 1 of 3 steps crossed from n1 to n3 in 10 s by tcp: its writer could not open it "
        "(exit code 139)"
    )


def test_stream_that_crosses_by_another_transport_than_planned() -> None:
    """As ADIOS2 2.12.1 logs it with SstVerbose=2."""
    log = 'Warning:  Preferred DataPlane "rdma" is not available.\nSelecting DataPlane "evpath", priority 1 for use\n'
    tried = judge_smoke("atoms", "rdma", [output("n1", *STEPS, log=log), output("n3", *STEPS)], 10.0)
    assert (tried.seconds, tried.taken) == (0.3, "tcp")
    assert other_transport(tried, "rdma") == ("stream atoms: transport rdma is planned, but ADIOS2 took tcp on n1")
    assert other_transport(tried, "tcp") == other_transport(tried, None) == ""


def test_stream_whose_log_names_no_transport_is_not_said_to_have_another_one() -> None:
    tried = judge_smoke("atoms", "rdma", [output("n1", *STEPS), output("n3", *STEPS)], 10.0)
    assert other_transport(tried, "rdma") == ""


def test_stream_without_adios2_is_not_tried() -> None:
    ends = [output("n1", '{"untested": "python has no adios2"}'), output("n3", *STEPS)]
    assert untested(ends) == "python has no adios2"


def proving() -> Run:
    """A run that waits for its proof."""
    return Run(chain("sst"), proves=True)


def test_stages_start_when_the_placement_is_proved() -> None:
    run = proving().tick(0.5)
    assert run.started == []
    run.feed(ProofTaken(1, "proved", 4, 12, 0.8))
    assert run.started == ["md", "saxs", "keep"]


def test_warnings_start_the_stages_all_the_same() -> None:
    assert proving().feed(ProofTaken(1, "differs", 4, 12, 0.8, ["something"])).started == ["md", "saxs", "keep"]


def test_refused_placement_starts_nothing() -> None:
    run = proving().feed(ProofTaken(1, "refused", 4, 12, 0.8, ["rank 2 of md is on n3", "more"], "md"))
    assert run.started == []
    assert verdict_of(run) == (
        "failed",
        "md",
        "the stages were not started: rank 2 of md is on n3; 1 more difference: proof.json (to start anyway: "
        "`--set proof=warn`)",
    )


def test_ctrl_c_ends_a_run_that_is_being_proved() -> None:
    run = proving().feed(Interrupted(0.5, "SIGINT"))
    assert run.started == []
    assert verdict_of(run) == ("interrupted", "", "interrupted by SIGINT")


def rank_seen(cores: str, *, rank: int = 0) -> RankSeen:
    return RankSeen("md", rank, 0, "n1", 100 + rank, cores)


def test_rank_that_is_bound_anew_is_a_warning_once() -> None:
    watch = RankWatch([MD], NODES)
    assert watch.look([rank_seen("0-1"), rank_seen("0-7", rank=1)], 10.0) == []
    (warning,) = watch.look([], 12.0)
    assert warning.text == (
        "rank 1 of md now may use cores 0-7 of n1, the plan binds it to cores 2-3: its launcher or its program did that"
    )
    assert warning.ranks == [(1, 101, "0-7")]
    assert watch.look([rank_seen("7", rank=1)], 20.0) == watch.look([], 30.0) == []


def test_rank_that_its_launcher_has_not_bound_yet_is_no_warning() -> None:
    watch = RankWatch([MD], NODES)
    watch.look([rank_seen("0-7")], 10.0)
    watch.look([rank_seen("0-1")], 10.5)
    assert watch.look([], 20.0) == []


def test_launch_line_has_the_time_that_the_plan_gives_a_start() -> None:
    deadlines = ProofDeadlines(120.0)
    deadlines.begin("md", 1000.0)
    assert not deadlines.is_over("md", 1119.0)
    assert deadlines.is_over("md", 1120.0)


def test_ranks_that_are_missing_have_10_s_from_the_last_answer() -> None:
    deadlines = ProofDeadlines(120.0)
    deadlines.begin("md", 1000.0)
    for now in (1010.0, 1019.0, 1028.0):
        deadlines.note_answer("md", now)
    assert not deadlines.is_over("md", 1037.9)
    assert deadlines.is_over("md", 1038.0)


def test_ranks_that_are_missing_have_longer_where_the_others_took_long() -> None:
    """Of 72,000 ranks one answers 15 s after the one before it."""
    deadlines = ProofDeadlines(600.0)
    deadlines.begin("md", 1000.0)
    deadlines.note_answer("md", 1100.0)
    assert not deadlines.is_over("md", 1124.9)
    assert deadlines.is_over("md", 1125.0)


def test_stream_has_10_s_to_open_and_10_s_for_its_steps_once_all_its_ends_run() -> None:
    deadlines = ProofDeadlines(120.0)
    deadlines.begin("atoms", 1000.0)
    deadlines.reach("atoms", 0, 1050.0)
    assert not deadlines.is_over("atoms", 1100.0), "an end is still being started"
    deadlines.reach("atoms", 1, 1100.0)
    deadlines.reach("atoms", 1, 1105.0)
    assert deadlines.is_over("atoms", 1110.0)
    deadlines.reach("atoms", 2, 1109.0)
    assert not deadlines.is_over("atoms", 1118.0)
    assert deadlines.is_over("atoms", 1119.0)


def test_topology_is_worked_out_once_for_all_nodes_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    to_cores = NodeFound.to_cores
    monkeypatch.setattr(NodeFound, "to_cores", lambda node, its: calls.append(its) or to_cores(node, its))  # type: ignore[func-returns-value]
    hosts = [f"n{number}" for number in range(500)]
    nodes = {host: replace(NODES["n1"], host=host) for host in hosts}
    plan = replace(MD, ranks=1000, nodes=500, hosts=hosts)
    assert compare_placement([plan], as_planned(plan), nodes, BOTH) == []
    assert len(calls) == 5, "all processors, the cores of two ranks, and two halves: caches and NUMA domains are alike"


NO_STEP = PlacementDifference("error", "md", "stream atoms: no step crossed from n1 to n3", "streams")
UNBOUND = PlacementDifference("error", "md", "rank 0 of md may use all cores", "binding")
ABSENT = PlacementDifference("error", "md", "3 of 4 ranks of md answered", "placement")


@pytest.mark.parametrize(
    ("proof", "left"),
    [
        ("strict", {"streams": "error", "binding": "error", "placement": "error"}),
        ("warn", {"streams": "error", "binding": "warning", "placement": "warning"}),
        (ProofByAspect(binding="warn"), {"streams": "error", "binding": "warning", "placement": "error"}),
        (ProofByAspect(streams="warn"), {"streams": "warning", "binding": "error", "placement": "error"}),
        (ProofByAspect(streams="off"), {"binding": "error", "placement": "error"}),
    ],
)
def test_a_stream_that_does_not_cross_is_a_warning_only_where_streams_are_named(
    proof: ProofPolicy | ProofByAspect, left: dict[str, str]
) -> None:
    found = under_policy([NO_STEP, UNBOUND, ABSENT], proof)
    assert {each.aspect: each.level for each in found} == left


def test_what_ranks_may_use_is_their_binding_and_where_they_are_their_placement() -> None:
    unbound = compare_placement([MD], with_rank(MD, 0, cores=tuple(range(8))), NODES, BOTH)
    assert {each.aspect for each in unbound} == {"binding"}
    moved = compare_placement([MD], with_rank(MD, 0, host="n3"), NODES, BOTH)
    assert {each.aspect for each in moved} == {"placement"}


def test_a_refusal_names_the_aspect_that_would_let_the_run_start() -> None:
    run = proving().feed(ProofTaken(1, "refused", 4, 12, 0.8, [NO_STEP.text], "md", "streams"))
    assert verdict_of(run)[2].endswith("(to start anyway: `--set proof.streams=warn`)")
