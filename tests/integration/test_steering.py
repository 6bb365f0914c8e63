"""Values of a simulation are changed while it runs: at the same step on all ranks, and again by what repeats it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import adios2
import numpy as np
import pytest

import workflow
from tests.integration.test_replay import replay
from tests.support.pipelines import TIMEOUT_S
from tests.support.steered_runs import PIPELINE, STEPS, SteeredRun, declared, progress, steering, taken
from tests.support.waiting import wait_until
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.errors import RunError
from workflow.formats.json_lines import append_record
from workflow.run.state.events import StageSteered, SteeringRefused

pytestmark = pytest.mark.turns(2)

Make = Callable[..., SteeredRun]


@pytest.fixture
def steered(tmp_path: Path) -> Iterator[Make]:
    made = []

    def make(name: str = "steered", **given: object) -> SteeredRun:
        made.append(SteeredRun(tmp_path / name, **given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


def values(file: Path) -> list[np.ndarray]:
    with adios2.FileReader(str(file)) as reader:
        assert reader.num_steps() == STEPS
        return list(reader.read("V", step_selection=[0, STEPS]).reshape(STEPS, -1))


@pytest.mark.parametrize(("ranks", "adios2"), [(1, "serial"), (4, "serial"), (4, "mpi")])
def test_the_same_change_at_the_same_step_gives_the_same_bits(
    ranks: int, adios2: str, steered: Make, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue("mpi_python") if adios2 == "mpi" else sys.executable
    live = steered(ranks=ranks, python=python).held()
    said = live.set("stages.sim.steer.F=0.04", "stages.sim.steer.k=0.061", "--at-step", "20")
    waiting = r"waiting for (sim to say whether step 20 is yet to come|the supervisor of run), \d+ s at most\n"
    taken_later = "sim: F, k will be taken at step 20; `wf status run` shows when it was\n"
    assert said.code == 0
    assert re.fullmatch(f"{waiting}{taken_later}", said.said), said.said
    done = live.go()
    assert done.code == 0, done.said
    assert taken(done.folder) == [(20, {"F": 0.04, "k": 0.061})]
    with_it = declared(tmp_path / "declared", ("F", 20, 0.04), ("k", 20, 0.061))
    assert compare_runs(done.folder / "field.bp", with_it).identical
    without = declared(tmp_path / "without")
    same = [np.array_equal(a, b) for a, b in zip(values(with_it), values(without), strict=True)]
    assert same == [True] * 20 + [False] * (STEPS - 20), "step 20 is the first one that is computed with them"


def test_at_once_is_recorded_with_who_when_step_old_and_new(steered: Make, tmp_path: Path) -> None:
    live = steered().held()
    asking = live.ask("stages.sim.steer.F=0.04")
    done = live.go()
    said, _ = asking.communicate(timeout=TIMEOUT_S)
    asked, event = steering(done.folder)
    assert isinstance(event, StageSteered)
    event_line = f"sim: F 0.03 → 0.04 from step {event.step} on"
    assert said.splitlines()[-1] == event_line  # before, what it waits for
    assert (event.stage, event.old, event.new, event.exact) == ("sim", {"F": 0.03}, {"F": 0.04}, True)
    assert event.by == asked.by and "@" in event.by
    (part,) = done.report.steering
    assert (part.step, part.by, part.old, part.new) == (event.step, event.by, event.old, event.new)
    note = f"{event_line}, by {event.by}"
    assert note in done.report.notes
    assert '<rect class="moment"' in (page := (done.folder / "report.html").read_text()) and note in page
    assert compare_runs(done.folder / "field.bp", declared(tmp_path / "again", ("F", event.step, 0.04))).identical


@pytest.mark.parametrize(("ranks", "killed"), [(1, "sim"), (4, "sim"), (1, "supervisor")])
def test_a_part_of_the_run_takes_them_again(ranks: int, killed: str, steered: Make, tmp_path: Path) -> None:
    """The first change is taken before the kill; the second one was asked for, and its step was not reached."""
    live = steered(ranks=ranks).held()
    assert live.set("stages.sim.steer.F=0.04", "--at-step", "14").code == 0
    assert live.set("stages.sim.steer.k=0.061", "--at-step", "30").code == 0
    live.held(16)
    assert taken(live.folder) == [(14, {"F": 0.04})]
    live.kill(killed)
    done = live.resume()
    assert done.code == 0, done.said
    # After the supervisor it is the reader that ends, or the simulation, which then may be far ahead.
    assert killed == "supervisor" or done.report.stage("sim").first_step
    assert (30, {"k": 0.061}) in taken(done.folder)
    with_it = declared(tmp_path / "declared", ("F", 14, 0.04), ("k", 30, 0.061))
    assert compare_runs(done.folder / "field.bp", with_it).identical


def test_a_simulation_that_is_started_again_takes_them_again(steered: Make) -> None:
    """It goes on from a state of before the change, with which readers have got steps already."""
    text = PIPELINE.format(ranks=1, more="on_failure: {do: restart, backoff: 0.1 s}")
    text = text.replace("via: sst}", "via: sst, keep: true}")
    live = steered(text=text).held()
    assert live.set("stages.sim.steer.F=0.04", "--at-step", "12").code == 0
    live.held(16)
    live.kill_process("sim")
    wait_until(lambda: read_report(live.folder).restarts, "it is started again")
    done = live.go()
    assert done.code == 0, done.said
    (part,) = done.report.steering
    assert part.step == 12, "it is one change, however often it is taken"
    same = text.replace("    on_failure", "    steer: {F: {at: [{step: 12, value: 0.04}]}}\n    on_failure")
    other = steered("declared", text=same).go()
    assert other.code == 0, other.said
    assert compare_runs(done.folder / "field.bp", other.folder / "field.bp").identical


def test_another_stage_steers(steered: Make, tmp_path: Path) -> None:
    ask = "step.index == 2 and (stage.steer('sim', F=np.float32(0.5), at_step=20), stage.steer('sim', k=-1))"
    live = steered(steer=f"import numpy as np; {ask}").held()
    wait_until(lambda: len(steering(live.folder)) == 3, "the supervisor has both requests")
    done = live.go()
    assert done.code == 0, done.said
    assert taken(done.folder) == [(20, {"F": 0.5})]
    notes = done.report.notes
    assert "sim: F 0.03 → 0.5 from step 20 on, by stage hold" in notes
    (refused,) = [note for note in notes if "was not given" in note]
    assert refused.startswith("sim was not given k=-1, requested by stage hold: sim: k: expected at least 0, got -1")
    assert compare_runs(done.folder / "field.bp", declared(tmp_path / "declared", ("F", 20, 0.5))).identical


def test_from_a_notebook(steered: Make) -> None:
    live = steered().held()
    joined = workflow.attach(live.folder)
    assert joined.set("sim", F=0.04, at_step=20) is None
    with pytest.raises(RunError, match="F: expected a number, got true"):
        joined.set("sim", F=True)
    with pytest.raises(RunError, match="no value of sim is given"):
        joined.set("sim")
    with pytest.raises(RunError, match="at_step: expected the number of a step, counted from 0, got '4'"):
        joined.set("sim", F=0.04, at_step="4")
    done = live.go()
    assert taken(done.folder) == [(20, {"F": 0.04})]
    said, _ = live.wf("plan", "pipeline.yaml", "--reuse", "run").communicate(timeout=TIMEOUT_S)
    assert "was steered" in said, "what it has written is not what the pipeline file says"


REFUSED = {
    ("stages.sim.steer.F=-0.1",): "sim: F: expected at least 0, got -0.1\n  the pipeline declares this bound",
    ("stages.sim.steer.F=much",): 'sim: F: expected a number, got "much"\n  for example `F=0.03`',
    ("stages.sim.steer.feed=1",): "sim declares no value `feed` to steer\n  these can be changed: F, k",
    ("stages.sim.steer.K=1",): "sim declares no value `K` to steer\n  did you mean `k`?",
    ("stages.sin.steer.F=1",): "there is no stage `sin`\n  did you mean `sim`?",
    ("stages.keep.steer.F=1",): "no value of keep can be changed while it runs\n  declare some: `steer:` of the stage",
    ("stages.sim.steer.F=1", "--at-step", "2"): "step 2 has passed: sim has written",
    ("stages.sim.with.F=1",): "stages.sim.with.F=1: expected stages.STAGE.steer.NAME=VALUE",
    ("stages.sim.steer.F",): "expected stages.STAGE.steer.NAME=VALUE",
    ("stages.sim.steer.F=1", "stages.keep.steer.F=1"): "one stage at a time, not sim and keep",
    ("stages.sim.steer.F=1", "--at-step", "-1"): "-1 is not in the range x>=0",
}


def test_what_is_refused_leaves_the_run_as_it_was(steered: Make, tmp_path: Path) -> None:
    live = steered().held()
    for argv, expected in REFUSED.items():
        assert expected in live.refused(*argv)
    assert steering(live.folder) == [], "it was refused before it was sent"
    # Whoever does not ask first is refused by the supervisor, or by the stage.
    for id_, value, step in (("bounds", -1.0, None), ("passed", 0.1, 2), ("text", "x", None), ("late", 0.1, 20)):
        record = {"request": "steer", "stage": "sim", "id": id_, "values": {"F": value}, "step": step, "by": "me"}
        append_record(live.folder / "control.jsonl", record)
    append_record(live.folder / "control.jsonl", record)  # as a stage does that is started again
    with (live.folder / "control.jsonl").open("a") as file:
        file.write('{"request": "steer", "stage": "sim", "id": "damaged", "values": [1]}\n')
    wait_until(lambda: len(live.asked()) == 4, "the supervisor has read them")
    # As if it had come over a slow file system: the stage has it when the step is over.
    append_record(
        live.folder / "stages/sim/steering.jsonl", {"id": "slow", "values": {"F": 9.0}, "step": 5, "by": "me"}
    )
    done = live.go()
    assert done.code == 0, done.said
    refused = {each.id: each.reason for each in steering(done.folder) if isinstance(each, SteeringRefused)}
    assert refused.keys() == {"bounds", "passed", "text", "slow"}
    assert "step 5 has passed: sim is at step" in refused["slow"]
    assert len(live.asked()) == 4, "what is known is dropped"
    assert taken(done.folder) == [(20, {"F": 0.1})]
    assert compare_runs(done.folder / "field.bp", declared(tmp_path / "declared", ("F", 20, 0.1))).identical
    for at in ([], ["--at-step", "3"]):
        assert "run is not running: it has succeeded" in live.refused("stages.sim.steer.F=0.04", *at)


def test_what_was_not_reached_is_noted(steered: Make) -> None:
    live = steered().held()
    assert live.set("stages.sim.steer.F=0.04", "--at-step", "900").code == 0
    done = live.go()
    assert done.code == 0 and taken(done.folder) == []
    (note,) = [each for each in done.report.notes if "did not take F" in each]
    assert note.endswith("it reached no further step; step 900 was not reached")


def test_a_replayed_stage_takes_them_again(steered: Make) -> None:
    """Also what the pipeline file has, and shifted where the replay begins later."""
    value = "steer: {scale: {value: 1.0, maximum: 10, at: [{step: 3, value: 3}]}}"
    text = PIPELINE.format(ranks=1, more="").replace("{field: {}}}", f"{{field: {{}}}}, {value}}}")
    say = "print(step.read('step'), stage.steered(step.index, scale=1.0, label='a'), flush=True)"
    live = steered(text=text, steer=say).held()
    assert live.set("stages.hold.steer.scale=2", "--at-step", "20").code == 0
    done = live.go()
    assert done.code == 0, done.said
    assert taken(done.folder) == [(3, {"scale": 3.0}), (20, {"scale": 2.0})]
    scales = [1.0] * 3 + [3.0] * 17 + [2.0] * (STEPS - 20)
    lines = [f"{10 * number} {{'scale': {scale}, 'label': 'a'}}" for number, scale in enumerate(scales)]
    assert done.printed("hold") == lines
    again = replay(done.folder, "--stages", "hold")
    assert again.code == 0, again.said
    assert again.printed("hold") == lines
    assert taken(again.folder) == taken(done.folder)
    (part,) = [each for each in again.report.steering if each.step == 20]
    assert "@" in part.by, "who has asked is kept"
    later = replay(done.folder, "--stages", "hold", "--steps", "15:25", name="later")
    assert later.code == 0, later.said
    assert later.printed("hold") == lines[15:25]


DIFFERENT = """
wf: 1
name: steered
oversubscribe: true
deadlines: {start: 200 s, step: 250 s, run: 280 s, stop: 3 s}
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py"]
    ranks: 2
    writes: {field: {}}
    steer: {feed: {value: 0.03}}
  keep: {component: archive, with: {path: field.bp}}
