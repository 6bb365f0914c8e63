"""`place:` on the topology of a site: which cores, GPUs and adapters the ranks of a node get."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.planner import SITE, Planner, line_of, with_launcher
from workflow.core_set import format_cores
from workflow.errors import SpecError
from workflow.launch.launchers import launch_line
from workflow.plan.launch_requests import stage_request
from workflow.plan.placement.rank_cores import beside_devices, inside_domains, side_by_side
from workflow.plan.plan_model import Placement, Plan
from workflow.site.load_site import load_site
from workflow.site.site_model import Gpu, Nic, Site

# Two sockets of eight cores, the first of each reserved; four GPUs in the reverse order; an adapter at each socket.
NODE: dict[str, Any] = {
    "site": "machine", "cores_per_node": 16, "reserved_cores": (0, 8), "numa": [tuple(range(8)), tuple(range(8, 16))],
    "l3": [tuple(range(start, start + 4)) for start in (0, 4, 8, 12)], "gpus_per_node": 4, "gpu_variable": "GPUS",
    "gpus": [Gpu(cores=tuple(range(start, start + 4)), nic=nic) for start, nic in
             ((12, "hsn1"), (8, "hsn1"), (4, "hsn0"), (0, "hsn0"))],
    "nics": [Nic(name="hsn0", cores=tuple(range(8))), Nic(name="hsn1", cores=tuple(range(8, 16)))],
    "launch_single": True,
}  # fmt: skip
MACHINE = with_launcher("srun", nodes=8, **NODE)
FREE = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15]


def parts(placement: Placement) -> list[str]:
    """The cores of each rank of a node."""
    size = placement.cores_per_rank
    return [format_cores(placement.cores[start : start + size]) for start in range(0, len(placement.cores), size)]


def placed(plan_of: Planner, place: str, ranks: int = 1, site: Site = MACHINE, **more: Any) -> Placement:
    return _plan(plan_of, place, ranks, site, **more).stage("walk").placement


def _plan(plan_of: Planner, place: str, ranks: int = 1, site: Site = MACHINE, **more: Any) -> Plan:
    sets = [f"stages.walk.place.{item}" for item in place.split()]
    sets += [f"stages.{key.replace('_', '.', 1)}={value}" for key, value in more.items()]
    return plan_of(sets=(f"stages.walk.ranks={ranks}", *sets), site=site)


def refused(plan_of: Planner, place: str, ranks: int = 1, site: Site = MACHINE, **more: Any) -> str:
    with pytest.raises(SpecError) as caught:
        _plan(plan_of, place, ranks, site, **more)
    return "\n".join(f"{problem.message}; {problem.hint}" for problem in caught.value.problems)


def test_reserved_cores_are_never_planned(plan_of: Planner) -> None:
    assert placed(plan_of, "near=none", ranks=14).cores == FREE
    assert "14 usable on a node" in refused(plan_of, "ranks_per_node=15", ranks=15)


@pytest.mark.parametrize(
    ("place", "ranks", "expected"),
    [
        ("cores_per_rank=3", 4, ["1-3", "4-6", "9-11", "12-14"]),
        ("cores_per_rank=3 near=none", 4, ["1-3", "4-6", "7,9-10", "11-13"]),
        ("cores_per_rank=5", 2, ["1-5", "9-13"]),
        ("cores_per_rank=2 near=l3 order=spread", 4, ["1-2", "4-5", "9-10", "12-13"]),
        ("cores_per_rank=2 near=numa order=spread", 2, ["1-2", "9-10"]),
        ("cores_per_rank=2 near=numa", 2, ["1-2", "3-4"]),
        ("cores_per_rank=2 near=none order=spread", 2, ["1-2", "9-10"]),
        ("order=spread", 2, ["1", "9"]),
    ],
)
def test_ranks_stay_inside_a_domain_where_they_fit(
    plan_of: Planner, place: str, ranks: int, expected: list[str]
) -> None:
    assert parts(placed(plan_of, place, ranks)) == expected


def test_a_preference_gives_way_and_says_so(plan_of: Planner) -> None:
    plan = _plan(plan_of, "cores_per_rank=4 near=l3 nodes=1", ranks=3)
    assert parts(plan.stage("walk").placement) == ["1-4", "5-7,9", "10-13"]
    assert plan.reasons["stages.walk.cores"].endswith("; 3 ranks of 4 cores do not fit as `near: l3` asks")
    flat = MACHINE.model_copy(update={"numa": [], "l3": []})
    reason = _plan(plan_of, "cores_per_rank=2 near=numa", site=flat).reasons["stages.walk.cores"]
    assert reason.endswith("; the site does not describe its NUMA domains")


def test_gpus_in_their_order_with_the_cores_beside_them(plan_of: Planner) -> None:
    place = placed(plan_of, "cores_per_rank=3 gpus_per_rank=1", ranks=4)
    assert (parts(place), place.gpus) == (["12-14", "9-11", "4-6", "1-3"], [0, 1, 2, 3])
    assert place.nics == ["hsn1", "hsn1", "hsn0", "hsn0"]
    reasons = _plan(plan_of, "cores_per_rank=3 gpus_per_rank=1", ranks=4).reasons
    assert reasons["stages.walk.gpus"] == "4 ranks × 1 GPU: 0, 1, 2, 3, which no other stage uses meanwhile"
    assert reasons["stages.walk.cores"].endswith("; nearest to the rank's GPUs")
    wide = placed(plan_of, "cores_per_rank=6 gpus_per_rank=2", ranks=2)
    assert (parts(wide), wide.gpus) == (["9-14", "1-6"], [0, 1, 2, 3])


def test_cores_in_their_order_with_the_gpus_beside_them(plan_of: Planner) -> None:
    place = placed(plan_of, "cores_per_rank=3 gpus_per_rank=1 near=l3", ranks=4)
    assert (parts(place), place.gpus) == (["1-3", "4-6", "9-11", "12-14"], [3, 2, 1, 0])
    assert place.nics == ["hsn0", "hsn0", "hsn1", "hsn1"]


def test_more_cores_than_are_beside_a_gpu_come_from_its_numa_domain(plan_of: Planner) -> None:
    place = placed(plan_of, "cores_per_rank=5 gpus_per_rank=1 nodes=2", ranks=2)
    assert parts(place) == ["9,12-15"]


def test_stages_on_the_same_nodes_have_different_gpus(plan_of: Planner) -> None:
    more: dict[str, Any] = {"count_ranks": "2", "count_place.share": "walk", "count_place.gpus_per_rank": "1"}
    plan = _plan(plan_of, "gpus_per_rank=1 nodes=1", 2, **more)
    assert (plan.stage("walk").placement.gpus, plan.stage("count").placement.gpus) == ([0, 1], [2, 3])
    message = refused(plan_of, "gpus_per_rank=1 nodes=1", 3, **more)
    expected = "5 GPUs are needed at the same time, site machine has 4 on a node: walk 3 ranks × 1 GPU, count 2 ranks"
    assert message.startswith(expected)


def test_nodes_follow_from_cores_and_gpus(plan_of: Planner) -> None:
    assert placed(plan_of, "gpus_per_rank=2", ranks=6).nodes == [(0, 3)]
    assert placed(plan_of, "ranks_per_node=2", ranks=6).nodes == [(0, 3)]
    assert placed(plan_of, "ranks_per_node=2 nodes=3", ranks=6).ranks_per_node == 2
    uneven = _plan(plan_of, "nodes=4", ranks=9)
    assert uneven.stage("walk").placement.nodes == [(0, 3)], "3 ranks on each of 3 nodes"
    assert "stage walk: 9 ranks, 3 on each node, use 3 of 4 nodes" in uneven.advice
    assert not any("of 3 nodes" in line for line in _plan(plan_of, "nodes=3", ranks=9).advice)


def test_what_does_not_fit_says_what_would(plan_of: Planner) -> None:
    message = refused(plan_of, "cores_per_rank=2", 7, count_ranks="4", count_place="{share: walk}")
    assert "18 cores are needed at the same time, site machine has 14 usable on a node" in message
    assert "or 2 nodes: `--set stages.walk.place.nodes=2`" in message
    assert placed(plan_of, "cores_per_rank=2 nodes=2", 7, count_ranks="4", count_place="{share: walk}")


@pytest.mark.parametrize("ranks", [7, 20, 23])
@pytest.mark.parametrize("guest", ["{share: walk, cores_per_rank: 4}", "{share: walk, ranks_per_node: 2}"])
def test_the_nodes_that_a_message_names_are_enough(plan_of: Planner, ranks: int, guest: str) -> None:
    """The guest's cores count, too: its own mistake would be the next message."""
    guests: dict[str, Any] = {"count_ranks": "4", "count_place": guest}
    message = refused(plan_of, "cores_per_rank=5 nodes=1", ranks, **guests)
    found = re.search(r"`--set stages.walk.place.nodes=(\d+)`", message)
    if found is not None:
        assert placed(plan_of, f"cores_per_rank=5 nodes={found[1]}", ranks, **guests)
    assert (found is not None) == (ranks == 7)


