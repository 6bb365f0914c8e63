"""Joins, cycles, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.planner import Planner
from workflow.errors import SpecError
from workflow.plan.launch_requests import NOTHING_YET
from workflow.plan.topology.start_dependencies import find_cycle, may_overlap
from workflow.run.proof.smoke_streams import plan_smoke

PROGRAMS = """
stages:
  a: {{command: [./a, "${{{{ streams.ab.path }}}}", "${{{{ streams.ac.path }}}}"]}}
  b: {{command: [./b, "${{{{ streams.ab.path }}}}", "${{{{ streams.bc.path }}}}"]}}
  c: {{command: [./c, "${{{{ streams.ac.path }}}}", "${{{{ streams.bc.path }}}}"]}}
streams:
  ab: {{from: a, to: b, via: {ab}}}
  bc: {{from: b, to: c, via: {bc}}}
  ac: {{from: a, to: c, via: {ac}}}
"""


@pytest.mark.parametrize(
    ("links", "cycle"),
    [
        ({}, []),
        ({"a": ["b"], "b": ["c"], "c": []}, []),
        ({"a": ["b", "c"], "b": ["c"]}, []),
        ({"a": ["a"]}, ["a", "a"]),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c", "b"]),
        ({"c": ["d"], "d": ["e"], "e": ["c"], "a": ["b"]}, ["c", "d", "e", "c"]),
    ],
)
def test_find_cycle(links: dict[str, list[str]], cycle: list[str]) -> None:
    assert find_cycle("abcde", links) == cycle


def test_a_long_chain_needs_no_recursion() -> None:
    names = [f"s{index}" for index in range(5000)]
    links = {first: [second] for first, second in pairwise(names)}
    assert find_cycle(names, links) == []
    assert find_cycle(names, {**links, names[-1]: [names[0]]}) == [*names, names[0]]


class CountedLinks(list[str]):
    """Links of one node, which count how often they are followed."""

    followed = 0

    def __iter__(self) -> Iterator[str]:
        self.followed += 1
        return super().__iter__()


@pytest.mark.parametrize("order", ["abcd", "dcba", "bdca"])
def test_each_node_is_followed_once_however_many_ways_lead_to_it(order: str) -> None:
    """Else the time of a wide pipeline grows with the number of ways through it."""
    links = {name: CountedLinks(to) for name, to in {"a": "bc", "b": "d", "c": "d", "d": ""}.items()}
    assert find_cycle(order, links) == []
    assert {name: each.followed for name, each in links.items()} == dict.fromkeys("abcd", 1)


def test_stages_that_follow_each_other_do_not_overlap() -> None:
    waits = {"a": [], "b": ["a"], "c": ["b"], "d": []}
    overlap = may_overlap(["a", "b", "c", "d"], waits)
    assert overlap == {"a": 0b1000, "b": 0b1000, "c": 0b1000, "d": 0b0111}


def test_a_live_group_starts_together(plan_of: Planner) -> None:
    """b and c are joined live, so b waits for what c waits for: else it would sit in open meanwhile."""
    plan = plan_of(PROGRAMS.format(ab="bp5", bc="sst", ac="bp5"))
    assert plan.stage("a").starts_after == []
    assert plan.stage("b").starts_after == plan.stage("c").starts_after == ["a"]
    only_c = plan_of(PROGRAMS.format(ab="sst", bc="bp5", ac="bp5"))
    assert [stage.starts_after for stage in only_c.stages] == [[], [], ["a", "b"]]


def test_live_and_after_between_the_same_stages_is_refused(plan_of: Planner) -> None:
    with pytest.raises(SpecError, match="a, b, c start together because live streams join them"):
        plan_of(PROGRAMS.format(ab="bp5", bc="sst", ac="sst"))


def test_an_only_port_takes_any_stream(plan_of: Planner) -> None:
    text = """
stages:
  walk: {component: walker}
  keep: {component: keep}
streams:
  whatever: {from: walk, to: keep}
"""
    plan = plan_of(text)
    assert [end.port for stage in plan.stages for end in stage.ends] == ["positions", "input"]


PORTS = """
stages:
  sim: {command: [./sim], writes: {U: {io: u, config: a.xml}, V: {io: v, config: a.xml}}}
  one: {component: keep}
  two: {component: keep, with: {path: two.bp}}
