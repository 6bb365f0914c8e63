"""Ensembles: members of a simulation in one run, what they send to one reader, and members that fail."""

from __future__ import annotations

import contextlib
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.held_members import held_gray_scott, let_go
from tests.support.hurt_runs import HurtRun, newest_pid
from tests.support.pipelines import Done, run
from tests.support.reliability import steps_done
from tests.support.waiting import wait_until
from workflow import stage
from workflow.report.show.event_lines import event_text
from workflow.report.show.folded_members import counts_text, fold_report
from workflow.run.records.events_file import read_events
from workflow.run.records.run_directory import read_filled_plan
from workflow.run.state.events import StageStarted
from workflow.run.state.lifecycle_events import StageIgnored
from workflow.spec.models.pipeline import Ensemble

MEMBERS = [{"F": 0.02 + 0.002 * index, "k": 0.055 + 0.0005 * index} for index in range(16)]
WITH = 'F: "${{ member.F }}", k: "${{ member.k }}", seed: "${{ member.index }}"'


def values_of(path: Path, name: str) -> np.ndarray[Any, Any]:
    """All steps of a variable in a file, one that its writer has not closed included."""
    found: list[Any] = []
    with stage.open_reader(path=path) as steps, contextlib.suppress(stage.StreamFailed):  # its writer was killed
        found.extend(step.read(name) for step in steps)
    return np.array(found)


def of_members(done: Done, count: int) -> list[np.ndarray[Any, Any]]:
    """V of each member, by its own file."""
    width = len(str(count - 1))
    return [values_of(done.folder / f"streams/field-{index:0{width}}.bp", "V") for index in range(count)]


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
    for via in ("sst", "bp5"):
        done = run(tmp_path, text.replace("VIA", via), name=via)
        assert done.code == 0, done.said
        engines = {stream.name: stream.engine for stream in done.report.streams}
        assert engines == dict.fromkeys(["field", "field-0", "field-1", "field-2"], via.upper())
        who, step, field = (values_of(done.folder / "any.bp", name) for name in ("member", "member_step", "V"))
        found[via] = {(int(who[at]), int(step[at])): field[at] for at in range(len(who))}
    assert found["sst"].keys() == found["bp5"].keys() == {(who, step) for who in range(3) for step in range(5)}
    for key, field in found["sst"].items():
        np.testing.assert_array_equal(field, found["bp5"][key])


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


HURT = """
wf: 1
name: hurt
oversubscribe: true
deadlines: {{start: 90 s, step: 90 s, run: 200 s, stop: 2 s}}
stages:
  sim:
    component: ./held
    members: {members}
    with: {{size: [24], steps: 600, write_every: 20, {with_}}}
    on_failure: {{do: restart, times: 1, backoff: 0.1 s, then: ignore}}
  stat: {{component: statistics, with: {{variable: V}}}}
  keep: {{component: archive, with: {{path: stat.bp}}}}
  raw: {{component: archive, with: {{path: raw.bp}}}}
streams:
  field: {{from: sim, to: [stat, raw], collect: {collect}}}
  statistics: {{from: stat, to: keep}}
"""


def has_steps(run_dir: Path, name: str) -> bool:
    return steps_done(run_dir, name) >= 3