def test_no_number_of_nodes_where_the_ranks_of_a_node_are_given(plan_of: Planner) -> None:
    message = refused(plan_of, "cores_per_rank=5 ranks_per_node=4", 8)
    assert "20 cores are needed" in message and "place.nodes=" not in message and "walk.ranks=N" not in message


def test_threads(plan_of: Planner) -> None:
    plan = _plan(plan_of, "cores_per_rank=2 threads_per_rank=4")
    assert (plan.stage("walk").env["OMP_NUM_THREADS"], plan.stage("walk").placement.threads_per_rank) == ("4", 4)
    assert plan.reasons["stages.walk.env.OMP_NUM_THREADS"] == "threads_per_rank is 4"
    assert any("4 threads of each rank share 2 cores: they slow each other down" in each for each in plan.advice)
    smt = MACHINE.model_copy(update={"threads_per_core": 2})
    assert not any("threads" in each for each in _plan(plan_of, "cores_per_rank=2 threads_per_rank=4", site=smt).advice)


def test_adapters(plan_of: Planner) -> None:
    assert placed(plan_of, "nic=none", ranks=2).nics == []
    assert placed(plan_of, "nic=hsn1", ranks=2).nics == ["hsn1", "hsn1"]
    assert placed(plan_of, "cores_per_rank=7", ranks=2).nics == ["hsn0", "hsn1"]
    assert placed(plan_of, "cores_per_rank=0", ranks=2).nics == [], "which one is near is not known"
    assert placed(plan_of, "nic=ib0", site=SITE).nics == ["ib0"], "a site that does not describe its adapters"


