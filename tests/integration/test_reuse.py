"""`wf run --reuse`: stages that have not changed are not run again, and have links to the files of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.crates import unpacked
from tests.support.resumed_runs import wf
from workflow import archive_run, read_report
from workflow.compare.compare_runs import compare_runs

# `mean` and `mode` leave a line each time that they run, and a file of their own.
PROGRAM = """
import sys
import time
from pathlib import Path
from workflow import stage
folder, name = Path(__file__).parent, sys.argv[1]
with (folder / "ran.txt").open("a") as ran:
    ran.write(f"{name}\\n")
if (folder / f"fail-{name}").exists():
    deadline = time.monotonic() + 60
    while "mean" not in (folder / "ran.txt").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)  # this failure stops the others, which may not have left their line yet
    sys.exit(3)
Path("figures").mkdir()
with stage.open_reader("field") as fields, Path("figures/numbers.txt").open("w") as out:
    for step in fields:
        out.write(f"{step.read('V').mean() * float(sys.argv[2])}\\n")
"""
PIPELINE = """wf: 1
name: test
oversubscribe: true
stages:
  sim: {{component: gray_scott, with: {{size: [16], steps: 100, write_every: 10}}}}
  mean: {{command: ["${{{{ wf.python }}}}", "{folder}/program.py", mean, "1"], reads: {{field: {{}}}}}}
  mode: {{command: ["${{{{ wf.python }}}}", "{folder}/program.py", mode, "2"], reads: {{field: {{}}}}}}
  pdf: {{component: histogram, with: {{variable: V, bins: 10}}}}
  keep: {{component: archive, with: {{path: pdf.bp}}}}
streams:
  field: {{from: sim, to: [mean, mode, pdf], via: bp5}}
  pdf: {{from: pdf, to: keep, via: sst}}