streams:
  U: {from: sim, to: one}
  other: {from: sim.V, to: two}
"""


def test_ports_by_name_of_stream_or_in_words(plan_of: Planner) -> None:
    sim = plan_of(PORTS).stage("sim")
    assert [(end.stream, end.port, end.io) for end in sim.ends] == [("U", "U", "u"), ("other", "V", "v")]
    with pytest.raises(SpecError, match="writes U, V: which one is this stream"):
        plan_of(PORTS.replace("sim.V", "sim"))


def test_one_unclear_end_hides_no_other_mistake_and_makes_none(plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(PORTS.replace("sim.V", "sim").replace("to: one", "to: one, parameters: {Limit: 1}"))
    assert [problem.key for problem in caught.value.problems] == ["streams.U.parameters.Limit", "streams.other.from"]


DIAMOND = """
stages:
  src: {command: [./src], writes: {x: {io: x, config: a.xml}, y: {io: y, config: a.xml}}}
  mid: {command: [./mid], reads: {x: {io: x, config: a.xml}}, writes: {z: {io: z, config: a.xml}}}
  end: {command: [./end], reads: {y: {io: y, config: a.xml}, z: {io: z, config: a.xml}}}
streams:
  x: {from: src, to: mid}
  y: {from: src, to: end}
  z: {from: mid, to: end}
"""


def test_two_ways_to_one_stage_are_mentioned(plan_of: Planner) -> None:
    advice = [line for line in plan_of(DIAMOND).advice if "must open its streams" in line]
    assert advice == [
        "stage end reads y and z by SST, and both lead back to src: every open waits for its other end, "
        "so end must open its streams in the same order as src"
    ]
    assert not any("must open its streams" in line for line in plan_of(DIAMOND, via="bp5").advice)


def test_why_a_stage_waits(plan_of: Planner) -> None:
    reasons = plan_of(PROGRAMS.format(ab="bp5", bc="sst", ac="bp5")).reasons
    assert reasons["stages.b.starts_after"] == "reads ab when a has ended"
    together = plan_of(
        PROGRAMS.format(ab="sst", bc="sst", ac="sst").replace(
            "streams:",
            """\
  d: {command: [./d, "${{ streams.da.path }}"]}
streams:
  da: {from: d, to: a, via: file}""",
        )
    ).reasons
    assert together["stages.a.starts_after"] == "reads da when d has ended"
    assert together["stages.c.starts_after"] == "starts together with stages that wait for d"


def test_why_a_stage_waits_that_reads_nothing_of_what_it_waits_for(plan_of: Planner) -> None:
    """c reads a file of a, and its live partner b one of d. w, live with c too, only writes."""
    plan = plan_of("""
oversubscribe: true
stages:
  a: {command: [./a], writes: {ac: {}}}
  d: {command: [./d], writes: {db: {}}}
  b: {command: [./b], reads: {db: {}}, writes: {bc: {}}}
  w: {command: [./w], writes: {wc: {}}}
  c: {command: [./c], reads: {ac: {}, bc: {}, wc: {}}}
streams:
  ac: {from: a, to: c, via: bp5}
  db: {from: d, to: b, via: bp5}
  bc: {from: b, to: c}
  wc: {from: w, to: c}
""")
    assert {name: plan.reasons[f"stages.{name}.starts_after"] for name in "bwc"} == {
        "b": "reads db when d has ended; starts together with stages that wait for a",
        "w": "starts together with stages that wait for a and d",
        "c": "reads ac when a has ended; starts together with stages that wait for d",
    }


def cycle_problems(plan_of: Planner, stages: str, streams: str) -> list[str]:
    """What is refused: `key: message` of each problem. `x: {}` is a port of a program that uses `workflow.stage`."""
    with pytest.raises(SpecError) as caught:
        plan_of(f"oversubscribe: true\nstages:\n{stages}streams:\n{streams}")
    return [f"{problem.key}: {problem.message}" for problem in caught.value.problems]


STAGED = """\
  a: {command: [./a], writes: {x: {}}, reads: {y: {}}}
  b: {command: [./b], writes: {y: {}}, reads: {x: {}}}
