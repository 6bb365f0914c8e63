"""Members with drawn values, of which others begin in the places of those that fail."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.ensembles import has_steps, values_of
from tests.support.hurt_runs import HurtRun
from tests.support.pipelines import run
from tests.support.waiting import wait_until
from workflow.report.show.event_lines import event_text
from workflow.report.show.folded_members import counts_text, fold_report
from workflow.report.show.member_values import members_of_run
from workflow.run.records.events_file import read_events
from workflow.run.records.run_directory import read_filled_plan
from workflow.run.state.events import StageStarted
from workflow.run.state.lifecycle_events import StageIgnored
from workflow.spec.models.ensembles_and_triggers import Ensemble

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
    (table,) = members_of_run(done.report, "page")
    rows = {row[0]: (row[1], row[2], row[3]) for row in table.table.rows}
    assert rows == {
        name: (str(value), "failed" if value >= LIMIT else "succeeded", place[at - 1][0] if at else "")
        for place in places.values()
        for at, (name, _, value) in enumerate(place)
    }
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
