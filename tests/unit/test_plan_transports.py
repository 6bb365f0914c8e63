"""Which transport the plan takes, why, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from tests.support.planner import CHAIN, NEAR_AND_FAR, SITE, Planner, end_of
from workflow.errors import SpecError
from workflow.site.site_model import Site
from workflow.spec.engine_presets import load_engine
from workflow.sst_transports import TRANSPORTS, Transport, transport_by_word, transport_of_plane

ENGINES_DIR = Path(__file__).parents[2] / "configs/engines"
FOUR_NODES = SITE.model_copy(update={"nodes": 4})
APART = ("stages.walk.ranks=4", "stages.walk.place.nodes=1", "stages.count.ranks=4")
ALL: list[Transport] = ["tcp", "rdma", "ucx", "mpi"]


def site(planes: list[Transport], base: Site = SITE, **more: object) -> Site:
    return base.model_copy(update={"planes": planes, **more})


@pytest.mark.parametrize(
    ("where", "planes", "fabric", "expected", "because"),
    [
        ("one node", [], False, "tcp", "not known"),
        ("one node", ["tcp"], False, "tcp", "make adios2-mpi"),
        ("one node", ["tcp", "rdma"], False, "rdma", "provider for one node"),
        ("one node", ALL, True, "ucx", "ucx uses its memory"),
        ("nodes", ALL, False, "tcp", "without an RDMA network"),
        ("nodes", ["tcp", "ucx"], True, "tcp", "has no rdma"),
        ("nodes", ["tcp", "ucx"], False, "tcp", "has no rdma"),
        ("nodes", ALL, None, "tcp", "whether an RDMA network joins them is not known"),
        ("nodes", ALL, True, "rdma", "RDMA network"),
    ],
)
def test_auto_decides_by_placement_and_by_what_there_is(
    plan_of: Planner, where: str, planes: list[Transport], fabric: bool | None, expected: str, because: str
) -> None:
    base, sets = (SITE, ()) if where == "one node" else (FOUR_NODES, APART)
    plan = plan_of(via="sst", site=site(planes, base, fabric=fabric), sets=sets)
    stream = plan.stream("positions")
    assert (stream.transport, stream.fallback) == (expected, True)
    assert because in plan.reasons["streams.positions.transport"]
    assert because in plan.reasons["streams.positions.write.DataTransport"]
    word, plane = {"tcp": ("WAN", "evpath"), "rdma": ("RDMA", "rdma"), "ucx": ("UCX", "ucx")}[expected]
    writer, reader = end_of(plan, "walk", "positions"), end_of(plan, "count", "positions")
    assert (writer.parameters["DataTransport"], writer.transport, reader.transport) == (word, plane, plane)
    assert "DataTransport" not in reader.parameters


def test_ucx_is_left_where_it_would_hang(plan_of: Planner) -> None:
    """Where one process may not read another's memory."""
    no_rdma: list[Transport] = ["tcp", "ucx"]
    for planes, expected in ((ALL, "rdma"), (no_rdma, "tcp")):
        plan = plan_of(via="sst", site=site(planes, peer_memory=False))
        assert plan.stream("positions").transport == expected
        assert "ucx would hang" in plan.reasons["streams.positions.transport"]
    with pytest.raises(SpecError, match="on one node ucx would hang"):
        plan_of(sets=("streams.positions.transport=ucx",), site=site(ALL, peer_memory=False))
    shut = site(ALL, FOUR_NODES, peer_memory=False, fabric=True)
    far = plan_of(sets=(*APART, "streams.positions.transport=ucx"), site=shut)
    assert far.stream("positions").transport == "ucx"


