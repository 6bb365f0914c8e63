"""Which stages are re-used: a pure decision on two plans, and what has changed of versions and files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.planner import CHAIN, SITE, Planner
from workflow.api.reuses import _changed_text, _what_changed
from workflow.api.runs import PlannedRun, create_run, plan_run
from workflow.plan.changed_values import changed_settings
from workflow.plan.plan_model import Plan
from workflow.provenance.collect import start_context, to_provenance
from workflow.provenance.plan_files import changed_files, file_change, with_same_pythons
from workflow.provenance.provenance_model import FileRecord, FileRole, Provenance
from workflow.report.show.part_table import reuse_text
from workflow.run.records.run_directory import kept_plan
from workflow.run.reuse import version_change, why_they_run
from workflow.spec.load import load_pipeline

# walk → count by a file, count → keep live: two units.
TEXT = CHAIN.replace("to: count}", "to: count, via: bp5}").replace("to: keep}", "to: keep, via: sst}")
EACH_ALONE = TEXT.replace("via: sst", "via: bp5")


def running(found: dict[str, str]) -> list[str]:
    return [name for name, why in found.items() if why]


def test_nothing_has_changed(plan_of: Planner) -> None:
    assert why_they_run(plan_of(TEXT), plan_of(TEXT), {}) == {"walk": "", "count": "", "keep": ""}


@pytest.mark.parametrize(
    ("old", "new", "runs", "said"),
    [
        ("component: walker}", "component: walker, ranks: 2}", ["walk", "count", "keep"], "1 → 2"),
        (
            "variable: position}",
            "variable: position, memory: 9 MB}",
            ["count", "keep"],
            "with.memory: 16000000 → 9000000",
        ),
        ("component: keep}", "component: keep, env: {MODE: fast}}", ["count", "keep"], "env.MODE: none → fast"),
        # Where it runs, how long it may take, and what happens when it fails, is not what it writes.
        ("stages:", "deadlines: {step: 7 min}\nstages:", [], ""),
        (
            "component: walker}",
            "component: walker, place: {cores_per_rank: 2}}",
            ["walk", "count", "keep"],
            "env.OMP_NUM_THREADS: 1 → 2",
        ),
    ],
    ids=["ranks", "with", "env", "deadline", "threads"],
)
def test_what_a_change_of_the_pipeline_runs_again(
    old: str, new: str, runs: list[str], said: str, plan_of: Planner
) -> None:
    before = plan_of(TEXT)
    found = why_they_run(plan_of(TEXT.replace(old, new)), before, {})
    assert running(found) == runs
    assert any(said in why for why in found.values()), found


def test_a_stage_more_on_the_node_changes_nothing_for_the_others(plan_of: Planner) -> None:
    """They may keep less freed memory then."""
    others = "  other: {component: walker}\n  drop: {component: keep, with: {path: b.bp}}\n"
    others += "streams:\n  others: {from: other, to: drop}\n"
    more = TEXT.replace("streams:\n", others, 1)
    site = SITE.model_copy(update={"glibc": "2.36", "memory_policy": ["keep_freed"]})
    before, now = plan_of(TEXT, site=site), plan_of(more, site=site)
    assert before.stage("walk").env["GLIBC_TUNABLES"] != now.stage("walk").env["GLIBC_TUNABLES"]
    assert running(why_they_run(now, before, {})) == ["other", "drop"]


@pytest.mark.parametrize(
    ("old", "new", "stage", "said"),
    [
        ("with: {variable", "with: {bins: 12, variable", "count", "with.bins: 10 → 12"),
        ("with: {variable", "env: {A: 1}, with: {bins: 12, variable", "count", "with.bins: 10 → 12, and 1 more change"),
        ("via: sst", "via: bp5", "keep", "ends.read counts.engine: SHM → BP5"),
        ("via: sst", "via: sst, queue: {limit: 7}", "count", "ends.write counts.parameters.QueueLimit: 2 → 7"),
    ],
    ids=["derived", "two", "engine", "parameter"],
)
def test_what_follows_from_another_change_is_not_counted(
    old: str, new: str, stage: str, said: str, plan_of: Planner
) -> None:
    assert why_they_run(plan_of(TEXT.replace(old, new)), plan_of(TEXT), {})[stage] == said


def test_a_command_and_a_new_stage(plan_of: Planner) -> None:
    text = "\nstages:\n  one: {command: [cat, a]}\n"
    found = why_they_run(plan_of(text.replace("cat, a", "cat, b") + "  two: {command: [ls]}\n"), plan_of(text), {})
    assert found == {"one": 'command: ["cat", "a"] → ["cat", "b"]', "two": "is new"}


def test_what_reads_a_stage_that_runs_again_runs_again_and_its_unit_with_it(plan_of: Planner) -> None:
    plan = plan_of(TEXT)
    found = why_they_run(plan, plan, {"walk": "data.bin has different content"})
    assert found == {
        "walk": "data.bin has different content",
        "count": "reads positions, which walk writes anew",
        "keep": "joined to count by a live stream",
    }
    # A live stream is nowhere: the writer runs again for its reader.
    assert running(why_they_run(plan, plan, {"keep": "pdf.bp is gone"})) == ["count", "keep"]
    # A file is there: it does not.
    alone = plan_of(EACH_ALONE)
    assert running(why_they_run(alone, alone, {"keep": "pdf.bp is gone"})) == ["keep"]


def test_versions() -> None:
    old = {"adios2": "2.10.2", "os": "Linux 6.1"}
    assert version_change(old, {"adios2": "2.12.1", "os": "Linux 6.1"}) == "adios2: 2.10.2 → 2.12.1"
    assert version_change(old, {**old, "os": "Linux 6.8"}) == ""


def test_a_file_is_known_by_its_content_or_where_it_was_too_large_by_its_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"12345")
    digest = "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"
    record = FileRecord(role="input", path=str(path), size=5, modified=1000.0, sha256=digest)
    assert file_change(path, record, "data.bin") == "", "another time, and the same content"
    assert file_change(path, None, "data.bin") == "data.bin is new"
    large = record.model_copy(update={"sha256": None})
    assert (
        file_change(path, large, "data.bin")
        == "data.bin has a different size or time, and was too large for a checksum"
    )
    os.utime(path, (1000, 1000))
    assert file_change(path, large, "data.bin") == ""
    path.write_bytes(b"54321")
    assert file_change(path, record, "data.bin") == "data.bin has different content"


@pytest.mark.parametrize(
    ("role", "modified", "said"),
    [
        ("program", 1500, ["a.py has different content"]),
        ("module", 2500, ["a.py has different content"]),
        ("input", 2500, ["a.py has different content"]),
        ("input", 1500, []),  # the run itself may have written it
        ("pipeline", 2500, []),  # its values are compared
    ],
)
def test_what_has_changed_since_a_run_ended(role: FileRole, modified: int, said: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"12345")
    os.utime(path, (modified, modified))
    record = FileRecord(role=role, path=str(path), size=5, modified=1000.0, sha256="0" * 64)
    of_stage = [text.replace("a.py", "a.py (stage mean)") for text in said]
    assert changed_files([record], ended=2000.0, used={"mean": {path: role}, "other": {}}) == of_stage


def test_what_is_gone_has_changed(tmp_path: Path) -> None:
    record = FileRecord(role="input", path=str(tmp_path / "a.py"), size=5, modified=1000.0, sha256="0" * 64)
    assert changed_files([record], ended=2000.0, used={}) == ["a.py cannot be read: No such file or directory"]
    used: dict[str, dict[Path, FileRole]] = {name: {tmp_path / "a.py": "program"} for name in ("mean", "sum")}
    program = record.model_copy(update={"role": "program"})
    (said,) = changed_files([program], ended=2000.0, used=used)
    assert said.startswith("a.py (stages mean, sum) cannot be read")


PIPELINE = """wf: 1
name: test
params: {level: {value: 3}}
stages:
  sim: {component: gray_scott, with: {size: [16], steps: 20, write_every: 10}}
  mean:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/mean.py", "${{ pipeline.dir }}/data.txt"]
    reads: {field: {}}
  other: {command: [cat, notes.txt], files: {notes.txt: notes.in}}