def test_sixteen_members_of_which_two_are_restarted_and_one_is_ignored(tmp_path: Path) -> None:
    hurt = HurtRun(tmp_path, "hurt")
    (tmp_path / "pipeline.yaml").write_text(HURT.format(members=MEMBERS, with_=WITH, collect="any"))
    restarted, ignored = ("sim-03", "sim-11"), "sim-07"
    held_gray_scott(tmp_path, (3, 7, 11))

    def kill(run_dir: Path, _: int) -> None:
        for name in (*restarted, ignored):
            wait_until(partial(has_steps, run_dir, name), f"step 3 of {name}")
            hurt.signal(run_dir, name, signal.SIGKILL)
        for member in (3, 11):
            let_go(tmp_path, member)
        first = newest_pid(run_dir, ignored)
        wait_until(lambda: newest_pid(run_dir, ignored) not in (None, first), f"{ignored} is started again")
        hurt.signal(run_dir, ignored, signal.SIGKILL)

    done = hurt.go(kill)
    assert done.code == 0, done.said
    events = list(read_events(done.folder))
    gone = [event for event in events if isinstance(event, StageIgnored)]
    assert [(event.stage, event.streams) for event in gone] == [(ignored, ["field-07"])]
    assert {*restarted} <= {each.stage for each in done.report.restarts}
    members = of_members(done, 16)
    assert [len(each) for index, each in enumerate(members) if index != 7] == [31] * 15
    assert 3 <= len(members[7]) < 31
    both = np.concatenate(members)
    number = values_of(done.folder / "stat.bp", "number")[-1]
    assert number == len(both)
    np.testing.assert_allclose(values_of(done.folder / "stat.bp", "mean")[-1], both.mean(axis=0), rtol=1e-12)


def test_a_member_that_never_begins_is_not_waited_for(tmp_path: Path) -> None:
    """An unchanged program as well: it does not use workflow.stage."""
    (tmp_path / "sim.py").write_text(
        "import sys\nimport adios2\nimport numpy as np\nwho, path = int(sys.argv[1]), sys.argv[2]\n"
        "if who == 1:\n    sys.exit('no licence')\n"
        "io = adios2.Adios().declare_io('field')\nio.set_engine('BP5')\n"
        "with adios2.Stream(io, path, 'w') as out:\n"
        "    for step in out.steps(4):\n"
        "        step.write('V', np.full(3, 10.0 * who + step.current_step()), [3], [0], [3])\n"
    )
    text = f"""
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{tmp_path}/sim.py", "${{{{ member.index }}}}", "${{{{ streams.field.path }}}}"]
    members: 3
    on_failure: ignore
    writes: {{field: {{io: field, config: adios2.xml}}}}
  keep: {{component: archive, with: {{path: all.bp}}}}
streams:
  field: {{from: sim, to: keep, collect: all}}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    expected = [[[10.0 * who + step] * 3 for who in (0, 2)] for step in range(4)]
    np.testing.assert_array_equal(values_of(done.folder / "all.bp", "V"), expected)
    np.testing.assert_array_equal(values_of(done.folder / "all.bp", "member"), [[0, 2]] * 4)
    assert any("sim-1 ended with exit code 1; the others went on without it" in each for each in done.report.warnings)


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


# A program that cannot compute with every value: one with F of LIMIT and more dies before its step DIES, for certain.
# With a third word it waits before its step 3 until that file is there.
FRAGILE = """
import sys, time
from pathlib import Path
import numpy as np
from workflow import stage
F, number = float(sys.argv[1]), int(sys.argv[2])
with stage.open_writer("field") as out:
    for step in range(8):
        if step == DIES and F >= LIMIT:
            sys.exit(f"F = {F} does not converge")
        while step == 3 and len(sys.argv) > 3 and not Path(sys.argv[3]).exists():
            time.sleep(0.01)
        with out.step():
            out.write("V", np.sin(F * np.arange(1.0, 6.0) * (step + 1)))
            out.write("F", F)
            out.write("number", number)
"""
LIMIT, REDRAWS = 0.0355, 2
DRAWN = {"count": 6, "draw": {"F": {"from": 0.03, "to": 0.05}}, "seed": 7}
REDRAWN = """
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", "${{{{ member.F }}}}", "${{{{ member.index }}}}"{more}]
    members: {{count: 6, at_once: {at_once}, draw: {{F: {{from: 0.03, to: 0.05}}}}, seed: 7}}
    on_failure: {rule}
    writes: {{field: {{}}}}
  stat: {{component: statistics, with: {{variable: V}}}}
  keep: {{component: archive, with: {{path: stat.bp}}}}
  raw: {{component: archive, with: {{path: raw.bp}}}}
streams:
  field: {{from: sim, to: [stat, raw], collect: any}}
  statistics: {{from: stat, to: keep}}
