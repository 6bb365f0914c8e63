"""The component `select` passes on exactly the steps around its events, step by step and value by value."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.live_runs import LiveRun, live_run, wf
from tests.support.pipelines import TIMEOUT_S, run
from tests.support.waiting import wait_until
from workflow import load_pipeline, make_plan, stage
from workflow.errors import SpecError
from workflow.testing import ComponentRunFailed

pytestmark = pytest.mark.turns(2)

if TYPE_CHECKING:
    from workflow.testing.pytest_plugin import RunComponent

pytest_plugins = ["workflow.testing.pytest_plugin"]

STEPS = 30
# One element of one step is this much larger than all others.
PEAK = 1000.0


def signal(step: int, events: Iterable[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Step i holds i + j / 100 in element j; at an event one element of the last rank's share is larger."""
    values = step + np.arange(24.0).reshape(8, 3) / 100
    if step in events:
        values[6, 1] += PEAK
    return values


def around(events: Iterable[int], before: int, after: int) -> list[int]:
    """The steps that should be passed on, by the definition."""
    return [each for each in range(STEPS) if any(event - before <= each <= event + after for event in events)]


@pytest.mark.parametrize(
    ("events", "before", "after", "times", "expected"),
    [
        ([12], 3, 4, "each", [9, 10, 11, 12, 13, 14, 15, 16]),
        ([12], 0, 0, "each", [12]),
        ([5, 20], 2, 1, "each", [3, 4, 5, 6, 18, 19, 20, 21]),
        ([5, 20], 2, 1, "once", [3, 4, 5, 6]),
        ([10, 12, 13], 3, 2, "each", [7, 8, 9, 10, 11, 12, 13, 14, 15]),  # windows that overlap
        ([10, 15], 2, 2, "each", [8, 9, 10, 11, 12, 13, 14, 15, 16, 17]),  # and that touch
        ([10, 16], 2, 2, "each", [8, 9, 10, 11, 12, 14, 15, 16, 17, 18]),  # one step between them
        ([0], 5, 1, "each", [0, 1]),
        ([2], 5, 1, "each", [0, 1, 2, 3]),
        ([29], 1, 10, "each", [28, 29]),
        ([], 5, 5, "each", []),
        (range(STEPS), 2, 2, "each", list(range(STEPS))),
        ([1, 2, 3], 1, 1, "once", [0, 1, 2]),
    ],
)
def test_it_passes_on_the_steps_around_the_events(
    events: list[int], before: int, after: int, times: str, expected: list[int], run_component: RunComponent
) -> None:
    assert expected == around(list(events)[:1] if times == "once" else events, before, after)
    given = [{"V": signal(step, events), "name": f"step {step}"} for step in range(STEPS)]
    parameters = {"variable": "V", "max": f"> {PEAK}", "before": before, "after": after, "times": times}
    written = run_component("select", reads={"input": given}, parameters=parameters)["output"]
    assert [int(step["selected_step"]) for step in written] == expected
    for number, step in zip(expected, written, strict=True):
        np.testing.assert_array_equal(step["V"], signal(number, events))
        assert str(step["name"]) == f"step {number}"


CONDITIONS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "smallest": ({"variable": "V", "min": "<= 2"}, [0, 1, 2]),
    "mean": ({"variable": "V", "mean": "> 27.5"}, [28, 29]),
    "a range": ({"variable": "V", "min": "> 10", "max": "< 12.5"}, [11, 12]),
    "exactly": ({"variable": "number", "max": 7}, [7]),
    "number of the step": ({"step": ">= 28"}, [28, 29]),
    "both": ({"variable": "V", "min": "> 10", "step": "< 13"}, [11, 12]),
    "not a number": ({"variable": "broken", "max": "> 3"}, [20]),
    "infinite": ({"variable": "broken", "max": "> 1e300"}, []),
}