"""


def test_a_cycle_through_a_second_reader(plan_of: Planner) -> None:
    """The first reader of x leads nowhere; the second one leads back."""
    stages = STAGED + "  first: {component: keep}\n"
    streams = "  x: {from: a, to: [first, b], via: bp5}\n  y: {from: b, to: a, via: bp5}\n"
    assert cycle_problems(plan_of, stages, streams) == [
        "streams.y: cycle a → b → a: each of these stages would start after another of them"
    ]
    assert find_cycle("abc", {"a": ["b", "c"], "c": ["a"]}) == ["a", "c", "a"]


def test_one_stage_that_waits_makes_a_cycle_of_live_streams_one_of_waits(plan_of: Planner) -> None:
    """One `after` stream is enough: its reader starts when its writer has ended, and that waits for the reader."""
    for streams in (
        "  x: {from: a, to: b, via: bp5}\n  y: {from: b, to: a}\n",
        "  x: {from: a, to: b}\n  y: {from: b, to: a, via: bp5}\n",
    ):
        (problem,) = cycle_problems(plan_of, STAGED, streams)
        assert problem.endswith("each of these stages would start after another of them")


FOREIGN = """\
  a: {command: [./a], writes: {x: {io: x, config: a.xml}}, reads: {y: {io: y, config: a.xml}}}
  b: {command: [./b], writes: {y: {}}, reads: {x: {}}}
"""


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_one_foreign_program_in_a_cycle_is_named_alone(plan_of: Planner, order: tuple[str, str]) -> None:
    """The order in which a opens its streams is not known, whether a writes the first stream or reads it."""
    first, second = order
    streams = {
        "a": "  x: {from: a, to: b}\n",
        "b": "  y: {from: b, to: a}\n",
    }
    (problem,) = cycle_problems(plan_of, FOREIGN, streams[first] + streams[second])
    assert problem.endswith("must open these streams in the same order, and the order in a is not known to wf")


FORTH = "  x: {from: a, to: b}\n"
BACK = "  y: {from: b, to: a, closes_circle: true}\n"


def test_programs_of_ones_own_may_see_to_the_order_in_a_circle(plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(f"oversubscribe: true\nstages:\n{FOREIGN}streams:\n{FORTH}  y: {{from: b, to: a}}\n")
    assert "write `closes_circle: true` in streams.y if " in caught.value.problems[0].hint
    plan = plan_of(f"oversubscribe: true\nstages:\n{FOREIGN}streams:\n{FORTH}{BACK}")
    assert [stage.starts_after for stage in plan.stages] == [[], []]
    assert [(stream.name, stream.closes_circle) for stream in plan.streams] == [("x", False), ("y", True)]


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        ("  x: {from: a, to: b}\n  y: {from: b, to: c, closes_circle: true}\n",
         "streams.y.closes_circle: no streams lead from c to b: y closes no circle"),
        (FORTH + BACK.replace("true", "true, via: bp5"),
         "streams.y.via: cycle b → a → b: a would start when b has ended, which waits for it"),
        (FORTH.replace("b}", "b, via: bp5}") + BACK,
         "streams.x.coupling: the stages a, b start together because live streams join them, "
         "so none of them can start after a has ended"),
        ("  x: {from: a, to: b}\n  y: {from: b, to: b, closes_circle: true}\n",
         "streams.y: stage b would read its own stream"),
    ],
)  # fmt: skip
def test_a_stream_that_cannot_close_a_circle(plan_of: Planner, streams: str, said: str) -> None:
    stages = "  a: {command: [./a, P]}\n  b: {command: [./b, P]}\n  c: {command: [./c, P]}\n".replace(
        "P", '"${{ streams.x.path }}", "${{ streams.y.path }}"'
    )
    assert cycle_problems(plan_of, stages, streams) == [said]


def test_other_circles_are_refused_beside_one_that_is_closed(plan_of: Planner) -> None:
    stages = FOREIGN.replace("x: {io: x, config: a.xml}", "x: {io: x, config: a.xml}, v: {io: v, config: a.xml}")
    stages += "  c: {command: [./c], writes: {w: {}}, reads: {v: {}}}\n"
    stages = stages.replace("y: {io: y, config: a.xml}", "y: {io: y, config: a.xml}, w: {io: w, config: a.xml}")
    (problem,) = cycle_problems(plan_of, stages, FORTH + BACK + "  v: {from: a, to: c}\n  w: {from: c, to: a}\n")
    assert problem.startswith("streams.w: cycle a → c → a: ")


def test_the_proof_leaves_a_stream_out_that_closes_a_circle(plan_of: Planner, tmp_path: Path) -> None:
    text = f"oversubscribe: true\nstages:\n{FOREIGN}streams:\n{FORTH}{BACK}"
    plan = plan_of(text)
    untried = plan_smoke(plan, tmp_path, NOTHING_YET, "python", 1.0)[1]
    assert untried["y"] == "it closes a circle, in which the programs see to the order of their opens"
    assert untried["x"] == "its ends begin on the same node"


def test_a_circle_of_live_streams_between_stages_that_use_workflow_stage_is_fine(plan_of: Planner) -> None:
    text = f"oversubscribe: true\nstages:\n{STAGED}streams:\n  x: {{from: a, to: b}}\n  y: {{from: b, to: a}}\n"
    plan = plan_of(text)
    assert [stage.starts_after for stage in plan.stages] == [[], []]
    assert any("read each other's streams in a circle" in line for line in plan.advice)


CIRCLE_AND_FILE = """
oversubscribe: true
stages:
  a: {command: [./a], writes: {x: {}, z: {}}, reads: {y: {}}}
  b: {command: [./b], writes: {y: {}}, reads: {x: {}}}
  c: {command: [./c], reads: {z: {}}}
