"""Ensembles of which members fail, or that go on in another part of the run."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.ensembles import MEMBERS, WITH, has_steps, of_members, values_of
from tests.support.held_members import held_gray_scott, let_go
from tests.support.hurt_runs import HurtRun, newest_pid
from tests.support.pipelines import run
from tests.support.reliability import steps_done
from tests.support.resumed_runs import resume, wf
from tests.support.waiting import wait_until
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StageExited
from workflow.run.state.lifecycle_events import StageIgnored

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


STOPPED = """
wf: 1
name: test
oversubscribe: true
stages:
  sim:
    component: gray_scott
    members: MEMBERS
    checkpoint: {every: 0.1 s}
    with: {size: [16], steps: 30000, write_every: 1000, seed: "${{ member.index }}"}
  keep: {component: archive, with: {path: all.bp}}
streams:
  field: {from: sim, to: keep, collect: COLLECT}
"""


@pytest.mark.parametrize("members", ["{count: 2, at_once: 1}", "2"], ids=["one waits", "both run"])
def test_the_same_steps_of_all_members_stay_together_over_a_stop(members: str, tmp_path: Path) -> None:
    """Steps that only one member had by then are not sent without the other one."""
    text = STOPPED.replace("MEMBERS", members).replace("COLLECT", "all")
    (tmp_path / "pipeline.yaml").write_text(text)
    assert wf(tmp_path, "run", "pipeline.yaml", "--run-dir", "run", "--detach")[0] == 0
    wait_until(lambda: has_steps(tmp_path / "run", "sim-0"), "sim-0 has some steps")
    code, said = wf(tmp_path, "cancel", str(tmp_path / "run"))
    assert code == 0, said
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    found = values_of(done.folder / "all.bp", "member_step")
    assert [each.tolist() for each in found] == [[step, step] for step in range(31)]


def test_what_merges_does_not_wait_for_members_that_a_cancelled_run_never_starts(tmp_path: Path) -> None:
    text = STOPPED.replace("MEMBERS", "{count: 2, at_once: 1}").replace("COLLECT", "any")
    (tmp_path / "pipeline.yaml").write_text(text)
    assert wf(tmp_path, "run", "pipeline.yaml", "--run-dir", "run", "--detach")[0] == 0
    wait_until(lambda: has_steps(tmp_path / "run", "sim-0"), "sim-0 has some steps")
    code, said = wf(tmp_path, "cancel", str(tmp_path / "run"))
    assert code == 0, said
    exits = {event.stage: event for event in read_events(tmp_path / "run") if isinstance(event, StageExited)}
    assert {name: (each.code, each.signal) for name, each in exits.items()} == dict.fromkeys(
        ("sim-0", "field-merge", "keep"), (0, None)
    ), "one waited until it got a signal"
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    found = zip(
        values_of(done.folder / "all.bp", "member"), values_of(done.folder / "all.bp", "member_step"), strict=True
    )
    assert [(int(who), int(step)) for who, step in found] == [(who, step) for who in (0, 1) for step in range(31)]