streams:
  field: {from: sim, to: keep, via: bp5}
"""
ASKS = """
from workflow import stage
for step in range(3):
    stage.steered(step + (step == 2 and stage.rank()), feed=0.03)
"""


def test_ranks_that_are_at_different_steps_are_named(steered: Make, tmp_path: Path) -> None:
    (tmp_path / "steered").mkdir()
    (tmp_path / "steered" / "sim.py").write_text(ASKS)
    done = steered(text=DIFFERENT).go()
    assert done.code == 1, done.said
    said = (done.folder / "stages/sim/stderr.log").read_text()
    assert "rank 0 called stage.steered for step 2, but rank 1 for step 3: call it for the same step on all" in said


# Without workflow.stage. It writes the value that it has found last, and how often it got the signal.
PROGRAM = """
import signal, sys, time
from pathlib import Path
import adios2
import numpy as np
asked = 0
def ask(number, frame):
    global asked
    asked += 1
if len(sys.argv) > 3:
    signal.signal(signal.SIGUSR1, ask)
go, end = Path(sys.argv[2]), time.monotonic() + 100
control, last = Path("in/control.txt"), 0
io = adios2.Adios("adios2.xml").declare_io("out")
names = [io.define_variable(name, np.zeros(1), [1], [0], [1]) for name in ("feed", "asked")]
with adios2.Stream(io, sys.argv[1], "w") as out:
    while not last:
        last = go.exists()
        assert time.monotonic() < end
        before, _, value = control.read_text().strip().partition(" = ")
        assert before == "$feed", before
        out.begin_step()
        for name, number in zip(names, (value, asked)):
            out.write(name, np.array([float(number)]))
        out.end_step()
        time.sleep(0.02)