"""


def fragile(folder: Path, dies: int) -> None:
    (folder / "sim.py").write_text(FRAGILE.replace("LIMIT", str(LIMIT)).replace("DIES", str(dies)))


def of_places() -> dict[int, list[tuple[str, int, float]]]:
    """Member → (stage, number, F) of each that is to run in its place, in order."""
    found: dict[int, list[tuple[str, int, float]]] = {}
    for index in range(6):
        for redraw in range(REDRAWS + 1):
            name = f"sim-{index}" + (f"-redrawn-{redraw}" if redraw else "")
            value = float(Ensemble.model_validate(DRAWN).drawn(index, redraw)["F"])
            found.setdefault(index, []).append((name, 6 * redraw + index, value))
            if value < LIMIT:
                break
    return found


def check_redrawn(folder: Path, dies: int) -> None:
    """The collected stream has the steps of all that were to run, each once, and no others."""
    ran = [each for place in of_places().values() for each in place]
    expected = {
        (number, step, value): np.sin(value * np.arange(1.0, 6.0) * (step + 1))
        for _, number, value in ran
        for step in range(8 if value < LIMIT else dies)
    }
    names = ("member", "member_step", "F", "number", "V")
    member, step, value, number, fields = (values_of(folder / "raw.bp", name) for name in names)
    np.testing.assert_array_equal(member, number)
    keys = list(zip(member.tolist(), step.tolist(), value.tolist(), strict=True))
    assert sorted(keys) == sorted(expected)
    for key, field in zip(keys, fields, strict=True):
        np.testing.assert_array_equal(field, expected[key])
    written = [name.replace("sim", "field") for name, _, value in ran if dies or value < LIMIT]
    own = [values_of(folder / f"streams/{name}.bp", "V") for name in written]
    both = np.concatenate(own)
    assert values_of(folder / "stat.bp", "number")[-1] == len(both) == len(expected)
    np.testing.assert_allclose(values_of(folder / "stat.bp", "mean")[-1], both.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(values_of(folder / "stat.bp", "variance")[-1], both.var(axis=0), rtol=1e-9)


@pytest.mark.parametrize(
    ("at_once", "rule"),
    [(6, "{do: redraw, redraws: 2}"), (2, "{do: restart, times: 1, backoff: 0.1 s, then: redraw, redraws: 2}")],
    ids=["all at once", "restarted first, two at once"],
)
def test_a_member_that_fails_is_drawn_again(tmp_path: Path, at_once: int, rule: str) -> None:
    places = of_places()
    lengths = [len(place) for place in places.values()]
    assert sorted(lengths) == [1, 1, 2, 3, 3, 3]
    assert [place[-1][2] >= LIMIT for place in places.values()].count(True) == 1  # one is ignored in the end
    fragile(tmp_path, 3)
    done = run(tmp_path, REDRAWN.format(folder=tmp_path, more="", at_once=at_once, rule=rule))
    assert done.code == 0, done.said
    check_redrawn(done.folder, 3)
    failed = {name for place in places.values() for name, _, value in place if value >= LIMIT}
    ran = {name for place in places.values() for name, _, _ in place}
    states = {each.name: each.state for each in done.report.stages if each.ensemble == "sim"}
    assert len(states) == 18
    assert {name for name, state in states.items() if state == "failed"} == failed
    assert {name for name, state in states.items() if state == "succeeded"} == ran - failed
    assert {name for name, state in states.items() if state == "unneeded"} == states.keys() - ran
    events = list(read_events(done.folder))
    ignored = {each.stage: each.redrawn for each in events if isinstance(each, StageIgnored)}
    assert ignored == {
        name: place[at + 1][0] if at + 1 < len(place) else ""
        for place in places.values()
        for at, (name, _, value) in enumerate(place)
        if value >= LIMIT
    }
    plan = read_filled_plan(done.folder)
    lines = [line for each in events if (line := event_text(each, plan))]
    first = next(place for place in places.values() if len(place) > 1)
    assert f"{first[0][0]}: the others go on without it, and {first[1][0]} (F={first[1][2]}) begins in its place" in (
        line.partition(";")[0] for line in lines
    )
    assert any(f"and {first[1][0]} in its place (`redraw`)" in each for each in done.report.warnings)
    shown = {each.name: each.state for each in fold_report(done.report).stages}
    assert shown["6 × sim"] == counts_text(states[f"sim-{index}"] for index in range(6))
    assert "unneeded" in shown["12 × sim-redrawn"] and "unneeded" not in shown["6 × sim"]


def test_a_run_of_which_all_members_fail_has_failed(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text("import sys\nsys.exit('it does not converge')\n")
    rule = "{do: redraw, redraws: 1}"
    done = run(tmp_path, REDRAWN.format(folder=tmp_path, more="", at_once=6, rule=rule))
    assert done.code == 1
    assert "none of the 12 members has done its work; sim-0" in done.report.run.reason


def test_an_ensemble_of_which_none_was_drawn_again_is_re_used(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(FRAGILE.replace("LIMIT", "1.0").replace("DIES", "3"))
    text = REDRAWN.format(folder=tmp_path, more="", at_once=6, rule="redraw")
    assert run(tmp_path, text).code == 0
    done = run(tmp_path, text, "--reuse", str(tmp_path / "run"), name="again")
    assert done.code == 0, done.said
    assert not [each for each in read_events(done.folder) if isinstance(each, StageStarted)]
    states = {each.name: each.state for each in done.report.stages}
    assert (states["sim-5"], states["sim-5-redrawn-1"], states["field-merge"]) == ("succeeded", "unneeded", "succeeded")


@pytest.mark.parametrize("dies", [3, 0])
def test_a_run_that_goes_on_goes_on_with_those_that_were_drawn_again(dies: int, tmp_path: Path) -> None:
    hurt, go = HurtRun(tmp_path, "hurt"), tmp_path / "go"
    fragile(tmp_path, dies)
    head = "wf: 1\nname: again\noversubscribe: true\ndeadlines: {start: 90 s, step: 90 s, run: 200 s, stop: 2 s}\n"
    rule = f"{{do: redraw, redraws: {REDRAWS}}}"
    text = REDRAWN.format(folder=tmp_path, more=f', "{go}"', at_once=6, rule=rule)
    (tmp_path / "pipeline.yaml").write_text(head + text)
    places = [[name for name, _, _ in place] for place in of_places().values()]
    left = [place[-1] for place in of_places().values()]
    failures = sum(value >= LIMIT for place in of_places().values() for _, _, value in place)

    def given_up(run_dir: Path) -> int:
        return sum(isinstance(each, StageIgnored) for each in read_events(run_dir))

    def end(run_dir: Path, pid: int) -> None:
        for name in [name for name, _, value in left if value < LIMIT]:
            wait_until(partial(has_steps, run_dir, name), f"step 3 of {name}")
        wait_until(lambda: given_up(run_dir) == failures, "all that fail are given up")
        hurt.end_all(run_dir, pid)

    hurt.go(end)
    go.touch()
    done = hurt.go()
    assert done.code == 0, done.said
    check_redrawn(done.folder, dies)
    part = read_filled_plan(done.folder).part
    assert part is not None
    assert {*part.given_up} == {name for place in places for name in place[:-1]}
    begun = {each.stage for each in read_events(done.folder) if isinstance(each, StageStarted)}
    assert not begun & {*part.given_up}
    states = {each.name: each.state for each in done.report.stages if each.ensemble == "sim"}
    ran = {name for place in places for name in place}
    assert {name for name, state in states.items() if state == "unneeded"} == states.keys() - ran


UNEVEN = """
import sys, time
import numpy as np
from workflow import stage
who = int(sys.argv[1])
with stage.open_writer("field") as out:
    for step in range(12):
        with out.step():
            out.write("V", np.full(3, 100.0 * who + step))
        time.sleep(0.03 + 0.15 * who)