"""
NUMBERS = "work/figures/numbers.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(folder=tmp_path))
    run(tmp_path)
    return tmp_path


def run(folder: Path, *options: str, code: int = 0) -> str:
    done, said = wf(folder, "run", "pipeline.yaml", "-q", *options)
    assert done == code, said
    return said


def runs(folder: Path) -> list[Path]:
    """The oldest first."""
    found = [path for path in (folder / "runs").iterdir() if not path.is_symlink()]
    return sorted(found, key=lambda path: (path / "plan.json").stat().st_mtime_ns)


def ran(folder: Path) -> list[str]:
    """The programs that have run since the last call."""
    names = sorted((folder / "ran.txt").read_text().split())
    (folder / "ran.txt").write_text("")
    return names


def contents(run_dir: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in sorted(run_dir.rglob("*")) if path.is_file()]
    return {str(path.relative_to(run_dir)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_a_second_run_re_uses_everything_and_its_files_are_equal(folder: Path) -> None:
    first = runs(folder)[0]
    assert ran(folder) == ["mean", "mode"]
    before = contents(first)
    said = run(folder, "--reuse")
    assert said.count("re-used\n") == 5, said
    second = runs(folder)[1]
    assert ran(folder) == [], "no program was started"
    assert compare_runs(first, second).identical
    assert (second / "stages/mean" / NUMBERS).is_symlink() and (second / "pdf.bp/data.1000000").is_symlink()
    assert (second / "stages/mean" / NUMBERS).read_text() == (first / "stages/mean" / NUMBERS).read_text()
    assert contents(first) == before, "the earlier run is only read"
    report = read_report(second)
    assert report.run.state == "succeeded"
    (note,) = (note for note in report.notes if "re-used" in note)
    assert note.endswith(f"not run, but re-used from {first.name}")
    reasons = json.loads((second / "plan.json").read_text())["reasons"]
    assert reasons["stages.keep.reuse"] == f"re-used from {first.name}"


def test_a_changed_stage_and_what_reads_it_run_again(folder: Path) -> None:
    ran(folder)
    text = (folder / "pipeline.yaml").read_text()
    (folder / "pipeline.yaml").write_text(text.replace('mode, "2"', 'mode, "3"'))
    code, planned = wf(folder, "plan", "pipeline.yaml", "--reuse")
    assert code == 0 and "mode  runs: command: " in planned and "mean  re-used" in planned
    assert "re-used from" in run(folder, "--reuse")
    first, second = runs(folder)
    assert ran(folder) == ["mode"]
    assert not (second / "stages/mode" / NUMBERS).is_symlink()
    new, old = ((each / "stages/mode" / NUMBERS).read_text().split() for each in (second, first))
    assert [float(each) / 3 for each in new] == pytest.approx([float(each) / 2 for each in old])
    said = run(folder, "--reuse", runs(folder)[0].name, "--set", "stages.sim.with.steps=120")
    assert "sim   runs: with.steps: 100 → 120" in said and "mean  runs: reads field, which sim writes anew" in said
    assert ran(folder) == ["mean", "mode"]
    # A dry run has the reasons in its plan, and prints nothing else there.
    _, said = wf(folder, "run", "pipeline.yaml", "--reuse", second.name, "--dry-run")
    printed, _ = json.JSONDecoder().raw_decode(said)
    assert printed["part"]["number"] == 1 and list(printed["part"]["finished"]) == [
        "sim",
        "mean",
        "mode",
        "pdf",
        "keep",
    ]


def test_a_run_is_kept_while_another_one_has_links_to_it_and_those_still_work_when_both_are_moved(folder: Path) -> None:
    run(folder, "--reuse")
    first, second = runs(folder)
    said = wf(folder, "clean", "--keep", "1", "--yes")[1]
    assert f"{first.name} stays: {second.name} re-uses it, and has links to its data" in said
    assert first.exists()
    (folder / "runs").rename(folder / "moved")
    assert compare_runs(folder / "moved" / first.name, folder / "moved" / second.name).identical
    archive, found = archive_run(folder / "moved" / second.name, folder / "run.zip", data=True)
    assert not found.left_out
    numbers = next(unpacked(archive, folder / "unpacked").rglob("mean/work/figures/numbers.txt"))
    assert numbers.read_text() == (folder / "moved" / first.name / "stages/mean" / NUMBERS).read_text()


def test_a_run_that_re_uses_and_fails_goes_on_and_is_no_part_of_the_other(folder: Path) -> None:
    ran(folder)
    first = runs(folder)[0]
    (folder / "program.py").write_text(PROGRAM + "# changed\n")
    (folder / "fail-mode").touch()
    run(folder, "--reuse", code=1)
    assert ran(folder) == ["mean", "mode"]
    failed = runs(folder)[1]
    code, said = wf(folder, "run", "pipeline.yaml", "--reuse", failed.name)
    assert code == 2 and f"{failed.name} has not succeeded (failed)" in said and f"wf resume {failed.name}" in said
    code, said = wf(folder, "resume", first.name)
    assert code == 2 and f"{first.name} has succeeded" in said, "it is not a part of the run that re-uses it"
    (folder / "fail-mode").unlink()
    code, said = wf(folder, "resume", failed.name)
    assert code == 0 and "sim   done" in said and "part 2, which goes on with" in said, said
    assert compare_runs(runs(folder)[2] / "streams/field.bp", first / "streams/field.bp").identical


def test_what_is_gone_runs_again_and_mistakes_are_named(folder: Path) -> None:
    first = runs(folder)[0]
    numbers = first / "pdf.bp"
    numbers.rename(folder / "away.bp")
    said = wf(folder, "plan", "pipeline.yaml", "--reuse")[1]
    assert (
        f"keep  runs: pdf.bp of {first.name} is gone" in said and "pdf   runs: joined to keep by a live stream" in said
    )
    for options, hint in (
        (["--reuse", "pipeline.yaml"], "write it last, `pipeline.yaml --reuse`"),
        (["pipeline.yaml", "--reuse", "nix"], "there is no run `nix`"),
        (["pipeline.yaml", "--reuse", "--run-dir", "/tmp/elsewhere/run"], "is not in the folder of"),
        (["pipeline.yaml", "--reuse", first.name, "--set", "name=other"], "is a run of test, not of other"),
    ):
        code, said = wf(folder, "run", *options)
        assert code == 2 and hint in said, said
    assert len(runs(folder)) == 1
