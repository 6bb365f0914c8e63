"""What becomes of the others when a stage has failed that is ignored: nothing waits for it.

The pipeline is sim → work → keep and look. `look` fails and is ignored; when the run has noted that, `work` fails, and
is started again with `keep`, without `look`. The result is the sum of each step, and is there whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import Done, run
from workflow.compare.compare_runs import compare_runs

STEPS = 12
AT = 5
PIPELINE = """
stages:
  sim: {{component: synthetic, with: {{grid_points: 100, particles: 0, steps: {steps}, compute_time: 20 ms}}}}
  work:
    command: ["${{{{ wf.python }}}}", "{folder}/work.py", "${{{{ run.dir }}}}", "{fails}"]
    reads: {{field: {{}}}}
    writes: {{sum: {{}}}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  {keep}
  look:
    command: ["${{{{ wf.python }}}}", "{folder}/look.py", "{looks}"]
    reads: {{sum: {{}}}}
    on_failure: {rule}
streams:
  field: {{from: sim, to: work, via: {via}, keep: true}}
  sum: {{from: work, to: {readers}, via: {via}}}
"""
KEEP = "keep: {component: archive, with: {path: kept.bp}, on_failure: restart}"
# In its first attempt it fails when `look` is ignored, and not before.
WORK = f"""
import sys
from pathlib import Path
from tests.support.waiting import wait_until
from workflow import stage

events, token = Path(sys.argv[1], "events.jsonl"), Path("failed")
with stage.open_reader("field") as field, stage.open_writer("sum") as out:
    for step in field:
        if step.index == {AT} and sys.argv[2] == "fails" and not token.exists():
            wait_until(lambda: '"stage_ignored"' in events.read_text(), "look is ignored", 30)
            token.touch()
            raise ArithmeticError("requested by the test")
        with out.step():
            out.write("sum", step.read("grid").sum() + step.index)
"""
# It fails before it opens the stream, at a step that is not the last one of the first attempt, or never.
LOOK = """
import sys
from workflow import stage

if sys.argv[1] == "start":
    raise SystemExit("no licence")
with stage.open_reader("sum") as sums:
    for step in sums:
        if sys.argv[1] == "step" and step.index == 2:
            raise SystemExit("no licence")
"""
ENGINES = {"sst, transport: tcp": "SST", "shm": "SHM"}
THEN_IGNORE = "{do: restart, times: 1, backoff: 0.1 s, then: ignore}"


def go(folder: Path, via: str, looks: str, *, name: str = "run", keeps: bool = True, rule: str = "ignore") -> Done:
    (folder / "work.py").write_text(WORK)
    (folder / "look.py").write_text(LOOK)
    text = PIPELINE.format(
        steps=STEPS, folder=folder, via=via, looks=looks, fails="never" if looks == "never" else "fails", rule=rule,
        keep=KEEP if keeps else "", readers="[keep, look]" if keeps else "look",
    )  # fmt: skip
    done = run(folder, text, name=name)
    assert {done.report.stream(each).engine for each in ("field", "sum")} == {ENGINES[via]}
    return done


@pytest.mark.parametrize("looks", ["start", "step"])
@pytest.mark.parametrize("via", ENGINES)
def test_the_others_of_the_unit_are_started_again(via: str, looks: str, tmp_path: Path) -> None:
    done = go(tmp_path, via, looks)
    assert done.code == 0, done.said
    (restart,) = done.report.restarts
    assert (restart.stage, restart.stages, restart.attempt) == ("work", ["work", "keep"], 2)
    assert "look ended with exit code 1; the others went on without it" in done.said
    whole = go(tmp_path, via, "never", name="whole")
    assert whole.code == 0, whole.said
    found = compare_runs(whole.folder, done.folder)
    assert found.identical, found
    assert [done.report.stream(name).steps for name in ("field", "sum")] == [STEPS, STEPS]


@pytest.mark.parametrize("via", ENGINES)
def test_a_writer_whose_only_reader_is_ignored_goes_on_without_one(via: str, tmp_path: Path) -> None:
    done = go(tmp_path, via, "start", keeps=False)
    assert done.code == 0, done.said
    (restart,) = done.report.restarts
    assert restart.stages == ["work"]
    assert done.report.stream("sum").steps == STEPS


@pytest.mark.parametrize("via", ENGINES)
def test_a_reader_that_was_started_again_and_is_ignored_then_is_left_out_too(via: str, tmp_path: Path) -> None:
    """The first two failures are those of `look`, which take the others along; the third is that of `work`."""
    done = go(tmp_path, via, "step", rule=THEN_IGNORE)
    assert done.code == 0, done.said
    units = [(each.stage, each.stages) for each in done.report.restarts]
    assert units == [("look", ["work", "keep", "look"]), ("work", ["work", "keep"])]
    whole = go(tmp_path, via, "never", name="whole")
    assert compare_runs(whole.folder, done.folder).identical


KILLED = """
stages:
  look:
    command: ["${{{{ wf.python }}}}", "{folder}/killed.py"]
    writes: {{seen: {{}}}}
    on_failure: ignore
  last:
    command: ["${{{{ wf.python }}}}", "{folder}/last.py"]
    reads: {{seen: {{}}}}
    on_failure: ignore
streams:
  seen: {{from: look, to: last, via: {via}}}
"""


@pytest.mark.parametrize(
    ("via", "ends"),
    [("bp5", "succeeded"), ("bp5, coupling: live", "was ended: look, from which it reads, was left out")],
)
def test_what_a_killed_stage_has_written_is_read_to_its_end(via: str, ends: str, tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(
        "import os, signal\nfrom workflow import stage\n"
        "with stage.open_writer('seen') as out:\n"
        "    for index in range(3):\n"
        "        with out.step():\n"
        "            out.write('x', index)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (tmp_path / "last.py").write_text(
        "from workflow import stage\n"
        "with stage.open_reader('seen') as seen:\n"
        "    for step in seen:\n"
        "        print(int(step.read('x')), flush=True)\n"
    )
    done = run(tmp_path, KILLED.format(folder=tmp_path, via=via))
    assert done.code == 0, done.said
    assert done.numbers("last") == [0, 1, 2]
    stage = next(each for each in done.report.stages if each.name == "last")
    assert (ends in done.said) if ends != "succeeded" else stage.state == "succeeded", done.said
    assert "no new step within" not in done.said