"""


def test_the_order_of_the_first_part_stays(tmp_path: Path) -> None:
    """What an archive has read is not read again, and the steps that follow are the others."""
    hurt = HurtRun(tmp_path, "hurt")
    (tmp_path / "sim.py").write_text(UNEVEN)
    (tmp_path / "pipeline.yaml").write_text(f"""
wf: 1
name: order
oversubscribe: true
deadlines: {{start: 90 s, step: 90 s, run: 200 s, stop: 2 s}}
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{tmp_path}/sim.py", "${{{{ member.index }}}}"]
    members: 3
    writes: {{field: {{}}}}
  raw: {{component: archive, with: {{path: raw.bp}}}}
streams:
  field: {{from: sim, to: raw, collect: any}}
""")

    def end(run_dir: Path, pid: int) -> None:
        wait_until(lambda: steps_done(run_dir, "raw") >= 10, "ten steps are in the archive")
        hurt.end_all(run_dir, pid)

    hurt.go(end)
    done = hurt.go()
    assert done.code == 0, done.said
    raw = done.folder / "raw.bp"
    who, step, values = (values_of(raw, name) for name in ("member", "member_step", "V"))
    assert who[:9].tolist() != [0, 1, 2] * 3  # the order in which they are read once all of their steps are there
    assert sorted(zip(who.tolist(), step.tolist(), strict=True)) == [(at, k) for at in range(3) for k in range(12)]
    np.testing.assert_array_equal(values[:, 0], 100.0 * who + step)


@pytest.mark.parametrize("saved", [False, True], ids=["from the start", "from saved states"])
def test_a_resumed_ensemble_has_the_steps_of_one_that_was_not_interrupted(saved: bool, tmp_path: Path) -> None:
    hurt = HurtRun(tmp_path, "hurt")
    text = HURT.format(members=MEMBERS[:3], with_=WITH, collect="any").replace("size: [24]", "size: [40]")
    if saved:
        text = text.replace("    on_failure:", "    checkpoint: {every: 1 ms}\n    on_failure:")
        text = text.replace("variable: V}", "variable: V}, checkpoint: {every: 0.1 s}")
    (tmp_path / "pipeline.yaml").write_text(text)
    held_gray_scott(tmp_path, [0])

    def end(run_dir: Path, pid: int) -> None:
        states = run_dir / "stages/stat/state"
        wait_until(lambda: steps_done(run_dir, "raw") >= 20, "ten steps are in the archive")
        wait_until(lambda: not saved or any(states.glob("*.json")), "stat has saved a state")
        hurt.end_all(run_dir, pid)

    hurt.go(end)
    let_go(tmp_path, 0)
    done = hurt.go()
    assert done.code == 0, done.said
    last = tmp_path / "part2"
    begun = {stage.name: stage.first_step for stage in done.report.stages}
    assert 0 not in (begun["sim-0"], begun["sim-1"], begun["sim-2"]), begun  # None: it had ended
    assert values_of(last / "stat.bp", "number")[-1] == 3 * 31
    # What the archive has read of the first part stays, and the others follow: none twice, none missing.
    who, step = values_of(last / "raw.bp", "member"), values_of(last / "raw.bp", "member_step")
    assert sorted(zip(who.tolist(), step.tolist(), strict=True)) == [(at, k) for at in range(3) for k in range(31)]
    whole = HurtRun(tmp_path / "whole", "whole")
    whole.folder.mkdir()
    held_gray_scott(whole.folder, [])
    (whole.folder / "pipeline.yaml").write_text((tmp_path / "pipeline.yaml").read_text())
    undisturbed = whole.go()
    assert undisturbed.code == 0, undisturbed.said
    expected = values_of(undisturbed.folder / "stat.bp", "mean")[-1]
    np.testing.assert_allclose(values_of(last / "stat.bp", "mean")[-1], expected, rtol=1e-12)


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
        (("via: sst", "via: hdf5"), "of a stream by HDF5 nobody sees when a step is there"),
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