# What several ranks do together is the same for all conditions.
@pytest.mark.parametrize(
    ("name", "ranks"), [*((name, 1) for name in CONDITIONS), ("mean", 2), ("a range", 2), ("not a number", 2)]
)
def test_conditions(name: str, ranks: int, run_component: RunComponent) -> None:
    parameters, expected = CONDITIONS[name]
    broken = {step: np.array([np.nan, -1.0, np.inf, float(step == 20) * 4]) for step in range(STEPS)}
    given = [
        {"V": signal(step, []), "number": np.int64(step), "broken": broken[step] if step > 3 else broken[0] * np.nan}
        for step in range(STEPS)
    ]
    written = run_component("select", reads={"input": given}, parameters=parameters, ranks=ranks)["output"]
    assert [int(step["selected_step"]) for step in written] == expected
    for number, step in zip(expected, written, strict=True):
        np.testing.assert_array_equal(step["V"], signal(number, []))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "select: there is no condition"),
        ({"max": "> 1"}, "max needs `variable`"),
        ({"variable": "V"}, "select: there is no condition"),
        ({"variable": "V", "step": "> 1"}, "V needs a condition on it"),
        ({"variable": "text", "max": "> 1"}, "variable text: expected type number, found string"),
    ],
)
def test_mistakes_are_said_at_once(parameters: dict[str, Any], said: str, run_component: RunComponent) -> None:
    with pytest.raises(ComponentRunFailed, match=said):
        run_component("select", reads={"input": [{"V": 1.0, "text": "a"}]}, parameters=parameters)


SIM = f"""
import numpy as np
from workflow import load_pipeline, make_plan, stage
with stage.open_writer("field") as out:
    for step in range({STEPS}):
        with out.step():
            out.attribute("unit", "m", variable="V")
            values = step + np.arange(24.0).reshape(8, 3) / 100
            values[6, 1] += {PEAK} * (step in (10, 13, 25))
            out.write("V", values, shape=(8, 3), start=(0, 0))
"""
PIPELINE = """
stages:
  sim: {{command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/sim.py"], writes: {{field: {{}}}}}}
  pick: {{component: select, ranks: 2, with: {{variable: {variable}, max: "{condition}", before: 2, after: 3}}}}
  keep: {{component: archive, with: {{path: picked.bp}}}}
streams:
  field: {{from: sim, to: pick, via: sst}}
  picked: {{from: pick, to: keep, via: sst}}
"""


