"""What each end of a stream is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.planner import CHAIN, SITE, Planner
from tests.support.planner import end_of as end
from workflow.errors import SpecError


def test_sst_both_ends(plan_of: Planner) -> None:
    plan = plan_of(via="sst")
    writer, reader = end(plan, "walk", "positions"), end(plan, "count", "positions")
    assert writer.parameters == {
        "DataTransport": "WAN", "QueueFullPolicy": "Block", "QueueLimit": "2", "RendezvousReaderCount": "1",
    }  # fmt: skip
    assert reader.parameters == {"OpenTimeoutSecs": "120", "SpeculativePreloadMode": "Off"}
    assert {writer.engine, reader.engine} == {"SST"}
    assert writer.path == reader.path == "${{ run.dir }}/streams/positions"
    assert (writer.port, writer.io, reader.port) == ("positions", "positions", "positions")
    assert (writer.open_timeout_s, writer.step_timeout_s) == (120.0, None), (
        "by default a reader waits as long as its writer lives"
    )
    stream = plan.stream("positions")
    assert stream.on_disk == ["${{ run.dir }}/streams/positions.sst"]
    assert (stream.writer, stream.readers, stream.coupling) == ("walk", ["count"], "live")
    assert stream.queue is not None and stream.queue.limit == 2


def test_every_reader_is_waited_for(plan_of: Planner) -> None:
    text = """
stages:
  walk: {component: walker}
  here: {component: keep}
  there: {component: keep, with: {path: there.bp}}
streams:
  positions: {from: walk, to: [here, there.input], queue: {limit: 1, when_full: discard}}
"""
    plan = plan_of(text, via="sst")
    assert end(plan, "walk", "positions").parameters == {
        "DataTransport": "WAN", "QueueFullPolicy": "Discard", "QueueLimit": "1", "RendezvousReaderCount": "2",
    }  # fmt: skip
    assert "2 stages (here, there)" in plan.reasons["streams.positions.write.RendezvousReaderCount"]
    assert "at most 2 steps" in plan.reasons["streams.positions.write.QueueLimit"]
    assert any("dropped" in line for line in plan.advice)


def test_deadlines_become_timeouts(plan_of: Planner) -> None:
    plan = plan_of(CHAIN + "deadlines: {start: 1.5 s, step: 20 s}\n", via="sst")
    reader = end(plan, "count", "positions")
    assert reader.parameters["OpenTimeoutSecs"] == "2"  # SST takes whole seconds
    assert (reader.open_timeout_s, reader.step_timeout_s) == (1.5, 20.0)
    file = end(plan_of(CHAIN + "deadlines: {start: 1.5 s}\n", via="bp5"), "count", "positions")
    assert file.parameters["OpenTimeoutSecs"] == "1.5"


def test_a_tap_of_rare_steps_waits_longer_for_one(plan_of: Planner) -> None:
    text = """
stages:
  walk: {component: walker}
  here: {component: keep}
streams:
  positions:
    from: walk
    to: here
    tap:
      all: {component: keep, with: {path: all.bp}}
      rare: {component: keep, every: 25, with: {path: rare.bp}}
      some: {component: keep, every: 3, with: {path: some.bp}}