streams: {field: {from: sim, to: mean, via: bp5}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("mean.py", "import own\n"), ("own.py", "x = 1\n"), ("data.txt", "1\n"), ("notes.in", "a\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "notes.in").write_text("level ${{ params.level }}\n")
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return tmp_path


def planned(folder: Path, *sets: str) -> PlannedRun:
    return plan_run(load_pipeline(folder / "pipeline.yaml", sets=list(sets)))


def made(folder: Path) -> tuple[Plan, Provenance]:
    now = planned(folder)
    return now.plan, to_provenance(start_context(folder, ["wf"]), now.plan, now.loaded)


@pytest.mark.parametrize(
    ("file", "changed"),
    [("mean.py", ["mean"]), ("own.py", ["mean"]), ("data.txt", ["mean"]), ("notes.in", ["other"]), ("", [])],
)
def test_a_changed_file_counts_for_the_stages_that_use_it(file: str, changed: list[str], folder: Path) -> None:
    before, provenance = made(folder)
    if file:
        (folder / file).write_text(f"{(folder / file).read_text()}# changed\n")
    found = _what_changed(planned(folder), before, provenance)
    assert running(found) == changed
    assert all(found[name] == f"{file} has different content" for name in changed)


@pytest.mark.parametrize(("python", "changed"), [("bin/python3", []), ("other/python", ["mean"])])
def test_another_name_of_the_same_python_is_no_change(python: str, changed: list[str], folder: Path) -> None:
    """In another folder it has other packages."""
    for name in ("bin/python", "bin/python3", "other/python"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(sys.executable)
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE.replace("${{ wf.python }}", "${{ pipeline.dir }}/bin/python"))
    before, provenance = made(folder)
    file.write_text(PIPELINE.replace("${{ wf.python }}", f"${{{{ pipeline.dir }}}}/{python}"))
    now = planned(folder)
    assert running(_what_changed(now, before, provenance)) == changed
    same = with_same_pythons(before, now.plan)
    assert running(why_they_run(now.plan, same, {})) == changed
    assert bool(changed_settings(same, now.plan)) == bool(changed)


def test_the_program_of_a_component_counts_for_its_stages(folder: Path) -> None:
    before, provenance = made(folder)
    files = [
        each.model_copy(update={"sha256": "0" * 64}) if each.path.endswith("gray_scott/program.py") else each
        for each in provenance.files
    ]
    assert files != provenance.files
    found = _what_changed(planned(folder), before, provenance.model_copy(update={"files": files}))
    assert running(found) == ["sim"] and found["sim"] == "gray_scott/program.py has different content"


def test_a_parameter_counts_where_it_is_filled_into_the_users_own_files(folder: Path) -> None:
    """The plan of a run does not keep their texts: those that were written are compared."""
    before = planned(folder)
    directory = create_run(before.loaded, before.plan, folder / "run")

    def changed(plan: Plan) -> list[str]:
        return [_changed_text(directory, plan, kept_plan(plan), stage.name) for stage in plan.stages]

    assert changed(before.plan) == ["", "", ""]
    assert changed(planned(folder, "params.level=4").plan) == ["", "", "notes.txt has different content"]
    (directory / "stages/other/work/notes.txt").unlink()
    assert changed(before.plan) == ["", "", "notes.txt has different content"]


def test_another_adios2_and_a_file_that_is_gone_count_for_all(folder: Path) -> None:
    before, provenance = made(folder)
    older = provenance.model_copy(update={"versions": {**provenance.versions, "adios2": "2.0.0"}})
    found = _what_changed(planned(folder), before, older)
    assert all(why.startswith("adios2: 2.0.0 → ") for why in found.values())
    (folder / "own.py").unlink()
    assert set(_what_changed(planned(folder), before, provenance).values()) == {f"{folder}/own.py is gone"}


def test_what_people_read() -> None:
    assert reuse_text("run-1", {"sim": "", "mean": "is new"}) == (
        "re-used from run-1:\n  sim   re-used\n  mean  runs: is new"
    )
    assert "all stages run" in reuse_text(None, {})