def test_rdma_on_one_node_goes_through_shared_memory_at_both_ends(plan_of: Planner) -> None:
    plan = plan_of(sets=("streams.positions.transport=rdma",), site=site(ALL))
    for stage in ("walk", "count"):
        assert end_of(plan, stage, "positions").parameters["DataInterface"] == "shm"
        assert "FABRIC_IFACE" not in plan.stage(stage).env
    assert "one node" in plan.reasons["streams.positions.read.count.DataInterface"]
    assert "DataInterface" not in end_of(plan, "count", "counts").parameters  # of another stream of that stage


def test_rdma_across_nodes_is_left_to_the_fabric(plan_of: Planner) -> None:
    plan = plan_of(sets=(*APART, "streams.*.transport=rdma"), site=site(ALL, FOUR_NODES, fabric=True))
    assert "DataInterface" not in end_of(plan, "walk", "positions").parameters


@pytest.mark.parametrize("fabric", [True, None])
@pytest.mark.parametrize("asked", ["rdma", "ucx"])
def test_what_needs_an_rdma_network_is_planned_unless_there_is_none(
    plan_of: Planner, asked: str, fabric: bool | None
) -> None:
    """Where it is not known, the run finds out."""
    plan = plan_of(sets=(*APART, f"streams.*.transport={asked}"), site=site(ALL, FOUR_NODES, fabric=fabric))
    assert {stream.transport for stream in plan.streams} == {asked}