deadlines: {step: 8 s}
"""
    plan = plan_of(text)
    waits = {name: end(plan, name, name).step_timeout_s for name in ("all", "rare", "some")}
    assert waits == {"all": 8, "rare": 200, "some": 24}
    assert end(plan, "here", "positions").step_timeout_s == 8


def test_file_after(plan_of: Planner) -> None:
    plan = plan_of(via="bp5")
    writer, reader = end(plan, "walk", "positions"), end(plan, "count", "positions")
    assert writer.parameters == {}
    assert reader.parameters == {"OpenTimeoutSecs": "120"}
    assert writer.path == "${{ run.dir }}/streams/positions.bp"
    assert plan.stage("count").starts_after == ["walk"]
    assert plan.stage("keep").starts_after == ["count"]
    assert plan.stream("positions").queue is None
    assert plan.stream("positions").on_disk == [writer.path]
    assert "SstVerbose" not in plan.stage("walk").env


def test_file_live(plan_of: Planner) -> None:
    plan = plan_of(via="bp5", sets=("streams.*.coupling=live",))
    reader = end(plan, "count", "positions")
    assert reader.engine == "BP5"  # explicit: FileStream would hang on a file that is not there yet
    assert reader.parameters == {"BeginStepPollingFrequencySecs": "0.1", "OpenTimeoutSecs": "120"}
    assert plan.stage("count").starts_after == []


def test_hdf5(plan_of: Planner) -> None:
    plan = plan_of(via="hdf5")
    assert end(plan, "count", "positions").parameters == {}
    assert end(plan, "count", "positions").path.endswith("/streams/positions.h5")


def test_users_parameters_go_to_the_end_that_reads_them(plan_of: Planner) -> None:
    given = ("streams.positions.parameters={StatsLevel: 1, ControlModule: epoll, SpeculativePreloadMode: on}",)
    plan = plan_of(sets=given)
    writer, reader = end(plan, "walk", "positions"), end(plan, "count", "positions")
    assert writer.parameters["StatsLevel"] == "1"
    assert "StatsLevel" not in reader.parameters
    assert writer.parameters["ControlModule"] == reader.parameters["ControlModule"] == "epoll"
    assert reader.parameters["SpeculativePreloadMode"] == "On"
    assert "--set" in plan.reasons["streams.positions.read.count.SpeculativePreloadMode"]


def test_every_parameter_has_its_reason(plan_of: Planner) -> None:
    plans = [plan_of(), plan_of(via="sst"), plan_of(via="bp5"), plan_of(via="bp5", sets=("streams.*.coupling=live",))]
    for plan in plans:
        for stage in plan.stages:
            for each in stage.ends:
                side = "write" if each.side == "write" else f"read.{stage.name}"
                for name in each.parameters:
                    assert plan.reasons[f"streams.{each.stream}.{side}.{name}"]


def test_site_interface_and_many_ranks(plan_of: Planner) -> None:
    site = SITE.model_copy(update={"interface": "ib0", "cores_per_node": 512})
    plan = plan_of(via="sst", sets=("stages.walk.ranks=300",), site=site)
    for stage in ("walk", "count"):
        parameters = end(plan, stage, "positions").parameters
        assert parameters["NetworkInterface"] == "ib0"
        assert parameters["ControlModule"] == "epoll"
    assert "ControlModule" not in end(plan, "keep", "counts").parameters


def test_a_preset_sets_its_values_and_users_win(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs/engines").mkdir(parents=True)
    (tmp_path / "configs/engines/eager.yaml").write_text(
        "engine: SST\nbased_on: sst\nsummary: eager\nwrite: {StatsLevel: 0}\nread: {SpeculativePreloadMode: on}\n"
    )
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path / "configs"))
    plan = plan_of(via="eager", sets=("streams.positions.parameters={StatsLevel: 1}",))
    assert end(plan, "walk", "positions").parameters["StatsLevel"] == "1"
    assert end(plan, "count", "counts").parameters["StatsLevel"] == "0"
    assert end(plan, "keep", "counts").parameters["SpeculativePreloadMode"] == "On"
    assert "preset eager" in plan.reasons["streams.counts.write.StatsLevel"]


FULL = """
stages:
  walk:
    component: walker
    ranks: 4
    output: {aggregation: {per_node: 2}, async: naive}
  keep: {component: keep}
streams:
  positions: {from: walk, to: keep, via: %s, %s}
"""


def test_output_policies_of_a_file(plan_of: Planner) -> None:
    plan = plan_of(FULL % ("bp5", "keep: false"))
    assert end(plan, "walk", "positions").parameters == {"AsyncWrite": "Naive", "NumAggregators": "2"}
    assert "2 per node × 1 node" in plan.reasons["streams.positions.write.NumAggregators"]
    assert not plan.stream("positions").keep
    count = plan_of(FULL % ("bp5", "keep: false"), sets=("stages.walk.output.aggregation={ratio: 4}",))
    assert end(count, "walk", "positions").parameters["NumAggregators"] == "1"
    assert "one aggregator for 4 ranks" in count.reasons["streams.positions.write.NumAggregators"]


def test_output_policies_wait_for_a_file_engine(plan_of: Planner) -> None:
    """`--via` switches engines, so a policy for files is no mistake while a stream goes through memory."""
    plan = plan_of(FULL % ("sst", "keep: true"))
    assert not {"AsyncWrite", "NumAggregators"} & set(end(plan, "walk", "positions").parameters)
    assert sum("has no effect on stream positions" in line for line in plan.advice) == 2
    assert "memory to memory" in plan.reasons["stages.walk.output.aggregation"]


def test_async_with_a_live_reader_is_mentioned(plan_of: Planner) -> None:
    plan = plan_of(FULL % ("bp5", "coupling: live"))
    assert any("loses its last step" in line for line in plan.advice)


def test_queue_and_parameters_of_another_engine_are_left_aside(plan_of: Planner) -> None:
    """What the file says for SST is no mistake of a user who only adds `--via bp5`."""
    text = """
stages:
  walk: {component: walker}
  keep: {component: keep}
streams:
  positions: {from: walk, to: keep, via: sst, queue: {limit: 4}, parameters: {ControlModule: epoll}}
profiles:
  files: {streams: {"*": {via: bp5}}}
