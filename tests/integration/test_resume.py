"""`wf resume`: a run that has ended before its work was done goes on, in parts; its files hold the steps of all."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.crates import unpacked
from tests.support.pipelines import Done, run
from tests.support.resumed_runs import (
    ANALYSIS,
    PIPELINE,
    SAVING,
    SIMULATION,
    SLOW,
    first_step,
    resume,
    start,
    start_saving,
    stream_steps,
    sums,
    undisturbed,
    unsaved,
    wf,
)
from tests.support.waiting import wait_until
from workflow.api.archives import archive_run
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.run.control.lease import read_lease
from workflow.run.part_record import read_part
from workflow.run.records.find_runs import newest_part


@pytest.mark.parametrize("means", ["via: sst", "via: bp5", "via: bp5, coupling: live"])
def test_an_analysis_goes_on_and_its_files_are_those_of_an_undisturbed_run(means: str, tmp_path: Path) -> None:
    failed = start(tmp_path, means=means, fails=12)
    assert failed.code == 1, failed.said
    before = sums(failed.folder)
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    assert "part 2, which goes on with run:" in done.said
    assert "sim   done" in done.said
    assert 0 < first_step(done, "mean") <= 12, "the sink may have had fewer steps than the analysis"
    assert compare_runs(done.folder, undisturbed(tmp_path, means=means).folder).identical
    assert sums(failed.folder) == before, "the earlier part is only read"
    assert read_report(done.folder).stream("means").steps == 21 - first_step(done, "mean")


def test_an_edited_program_is_named(tmp_path: Path) -> None:
    start(tmp_path, fails=12)
    code, said = wf(tmp_path, "resume", "run", "--dry-run")
    assert code == 0 and "changed" not in said, said
    (tmp_path / "mean.py").write_text(ANALYSIS.replace("float(", "2 * float("))
    assert "changed: mean.py (stage mean) has different content" in wf(tmp_path, "resume", "run", "--dry-run")[1]
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    assert "changed since run: mean.py (stage mean) has different content" in read_report(done.folder).notes


def test_a_run_goes_on_twice(tmp_path: Path) -> None:
    assert start(tmp_path, fails=4).code == 1
    assert resume(tmp_path, "part2", fails=15).code == 1
    done = resume(tmp_path, "part3")  # of the run with which all began
    assert done.code == 0, done.said
    assert "part 3, which goes on with part2" in done.said
    assert 12 <= first_step(done, "mean") <= 15
    whole = undisturbed(tmp_path).folder
    assert compare_runs(done.folder, whole).identical
    archive, contents = archive_run(done.folder, tmp_path / "run.zip", data=True)
    assert not [each for each in contents.left_out if ".bp" in each.path], "links of joined files are data"
    found = unpacked(archive, tmp_path / "unpacked").rglob("means.bp")
    (kept,) = (each for each in found if each.parent.name != "streams")
    assert compare_runs(kept, whole / "means.bp").identical
    record = read_part(done.folder)
    assert record is not None and (record.number, Path(record.run).name) == (3, "part2")
    assert newest_part(tmp_path / "run") == done.folder
    assert any("part 3 of the run" in note for note in read_report(done.folder).notes)


def test_a_part_that_fails_before_its_first_step_loses_nothing(tmp_path: Path) -> None:
    assert start(tmp_path, fails=7).code == 1
    assert resume(tmp_path, "part2", fails=7).code == 1
    done = resume(tmp_path, "part3")
    assert done.code == 0, done.said
    assert compare_runs(done.folder, undisturbed(tmp_path).folder).identical


def test_a_run_whose_supervisor_was_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mean.py").write_text(SLOW)
    head = "wf: 1\nname: test\noversubscribe: true\n"
    (tmp_path / "pipeline.yaml").write_text(head + PIPELINE.format(folder=tmp_path, field="via: bp5", means="via: bp5"))
    assert wf(tmp_path, "run", "pipeline.yaml", "--run-dir", "run", "--detach")[0] == 0
    index = tmp_path / "run/streams/means.bp/md.idx"
    wait_until(lambda: index.exists() and index.stat().st_size > 600, "the analysis has written some steps")
    lease = read_lease(tmp_path / "run")
    assert lease is not None
    os.kill(lease.pid, signal.SIGKILL)
    done = resume(tmp_path, "part2")  # at once: it waits until the guard has ended the stages
    assert done.code == 0, done.said
    assert first_step(done, "mean") > 0
    assert compare_runs(done.folder, undisturbed(tmp_path, means="via: bp5").folder).identical


def test_what_cannot_go_on_is_refused_with_the_reason(tmp_path: Path) -> None:
    done = start(tmp_path)
    assert done.code == 0
    code, said = wf(tmp_path, "resume", str(done.folder))
    assert code == 2 and "run has succeeded: nothing is left to do" in said
    other = tmp_path / "other"
    other.mkdir()
    failed = start(other, field="via: sst", fails=0)
    assert failed.code == 1 and "wf resume" not in failed.said
    code, said = wf(other, "resume", str(other / "run"))
    assert code == 2
    assert "nothing of run can be used" in said and "sim has saved no state" in said
    text = (other / "pipeline.yaml").read_text()
    text = text.replace("  means: {from", "  averages: {from").replace("writes: {means", "writes: {averages")
    (other / "pipeline.yaml").write_text(text)
    code, said = wf(other, "resume", str(other / "run"))
    assert code == 2 and "has other streams than run: averages, means" in said


def test_the_earlier_part_stays_while_a_later_one_has_links_to_its_data(tmp_path: Path) -> None:
    (tmp_path / "mean.py").write_text(ANALYSIS)
    (tmp_path / "fails").write_text("5")
    head = "wf: 1\nname: test\noversubscribe: true\n"
    (tmp_path / "pipeline.yaml").write_text(head + PIPELINE.format(folder=tmp_path, field="via: bp5", means="via: sst"))
    assert wf(tmp_path, "run", "pipeline.yaml", "-q")[0] == 1
    (tmp_path / "fails").unlink()
    assert wf(tmp_path, "resume", "-q")[0] == 0
    lines = json.loads(wf(tmp_path, "runs", "--json")[1])
    names = [line["name"] for line in (lines["runs"] if isinstance(lines, dict) else lines)]
    said = wf(tmp_path, "clean", "--keep", "0", "--dry-run")[1]
    older = next(name for name in names if read_part(tmp_path / "runs" / name) is None)
    assert "goes on with it" in said and older in said
    said = wf(tmp_path, "runs")[1]
    assert "goes on with" in said and older in said


@pytest.mark.parametrize("field", ["via: sst", "via: bp5, coupling: live"])
def test_a_simulation_goes_on_from_the_state_that_it_has_saved(field: str, tmp_path: Path) -> None:
    failed = start_saving(tmp_path, "1 ms", field, fails=12)
    assert failed.code == 1, failed.said
    before = sums(failed.folder)
    done = resume(tmp_path, "part2", fails=17)
    assert done.code == 1, done.said
    assert 5 <= first_step(done, "sim") <= (12 if field == "via: sst" else 16), done.said
    done = resume(tmp_path, "part3")
    assert done.code == 0, done.said
    assert 10 <= first_step(done, "sim") <= (17 if field == "via: sst" else 21), done.said
    assert (read_report(done.folder).stream("field").steps or 0) < 12, "it did not begin anew"
    assert compare_runs(done.folder, unsaved(tmp_path, field)).identical
    assert sums(failed.folder) == before, "the earlier part is only read"


def test_each_rank_goes_on_from_its_own_state(tmp_path: Path) -> None:
    assert start_saving(tmp_path, "1 ms", "via: sst", fails=9, ranks=2).code == 1
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    assert 3 <= first_step(done, "sim") <= 9
    assert compare_runs(done.folder, unsaved(tmp_path, "via: sst", ranks=2)).identical


def test_a_run_that_was_cancelled_goes_on_from_the_state_that_was_saved_then(tmp_path: Path) -> None:
    (tmp_path / "mean.py").write_text(ANALYSIS)
    (tmp_path / "sim.py").write_text(SIMULATION)
    (tmp_path / "hold").write_text("10")
    head = "wf: 1\nname: test\noversubscribe: true\n"
    text = SAVING.format(every="1 h", folder=tmp_path, field="via: sst", means="via: sst", ranks=1)
    (tmp_path / "pipeline.yaml").write_text(head + text)
    assert wf(tmp_path, "run", "pipeline.yaml", "--run-dir", "run", "--detach")[0] == 0
    wait_until(lambda: stream_steps(tmp_path / "run") >= 4, "the sink has some steps")
    code, said = wf(tmp_path, "cancel", str(tmp_path / "run"))
    assert code == 0, said
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    assert 10 <= first_step(done, "sim") <= 11, done.said
    assert compare_runs(done.folder, unsaved(tmp_path, "via: sst")).identical


# A program that knows nothing of wf: it writes a checkpoint every 30 of its steps, a step of its stream every 10.
UNCHANGED = """
import json, sys, time
from pathlib import Path
import adios2
import numpy as np
fails, again, path = Path(sys.argv[1]), sys.argv[2] == "again", sys.argv[3]
saved = json.loads(Path(sys.argv[4]).read_text()) if len(sys.argv) > 4 else {"step": 0, "values": [1.0, 2.0, 3.0]}
values, first = np.array(saved["values"]), saved["step"]
io = adios2.Adios("adios2.xml").declare_io("out")
variable = io.define_variable("V", values, [3], [0], [3])
with adios2.Stream(io, path, "w") as out:
    for step in range(first, 201):
        if step % 10 == 0 and (step > first or again or not first):
            out.begin_step()
            out.write(variable, values)
            out.end_step()
        if step and step % 30 == 0:
            Path(f"state.{step}").write_text(json.dumps({"step": step, "values": values.tolist()}))
        if fails.exists() and step == int(fails.read_text()):
            Path(f"state.{step - step % 30}").write_text("{ half")
            sys.exit(3)
        values = np.cos(values + step)
        time.sleep(0.03)