def test_a_preset_that_needs_an_rdma_network_is_refused_by_its_own_key(plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(via="sst-ucx", sets=APART, site=site(ALL, FOUR_NODES))
    assert [(each.key, each.message, each.hint) for each in caught.value.problems] == [
        (
            "streams.positions.via",
            "ucx between nodes needs an RDMA network: the stages of positions are on several nodes, and site test has "
            "none (`fabric: false` in its file)",
            "`transport: tcp`, or `fabric: true` in the site's file when its nodes have one",
        )
    ]


def test_one_of_several_readers_on_another_node_is_enough(plan_of: Planner) -> None:
    plan = plan_of(NEAR_AND_FAR, site=site(ALL, FOUR_NODES))
    assert plan.stream("positions").transport == "tcp"
    assert "shm" not in plan.reasons["streams.positions.transport"], "that several nodes share no memory is no news"


@pytest.mark.parametrize(("via", "transport"), [("sst-tcp", "tcp"), ("sst-rdma", "rdma"), ("sst-ucx", "ucx")])
def test_presets_ask(plan_of: Planner, via: str, transport: str) -> None:
    plan = plan_of(via=via, site=site(ALL))
    stream = plan.stream("positions")
    assert (stream.transport, stream.fallback) == (transport, False)
    assert f"via: {via}" in plan.reasons["streams.positions.transport"]


def test_the_stronger_layer_decides_between_preset_and_transport(plan_of: Planner) -> None:
    """`--via` over the file's `transport:`, and `--set` over the file's preset."""
    ucx = CHAIN.replace("to: count}", "to: count, transport: ucx}")
    plan = plan_of(ucx, via="sst-tcp", site=site(ALL))
    assert (plan.stream("positions").transport, plan.stream("positions").fallback) == ("tcp", False)
    assert end_of(plan, "walk", "positions").parameters["DataTransport"] == "WAN"
    assert re.search("--via, over `transport: ucx` at .*yaml:9", plan.reasons["streams.positions.transport"])
    profile = ucx + "profiles: {slow: {streams: {positions: {via: sst-tcp}}}}\n"
    assert plan_of(profile, profile="slow", site=site(ALL)).stream("positions").transport == "tcp"
    own = CHAIN.replace("to: count}", "to: count, via: sst-tcp}")
    plan = plan_of(own, sets=("streams.positions.transport=ucx",), site=site(ALL))
    assert plan.stream("positions").transport == "ucx"
    assert "--set" in plan.reasons["streams.positions.transport"]
    plan = plan_of(via="sst-ucx", sets=("streams.counts.transport=auto",), site=site(["tcp", "rdma", "ucx"]))
    assert (plan.stream("counts").transport, plan.stream("counts").fallback) == ("ucx", True)


def test_a_preset_that_overrides_the_same_transport_overrides_nothing(plan_of: Planner) -> None:
    tcp = CHAIN.replace("to: count}", "to: count, transport: tcp}")
    reasons = plan_of(tcp, via="sst-tcp", site=site(ALL)).reasons
    assert reasons["streams.positions.transport"] == "requested (via: sst-tcp, --via)"


def test_a_preset_with_a_transport_that_is_not_in_the_list(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADIOS2 can have it, but it has no name of its own here: the plan passes it on."""
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines/daos.yaml").write_text("based_on: sst\nsummary: s\nwrite: {DataTransport: DAOS}\n")
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    plan = plan_of(via="daos", site=site(ALL))
    assert plan.stream("positions").transport is None
    assert end_of(plan, "walk", "positions").parameters["DataTransport"] == "DAOS"
    with pytest.raises(SpecError, match="`via: daos` is transport DAOS, not `transport: tcp`; keep one"):
        plan_of(via="daos", sets=("streams.positions.transport=tcp",), site=site(ALL))


def test_preset_and_transport_of_one_layer_must_agree(plan_of: Planner) -> None:
    told = "`via: sst-ucx` is transport ucx, not `transport: tcp`; keep one"
    with pytest.raises(SpecError, match=re.escape(told)):
        plan_of(via="sst-ucx", sets=("streams.positions.transport=tcp",), site=site(ALL))
    agreed = plan_of(via="sst-ucx", sets=("streams.positions.transport=ucx",), site=site(ALL))
    assert agreed.stream("positions").transport == "ucx"


def test_a_transport_may_be_asked_for_where_nothing_is_known(plan_of: Planner) -> None:
    """A plan may be made on a laptop without adios2; the run looks again."""
    assert plan_of(sets=("streams.positions.transport=ucx",)).stream("positions").transport == "ucx"


@pytest.mark.parametrize(
    ("asked", "where", "message", "hint"),
    [
        ("ucx", site(["tcp"]), "built without UCX, so its SST has no ucx: it has tcp", "make adios2-mpi"),
        ("mpi", site(["tcp"]), "built without MPI", "transport: auto"),
        ("mpi", site(ALL), "under plain mpiexec that hangs", "transport: auto"),
        ("mpi", site(ALL, launcher="srun"), "not so for walk and count", "launch_single: true"),
        ("rdma", site(ALL, FOUR_NODES), "rdma between nodes needs an RDMA network", "transport: tcp"),
        ("ucx", site(ALL, FOUR_NODES), "ucx between nodes needs an RDMA network", "transport: tcp"),
        ("ucx", site([], FOUR_NODES), "site test has none (`fabric: false` in its file)", "`fabric: true`"),
        ("ucx", site(ALL, FOUR_NODES, seen={"fabric": "nothing in /sys"}), "(nothing in /sys)", "`fabric: true`"),
    ],
)
def test_what_cannot_work_is_refused(plan_of: Planner, asked: str, where: Site, message: str, hint: str) -> None:
    sets = (*(APART if where.nodes > 1 else ()), f"streams.positions.transport={asked}")
    with pytest.raises(SpecError) as caught:
        plan_of(sets=sets, site=where)
    (problem,) = caught.value.problems
    assert problem.key == "streams.positions.transport"
    assert message in problem.message
    assert hint in problem.hint


def test_mpi_under_a_launcher_that_joins_programs(plan_of: Planner) -> None:
    where = site(ALL, launcher="srun", launch_single=True)
    plan = plan_of(sets=("streams.positions.transport=mpi",), site=where)
    assert end_of(plan, "walk", "positions").parameters["DataTransport"] == "MPI"


def test_interface_of_a_stream(plan_of: Planner) -> None:
    where = SITE.model_copy(update={"interface": "ib0"})
    plan = plan_of(via="sst", sets=("streams.positions.interface=lo",), site=where)
    for stage in ("walk", "count"):
        assert end_of(plan, stage, "positions").parameters["NetworkInterface"] == "lo"
    assert end_of(plan, "count", "counts").parameters["NetworkInterface"] == "ib0"
    assert "--set" in plan.reasons["streams.positions.read.count.NetworkInterface"]


def test_an_interface_that_this_machine_does_not_have(plan_of: Planner) -> None:
    """Known only where the site is this machine."""
    here = SITE.model_copy(update={"interfaces": ["eth0", "lo"]})
    with pytest.raises(SpecError, match=r"no network interface `ib9`\n *interfaces here: eth0, lo"):
        plan_of(sets=("streams.positions.interface=ib9",), site=here)
    with pytest.raises(SpecError, match="did you mean `eth0`"):
        plan_of(sets=("streams.positions.interface=eht0",), site=here)
    assert plan_of(sets=("streams.positions.interface=lo",), site=here).stages
    assert plan_of(sets=("streams.positions.interface=ib9",)).stages


def test_interface_hardly_matters_to_ucx_on_one_node(plan_of: Planner) -> None:
    plan = plan_of(sets=("streams.positions.interface=lo",), site=site(ALL))
    assert any("streams.positions.interface affects only the first contact" in line for line in plan.advice)
    assert not any("the first contact" in line for line in plan_of(via="sst", site=site(ALL)).advice)


def test_transport_stays_in_a_file_that_is_sent_elsewhere(plan_of: Planner) -> None:
    text = CHAIN.replace("to: count}", "to: count, transport: tcp, interface: lo}")
    plan = plan_of(text, via="bp5")
    assert plan.stream("positions").transport is None
    assert "not used" in plan.reasons["streams.positions.transport"]
    assert "not used" in plan.reasons["streams.positions.interface"]
    assert "streams.positions.transport is not used with `via: bp5`: a file has no transport" in plan.advice


@pytest.mark.parametrize(("via", "what"), [("bp5", "a file"), ("shm", "SHM")])
def test_an_interface_alone_is_not_used_either(plan_of: Planner, via: str, what: str) -> None:
    plan = plan_of(CHAIN.replace("to: count}", "to: count, interface: lo}"), via=via)
    assert [line for line in plan.advice if "not used" in line] == [
        f"streams.positions.interface is not used with `via: {via}`: {what} has no interface"
    ]


OWN = """
stages:
  sim: {command: [./sim, "${{ streams.field.path }}"], writes: {field: {io: F%s}}}
  ana: {command: [./ana, "${{ streams.field.path }}"], reads: {field: {io: F%s}}}
streams:
  field: {from: sim, to: ana%s}
"""


def test_a_program_without_a_config_file_chooses_by_itself(plan_of: Planner) -> None:
    plan = plan_of(OWN % ("", "", ""), site=site(ALL))
    assert plan.stream("field").transport is None
    assert end_of(plan, "sim", "field").transport is None
    assert "left to the program of sim" in plan.reasons["streams.field.transport"]
    asked = plan_of(OWN % ("", "", ", transport: rdma"), site=site(ALL))
    assert (asked.stream("field").transport, asked.stream("field").fallback) == ("rdma", False)


def test_a_program_of_workflow_stage_is_chosen_for_like_a_component(plan_of: Planner) -> None:
    """A port without io is opened through workflow.stage, which takes the plan's parameters."""
    text = OWN.replace("{io: F%s}", "{}") % ""
    plan = plan_of(text, via="sst", site=site(ALL))
    component = plan_of(CHAIN, via="sst", site=site(ALL))
    assert plan.stream("field").transport == component.stream("positions").transport == "ucx"
    assert end_of(plan, "sim", "field").parameters == end_of(component, "walk", "positions").parameters
    assert plan.reasons["streams.field.transport"] == component.reasons["streams.positions.transport"]
    across = plan_of(text.replace("[./sim,", "[./sim, a,"), site=site(["tcp"], SITE, nodes=2))
    assert across.stream("field").transport == "tcp"


def test_a_program_without_a_config_file_hears_of_shared_memory_by_its_environment(plan_of: Planner) -> None:
    plan = plan_of(OWN % (", config: adios2.xml", "", ", transport: rdma"), site=site(ALL))
    assert "FABRIC_IFACE" not in plan.stage("sim").env
    assert plan.stage("ana").env["FABRIC_IFACE"] == "shm"
    assert "DataInterface=shm" in plan.reasons["stages.ana.env.FABRIC_IFACE"]
    assert 'key="DataInterface" value="shm"' in next(iter(plan.stage("sim").files.values()))


def test_many_nodes_on_tcp_are_mentioned(plan_of: Planner, tmp_path: Path) -> None:
    many = site(["tcp"], SITE, nodes=40)
    plan = plan_of(sets=("stages.walk.ranks=68",), site=many)
    assert any("prefer `transport: rdma`" in line for line in plan.advice), tmp_path


ELSEWHERE = """
stages:
  first: {component: walker, ranks: 4}
  alone: {component: keep, with: {path: alone.bp}}
  walk: {component: walker}
  count: {component: tally, with: {variable: position}, place: {share: walk}}
  keep: {component: keep, place: {share: walk}}
streams:
  other: {from: first, to: alone}
  positions: {from: walk, to: count}
  counts: {from: count, to: keep}
"""


def test_one_node_is_one_node_wherever_it_is(plan_of: Planner) -> None:
    """On the second node of the site, too, ranks reach each other through its memory."""
    plan = plan_of(ELSEWHERE, via="sst", site=site(ALL, FOUR_NODES))
    assert [stage.placement.nodes for stage in plan.stages] == [[(0, 1)]] * 2 + [[(1, 2)]] * 3
    assert {stream.name: stream.transport for stream in plan.streams} == dict.fromkeys(
        ("other", "positions", "counts"), "ucx"
    )


def test_the_same_two_nodes_are_not_one_node(plan_of: Planner) -> None:
    sets = ("stages.walk.ranks=8", "stages.count.ranks=8", "stages.count.place.share=walk", "oversubscribe=true")
    plan = plan_of(sets=sets, site=site(ALL, FOUR_NODES))
    assert plan.stage("walk").placement.nodes == plan.stage("count").placement.nodes == [(0, 2)]
    assert plan.stream("positions").transport == "tcp"
    assert "several nodes, without an RDMA network" in plan.reasons["streams.positions.transport"]


def reason(plan_of: Planner, where: Site, *sets: str) -> str:
    return (
        plan_of(via="sst", sets=sets, site=where).reasons["streams.positions.transport"].split("; `transport: shm`")[0]
    )


@pytest.mark.parametrize(
    ("seen", "planes", "fabric"),
    [
        ({}, "site test does not say `planes:`", "site file"),
        ({"planes": "no adios2", "fabric": "/sys"}, "no adios2", "/sys"),
    ],
)
def test_the_reason_says_how_the_site_is_known(
    plan_of: Planner, seen: dict[str, str], planes: str, fabric: str
) -> None:
    unknown = f"the transports of this machine's ADIOS2 are not known ({planes}), and every ADIOS2 has tcp"
    assert reason(plan_of, site([], seen=seen)) == unknown
    far = site(ALL, FOUR_NODES, seen=seen)
    assert reason(plan_of, far, *APART).endswith(f"without an RDMA network between them ({fabric})")
    fast = far.model_copy(update={"fabric": True})
    assert reason(plan_of, fast, *APART).endswith(f"on several nodes of an RDMA network ({fabric})")


@pytest.mark.parametrize(
    ("seen", "text"),
    [({}, "site test says `peer_memory: false`"), ({"peer_memory": "ptrace_scope is 1"}, "ptrace_scope is 1")],
)
def test_the_reason_says_why_memory_is_closed(plan_of: Planner, seen: dict[str, str], text: str) -> None:
    closed = site(ALL, peer_memory=False, seen=seen)
    hangs = f"ucx would hang: processes may not read each other's memory here ({text})"
    assert reason(plan_of, closed).endswith(hangs)
    assert reason(plan_of, closed).startswith("all ranks are on one node, and without ucx")
    with pytest.raises(SpecError) as caught:
        plan_of(sets=("streams.positions.transport=ucx",), site=closed)
    assert [(each.key, each.message, each.hint) for each in caught.value.problems] == [
        (
            "streams.positions.transport", f"on one node {hangs}",
            "`transport: auto`, or `peer_memory: true` in the site's file if its compute nodes allow it",
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("mpi", "`transport: auto`"),
        ("ucx", "`make adios2-mpi` builds one with ucx and rdma, then run `.venv-mpi/bin/wf`; or `transport: auto`"),
    ],
)
@pytest.mark.parametrize("parallel", [False, True])
def test_the_way_out_of_a_build_without_a_transport(plan_of: Planner, asked: str, hint: str, parallel: bool) -> None:
    """One with MPI may come from anywhere: it need not be that of `make adios2-mpi`."""
    with pytest.raises(SpecError) as caught:
        plan_of(sets=(f"streams.positions.transport={asked}",), site=site(["tcp"], parallel_adios2=parallel))
    assert [(each.key, each.hint) for each in caught.value.problems] == [("streams.positions.transport", hint)]


@pytest.mark.parametrize(("asked", "package"), [("ucx", "libucx-dev"), ("rdma", "libfabric-dev")])
def test_the_way_out_of_the_own_build_without_a_transport(plan_of: Planner, asked: str, package: str) -> None:
    """It is not to build what runs already, and lacks it."""
    own = site(["tcp"], random_sst_ids=True, parallel_adios2=True)
    with pytest.raises(SpecError) as caught:
        plan_of(sets=(f"streams.positions.transport={asked}",), site=own)
    again = f"install {package}, then build it again: `rm .venv-mpi/ready; make adios2-mpi`; or `transport: auto`"
    assert [each.hint for each in caught.value.problems] == [again]
    assert "install libucx-dev libfabric-dev, then build it again" in reason(plan_of, own)


def test_a_program_that_would_need_two_interfaces(plan_of: Planner) -> None:
    """FABRIC_IFACE holds for all streams that it opens."""
    text = """
stages:
  sim: {command: [./sim, "${{ streams.near.path }}", "${{ streams.far.path }}"], writes: {near: {io: N}, far: {io: F}}}
  ana: {command: [./ana, "${{ streams.near.path }}"], reads: {near: {io: N}}, place: {share: sim}}
  keep: {component: keep, place: {nodes: 1, cores_per_rank: 1}}
streams:
  near: {from: sim, to: ana, transport: rdma}
  far: {from: sim, to: keep, transport: rdma}
"""
    with pytest.raises(SpecError) as caught:
        plan_of(text, site=site(ALL, FOUR_NODES, fabric=True))
    assert [(each.key, each.message, each.hint) for each in caught.value.problems] == [
        (
            "streams.near",
            "this stream uses rdma within one node, and far between nodes: the program of sim cannot tell them apart",
            "give both a config file in stage sim, or use another `transport:` for one of them",
        )
    ]


def test_one_list_of_transports() -> None:
    """The type's words, and the presets `via: sst-NAME`, are those of the list."""
    assert get_args(Transport) == tuple(TRANSPORTS)
    for preset in ENGINES_DIR.glob("sst-*.yaml"):
        word = str(load_engine(preset.stem).write["DataTransport"])
        known = transport_by_word(word)
        assert known is not None, f"{preset.name}: DataTransport {word} is not in workflow/sst_transports.py"
        assert preset.stem == f"sst-{known.name}"
        assert transport_of_plane(known.plane) == known.name