"""
OWN = """
wf: 1
name: steered
oversubscribe: true
deadlines: {{start: 200 s, step: 250 s, run: 280 s, stop: 3 s}}
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/sim.py", "${{{{ streams.field.path }}}}", "${{{{ pipeline.dir }}}}/go"{more}]
    steer: {{feed: {{value: 0.03, minimum: 0, maximum: 0.1, unit: "1/s", file: in/control.txt, text: "$feed = ${{{{ steer.value }}}}\\n"{signal}}}}}
    writes: {{field: {{io: out, config: adios2.xml}}}}
  keep: {{component: archive, with: {{path: field.bp}}}}
streams:
  field: {{from: sim, to: keep, via: bp5, coupling: live}}
"""  # noqa: E501


@pytest.mark.parametrize("signal", ["", ", signal: USR1"])
def test_a_program_of_the_users_own(signal: str, steered: Make, tmp_path: Path) -> None:
    (tmp_path / "steered").mkdir()
    (tmp_path / "steered" / "sim.py").write_text(PROGRAM)
    live = steered(text=OWN.format(signal=signal, more=', "signal"' if signal else ""))
    wait_until(lambda: progress(live.folder, "sim") > 3, "it writes steps")
    said = live.set("stages.sim.steer.feed=0.5")
    assert said.code == 2 and "sim: feed: expected at most 0.1 (1/s), got 0.5" in said.said
    said = live.set("stages.sim.steer.feed=0.05", "--at-step", "1000")
    assert said.code == 2 and "sim reads feed from a file, at a step that only its program knows" in said.said
    said = live.set("stages.sim.steer.feed=0.05")
    (step,) = [each for each, _ in taken(live.folder)]
    assert (said.code, said.said) == (0, f"sim: feed 0.03 → 0.05 1/s from about step {step} on\n")
    assert live.set("stages.sim.steer.feed=0.1").said.startswith("sim: feed 0.05 → 0.1 1/s from about step ")
    steps = progress(live.folder, "sim")
    wait_until(lambda: progress(live.folder, "sim") > steps + 2, "it writes more steps")
    done = live.go()
    assert done.code == 0, done.said
    with adios2.FileReader(str(done.folder / "field.bp")) as reader:
        count = reader.num_steps()
        feed, asked = (reader.read(name, step_selection=[0, count]).ravel() for name in ("feed", "asked"))
    assert list(dict.fromkeys(feed.tolist())) == [0.03, 0.05, 0.1]
    assert abs(int(np.argmax(feed == 0.05)) - step) < 60, "the step is known by about"
    assert asked[-1] == (2 if signal else 0)
    assert [part.exact for part in done.report.steering] == [False, False]