def test_an_archive_of_the_interesting_steps(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    done = run(tmp_path, PIPELINE.format(variable="V", condition="> 1000"))
    assert done.code == 0, done.said
    expected = around([10, 13, 25], 2, 3)
    with stage.open_reader(path=done.folder / "picked.bp") as kept:
        found = 0
        for number, step in zip(expected, kept, strict=True):
            np.testing.assert_array_equal(step.read("V"), signal(number, [10, 13, 25]))
            assert (int(step.read("selected_step")), step.unit("V")) == (number, "m")
            found += 1
    assert found == len(expected) == 15
    said = (done.folder / "stages/pick/stdout.log").read_text()
    assert said == "select: 3 events, from step 10 to 25; 15 of 30 steps passed on\n"


SHORT = """
stages:
  sim: {command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py"], writes: {field: {}}}
  keep: {component: archive, with: {path: kept.bp}, when: {stream: field, variable: V, max: "> 1000", before: 2, after: 3}}
  first: {component: archive, with: {path: first.bp}, when: {stream: field, variable: V, max: "> 1000", before: 1, times: once}}
  late:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/late.py"]
    reads: {field: {}}
    when: {stream: field, step: ">= 27"}
  all: {component: archive, with: {path: all.bp}}
streams:
  field: {from: sim, to: [keep, all, first, late], via: VIA, queue: {limit: 1}}
"""  # noqa: E501
LATE = """
from workflow import stage
for step in stage.open_reader("field"):
    print(int(step.read("selected_step")), float(step.read("V").max()))
"""


@pytest.mark.parametrize("via", ["sst", "bp5"])
def test_stages_with_a_trigger_get_these_steps_and_the_others_all(via: str, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    (tmp_path / "late.py").write_text(LATE)
    done = run(tmp_path, SHORT.replace("VIA", via))
    assert done.code == 0, done.said
    events = [10, 13, 25]
    expected = {"kept": around(events, 2, 3), "first": [9, 10], "all": list(range(STEPS))}
    for name, numbers in expected.items():
        found = []
        with stage.open_reader(path=done.folder / f"{name}.bp") as kept:
            for number, step in zip(numbers, kept, strict=True):
                np.testing.assert_array_equal(step.read("V"), signal(number, events))
                assert step.unit("V") == "m"
                found.append(number if name == "all" else int(step.read("selected_step")))
        assert found == numbers
    assert done.printed("late") == [f"{number} {signal(number, events).max()}" for number in (27, 28, 29)]
    steps = {stream.name: stream.steps for stream in done.report.streams}
    assert steps == {"field": 30, "keep-when": 15, "first-when": 2, "late-when": 3}


def test_without_an_event_the_archive_is_empty_and_the_run_complete(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    done = run(tmp_path, PIPELINE.format(variable="V", condition="> 1e6"))
    assert done.code == 0, done.said
    assert done.report.stream("field").steps == STEPS
    assert done.report.stream("picked").steps == 0
    with stage.open_reader(path=done.folder / "picked.bp") as kept:
        assert list(kept) == []
    largest = signal(25, [25]).max()
    text = f"no step of 30 had max(V) > 1e6, and none was selected; the largest was {largest:.4g} at step 25"
    assert f"note: pick: {text}" in " ".join(done.said.split())
    assert f"pick: {text}" in done.report.notes and done.report.stage("pick").notes == [text]
    assert not [each for each in done.report.warnings if "wrote no step" in each]  # said already, and why
    status, _ = wf("status", str(done.folder), cwd=tmp_path).communicate(timeout=TIMEOUT_S)
    assert text in " ".join(status.split())


def test_each_member_whose_trigger_has_selected_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    text = """
stages:
  sim: {command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py"], writes: {field: {}}}
  keep:
    component: archive
    members: [{least: 1e6}, {least: 20}]
    with: {path: "kept-${{ member.index }}.bp"}
    when: {stream: field, variable: V, max: "> ${{ member.least }}", step: "< 5"}
streams:
  field: {from: sim, to: keep}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    largest = signal(25, [25]).max()
    expected = {
        "keep-when-0": f"max(V): the largest was {largest:.4g} at step 25; step < 5 at 5 steps",
        "keep-when-1": "max(V) > 20 at 12 steps; step < 5 at 5 steps",
    }
    for name, why in expected.items():
        (text,) = done.report.stage(name).notes
        assert text.partition("; ")[2] == why


def test_a_variable_that_is_not_there_is_named(tmp_path: Path) -> None:
    """What the simulation writes is not declared: so the first step shows it."""
    (tmp_path / "sim.py").write_text(SIM)
    done = run(tmp_path, PIPELINE.format(variable="VV", condition="> 1"))
    assert done.code == 1
    assert "stream field does not contain what stage pick needs: " in done.said
    assert "VV" in done.said and "Traceback" not in done.said


PLANNED = """
wf: 1
name: planned
oversubscribe: true
stages:
  sim: {{component: gray_scott, with: {{steps: 100, write_every: 10}}}}
  pick: {{component: select, {pick}}}
  keep: {{component: archive, with: {{variables: [{kept}]}}}}
streams:
  field: {{from: sim, to: pick}}
  picked: {{from: pick, to: keep}}
"""


@pytest.mark.parametrize(
    ("pick", "kept", "said"),
    [
        ('with: {variable: VV, max: "> 0.9"}', "V", r"pick.input needs `VV`, which sim.field does not write\n.*`V`"),
        ('with: {variable: V, max: "=> 0.9"}', "V", r'there is no operator `=>`\n.*did you mean `">= 0.9"`\?'),
        ('with: {variable: V, max: "> high"}', "V", r'expected an operator and a number, got "> high"'),
        ('with: {variable: V, maximum: "> 0.9"}', "V", r"select has no parameter `maximum`\n.*did you mean `max`\?"),
        ('with: {variable: V, max: "> 0.9", before: -1}', "V", r"before"),
        ('with: {variable: V, max: "> 0.9"}', "W", r"pick.output writes no `W`\n.*selected_step"),
        ('with: {variable: V, max: "> 0.9"}, on_failure: restart', "V", r"restart"),
    ],
)
def test_what_can_be_known_is_said_by_the_plan(pick: str, kept: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PLANNED.format(pick=pick, kept=kept))
    with pytest.raises(SpecError, match=said):
        make_plan(load_pipeline(file, site="local"))


def test_what_follows_has_the_variables_of_the_input_and_no_deadline(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PLANNED.format(pick='with: {variable: V, max: "> 0.9"}', kept="V, selected_step"))
    plan = make_plan(load_pipeline(file, site="local", sets=["deadlines.step=10 s"]))
    assert plan.stage("pick").end("field", "read").step_timeout_s == 10.0
    assert plan.stage("keep").end("picked", "read").step_timeout_s is None
    assert plan.stage("pick").end("picked", "write").passes == "input"
    assert plan.stage("sim").end("field", "write").passes == ""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveRun]:
    with live_run(tmp_path, "keep: true") as running:
        running.let_write(3)
        yield running


def attach(live: LiveRun, *argv: str) -> subprocess.Popen[str]:
    return wf("attach", str(live.folder), *argv, "--set", "oversubscribe=true", "-q", cwd=live.folder.parent)


ARCHIVE = ["--component", "archive", "--with", "path=picked.bp", "--from", "beginning"]
WHEN = ["--when", "values max >= 20", "--before", "5", "--after", "2"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--when", "values mean == 20", "--before", "5", "--after", "2"], range(15, 23)),
        (["--when", "values min > 30", "--before", "1", "--once"], range(30, 32)),
        (["--when", "step <2", "--after", "1"], range(3)),
    ],
)
def test_what_is_attached_gets_the_steps_around_an_event(live: LiveRun, argv: list[str], expected: range) -> None:
    process = attach(live, *ARCHIVE, *argv)
    picked = live.folder / "attached/archive"
    wait_until(lambda: '"open"' in text_of(picked / "stages/archive/metrics.jsonl"), "it is attached")
    assert live.end() is not None
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said
    with stage.open_reader(path=picked / "picked.bp") as kept:
        found = [(int(step.read("selected_step")), step.read("values")) for step in kept]
    assert [number for number, _ in found] == list(expected)
    for number, values in found:
        np.testing.assert_array_equal(values, np.full(1000, number))
    assert live.process.returncode == 0


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_script_is_attached_to_the_steps_around_an_event(live: LiveRun, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from workflow import stage\n"
        "with stage.open_reader('data') as data:\n"
        "    for step in data:\n"
        "        print(step.read('selected_step'), step.read('values').max(), flush=True)\n"
    )
    process = attach(live, str(tmp_path / "mine.py"), "--from", "beginning", *WHEN[:-4], "--once", "--before", "1")
    wait_until(lambda: '"open"' in text_of(live.folder / "attached/mine/stages/mine/metrics.jsonl"), "it is attached")
    live.end()
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said
    assert (live.folder / "attached/mine/stages/mine/stdout.log").read_text() == "19 19.0\n20 20.0\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--when", "values > 3"], "`values > 3` is not an event"),
        (["--when", "values max => 3"], 'did you mean `">= 3"`?'),
        (["--before", "3"], "belong to --when"),
    ],
)
def test_mistakes_of_what_is_attached(live: LiveRun, argv: list[str], said: str) -> None:
    process = attach(live, *ARCHIVE, *argv)
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2, printed
    assert said in printed
    assert not list((live.folder / "attached").glob("*"))


def test_a_variable_that_the_run_does_not_write_is_named(live: LiveRun) -> None:
    process = attach(live, *ARCHIVE, "--when", "valeus max > 3")
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, printed
    assert "valeus" in printed
    assert live.process.poll() is None
