"""`wf resume` where something is in the way: what cannot be joined, counted or found is said, and never guessed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.pipelines import Done, run
from tests.support.resumed_runs import ANALYSIS, PIPELINE, first_step, resume, start, undisturbed, wf
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs

BY_FILE = PIPELINE.replace("means.bp}}}}", "means.bp, every: {every}}}}}")


def test_files_of_parts_that_cannot_be_joined_fail_the_run_and_are_kept(tmp_path: Path) -> None:
    assert start(tmp_path, fails=7).code == 1
    other = ANALYSIS.replace('float(step.read("V").mean())', 'np.float32(step.read("V").mean())')
    (tmp_path / "mean.py").write_text(other)
    done = resume(tmp_path, "part2")
    assert done.code == 1, "another type of the same variable"
    assert "the files of the parts of the run cannot be joined" in done.said
    assert not list(done.folder.glob(".pieces/means.bp")), "its own file is where it was"
    assert (done.folder / "means.bp/md.idx").stat().st_size > 64


def test_a_part_is_in_the_folder_of_its_run(tmp_path: Path) -> None:
    assert start(tmp_path, fails=7).code == 1
    (tmp_path / "elsewhere").mkdir()
    code, said = wf(tmp_path, "resume", str(tmp_path / "run"), "--run-dir", str(tmp_path / "elsewhere/part2"))
    assert code == 2 and "is not in the folder of run" in said
    (tmp_path / "fails").unlink()
    code, said = wf(tmp_path / "elsewhere", "resume", str(tmp_path / "run"), "-q")
    assert code == 0, said
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("test-")], (
        "beside the run, not below runs/"
    )


def test_what_an_earlier_part_has_lost_is_named_before_anything_starts(tmp_path: Path) -> None:
    assert start(tmp_path, fails=5).code == 1
    assert resume(tmp_path, "part2", fails=9).code == 1
    shutil.rmtree(tmp_path / "run/streams/field.bp")
    done = resume(tmp_path, "part3")
    assert done.code == 2
    assert "run/streams/field.bp is gone: it has 21 steps of streams/field.bp" in done.said


def test_an_analysis_that_writes_fewer_steps_than_it_reads_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "mean.py").write_text(
        ANALYSIS.replace("        with means.step", "        if step.index % 3: continue\n        with means.step")
    )
    (tmp_path / "fails").write_text("14")
    assert run(tmp_path, PIPELINE.format(folder=tmp_path, field="via: bp5", means="via: bp5")).code == 1
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    assert first_step(done, "mean") == 0
    assert "has written 5 steps of means for 14 that it read, and has no saved state" in done.said


def test_another_interval_of_an_archive_begins_it_anew(tmp_path: Path) -> None:
    def begin(folder: Path, every: int, fails: int | None) -> Done:
        (folder / "mean.py").write_text(ANALYSIS)
        if fails is not None:
            (folder / "fails").write_text(str(fails))
        return run(folder, BY_FILE.format(folder=folder, field="via: bp5", means="via: bp5", every=every))

    assert begin(tmp_path, 1, 9).code == 1
    (tmp_path / "fails").unlink()
    code, said = wf(tmp_path, "resume", "run", "--set", "stages.keep.with.every=2", "--run-dir", "part2", "-q")
    assert code == 0, said
    other = tmp_path / "undisturbed"
    other.mkdir()
    assert compare_runs(tmp_path / "part2/means.bp", begin(other, 2, None).folder / "means.bp").identical


@pytest.mark.parametrize("field", ["via: sst", "via: bp5, coupling: live"])
def test_a_tap_reads_what_comes(field: str, tmp_path: Path) -> None:
    text = PIPELINE.replace("{field}}}", "{field}, tap: {{copy: {{component: archive, with: {{path: tapped.bp}}}}}}}}")
    text = text.replace("component: gray_scott, with", "component: gray_scott, checkpoint: {{every: 1 ms}}, with")
    (tmp_path / "mean.py").write_text(ANALYSIS)
    (tmp_path / "fails").write_text("8")
    failed = run(tmp_path, text.format(folder=tmp_path, field=field, means="via: sst"))
    assert failed.code == 1, failed.said
    done = resume(tmp_path, "part2")
    assert done.code == 0, done.said
    assert first_step(done, "mean") > 0
    assert compare_runs(done.folder / "means.bp", undisturbed(tmp_path, field=field).folder / "means.bp").identical
    assert read_report(done.folder).run.state == "succeeded"