def test_an_adapter_that_is_named_is_that_of_ranks_without_cores_too(plan_of: Planner) -> None:
    assert placed(plan_of, "nic=hsn1 cores_per_rank=0", ranks=2).nics == ["hsn1", "hsn1"]
    site = MACHINE.model_copy(update={"planes": ["rdma", "tcp"], "fabric": True})
    sets = ("stages.walk.ranks=2", "stages.walk.place.nic=hsn1", "stages.walk.place.cores_per_rank=0")
    plan = plan_of(sets=(*sets, "streams.positions.transport=rdma"), site=site)
    assert launch_line(stage_request(plan.stage("walk"), plan)).env["FABRIC_IFACE"] == "hsn1"


def test_a_gpu_without_a_known_adapter_leaves_the_choice_to_the_cores(plan_of: Planner) -> None:
    first, *rest = NODE["gpus"]
    site = MACHINE.model_copy(update={"gpus": [first.model_copy(update={"nic": None}), rest[2], *rest[:2]]})
    place = placed(plan_of, "cores_per_rank=3 gpus_per_rank=1", ranks=2, site=site)
    assert (parts(place), place.nics) == (["12-14", "1-3"], ["hsn1", "hsn0"])


def test_the_adapter_of_a_gpu_comes_before_the_one_that_is_near_to_the_cores(plan_of: Planner) -> None:
    gpus = [gpu.model_copy(update={"nic": "hsn0"}) for gpu in NODE["gpus"]]
    place = placed(plan_of, "cores_per_rank=3 gpus_per_rank=1", ranks=2, site=MACHINE.model_copy(update={"gpus": gpus}))
    assert (parts(place), place.nics) == (["12-14", "9-11"], ["hsn0", "hsn0"])


def test_a_stage_with_one_rank_on_another_node_is_started_there(plan_of: Planner) -> None:
    """Without `launch_single`: the supervisor is on node 0 only."""
    site = with_launcher("srun", nodes=4)
    plan = plan_of(site=site)
    assert [stage.launch.launcher for stage in plan.stages] == ["none", "srun", "srun"]
    assert [stage.placement.nodes for stage in plan.stages] == [[(0, 1)], [(1, 2)], [(1, 2)]]
    assert "--relative=1" in line_of(plan, "count")
    assert plan.reasons["stages.count.launcher"] == "1 rank on node 1, and the supervisor is on node 0"