streams:
  x: {from: a, to: b}
  y: {from: b, to: a}
  z: {from: a, to: c, via: bp5}
"""


def test_a_valid_circle_and_a_file_that_leaves_it(plan_of: Planner) -> None:
    """c waits for a alone: b is in a's live group, but c reads nothing of it."""
    plan = plan_of(CIRCLE_AND_FILE)
    assert [stage.starts_after for stage in plan.stages] == [[], [], ["a"]]
    assert any("read each other's streams in a circle" in line for line in plan.advice)


def test_a_valid_circle_whose_stages_are_also_joined_by_a_file(plan_of: Planner) -> None:
    """The circle is fine; the file would make b start after a, which starts together with b."""
    text = CIRCLE_AND_FILE.replace("reads: {x: {}}", "reads: {x: {}, z: {}}").replace("to: c, via", "to: [b, c], via")
    with pytest.raises(SpecError) as caught:
        plan_of(text)
    assert [(problem.key, problem.message) for problem in caught.value.problems] == [
        (
            "streams.z.coupling",
            "the stages a, b start together because live streams join them, so none of them can start after a has "
            "ended",
        )
    ]


def test_two_live_groups_that_wait_for_each_other(plan_of: Planner) -> None:
    """No cycle of streams: a starts with b, which waits for d, which starts with c, which waits for a."""
    stages = """\
  a: {command: [./a], writes: {ab: {}, ac: {}}}
  b: {command: [./b], reads: {ab: {}, db: {}}}
  c: {command: [./c], reads: {ac: {}}, writes: {cd: {}}}
  d: {command: [./d], reads: {cd: {}}, writes: {db: {}}}
"""
    streams = """\
  ab: {from: a, to: b}
  cd: {from: c, to: d}
  ac: {from: a, to: c, via: bp5}
  db: {from: d, to: b, via: bp5}
"""
    assert cycle_problems(plan_of, stages, streams) == [
        "streams.db.coupling: the stages a, b start together because live streams join them, so none of them can start "
        "after d has ended"
    ]


def test_a_stage_that_follows_two_others_overlaps_with_neither() -> None:
    overlap = may_overlap(["a", "b", "c"], {"a": [], "b": [], "c": ["a", "b"]})
    assert overlap == {"a": 0b010, "b": 0b001, "c": 0}


def test_what_a_stage_waits_for_is_in_the_order_of_the_file(plan_of: Planner) -> None:
    plan = plan_of("""
stages:
  z: {command: [./z], writes: {x: {}}}
  a: {command: [./a], writes: {y: {}}}
  r: {command: [./r], reads: {x: {}, y: {}}}
streams:
  y: {from: a, to: r, via: bp5}
  x: {from: z, to: r, via: bp5}
""")
    assert plan.stage("r").starts_after == ["z", "a"]