"""
BY_CHECKPOINT = """
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", "{folder}/fails", {again}, "${{{{ streams.field.path }}}}"]
    checkpoint:
      files: state.*
      outputs: {{every: 10, again: {is_again}}}
      command:
        ["${{{{ wf.python }}}}", "{folder}/sim.py", "{folder}/fails", {again}, "${{{{ streams.field.path }}}}",
         "${{{{ checkpoint.path }}}}"]
    writes: {{field: {{io: out, config: adios2.xml}}}}
  mean: {{command: ["${{{{ wf.python }}}}", "{folder}/mean.py", none], reads: {{field: {{}}}}, writes: {{means: {{}}}}}}
  keep: {{component: archive, with: {{path: means.bp}}}}
streams:
  field: {{from: sim, to: mean, {field}}}
  means: {{from: mean, to: keep}}
"""


@pytest.mark.parametrize("again", ["again", "not-again"])
@pytest.mark.parametrize("field", ["via: sst", "via: bp5, coupling: live"])
def test_a_program_of_the_users_own_goes_on_from_its_checkpoint(field: str, again: str, tmp_path: Path) -> None:
    def begin(folder: Path) -> Done:
        (folder / "sim.py").write_text(UNCHANGED)
        (folder / "mean.py").write_text(ANALYSIS)
        is_again = str(again == "again").lower()
        return run(folder, BY_CHECKPOINT.format(folder=folder, field=field, again=again, is_again=is_again))

    (tmp_path / "fails").write_text("75")
    assert begin(tmp_path).code == 1
    more = 0 if again == "again" else 1
    done = resume(tmp_path, "part2")
    assert (done.code, first_step(done, "sim")) == (1, 6 + more), "its checkpoint is damaged"
    done = resume(tmp_path, "part3", fails=137)
    assert (done.code, first_step(done, "sim")) == (1, 3 + more), "the one before"
    done = resume(tmp_path, "part4")
    assert (done.code, first_step(done, "sim")) == (1, 12 + more), "its checkpoint is damaged"
    done = resume(tmp_path, "part5")
    assert (done.code, first_step(done, "sim")) == (0, 9 + more), done.said
    other = tmp_path / "undisturbed"
    other.mkdir()
    whole = begin(other)
    assert whole.code == 0, whole.said
    assert compare_runs(done.folder, whole.folder).identical


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_analysis_that_was_behind_reads_what_the_earlier_part_holds_and_then_what_follows(
    ranks: int, tmp_path: Path
) -> None:
    """The simulation goes on where it was, although the analysis has to read its first steps again."""
    field = "via: bp5, coupling: live"
    behind = ANALYSIS.replace(
        "        with means.step", "        import time; time.sleep(0.5)\n        with means.step"
    )
    (tmp_path / "mean.py").write_text(behind)
    (tmp_path / "sim.py").write_text(SIMULATION)
    (tmp_path / "fails").write_text("4")
    (tmp_path / "hold").write_text("15")
    text = SAVING.format(every="1 h", folder=tmp_path, field=field, means="via: sst", ranks=ranks)
    failed = run(tmp_path, text)
    assert failed.code == 1, failed.said
    (tmp_path / "mean.py").write_text(ANALYSIS)
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    assert 1 <= first_step(done, "mean") <= 4 and first_step(done, "sim") in (15, 16), done.said
    report = read_report(done.folder)
    assert (report.stream("field").steps or 0) == 21 - first_step(done, "sim")
    assert report.stage("mean").steps_in == 21 - first_step(done, "mean")
    assert compare_runs(done.folder, unsaved(tmp_path, field, ranks=ranks)).identical