# Launch lines that centres and their users have written down.


def test_frontier_in_the_order_of_the_cores(plan_of: Planner) -> None:
    """PIConGPU, etc/picongpu/frontier-ornl/batch_pipe.tpl: 0xfe,0xfe00,…; GPUs as OLCF's guide maps them."""
    plan = _plan(plan_of, "cores_per_rank=7 gpus_per_rank=1 near=l3", ranks=8, site=load_site("frontier"))
    masks = ",".join(hex(0xFE << 8 * index) for index in range(8))
    assert f"--cpu-bind=mask_cpu:{masks}" in line_of(plan, "walk")
    place = plan.stage("walk").placement
    assert place.gpus == [4, 5, 2, 3, 6, 7, 0, 1]
    assert place.nics == ["cxi2", "cxi2", "cxi1", "cxi1", "cxi3", "cxi3", "cxi0", "cxi0"]


def test_lumi_in_the_order_of_the_gpus(plan_of: Planner) -> None:
    """LUMI's user guide, lumig-job.md."""
    plan = _plan(plan_of, "cores_per_rank=6 gpus_per_rank=1", ranks=8, site=load_site("lumi-g"))
    masks = "7e000000000000,7e00000000000000,7e0000,7e000000,7e,7e00,7e00000000,7e0000000000"
    given = next(word for word in line_of(plan, "walk") if word.startswith("--cpu-bind=mask_cpu:"))
    assert given.removeprefix("--cpu-bind=mask_cpu:").replace("0x", "") == masks
    assert plan.stage("walk").placement.gpus == list(range(8))


AURORA = "list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100"


def test_aurora(plan_of: Planner) -> None:
    """WarpX, Tools/machines/aurora-alcf/aurora.pbs: 12 ranks of 8 cores beside the reserved cores 0 and 52."""
    plan = _plan(plan_of, "cores_per_rank=8 gpus_per_rank=1", ranks=12, site=load_site("aurora"))
    line = line_of(plan, "walk")
    assert line[line.index("--cpu-bind") + 1] == AURORA
    assert plan.stage("walk").placement.gpus == list(range(12))


def test_two_sockets_without_gpus(plan_of: Planner) -> None:
    """The same cores follow from the sockets: six ranks fit on each."""
    sockets = {"numa": [tuple(range(52)), tuple(range(52, 104))], "cores_per_node": 104, "reserved_cores": (0, 52)}
    plan = _plan(plan_of, "cores_per_rank=8", ranks=12, site=with_launcher("pals", nodes=9, **sockets))
    line = line_of(plan, "walk")
    assert line[line.index("--cpu-bind") + 1] == AURORA


# The arithmetic.


def test_cores_side_by_side() -> None:
    assert side_by_side([1, 2, 4, 5, 6], 2, 2, spread=False) == [1, 2, 4, 5]
    assert side_by_side([1, 2, 4, 5, 6], 2, 1, spread=True) == [1, 4]
    assert side_by_side([1, 2, 4], 2, 2, spread=False) is None


@pytest.mark.parametrize(
    ("ranks", "spread", "expected"),
    [(2, False, [0, 1]), (2, True, [0, 2]), (3, True, [0, 2, 4]), (5, True, [0, 1, 2, 3, 4]), (7, True, None)],
)
def test_cores_inside_domains(ranks: int, spread: bool, expected: list[int] | None) -> None:
    assert inside_domains(range(6), ranks, 1, [(0, 1), (2, 3), (4, 5)], spread) == expected


def test_a_full_domain_is_left_out_when_ranks_are_spread() -> None:
    assert inside_domains([2, 3, 4, 5], 2, 1, [(0, 1), (2, 3), (4, 5)], spread=True) == [2, 4]
    assert inside_domains([2, 3, 4], 2, 2, [(2, 3), (4, 5)], spread=True) is None


def test_cores_beside_devices() -> None:
    assert beside_devices(range(8), 2, [(4, 5), (0, 1)], []) == [4, 5, 0, 1]
    assert beside_devices(range(8), 3, [(4, 5), (0, 1)], [range(4), range(4, 8)]) == [4, 5, 6, 0, 1, 2]
    assert beside_devices(range(8), 3, [(4, 5)], []) is None