"""
    assert end(plan_of(text), "walk", "positions").parameters["ControlModule"] == "epoll"
    for plan in (plan_of(text, via="bp5"), plan_of(text, profile="files")):
        assert end(plan, "walk", "positions").parameters == {}
        assert any("ControlModule is not used" in line for line in plan.advice)
        assert "holds all steps" in plan.reasons["streams.positions.queue"]


@pytest.mark.parametrize(
    ("via", "key", "why"),
    [
        ("bp5", "queue: {limit: 4}", "a file holds all steps"),
        ("hdf5", "queue: {limit: 4, when_full: discard}", "a file holds all steps, and none is dropped"),
        ("bp5", "transport: tcp", "a file has no transport"),
        ("shm", "transport: tcp", "SHM has no transport"),
        ("bp4", "interface: lo", "a file has no interface"),
        ("hdf5", "strategy: binpacking", "it is not recorded which rank wrote what"),
        ("hdf5", "coupling: live", "HDF5 cannot be read while it is written: the reader starts when the writer"),
        ("sst", "coupling: after", "SST moves steps from memory to memory, and nothing is left for a reader"),
        ("bp5", "parameters: {QueueLimit: 2}", "BP5 has no such parameter; it belongs to SHM and SST"),
        ("hdf5", "parameters: {ControlModule: epoll}", "HDF5 has no such parameter; it belongs to SST"),
        ("sst", "parameters: {BufferChunkSize: 16 MB}", "SHM has no such parameter; it belongs to BP5"),
    ],
)
def test_one_key_switches_the_engine(plan_of: Planner, via: str, key: str, why: str) -> None:
    """The other keys may stay where `via` is changed in the file itself: the plan is that without them."""
    text = CHAIN.replace("to: count}", f"to: count, via: {via}}}")
    without, plan = plan_of(text), plan_of(text.replace(f"via: {via}", f"via: {via}, {key}"))
    assert plan.stages == without.stages
    assert plan.streams == without.streams
    [line] = [line for line in plan.advice if line not in without.advice]
    assert line.startswith(f"streams.positions.{key.partition(':')[0]}")
    assert f" is not used with `via: {via}`: {why}" in line


def test_a_misspelled_parameter_is_refused_even_where_another_engine_has_it(plan_of: Planner) -> None:
    """SST has `verbose`, BP4 `Verbose`."""
    with pytest.raises(SpecError, match=re.escape("did you mean `verbose`?")):
        plan_of(CHAIN.replace("to: count}", "to: count, via: sst-tcp, parameters: {Verbose: 5}}"))


def test_a_file_of_any_kind_is_handed_over(plan_of: Planner) -> None:
    text = """
stages:
  make: {command: [sh, -c, "echo 1 > ${{ streams.table.path }}"]}
  use: {command: [cat, "${{ streams.table.path }}"]}
streams:
  table: {from: make, to: use, via: file}
"""
    plan = plan_of(text)
    handed = end(plan, "make", "table")
    assert (handed.engine, handed.parameters, handed.config) == ("file", {}, None)
    assert plan.stage("use").starts_after == ["make"]
    assert plan.stage("use").program == ["cat", "${{ run.dir }}/streams/table"]
    assert plan.advice == []


def test_a_queue_that_a_file_does_not_have_is_mentioned(plan_of: Planner) -> None:
    text = CHAIN.replace("to: count}", "to: count, queue: {limit: 1%s}}")
    line = "streams.positions.queue is not used with `via: bp5`: a file holds all steps"
    assert line in plan_of(text % "", via="bp5").advice
    assert f"{line}, and none is dropped" in plan_of(text % ", when_full: discard", via="bp5").advice
    assert line not in plan_of(text % "").advice


def test_two_readers_of_a_program_that_wf_cannot_tell_so(plan_of: Planner) -> None:
    text = """
stages:
  a: {command: [./a, "${{ streams.out.path }}"], writes: {out: {io: x}}}
  b: {command: [./b, "${{ streams.out.path }}"]}
  c: {command: [./b, "${{ streams.out.path }}"]}
streams:
  out: {from: a, to: [b, c]}
"""
    said = "streams.out.to: 2 readers, and wf cannot tell a so, as its port has no `config:`"
    assert [line for line in plan_of(text).advice if line.startswith(said)]
    for other in (text.replace("{io: x}", "{io: x, config: adios2.xml}"), text.replace("[b, c]", "b")):
        assert not [line for line in plan_of(other).advice if said in line]


def test_options_of_openpmd_that_no_program_is_told_of(plan_of: Planner) -> None:
    text = """
stages:
  a: {command: [./a, "${{ streams.out.path }}"], writes: {out: {config: openpmd.json}}}
  b: {command: [./b, "${{ streams.out.path }}"], reads: {out: {config: openpmd.json}}}
streams:
  out: {from: a, to: b}
"""
    said = "stages.a.writes.out.config: nothing in its command, env or files names openpmd.json or"
    assert [line for line in plan_of(text).advice if line.startswith(said)]
    for given in ("@${{ streams.out.config }}", "@openpmd.json"):
        told = text.replace('./a, "${{ streams.out.path }}"', f'./a, "${{{{ streams.out.path }}}}", "{given}"')
        assert not [line for line in plan_of(told).advice if line.startswith(said)]


def test_the_key_by_which_a_reader_relies_on_what_a_program_writes(plan_of: Planner) -> None:
    text = """
stages:
  a: {command: [./a, "${{ streams.out.path }}"], writes: {out: {io: x, config: a.xml, variables: {T: {type: float64}}}}}
  b: {component: keep}
streams:
  out: {from: a, to: b, variables: {T: {shape: [4]}}}
"""
    plan = plan_of(text)
    assert end(plan, "b", "out").declared == {"T": "stages.a.writes.out.variables.T"}
    assert end(plan, "a", "out").declared == {}
