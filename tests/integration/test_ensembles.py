"""Ensembles: members of a simulation in one run, and what they send to one reader, or to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.ensembles import MEMBERS, WITH, of_members, values_of
from tests.support.pipelines import run
from workflow import stage


def test_statistics_over_members_are_those_of_their_files(tmp_path: Path) -> None:
    text = f"""
stages:
  sim:
    component: gray_scott
    members: {{matrix: {{F: [0.03, 0.04], k: [0.06, 0.062]}}}}
    with: {{size: [8], steps: 60, write_every: 10, {WITH}}}
  stat: {{component: statistics, with: {{variable: V}}}}
  keep: {{component: archive, with: {{path: stat.bp}}}}
streams:
  field: {{from: sim, to: stat, collect: any}}
  statistics: {{from: stat, to: keep}}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    members = of_members(done, 4)
    assert [len(each) for each in members] == [7] * 4
    assert not np.array_equal(members[0], members[1])  # they have values of their own
    both = np.concatenate(members)
    last = {name: values_of(done.folder / "stat.bp", name)[-1] for name in ("mean", "variance", "min", "max")}
    np.testing.assert_allclose(last["mean"], both.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(last["variance"], both.var(axis=0), rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(last["min"], both.min(axis=0))
    np.testing.assert_array_equal(last["max"], both.max(axis=0))


def test_the_engine_that_is_asked_for_and_the_same_data(tmp_path: Path) -> None:
    text = f"""
stages:
  sim: {{component: gray_scott, members: {MEMBERS[:3]}, with: {{size: [8], steps: 40, write_every: 10, {WITH}}}}}
  keep: {{component: archive, with: {{path: any.bp}}}}
streams:
  field: {{from: sim, to: keep, collect: any, queue: {{limit: 1}}, via: VIA}}
"""
    found: dict[str, dict[tuple[int, int], Any]] = {}
    ways = {"sst": ("sst", "SHM"), "tcp": ("sst, transport: tcp", "SST"), "bp5": ("bp5", "BP5")}
    for name, (via, engine) in ways.items():
        done = run(tmp_path, text.replace("VIA", via), name=name)
        assert done.code == 0, done.said
        engines = {stream.name: stream.engine for stream in done.report.streams}
        assert engines == dict.fromkeys(["field", "field-0", "field-1", "field-2"], engine)
        who, step, field = (values_of(done.folder / "any.bp", name) for name in ("member", "member_step", "V"))
        found[name] = {(int(who[at]), int(step[at])): field[at] for at in range(len(who))}
    assert (
        found["sst"].keys()
        == found["tcp"].keys()
        == found["bp5"].keys()
        == {(who, step) for who in range(3) for step in range(5)}
    )
    for key, field in found["sst"].items():
        np.testing.assert_array_equal(field, found["bp5"][key])
        np.testing.assert_array_equal(field, found["tcp"][key])


def test_the_same_step_of_all_members_is_one_step(tmp_path: Path) -> None:
    text = f"""
stages:
  sim: {{component: gray_scott, members: {MEMBERS[:3]}, with: {{size: [8], steps: 40, write_every: 10, {WITH}}}}}
  keep: {{component: archive, with: {{path: all.bp}}}}
streams:
  field: {{from: sim, to: keep, collect: all}}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    together = values_of(done.folder / "all.bp", "V")
    assert together.shape == (5, 3, 8, 8, 8)
    for index, member in enumerate(of_members(done, 3)):
        np.testing.assert_array_equal(together[:, index], member)
    np.testing.assert_array_equal(values_of(done.folder / "all.bp", "member"), [[0, 1, 2]] * 5)
    np.testing.assert_array_equal(values_of(done.folder / "all.bp", "member_step"), [[step] * 3 for step in range(5)])


def test_a_text_and_other_types_are_left_out_and_attributes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(
        "import sys\nimport numpy as np\nfrom workflow import stage\nwho = int(sys.argv[1])\n"
        "with stage.open_writer('field') as out:\n    out.attribute('unit', 'K', variable='T')\n"
        "    out.attribute('who', who)\n    for number in range(2):\n        with out.step():\n"
        "            out.write('T', np.full(2, 10.0 * who + number))\n            out.write('name', f'member {who}')\n"
        "            if sys.argv[2] == 'all':\n"
        "                out.write('n', np.int32(1) if who else np.float64(1))\n"
    )
    text = f"""
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{tmp_path}/sim.py", "${{{{ member.index }}}}", HOW]
    members: 2
    writes: {{field: {{}}}}
  keep: {{component: archive, with: {{path: out.bp}}}}
streams:
  field: {{from: sim, to: keep, collect: HOW}}
"""
    for how in ("any", "all"):
        done = run(tmp_path, text.replace("HOW", how), name=how)
        assert done.code == 0, done.said
        with stage.open_reader(path=done.folder / "out.bp") as steps:
            found = [(sorted(step.variables()), step.unit("T")) for step in steps]
        names = ["T", "member", "member_step"] if how == "all" else ["T", "member", "member_step", "name"]
        assert found == [(names, "K")] * (2 if how == "all" else 4)
    together = values_of(tmp_path / "all/out.bp", "T")
    np.testing.assert_array_equal(together, [[[0, 0], [10, 10]], [[1, 1], [11, 11]]])


def test_each_member_has_its_own_analysis_and_groups_have_readers(tmp_path: Path) -> None:
    text = f"""
stages:
  sim: {{component: gray_scott, members: 4, with: {{size: [8], steps: 20, write_every: 10, seed: "${{{{ member.index }}}}"}}}}
  half:
    command: ["${{{{ wf.python }}}}", "{tmp_path}/half.py", "${{{{ member.index }}}}"]
    reads: {{field: {{}}}}
    writes: {{half: {{}}}}
  keep: {{component: archive, with: {{path: "keep-${{{{ member.index }}}}.bp"}}}}
streams:
  field: {{from: sim, to: half, collect: each, via: bp5}}
  half: {{from: half, to: keep, collect: {{groups: 2}}}}
"""  # noqa: E501
    (tmp_path / "half.py").write_text(
        "import sys\nfrom workflow import stage\n"
        'with stage.open_reader("field") as field, stage.open_writer("half") as out:\n'
        "    for step in field:\n        with out.step():\n"
        '            out.write("H", step.read("V") / 2)\n            out.write("who", int(sys.argv[1]))\n'
    )
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    for group in range(2):
        kept = done.folder / f"keep-{group}.bp"
        who, step = values_of(kept, "who"), values_of(kept, "member_step")
        assert sorted(zip(who.tolist(), step.tolist(), strict=True)) == [
            (member, number) for member in (group, group + 2) for number in range(3)
        ]
        np.testing.assert_array_equal(values_of(kept, "member"), who)
        for member, number, half in zip(who, step, values_of(kept, "H"), strict=True):
            simulated = values_of(done.folder / f"streams/field-{member}.bp", "V")[number]
            np.testing.assert_array_equal(half, simulated / 2)


COUNTING = """
import sys
import numpy as np
from workflow import stage
who = int(sys.argv[1])
with stage.open_writer("field") as out:
    for number in range(6):
        with out.step():
            out.write("V", np.full(3, 100.0 * who + number))
"""


@pytest.mark.parametrize(
    ("how", "via", "written_by"),
    [
        ("neighbour", "sst", [0, 1, 2, 3]),
        ("{neighbour: 1}", "sst", [3, 0, 1, 2]),
        ("{neighbour: -2}", "bp5", [2, 3, 0, 1]),
        ("each", "sst", [0, 1, 2, 3]),
    ],
)
def test_each_member_reads_one_of_the_others(how: str, via: str, written_by: list[int], tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(COUNTING)
    text = f"""
stages:
  sim:
    members: 4
    command: ["${{{{ wf.python }}}}", "{tmp_path}/sim.py", "${{{{ member.index }}}}"]
    writes: {{field: {{}}}}
  keep: {{component: archive, members: [{{at: a}}, {{at: b}}, {{at: c}}, {{at: d}}], with: {{path: "${{{{ member.at }}}}.bp"}}}}
streams:
  field: {{from: sim, to: keep, collect: {how}, via: {via}}}
"""  # noqa: E501
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    for own, writer in zip("abcd", written_by, strict=True):
        expected = np.array([np.full(3, 100.0 * writer + number) for number in range(6)])
        np.testing.assert_array_equal(values_of(done.folder / f"{own}.bp", "V"), expected)


RING = """
import sys
from workflow import stage
value = 10.0 * int(sys.argv[1])
with stage.open_writer("right") as right:
    with stage.open_reader("left") as left:
        for number in range(5):
            with right.step():
                right.write("value", value)
            value = float(next(left).read("value")) + 1
        print(value)
"""


def test_the_members_of_a_simulation_exchange_in_a_circle(tmp_path: Path) -> None:
    """After five steps the value of a member has gone round five places, plus one at each."""
    (tmp_path / "ring.py").write_text(RING)
    text = f"""
stages:
  sim:
    members: 3
    command: ["${{{{ wf.python }}}}", "{tmp_path}/ring.py", "${{{{ member.index }}}}"]
    writes: {{right: {{}}}}
    reads: {{left: {{}}}}
streams:
  edge: {{from: sim.right, to: sim.left, collect: {{neighbour: 1}}}}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    assert [done.printed(f"sim-{at}") for at in range(3)] == [[str(10.0 * ((at - 5) % 3) + 5)] for at in range(3)]


def test_two_at_once_each_of_the_others_in_the_place_of_one_that_has_ended(tmp_path: Path) -> None:
    text = """
stages:
  sim:
    component: gray_scott
    members: {count: 5, at_once: 2}
    with: {size: [8], steps: 20, write_every: 10, seed: "${{ member.index }}"}
  keep: {component: archive, with: {path: all.bp}}
streams:
  field: {from: sim, to: keep, collect: any}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    stages = {stage.name: stage for stage in done.report.stages}
    for index in range(2, 5):
        before, begun = stages[f"sim-{index - 2}"].ended, stages[f"sim-{index}"].started
        assert before is not None and begun is not None and before <= begun
    found = zip(
        values_of(done.folder / "all.bp", "member"), values_of(done.folder / "all.bp", "member_step"), strict=True
    )
    assert sorted((int(who), int(step)) for who, step in found) == [
        (who, step) for who in range(5) for step in range(3)
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("members: 3", "members: [0.03, 0.04]"), "expected the values of each member by name"),
        (
            ("collect: any", "collect: {group: 2}"),
            "expected `each`, `any`, `all`, `neighbour`, `{groups: N}` or `{neighbour: N}`",
        ),
        (("collect: any", "collect: some"), "expected `each`, `any`, `all` or `neighbour`"),
        (("collect: any", "collect: {groups: 0}"), "expected at least 1, got 0"),
        (("collect: any, ", ""), "sim has 3 members, and nothing says how its reader gets them"),
        (("members: 3, ", ""), "stage `sim` has no members"),
        (("collect: any", "collect: {groups: 4}"), "4 groups of 3 members"),
        (("member.index", "member.indx"), "there is no `member.indx`"),
        (
            (
                'members: 3, with: {seed: "${{ member.index }}"}',
                'members: [{F: 0.03, k: 0.06}, {F: 0.04, k: 0.06}], with: {F: "${{ member.G }}"}',
            ),
            "members have member.F, member.index, member.k",
        ),
        (("members: 3", "members: [{a: 1}, {b: 2}]"), "the members have values of different names"),
        (("members: 3", "members: 0"), "expected at least 1, got 0"),
        (("stat:", "sim-0:"), "there is already a stage `sim-0`"),
        (
            ("members: 3", "members: {count: 3, at_once: 1}, on_failure: ignore"),
            "the others cannot go on without sim-0",
        ),
        (("via: sst", "via: hdf5"), "wf cannot see the steps of a stream by HDF5"),
        (("members: 3", "members: {count: 3, at_once: 1}"), "the reader would wait for members that have not begun"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changed: tuple[str, str], message: str) -> None:
    text = (
        'stages:\n  sim: {component: gray_scott, members: 3, with: {seed: "${{ member.index }}"}}\n'
        "  stat: {component: statistics, with: {variable: V}}\n  keep: {component: 'null'}\n"
        "streams:\n  field: {from: sim, collect: any, to: stat, via: sst}\n  statistics: {from: stat, to: keep}\n"
    )
    assert changed[0] in text
    done = run(tmp_path, text.replace(*changed))
    assert done.code == 2, done.said
    assert message in done.said
    assert "pipeline.yaml:" in done.said
