"""Which streams go through memory that both ends share, without being asked to, and why the others do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planner import CHAIN, NEAR_AND_FAR, SITE, Planner
from workflow.errors import SpecError
from workflow.plan.explain import explain_key
from workflow.plan.make import make_plan
from workflow.plan.plan_model import Plan
from workflow.plan.topology.implicit_stages import complete_pipeline
from workflow.report.graph.pipeline_graph import make_pipeline_graph
from workflow.report.show.plan_tables import plan_stream_table, transport_table, verdict_text
from workflow.site.site_model import Site
from workflow.spec.load import load_pipeline
from workflow.spec.overlay import Setting
from workflow.spec.shipped import SHIPPED
from workflow.spec.yaml_tree.parse import parse_yaml

FOUR_NODES = SITE.model_copy(update={"nodes": 4})
APART = ("stages.walk.ranks=4", "stages.walk.place.nodes=1", "stages.count.ranks=4")
ALL_PLANES = SITE.model_copy(update={"planes": ["tcp", "rdma", "ucx", "mpi"]})
OWN = """
stages:
  sim: {command: [PROGRAM, -c, pass], writes: {field: PORT}}
  ana: {component: keep}
streams:
  field: {from: sim, to: ana}
"""


def engine(plan: Plan, stream: str = "positions") -> str:
    return plan.stream(stream).engine


def reason(plan: Plan, stream: str = "positions") -> str:
    return plan.reasons[f"streams.{stream}.transport"]


@pytest.mark.parametrize("site", [SITE, ALL_PLANES])
def test_auto_takes_it_where_both_ends_are_on_one_node(plan_of: Planner, site: Site) -> None:
    plan = plan_of(site=site)
    assert {stream.name: (stream.engine, stream.via, stream.transport) for stream in plan.streams} == {
        "positions": ("SHM", "sst", None), "counts": ("SHM", "sst", None),
    }  # fmt: skip
    assert reason(plan).startswith("auto: shared memory, all ends are on node 0 and use workflow.stage")
    assert reason(plan).endswith("`transport: tcp` goes back to SST")
    assert plan.stream("positions").on_disk == ["${{ run.dir }}/streams/positions.shm"]
    assert plan.advice == plan_of(via="shm", site=site).advice


def test_the_plan_is_that_of_via_shm(plan_of: Planner) -> None:
    auto, asked = plan_of(), plan_of(via="shm")
    assert auto.stages == asked.stages
    for one, other in zip(auto.streams, asked.streams, strict=True):
        assert one.model_copy(update={"via": "shm"}) == other


def test_readers_on_another_node_keep_sst(plan_of: Planner) -> None:
    plan = plan_of(sets=APART, site=FOUR_NODES)
    assert engine(plan) == "SST" and plan.stream("positions").transport == "tcp"
    assert "shared memory" not in reason(plan), (
        "that they are on several nodes is said already, or nothing depends on it"
    )
    assert engine(plan_of(NEAR_AND_FAR, site=FOUR_NODES)) == "SST", "all readers of a stream have one engine"
    assert "all ends are on node 0" in reason(
        plan_of(NEAR_AND_FAR.replace("cores_per_rank: 4", "share: walk"), site=FOUR_NODES)
    )


@pytest.mark.parametrize(
    ("program", "port", "expected"),
    [
        ('"${{ wf.python }}"', "{}", "SHM"),
        ("/env/bin/python", "{}", "SHM"),
        ("python3", "{}", "the Python of sim is not `${{ wf.python }}`, and may have another workflow.stage"),
        ('"${{ pipeline.dir }}/bin"', "{}", "the Python of sim is not `${{ wf.python }}`"),
        ('"${{ wf.python }}"', "{io: F, config: adios2.xml}", "sim does not use workflow.stage"),
    ],
)
def test_a_program_of_the_users_own(plan_of: Planner, program: str, port: str, expected: str) -> None:
    plan = plan_of(OWN.replace("PROGRAM", program).replace("PORT", port))
    if expected == "SHM":
        assert engine(plan, "field") == "SHM"
        assert "use workflow.stage (sim: a port without `io` is opened by workflow.stage; measured" in reason(
            plan, "field"
        )
    else:
        assert engine(plan, "field") == "SST" and f"`transport: shm` is not taken: {expected}" in reason(plan, "field")


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        (("streams.positions.interface=lo",), "`interface` is for SST"),
        (("streams.positions.parameters.StatsLevel=1",), "`StatsLevel` is a parameter of SST"),
        (('stages.walk.output.compression={"*": {blosc: {}}}',), "only SST applies `output.compression` of walk"),
        (("streams.positions.via=sst",), "`via: sst` from --set is SST by name"),
    ],
)
def test_what_only_sst_has_keeps_sst(plan_of: Planner, sets: tuple[str, ...], why: str) -> None:
    plan = plan_of(sets=sets)
    assert engine(plan) == "SST" and reason(plan).endswith(f"; `transport: shm` is not taken: {why}")
    assert engine(plan, "counts") == "SHM"


def test_memory_that_is_closed_keeps_sst(plan_of: Planner) -> None:
    """As where each stage has a user namespace of its own: the memory of a process is opened in the same way."""
    plan = plan_of(site=SITE.model_copy(update={"peer_memory": False}))
    assert engine(plan) == "SST"
    why = "processes may not read each other's memory here (site test says `peer_memory: false`)"
    assert reason(plan).endswith(f"; `transport: shm` is not taken: {why}")


@pytest.mark.parametrize(("asked", "instead"), [("transport", "`transport: auto`"), ("via", "`via: sst`")])
def test_memory_that_is_closed_is_refused_where_it_is_asked_for(asked: str, instead: str, plan_of: Planner) -> None:
    site = SITE.model_copy(update={"peer_memory": False, "seen": {"peer_memory": "process_vm_readv: not permitted"}})
    with pytest.raises(SpecError) as caught:
        plan_of(sets=(f"streams.positions.{asked}=shm",), site=site)
    (problem,) = caught.value.problems
    assert problem.key == f"streams.positions.{asked}"
    told = "SHM cannot be opened: processes may not read each other's memory here (process_vm_readv: not permitted)"
    assert problem.message == told
    assert problem.hint == f"use {instead}, or `peer_memory: true` in the site's file if its compute nodes allow it"


def test_parameters_of_other_engines_change_nothing(plan_of: Planner) -> None:
    assert engine(plan_of(sets=("streams.positions.parameters.BufferChunkSize=16 MB",))) == "SHM"


@pytest.mark.parametrize(
    ("write", "expected"),
    [("DataTransport: WAN, StatsLevel: 1", "DataTransport"), ("StatsLevel: 1", "StatsLevel"), ("", "")],
)
def test_a_preset_of_the_users_own_keeps_sst(
    write: str, expected: str, plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "engines").mkdir()
    shipped = (SHIPPED / "configs/engines/sst.yaml").read_text()
    (tmp_path / "engines/sst.yaml").write_text(f"{shipped}\nwrite: {{{write}}}\n")
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    plan = plan_of()
    if not expected:
        assert engine(plan) == "SHM", "it differs in nothing"
        return
    assert engine(plan) == "SST" and plan.stream("positions").transport == "tcp"
    if expected != "DataTransport":  # a transport that it names is said as for any preset
        told = f"; `transport: shm` is not taken: the preset `sst` is one of your own, and differs in `{expected}`"
        assert reason(plan).endswith(told)
    parameters = plan.stage("walk").end("positions", "write").parameters
    assert parameters["StatsLevel"] == "1" and parameters["DataTransport"] == "WAN"


@pytest.mark.parametrize("asked", ["tcp", "ucx", "rdma"])
def test_a_written_transport_of_sst_is_taken_at_its_word(plan_of: Planner, asked: str) -> None:
    plan = plan_of(CHAIN.replace("to: count}", f"to: count, transport: {asked}}}"), site=ALL_PLANES)
    assert (engine(plan), plan.stream("positions").transport) == ("SST", asked)
    preset = plan_of(CHAIN.replace("to: count}", f"to: count, via: sst-{asked}}}"), site=ALL_PLANES)
    assert (engine(preset), preset.stream("positions").transport) == ("SST", asked)


def test_via_from_over_the_file_is_an_engine_by_name(plan_of: Planner) -> None:
    """A campaign, a profile, an option: who sets `via` there compares engines, or wants this one."""
    assert engine(plan_of(via="sst")) == "SST"
    profiles = "profiles: {live: {streams: {'*': {via: sst}}}, both: {streams: {'*': {via: sst, transport: auto}}}}\n"
    assert engine(plan_of(CHAIN + profiles, profile="live")) == "SST"
    assert engine(plan_of(CHAIN + profiles, profile="both")) == "SHM", "the profile leaves the transport to the plan"
    assert engine(plan_of(CHAIN.replace("to: count}", "to: count, via: sst}"))) == "SHM", "of the file it is a default"
    # A transport in the file does not say what is meant by an option over it, and one over the option does.
    auto = CHAIN.replace("to: count}", "to: count, transport: auto}")
    assert engine(plan_of(auto, via="sst")) == "SST"
    assert engine(plan_of(via="sst", sets=("streams.positions.transport=auto",))) == "SHM"


def test_via_from_a_parameter_is_an_engine_by_name(plan_of: Planner) -> None:
    """A parameter is there to be varied: `params.way: [sst, bp5]` of a campaign."""
    text = CHAIN.replace("to: count}", 'to: count, via: "${{ params.way }}"}') + "params: {way: sst}\n"
    plan = plan_of(text)
    assert engine(plan) == "SST" and reason(plan).endswith("`via: sst` from params.way is SST by name")
    assert engine(plan_of(text, sets=("params.way=shm",))) == "SHM"
    assert engine(plan_of(text, sets=("params.way=sst",))) == "SST"


def test_how_members_are_collected_does_not_name_their_engine(plan_of: Planner) -> None:
    text = CHAIN.replace("component: walker}", "component: walker, members: 2}")
    text = text.replace("to: count}", "to: count, via: sst, collect: all}")
    assert {stream.engine for stream in plan_of(text, sets=("streams.positions.collect=any",)).streams} == {"SHM"}
    named = plan_of(text, sets=("streams.positions.via=sst",))
    assert [engine(named, each) for each in ("positions-0", "positions-1", "positions")] == ["SST"] * 3


def test_trials_of_a_campaign_are_of_the_engine_that_they_name(plan_of: Planner) -> None:
    plan_of.load()
    file = plan_of.folder / "pipeline.yaml"

    def trial(**settings: str) -> Plan:
        laid = [
            Setting(f"streams.positions.{key}", parse_yaml(value, "campaign.yaml")) for key, value in settings.items()
        ]
        return make_plan(load_pipeline(file, settings=laid), SITE, python="/env/bin/python", wf_version="1")

    assert engine(trial(via="sst")) == "SST" and engine(trial(via="shm")) == "SHM"
    assert engine(trial(transport="tcp")) == "SST" and engine(trial(transport="shm")) == "SHM"
    assert engine(trial(transport="auto")) == engine(trial(step_size="1 MB")) == "SHM", "as in a run of the file"


def test_auto_in_the_file_is_used_where_shared_memory_is_asked_for(plan_of: Planner) -> None:
    advice = plan_of(CHAIN.replace("to: count}", "to: count, transport: auto}"), via="shm").advice
    assert not [line for line in advice if "not used" in line]


def test_it_can_be_asked_for_by_its_transport(plan_of: Planner) -> None:
    asked = plan_of(CHAIN.replace("to: count}", "to: count, transport: shm}"))
    assert engine(asked) == "SHM" and reason(asked).startswith("requested (")
    assert not [line for line in asked.advice if "not used" in line]
    assert engine(plan_of(CHAIN.replace("to: count}", "to: count, transport: shm}"), via="sst")) == "SHM"
    assert engine(plan_of(CHAIN.replace("to: count}", "to: count, transport: shm}"), via="sst-tcp")) == "SST"
    assert (
        engine(
            plan_of(CHAIN.replace("to: count}", "to: count, via: sst-tcp}"), sets=("streams.positions.transport=shm",))
        )
        == "SHM"
    )
    with pytest.raises(SpecError, match="`via: sst-tcp` is transport tcp, not `transport: shm`; keep one"):
        plan_of(CHAIN.replace("to: count}", "to: count, via: sst-tcp, transport: shm}"))


def test_where_it_cannot_be_it_is_refused_at_the_key_that_asks(plan_of: Planner) -> None:
    for asked, key, instead in (
        ("via=shm", "via", "or use `via: sst`"), ("transport=shm", "transport", "or use `transport: auto`"),
    ):  # fmt: skip
        with pytest.raises(SpecError) as caught:
            plan_of(sets=(*APART, f"streams.positions.{asked}"), site=FOUR_NODES)
        (problem,) = caught.value.problems
        assert problem.key == f"streams.positions.{key}" and problem.hint.endswith(instead)
        assert problem.message == "SHM joins stages on one node, and count is on node 1, walk is on node 0"
    own = CHAIN.replace("component: walker", "command: [walk], writes: {positions: {io: positions}}")
    with pytest.raises(SpecError, match=r"programs that open their streams with workflow\.stage: not so for walk"):
        plan_of(own, sets=("streams.positions.transport=shm",))


def test_taps_pipes_and_spools_follow_their_rule(plan_of: Planner) -> None:
    text = CHAIN.replace("to: count}", "to: count, keep: true, tap: {see: {component: keep, with: {path: s.bp}}}}")
    plan = plan_of(text)
    assert {stream.name: stream.engine for stream in plan.streams} == {
        "positions": "SHM", "see": "SHM", "positions-spool": "BP5", "counts": "SHM",
    }  # fmt: skip
    named = plan_of(text, via="sst")
    assert (engine(named), engine(named, "see")) == ("SST", "SST"), "a tap goes as its stream does"
    pipe = CHAIN.replace("component: walker", "component: walker, output: {async: pipe}")
    assert engine(plan_of(pipe, via="bp5"), "positions-pipe") == "SHM"
    sets = ("stages.walk.output.async=pipe", 'stages.walk.output.compression={"*": {blosc: {}}}')
    assert engine(plan_of(via="bp5", sets=sets), "positions-pipe") == "SHM", "the pipe compresses, when it writes"


TAPPED = CHAIN.replace("to: count}", "to: count, tap: {see: {component: keep, every: 2, with: {path: s.bp}}}}")


@pytest.mark.parametrize(
    ("text", "sets", "added"),
    [
        (CHAIN, ("streams.positions.via=bp5", "stages.walk.output.async=pipe"), "positions-pipe"),
        (TAPPED, (), "see"),
        (TAPPED, ("streams.positions.via=bp5",), "see"),
        (
            CHAIN.replace("component: walker}", "component: walker, members: 2}").replace(
                "to: count}", "to: count, collect: any, via: sst}"
            ),
            (), "positions-1",
        ),
    ],
    ids=["pipe", "tap", "tap of a file", "member"],
)  # fmt: skip
def test_the_way_of_a_stream_is_that_of_what_wf_adds_to_it(
    text: str, sets: tuple[str, ...], added: str, plan_of: Planner
) -> None:
    plan = plan_of(text, sets=sets)
    assert engine(plan, added) == "SHM"
    assert reason(plan, added).endswith("; `transport: tcp` of stream positions goes back to SST")
    asked = plan_of(text, sets=(*sets, "streams.positions.transport=tcp", "streams.positions.interface=lo"))
    assert (engine(asked, added), asked.stream(added).transport) == ("SST", "tcp")
    walk = next(end for stage in asked.stages for end in stage.ends if end.stream == added)
    assert walk.parameters["NetworkInterface"] == "lo"
    assert not [line for line in asked.advice if "not used" in line]
    with pytest.raises(SpecError) as caught:
        plan_of(text, sets=(*sets, "streams.positions.transport=ucx"), site=SITE.model_copy(update={"planes": ["tcp"]}))
    assert {problem.key for problem in caught.value.problems} == {"streams.positions.transport"}


def test_what_runs_is_named_everywhere(plan_of: Planner) -> None:
    plan = plan_of()
    assert "streams by SHM (shared memory);" in verdict_text(plan, [])
    assert [row[2] for row in plan_stream_table(plan).rows] == ["SHM", "SHM"]
    assert [list(row[:2]) for row in transport_table(plan).rows] == [["positions, counts", "shm"]]
    assert {stream.way for stream in make_pipeline_graph(plan).streams} == {"SHM, live"}
    said = explain_key(complete_pipeline(plan_of.load()), plan, "streams.positions.transport")
    assert "in force: shm" in said and "because auto: shared memory, all ends are on node 0" in said
