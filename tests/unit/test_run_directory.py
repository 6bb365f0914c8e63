"""The run directory, and what is cleaned from it."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import re
import secrets
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import Source, chain, make_end, make_plan, make_stage, make_stream, write_run
from tests.support.sample_run import PROVENANCE
from workflow.errors import RunError
from workflow.formats.bp_index import deactivate, read_index
from workflow.formats.stage_file import read_stage_file
from workflow.plan.plan_model import RUN_DIR, CheckpointPlan, PartPlan, Plan
from workflow.provenance.provenance_model import read_provenance
from workflow.run.attempts import prepare_attempt
from workflow.run.cleanup import clean
from workflow.run.records.find_runs import find_run, full_name
from workflow.run.records.run_directory import create_run_dir, fill_plan, read_filled_plan


@pytest.fixture
def plan() -> Plan:
    plan = chain("sst")
    config = f"<io path='{RUN_DIR}/streams/atoms'/> $${{{{ kept }}}}\n"
    path = f"{RUN_DIR}/stages/md/work/deep/adios2.xml"
    end = plan.stages[0].ends[0].model_copy(update={"config": path, "dialect": "adios2.xml"})
    md = plan.stages[0].model_copy(
        update={
            "parameters": {"grid": [4, 4], "log": f"{RUN_DIR}/out.log"},
            "ends": [end],
            "files": {path: config},
            "copies": {f"{RUN_DIR}/stages/md/work/tool": __file__},
        }
    )
    return plan.model_copy(update={"stages": [md, *plan.stages[1:]]})


def test_layout(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_dir = create_run_dir(plan, Source(b"name: \xc3\xa4\n"), provenance=PROVENANCE)
    assert run_dir.is_absolute()
    assert re.fullmatch(r"small-\d{8}-\d{6}-[0-9a-f]{4}", run_dir.name)
    assert (tmp_path / "runs" / "latest").resolve() == run_dir
    assert (run_dir / "pipeline.yaml").read_bytes() == b"name: \xc3\xa4\n"
    assert read_provenance(run_dir) == PROVENANCE
    assert (run_dir / "plan.json").read_text() == plan.to_json()
    assert (run_dir / "streams").is_dir()
    work = run_dir / "stages" / "md" / "work"
    assert (work / "deep" / "adios2.xml").read_text() == f"<io path='{run_dir}/streams/atoms'/> ${{{{ kept }}}}\n"
    assert (work / "tool").read_bytes() == Path(__file__).read_bytes()
    assert not list(run_dir.rglob(".*")), "temporary files are left"


def test_the_texts_of_the_users_own_files_are_in_the_work_directory_only(plan: Plan, tmp_path: Path) -> None:
    md = plan.stages[0].model_copy(
        update={"files": {**plan.stages[0].files, f"{RUN_DIR}/stages/md/work/deck": "user = me\n"}}
    )
    run_dir = create_run_dir(plan.model_copy(update={"stages": [md, *plan.stages[1:]]}), Source(), tmp_path / "run")
    assert (run_dir / "stages/md/work/deck").read_text() == "user = me\n"
    assert (run_dir / "plan.json").read_text() == plan.to_json()


def test_stage_settings(plan: Plan, tmp_path: Path) -> None:
    run_dir = create_run_dir(plan, Source(), tmp_path / "run")
    settings = json.loads((run_dir / "stages" / "md" / "stage.json").read_text())
    assert settings["stage"] == "md"
    assert settings["run_dir"] == str(run_dir)
    assert settings["parameters"] == {"grid": [4, 4], "log": f"{run_dir}/out.log"}
    assert settings["metrics"] == f"{run_dir}/stages/md/metrics.jsonl"
    end = settings["ends"][0]
    assert (end["stream"], end["side"], end["path"]) == ("atoms", "write", f"{run_dir}/streams/atoms")
    assert read_filled_plan(run_dir) == fill_plan(plan, run_dir)


def test_a_config_of_the_user_that_the_program_has_removed_is_written_again(plan: Plan, tmp_path: Path) -> None:
    run_dir = create_run_dir(plan, Source(), tmp_path / "run")
    (path,) = plan.stages[0].files
    text = "<adios-config><io name='atoms'/><io name='Own'/></adios-config>"
    md = plan.stages[0].model_copy(update={"edited": {path: ["io atoms: engine"]}, "files": {path: text}})
    filled = fill_plan(plan.model_copy(update={"stages": [md, *plan.stages[1:]]}), run_dir).stages[0]
    (config,) = filled.files
    Path(config).unlink()
    prepare_attempt(run_dir, filled, 2)
    assert 'engine type="SST"' in Path(config).read_text() and "io name='Own'" in Path(config).read_text()
    Path(config).unlink()
    prepare_attempt(run_dir, filled.model_copy(update={"files": {}}), 3)
    assert 'engine type="SST"' in Path(config).read_text()


def test_a_name_that_cannot_be_a_link_is_told_with_the_port(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without symbolic links; at the start, and at one more attempt."""
    end = plan.stages[0].ends[0].model_copy(update={"opened": f"{RUN_DIR}/stages/md/work/dump.bp"})
    md = plan.stages[0].model_copy(update={"ends": [end]})
    with_name = plan.model_copy(update={"stages": [md, *plan.stages[1:]]})
    kept = create_run_dir(with_name, Source(), tmp_path / "kept")

    def refuse(path: Path, target: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), target, None, str(path))

    monkeypatch.setattr(Path, "symlink_to", refuse)
    said = rf"md\.{end.port}: its program opens .*dump\.bp.*: Operation not permitted\n.*`path:`"
    with pytest.raises(RunError, match=said):
        create_run_dir(with_name, Source(), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(RunError, match=said):
        prepare_attempt(kept, fill_plan(with_name, kept).stages[0], 2)


def saving(plan: Plan) -> Plan:
    """Its first stage saves states."""
    first = plan.stages[0].model_copy(update={"checkpoint": CheckpointPlan(every_s=1)})
    return plan.model_copy(update={"stages": [first, *plan.stages[1:]]})


def test_a_stage_that_saves_states_knows_all_behind_it_that_may_take_it_back(tmp_path: Path) -> None:
    """md → saxs → keep: a state of keep may take md back, through saxs."""
    run_dir = write_run(saving(chain("sst")), tmp_path)
    settings = read_stage_file(run_dir / "stages/md/stage.json")
    assert settings.readers == {"atoms": ["saxs"], "pattern": ["keep"]}
    assert settings.written == {"saxs": ["pattern"]}
    settings = read_stage_file(run_dir / "stages/saxs/stage.json")
    assert (settings.readers, settings.written) == ({}, {}), "it saves nothing"


def test_a_stream_that_is_kept_takes_no_stage_back(tmp_path: Path) -> None:
    plan = saving(chain("sst"))
    pattern = make_stream("pattern", "saxs", ["keep"], "live")
    plan = plan.model_copy(update={"streams": [plan.streams[0], pattern]})
    settings = read_stage_file(write_run(plan, tmp_path) / "stages/md/stage.json")
    assert (settings.readers, settings.written) == ({"atoms": ["saxs"]}, {})


def test_readers_find_the_directory_of_a_stream_that_lies_deeper(tmp_path: Path) -> None:
    """openPMD gives up at once on a directory that its writer has not made yet."""
    deeper = make_end("deeper", "read").model_copy(update={"path": f"{RUN_DIR}/streams/deeper/openpmd"})
    run_dir = create_run_dir(make_plan([make_stage("saxs", ["saxs"], [deeper])]), Source(), tmp_path / "run")
    assert (run_dir / "streams/deeper").is_dir()


def test_named_directory_must_be_empty(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    create_run_dir(plan, Source(), tmp_path / "empty")
    with pytest.raises(RunError, match="is not an empty directory"):
        create_run_dir(plan, Source(), tmp_path / "empty")
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="is not an empty directory"):
        create_run_dir(plan, Source(), tmp_path / "file")
    assert not (tmp_path / "latest").exists(), "only runs/ has a newest run"


def test_directory_that_cannot_be_filled_is_not_left(tmp_path: Path) -> None:
    stage = make_stage("md", ["true"], copies={f"{RUN_DIR}/stages/md/work/x": str(tmp_path / "missing")})
    with pytest.raises(RunError, match=r"cannot write the run directory: .*missing: No such file"):
        create_run_dir(make_plan([stage]), Source(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def create_several(plan: Plan, names: int, run_dir: Path | None, count: int) -> list[str]:
    """What one process does in the tests of many: it creates runs; returns their names."""
    monkeypatch = pytest.MonkeyPatch()  # for the rest of this process
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-000000")
    monkeypatch.setattr(secrets, "token_hex", lambda _: f"{random.randrange(names):04x}")
    made = []
    for _ in range(count):
        try:
            made.append(create_run_dir(plan, Source(), run_dir).name)
        except RunError as error:
            assert "is not an empty directory" in str(error)
    return made


def created_by_many(plan: Plan, run_dir: Path | None, *, processes: int, count: int) -> list[str]:
    with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        jobs = [pool.submit(create_several, plan, 50, run_dir, count) for _ in range(processes)]
        return [name for job in jobs for name in job.result()]


def test_runs_of_the_same_second_get_directories_of_their_own(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few names to draw from, so that nearly every draw collides."""
    monkeypatch.chdir(tmp_path)
    names = created_by_many(plan, None, processes=8, count=5)
    assert len(set(names)) == len(names) == 40, "every run has got a directory, and none got that of another"
    for name in names:
        assert read_filled_plan(tmp_path / "runs" / name).stages[0].name == "md"
        assert (tmp_path / "runs" / name / "stages/md/stage.json").exists()
    assert (tmp_path / "runs" / "latest").resolve().name in names
    assert not list((tmp_path / "runs").glob(".*")), "temporary links are left"


def test_nothing_is_left_of_a_run_where_latest_is_a_directory(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "latest").mkdir(parents=True)
    with pytest.raises(RunError, match="latest is a directory"):
        create_run_dir(plan, Source())
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["latest"]


def test_threads_of_one_process_create_runs_at_the_same_time(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have made their temporary link before the first one renames its own."""
    monkeypatch.chdir(tmp_path)
    links, replace = threading.Barrier(4), Path.replace

    def replace_together(self: Path, target: Path) -> Path:
        if target.name == "latest":
            links.wait(60)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replace_together)
    with ThreadPoolExecutor(4) as pool:
        made = [job.result() for job in [pool.submit(create_run_dir, plan, Source()) for _ in range(4)]]
    assert len(set(made)) == 4
    assert (tmp_path / "runs" / "latest").resolve() in made
    assert not list((tmp_path / "runs").glob(".*")), "temporary links are left"


def test_of_many_runs_in_one_named_directory_one_gets_it(plan: Plan, tmp_path: Path) -> None:
    for attempt in range(10):
        run_dir = tmp_path / f"run{attempt}"
        assert created_by_many(plan, run_dir, processes=4, count=1) == [run_dir.name]
        assert (run_dir / "stages/md/stage.json").exists(), "the losers left the winner's files alone"
        assert read_filled_plan(run_dir).stages[0].name == "md"


def test_a_directory_of_the_user_stays_when_it_cannot_be_filled(tmp_path: Path) -> None:
    stage = make_stage("md", ["true"], copies={f"{RUN_DIR}/stages/md/work/x": str(tmp_path / "missing")})
    (tmp_path / "run").mkdir()
    with pytest.raises(RunError, match="cannot write the run directory"):
        create_run_dir(make_plan([stage]), Source(), tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []


def test_run_names_move_on(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="no run here"):
        find_run()
    first, second = create_run_dir(plan, Source()), create_run_dir(plan, Source())
    assert first != second
    assert find_run() == second
    monkeypatch.chdir(tmp_path / "runs")
    assert find_run("latest") == find_run() == second, "inside the folder of the runs"
    monkeypatch.chdir(tmp_path)
    assert find_run(first.name) == find_run(first) == find_run(Path("runs") / first.name) == first
    with pytest.raises(RunError, match=f"there is no run `nothing`\n.*{second.name}"):
        find_run("nothing")
    (tmp_path / "other").mkdir()
    with pytest.raises(RunError, match="other is not a run directory"):
        find_run("other")


def test_latest_is_the_run_that_goes_on_with_an_older_one(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = create_run_dir(plan, Source()), create_run_dir(plan, Source())

    def goes_on(before: Path, latest: bool = True) -> Path:
        part = PartPlan(number=2, run=str(before), finished={}, pieces={})
        return create_run_dir(plan.model_copy(update={"part": part}), Source(), beside=before, latest=latest)

    assert find_run() == second
    assert goes_on(first) == find_run()
    newest = create_run_dir(plan, Source())
    # A part that a job submits by itself, while somebody has started another run.
    assert goes_on(first, latest=False) != find_run() == newest
    assert goes_on(newest, latest=False) == find_run()
    elsewhere = create_run_dir(plan, Source(), tmp_path / "elsewhere" / "run")
    third = goes_on(elsewhere)
    assert third.parent == elsewhere.parent and find_run() == third
    assert not (elsewhere.parent / "latest").exists(), "that folder had no link"


def test_a_part_of_a_name_is_enough_where_no_other_run_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"{name}-20261122-09300{number}-7c1{number}" for number, name in enumerate(("shock", "gray", "gray", "g"))]
    for age, name in enumerate(names):
        create_run_dir(chain("sst"), Source(), tmp_path / "runs" / name)
        os.utime(tmp_path / "runs" / name / "plan.json", (age, age))
    for part, number in (("shock", 0), ("s", 0), ("gray-20261122-093001", 1), ("7c12", 2), ("093003-7c13", 3)):
        assert find_run(part) == tmp_path / "runs" / names[number] and full_name(part) == names[number]
    with pytest.raises(RunError) as caught:
        find_run("gray")
    (problem,) = caught.value.problems
    assert (problem.message, problem.hint) == (
        "`gray` fits 2 runs", f"type more of the name: {names[2]}, {names[1]}"
    )  # fmt: skip
    assert full_name("gray") == "gray"
    for other in ("c11", "ock", "-7c11"):
        with pytest.raises(RunError, match=f"there is no run `{other}`"):
            find_run(other)
    (tmp_path / "shock").mkdir()
    with pytest.raises(RunError, match="shock is not a run directory"):
        find_run("shock")  # a path goes before a part of a name


def test_plan_of_a_newer_version_is_refused(plan: Plan, tmp_path: Path) -> None:
    run_dir = create_run_dir(plan, Source(), tmp_path / "run")
    newer = {**json.loads((run_dir / "plan.json").read_text()), "plan_version": 4}
    (run_dir / "plan.json").write_text(json.dumps(newer))
    with pytest.raises(RunError, match="plan_version is 4, and this wf reads version 3\n  use the wf that wrote it"):
        read_filled_plan(run_dir)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"sites": 3}, "sites: Extra inputs are not permitted"), ({"stages": [3]}, "stages.0: "), ({"stages": 3}, "no")],
)
def test_what_is_wrong_with_a_plan_is_said(plan: Plan, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    run_dir = create_run_dir(plan, Source(), tmp_path / "run")
    (run_dir / "plan.json").write_text(json.dumps({**json.loads(plan.to_json()), **change}))
    with pytest.raises(RunError, match=said):
        read_filled_plan(run_dir)


def bp5(steps: int, active: bool) -> bytes:
    header = bytearray(64)
    header[37], header[39] = 5, active
    writers = b"w" + (32).to_bytes(8, "little") + bytes(32)
    return bytes(header) + writers + (b"s" + (32).to_bytes(8, "little") + bytes(32)) * steps


def bp4(steps: int, active: bool) -> bytes:
    header = bytearray(64)
    header[37], header[38] = 4, active
    return bytes(header) + bytes(64 * steps)


@pytest.mark.parametrize("make", [bp5, bp4])
def test_index_is_read_as_it_grows(make: type, tmp_path: Path) -> None:
    path = tmp_path / "md.idx"
    assert read_index(path) is None
    path.write_bytes(make(0, True)[:60])
    assert read_index(path) is None
    path.write_bytes(make(2, True)[:-3])
    index = read_index(path)
    assert index is not None
    assert (index.steps, index.active) == (1, True), "a record that is not whole does not count"
    path.write_bytes(make(5, False))
    index = read_index(path, index)
    assert index is not None
    assert (index.steps, index.active) == (5, False)
    assert index == read_index(path)


@pytest.mark.parametrize("make", [bp5, bp4])
def test_file_of_a_dead_writer_is_marked_as_ended(make: type, tmp_path: Path) -> None:
    path = tmp_path / "md.idx"
    path.write_bytes(make(3, True))
    assert deactivate(path)
    assert path.read_bytes() == make(3, False)
    assert not deactivate(path)
    path.write_bytes(b"not an index")
    assert not deactivate(path)


def test_clean(tmp_path: Path) -> None:
    deeper = make_end("deeper", "write", "sst").model_copy(update={"path": f"{RUN_DIR}/streams/deeper/openpmd"})
    stages = [make_stage("md", ["md"], [deeper]), make_stage("saxs", ["saxs"])]
    streams = [
        make_stream("kept", "md", ["saxs"], "after"),
        make_stream("gone", "md", ["saxs"], "after", keep=False),
        make_stream("outside", "md", ["saxs"], "after", keep=False, on_disk=[str(tmp_path / "outside.bp")]),
    ]
    run_dir = tmp_path / "run"
    for folder in ("streams/kept.bp", "streams/gone.bp", "stages/saxs/work/archive.bp", "../outside.bp"):
        (run_dir / folder).mkdir(parents=True)
        (run_dir / folder / "md.idx").write_bytes(bp5(1, True))
    (run_dir / "streams/deeper").mkdir()
    for name in ("live.sst", "half.sst.tmp", "other.txt", "deeper/openpmd.sst"):
        (run_dir / "streams" / name).touch()
    touched = clean(run_dir, fill_plan(make_plan(stages, streams), run_dir))
    assert sorted(touched) == [
        "stages/saxs/work/archive.bp", "streams/deeper/openpmd.sst",
        "streams/gone.bp", "streams/half.sst.tmp", "streams/kept.bp", "streams/live.sst",
    ]  # fmt: skip
    assert sorted(path.name for path in (run_dir / "streams").iterdir()) == ["deeper", "kept.bp", "other.txt"]
    assert (tmp_path / "outside.bp").exists()
    assert clean(run_dir, fill_plan(make_plan(stages, streams[:1]), run_dir)) == []


def test_clean_goes_on_after_what_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contact file that is busy, an index on a disk that cannot be written, texts that are no path."""
    run_dir = tmp_path / "run"
    texts = {"long": f"{RUN_DIR}/{'x' * 5000}", "nul": f"{RUN_DIR}/\0"}
    streams = [make_stream("gone", "md", ["saxs"], "after", keep=False), make_stream("kept", "md", ["saxs"], "after")]
    plan = fill_plan(
        make_plan([make_stage("md", ["md"], parameters=texts), make_stage("saxs", ["saxs"])], streams), run_dir
    )
    for folder in ("streams/kept.bp", "streams/gone.bp", "stages/saxs/work/broken.bp"):
        (run_dir / folder).mkdir(parents=True)
        (run_dir / folder / "md.idx").write_bytes(bp5(1, True))
    for name in ("busy.sst", "free.sst"):
        (run_dir / "streams" / name).touch()
    unlink, pwrite = Path.unlink, os.pwrite

    def unlink_unless_busy(path: Path, missing_ok: bool = False) -> None:
        if path.name == "busy.sst":
            raise OSError(errno.EBUSY, "Device or resource busy")
        unlink(path, missing_ok)

    def pwrite_unless_broken(file: int, *arguments: Any) -> int:
        if "broken.bp" in Path(f"/proc/self/fd/{file}").readlink().parts:
            raise OSError(errno.EIO, "Input/output error")
        return pwrite(file, *arguments)

    monkeypatch.setattr(Path, "unlink", unlink_unless_busy)
    monkeypatch.setattr(os, "pwrite", pwrite_unless_broken)
    assert sorted(clean(run_dir, plan)) == ["streams/free.sst", "streams/gone.bp", "streams/kept.bp"]


def test_clean_examines_only_what_the_plan_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the tree that a program has written: 100,000 files on a parallel file system take minutes."""
    run_dir = tmp_path / "run"
    outputs = {"path": f"{RUN_DIR}/kept/archive.bp", "many": [f"{RUN_DIR}/one.bp", 3], "seed": 1}
    work = make_stage("saxs", ["saxs"], parameters=outputs)
    for folder in ("kept/archive.bp", "one.bp", "stages/saxs/work/own.bp", "stages/saxs/work/deep/tree/other.bp"):
        (run_dir / folder).mkdir(parents=True)
        (run_dir / folder / "md.idx").write_bytes(bp5(1, True))
    (run_dir / "streams").mkdir()
    (run_dir / "stages/saxs/work/link.bp").symlink_to(run_dir / "stages/saxs/work/deep/tree/other.bp")
    listed: list[Path] = []
    scandir = os.scandir

    def noting(path: Any) -> Any:
        listed.append(Path(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noting)
    touched = clean(run_dir, fill_plan(make_plan([work]), run_dir))
    monkeypatch.undo()
    assert sorted(touched) == ["kept/archive.bp", "one.bp", "stages/saxs/work/own.bp"]
    assert set(listed) <= {run_dir / "streams", run_dir / "stages/saxs/work"}
