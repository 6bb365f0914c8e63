"""`wf attach`: stages, scripts and notebooks join a running run, and leave it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.hurt_runs import descendants
from tests.support.live_runs import LAST, STREAMS, LiveRun, live_run, wf
from tests.support.pipelines import TIMEOUT_S
from tests.support.waiting import wait_until
from workflow import stage
from workflow.api.attachments import attach
from workflow.api.runs import read_report
from workflow.cli.clean_verb import find_runs
from workflow.errors import RunError
from workflow.formats import event_names
from workflow.formats.bp_holes import drop_data
from workflow.run.records.attached_runs import attached_runs
from workflow.run.records.events_file import KINDS
from workflow.run.records.find_runs import listed_runs
from workflow.site.this_machine import cpu_topology
from workflow.stage.adios import followed_engine
from workflow.stage.adios.read_engine import AdiosReadEngine
from workflow.stage.stream_engines import StepStatus

pytestmark = pytest.mark.turns(2)


@pytest.fixture
def live(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveRun]:
    with live_run(tmp_path, STREAMS[getattr(request, "param", "spool")]) as run:
        yield run


def wf_attach(live: LiveRun, *argv: str) -> subprocess.Popen[str]:
    more = ["--set", "oversubscribe=true"]
    return wf("attach", str(live.folder), *argv, *more, cwd=live.folder.parent)


def write_view(tmp_path: Path) -> Path:
    """A file with two stages, the first of which needs cores, and with a `from` that is left empty."""
    (tmp_path / "half.py").write_text(
        "from workflow import stage\n"
        "with stage.open_reader('data') as data, stage.open_writer('half') as half:\n"
        "    for step in data:\n"
        "        with half.step():\n"
        "            half.write('values', step.read('values') / 2)\n"
    )
    (tmp_path / "view.yaml").write_text(
        "wf: 1\nname: view\nstages:\n"
        '  half: {command: ["${{ wf.python }}", "${{ pipeline.dir }}/half.py"],\n'
        "    reads: {data: {}}, writes: {half: {}}}\n"
        "  keep: {component: archive, with: {path: half.bp}}\n"
        "streams:\n  data: {from: , to: half}\n  half: {from: half, to: keep}\n"
    )
    return tmp_path / "view.yaml"


def steps_of(path: Path) -> list[float]:
    """The number that each step of a file holds."""
    with stage.open_reader(path=path) as data:
        found = []
        for step in data:
            values = step.read("values")
            assert (values == values[0]).all()
            found.append(float(values[0]))
        return found


def opened(live: LiveRun, name: str) -> Callable[[], bool]:
    """Whether all stages of what is attached have opened their streams."""
    folder = live.folder / "attached" / name

    def are_open() -> bool:
        if not (folder / "plan.json").exists():
            return False
        names = [each["name"] for each in json.loads((folder / "plan.json").read_text())["stages"]]
        files = [folder / "stages" / each / "metrics.jsonl" for each in names]
        return all(file.exists() and '"open"' in file.read_text() for file in files)

    return are_open


@pytest.mark.parametrize("live", list(STREAMS), indirect=True)
def test_a_stage_joins_at_the_newest_step_and_gets_all_that_follow(live: LiveRun) -> None:
    live.let_write(9)
    process = wf_attach(live, "--component", "archive", "--with", "path=late.bp", "--name", "late", "-q")
    follower = live.folder / "attached/late/stages/data-follow/metrics.jsonl"
    wait_until(lambda: follower.exists() and follower.read_text().count('"open"') == 2, "the run is followed", 60)
    said = live.end()
    attached, _ = process.communicate(timeout=TIMEOUT_S)
    assert live.process.returncode == 0, said
    assert process.returncode == 0, attached
    folder = live.folder / "attached/late"
    late = steps_of(folder / "late.bp")
    assert late[0] == 9.0
    assert late[-1] == LAST - 1
    removed = LAST - 9 - len(late)
    if "/dev/shm" not in (live.folder.parent / "pipeline.yaml").read_text():
        assert removed == 0
        assert late == [float(step) for step in range(9, LAST)]
    assert late == sorted(set(late))
    begun, printed = (folder / "stages/data-follow/stdout.log").read_text().splitlines()
    assert begun == "follow: data from step 9 on"
    assert printed.startswith(f"follow: {len(late)} steps of data, from step 9 to {LAST - 1}")
    assert (f"{removed} step" in printed) == (removed > 0)
    report = read_report(live.folder)
    assert report.run.state == "succeeded"
    assert report.stream("data").steps == LAST
    assert [each.name for each in report.attached] == ["late"]
    assert any(note.startswith("late was attached at ") and "succeeded after" in note for note in report.notes)
    notes = [note for note in read_report(folder).notes if note.startswith("data-follow missed ")]
    assert len(notes) == (removed > 0)


def test_a_script_from_the_beginning_and_one_from_a_step(live: LiveRun, tmp_path: Path) -> None:
    live.let_write(5)
    script = tmp_path / "mine.py"
    script.write_text(
        "from workflow import stage\n"
        "with stage.open_reader() as data:\n"
        "    for step in data:\n"
        "        print(step.read('values')[0], flush=True)\n"
    )
    first = wf_attach(live, str(script), "--from", "beginning", "-q")
    second = wf_attach(live, str(script), "--from", "3", "--name", "third", "-q")
    outs = [live.folder / "attached" / name / "stages/mine/stdout.log" for name in ("mine", "third")]
    wait_until(lambda: all(out.exists() and "5.0" in out.read_text() for out in outs), "both have step 5", 60)
    live.end()
    for each in (first, second):
        said, _ = each.communicate(timeout=TIMEOUT_S)
        assert each.returncode == 0, said
    steps = [[float(line) for line in out.read_text().splitlines()] for out in outs]
    assert steps == [[float(step) for step in range(begin, LAST)] for begin in (0, 3)]
    assert {each.name for each in attached_runs(live.folder)} == {"mine", "third"}
    assert not [each for each in listed_runs(everywhere=True) if "attached" in each.parts]


@pytest.mark.parametrize("live", ["newest"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda each: each.name)
def test_what_is_attached_may_die_or_be_stopped(live: LiveRun, number: signal.Signals) -> None:
    live.let_write(3)
    process = wf_attach(live, "--component", "archive", "--with", "path=late.bp", "--name", "late", "-q")
    wait_until(opened(live, "late"), "it is attached", 60)
    events = [json.loads(line) for line in (live.folder / "attached/late/events.jsonl").read_text().splitlines()]
    pids = [each["pid"] for each in events if each["event"] == "stage_started"]
    assert len(pids) == 2
    for pid in pids:
        os.kill(pid, number)
    said = live.end()
    assert live.process.returncode == 0, said
    assert read_report(live.folder).stream("data").steps == LAST
    if number is signal.SIGSTOP:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    process.communicate(timeout=TIMEOUT_S)


@pytest.mark.parametrize("live", ["newest"], indirect=True)
def test_detach_ends_it_and_the_run_goes_on(live: LiveRun) -> None:
    live.let_write(3)
    ended = wf_attach(live, "--component", "archive", "--with", "path=late.bp", "--name", "late", "--detach")
    said, _ = ended.communicate(timeout=TIMEOUT_S)
    assert ended.returncode == 0, said
    assert "next: wf detach" in said
    wait_until(opened(live, "late"), "it is attached", 60)
    wrong, _ = (each := wf("detach", str(live.folder), "lat", cwd=live.folder.parent)).communicate(timeout=TIMEOUT_S)
    assert each.returncode == 2
    assert "did you mean `late`?" in wrong
    detached, _ = (each := wf("detach", str(live.folder), "late", cwd=live.folder.parent)).communicate(
        timeout=TIMEOUT_S
    )
    assert each.returncode == 0, detached
    assert live.process.poll() is None
    live.end()
    assert live.process.returncode == 0
    (attached,) = read_report(live.folder).attached
    assert attached.state == "interrupted"
    assert not read_report(live.folder / "attached/late").run.resumable


@pytest.mark.parametrize("live", ["newest"], indirect=True)
@pytest.mark.parametrize("way", ["Ctrl-C", "SIGTERM", "detach"])
def test_whoever_ends_it_gets_its_files_whole(live: LiveRun, tmp_path: Path, way: str) -> None:
    """Also while no step comes: the simulation waits until the run ends."""
    live.let_write(3)
    view = tmp_path / "view.yaml"
    view.write_text(
        "wf: 1\nname: view\nstages:\n"
        "  look: {component: plot, with: {variable: values}}\n"
        "  keep: {component: archive, with: {path: late.bp}}\n"
        "streams:\n  data: {to: [look, keep]}\n"
    )
    process = wf_attach(live, str(view), "--from", "beginning", "-q")
    folder = live.folder / "attached/view"
    wait_until(opened(live, "view"), "it is attached", 60)
    files = [folder / "stages" / name / "progress.jsonl" for name in ("look", "keep")]
    wait_until(
        lambda: all(each.exists() and re.search(r'"steps": [1-9]', each.read_text()) for each in files),
        "both have read a step", 60,
    )  # fmt: skip
    if way == "detach":
        wf("detach", str(live.folder), "view", cwd=live.folder.parent).communicate(timeout=TIMEOUT_S)
    else:
        process.send_signal(signal.SIGINT if way == "Ctrl-C" else signal.SIGTERM)
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, said
    assert (folder / "pictures/summary.png").exists(), said
    assert 1 <= len(steps_of(folder / "late.bp")) <= 4
    report = read_report(folder)
    assert report.run.state == "interrupted"
    assert ("wf detach" in report.run.reason) == (way == "detach") and "wf cancel" not in report.run.reason
    assert live.process.poll() is None, "the run goes on"


def test_a_notebook_reads_steps_as_they_come(live: LiveRun) -> None:
    live.let_write(4)
    with attach(live.folder).stream("data") as data:
        found = [next(data).read("values")[0]]
        live.let_write(6)
        found += [next(data).read("values")[0], next(data).read("values")[0]]
        live.end()
        found += [step.read("values")[0] for step in data]
    assert found == [float(step) for step in range(4, LAST)]


def test_what_ends_without_closing_its_file_ends_the_reader(live: LiveRun) -> None:
    live.let_write(4)
    with attach(live.folder).stream("data", "beginning") as data:
        assert next(data).read("values")[0] == 0
        wf("cancel", "--now", str(live.folder), cwd=live.folder.parent).communicate(timeout=TIMEOUT_S)
        assert [step.read("values")[0] for step in data] == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["--component", "plto", "--to", "data"],
            "error: --component plto: there is no component `plto`\n  did you mean `plot`?",
        ),
        (
            ["--component", "plot", "--to", "data", "--with", "G=3"],
            "error: --with G=3: component plot has no parameter `G`",
        ),
        (["nosuch.py", "--to", "data"], "error: there is no file `nosuch.py`\n"),
        (["--component", "null", "--to", "dat"], "did you mean `data`?"),
        (["--component", "plot", "--to", "data", "--with", "variabel=values"], "did you mean `variable`?"),
        ([], "what is to be attached?"),
        (["--component", "null", "--from", "x"], "expected newest, beginning or the number of a step"),
        (["missing.yaml"], "missing.yaml"),
    ],
)
def test_mistakes_are_said_and_the_run_goes_on(live: LiveRun, argv: list[str], said: str) -> None:
    live.let_write(2)
    process = wf_attach(live, *argv)
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2, printed
    assert said in printed
    assert "Traceback" not in printed
    assert not list((live.folder / "attached").glob("*"))
    assert live.process.poll() is None


def test_the_cores_of_the_run_are_not_free(live: LiveRun, tmp_path: Path) -> None:
    """Its simulation is bound to one core."""
    live.let_write(2)
    view = write_view(tmp_path)
    more = ["--set", f"stages.half.ranks={len(cpu_topology().allowed)}"]
    process = wf("attach", str(live.folder), str(view), *more, cwd=tmp_path)
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2, printed
    assert "needed at the same time" in printed
    assert "and other runs use 1 core" in printed
    assert not list((live.folder / "attached").iterdir())


@pytest.mark.parametrize("name", ["../pipeline", "a/b", "", "1st", "x" * 64])
def test_a_name_stays_in_its_folder(name: str, live: LiveRun) -> None:
    live.let_write(2)
    process = wf_attach(live, "--component", "null", "--to", "data", "--name", name)
    printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2, printed
    assert "is no name" in printed
    assert (live.folder / "pipeline.yaml").exists()


def test_stages_of_a_file_and_two_of_one_name_at_once(live: LiveRun, tmp_path: Path) -> None:
    live.let_write(4)
    view = write_view(tmp_path)
    both = [wf_attach(live, str(view), "--from", "2", "-q") for _ in range(2)]
    for name in ("view", "view-2"):
        wait_until(opened(live, name), f"{name} is attached", 60)
    live.end()
    for process in both:
        said, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, said
    for name in ("view", "view-2"):
        assert steps_of(live.folder / "attached" / name / "half.bp") == [step / 2 for step in range(2, LAST)]
    drawn, _ = wf("graph", str(live.folder), "--format", "mermaid", cwd=tmp_path).communicate(timeout=TIMEOUT_S)
    for name in ("view", "view-2"):
        assert f"{name}/half" in drawn and f"{name}/keep" in drawn
    assert "follow" not in drawn


def test_the_name_of_a_spool_is_none_of_a_stream(live: LiveRun) -> None:
    """Its events are those of the stream: who read it by this name would not know what was removed."""
    live.let_write(2)
    with pytest.raises(RunError, match="has no stream `data-spool`"):
        attach(live.folder).stream("data-spool")


def test_what_is_no_step_is_said_and_one_that_comes_late_is_awaited_as_long_as_asked(live: LiveRun) -> None:
    live.let_write(2)
    for wrong in ("newst", -3):
        with pytest.raises(RunError, match="expected `newest`, `beginning` or the number of a step"):
            attach(live.folder).stream("data", wrong)  # type: ignore[arg-type]
    with attach(live.folder).stream("data", 30, step_timeout_s=1.0) as data, pytest.raises(stage.StreamTimeout):
        next(data)


def test_a_supervisor_that_is_killed_ends_the_reader(live: LiveRun) -> None:
    live.let_write(4)
    with attach(live.folder).stream("data", "beginning") as data:
        assert next(data).read("values")[0] == 0
        live.process.kill()
        assert [step.read("values")[0] for step in data] == [1.0, 2.0, 3.0, 4.0]


def test_a_run_of_which_nothing_is_left_ends_the_reader(live: LiveRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its node has lost its power: nobody writes a verdict."""
    monkeypatch.setattr(followed_engine, "DEAD_S", 2.0)
    live.let_write(4)
    with attach(live.folder).stream("data", "beginning") as data:
        assert next(data).read("values")[0] == 0
        processes = [live.process.pid, *descendants(live.process.pid)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        found = []
        with pytest.raises(stage.StreamFailed):
            found += [step.read("values")[0] for step in data]
    live.process.communicate()


@pytest.mark.parametrize("live", ["newest"], indirect=True)
def test_joining_a_run_that_ends_meanwhile(live: LiveRun) -> None:
    live.let_write(4)
    joined = attach(live.folder)
    live.end()
    with pytest.raises(stage.StreamFailed, match="the run has ended"):
        joined.stream("data")


def test_clean_removes_what_was_attached_with_the_run(live: LiveRun) -> None:
    live.let_write(4)
    process = wf_attach(live, "--component", "null", "-q")
    wait_until(opened(live, "null"), "it is attached", 60)
    live.end()
    process.communicate(timeout=TIMEOUT_S)
    (found,) = find_runs([live.folder])
    assert not found.stays


def test_a_run_that_has_ended_and_one_that_keeps_nothing(tmp_path: Path) -> None:
    live = LiveRun(tmp_path, "via: sst")
    try:
        (live.gates / "until-3").touch()
        wait_until(lambda: (live.folder / "stages/sim/metrics.jsonl").exists(), "the run is going on")
        with pytest.raises(RunError, match="keeps no steps of data"):
            attach(live.folder).stream("data")
        assert live.end() is not None
        with pytest.raises(RunError, match="is not running: it has succeeded"):
            attach(live.folder)
    finally:
        if live.process.poll() is None:
            live.process.terminate()
            live.process.communicate(timeout=TIMEOUT_S)


# A spool that loses its oldest steps while somebody reads it, without a run.


def write_steps(path: Path, count: int) -> None:
    with stage.open_writer(path=path) as out:
        for step in range(count):
            with out.step():
                out.write("values", np.full(100_000, step, dtype=float), shape=(100_000,), start=(0,))


def note_removed(events: Path, first: int) -> None:
    with events.open("a") as file:
        file.write(json.dumps({"event": "steps_dropped", "t": 0.0, "stream": "data", "first": first}) + "\n")


def test_steps_that_were_removed_are_left_out(tmp_path: Path) -> None:
    path, events = tmp_path / "data.bp", tmp_path / "events.jsonl"
    write_steps(path, 8)
    note_removed(events, 5)
    drop_data(path, 5)
    with stage.follow(path, events, "data", first=2) as data:
        assert [(step.index, step.read("values")[0]) for step in data] == [(5, 5.0), (6, 6.0), (7, 7.0)]


def test_a_step_that_is_removed_while_it_is_read_is_not_valid(tmp_path: Path) -> None:
    path, events = tmp_path / "data.bp", tmp_path / "events.jsonl"
    write_steps(path, 8)
    events.touch()
    found = []
    with stage.follow(path, events, "data", first=2) as data:
        for step in data:
            if step.index == 3:
                note_removed(events, 4)
                drop_data(path, 4)
                with pytest.raises(stage.StepRemoved, match="has removed step 3"):
                    step.read("values")
                continue
            found.append((step.index, step.read("values")[0]))
    # Who is late goes on with the newest step.
    assert found == [(2, 2.0), (7, 7.0)]


def test_who_is_behind_goes_on_with_the_newest_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, events = tmp_path / "data.bp", tmp_path / "events.jsonl"
    write_steps(path, 8)
    events.touch()
    clock = [0.0]
    monkeypatch.setattr(followed_engine, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=time.sleep))
    found = []
    with stage.follow(path, events, "data", first=2, behind_s=1.0) as data:
        for step in data:
            found.append((step.index, step.read("values")[0]))
            clock[0] += 0.4
    assert found == [(2, 2.0), (3, 3.0), (4, 4.0), (7, 7.0)]
    with stage.follow(path, events, "data", first=2) as data:
        assert [step.index for step in data] == list(range(2, 8))


def test_who_has_waited_is_not_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, events = tmp_path / "data.bp", tmp_path / "events.jsonl"
    events.touch()
    clock, found = [0.0], []
    begin = AdiosReadEngine.begin

    def begin_late(engine: AdiosReadEngine, timeout_s: float) -> StepStatus:
        status = begin(engine, timeout_s)
        if status is StepStatus.LATE and not clock[0]:
            clock[0] = 60.0
            for value in (1, 2):
                write(value)
            out.close()
        return status

    monkeypatch.setattr(AdiosReadEngine, "begin", begin_late)
    monkeypatch.setattr(followed_engine, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=time.sleep))
    with stage.open_writer(path=path) as out:

        def write(value: int) -> None:
            with out.step():
                out.write("values", np.full(10, value, dtype=float), shape=(10,), start=(0,))

        write(0)
        with stage.follow(path, events, "data", first=0, behind_s=1.0) as data:
            for step in data:
                found.append((step.index, step.read("values")[0]))
    assert found == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_other_events_and_streams_do_not_count(tmp_path: Path) -> None:
    path, events = tmp_path / "data.bp", tmp_path / "events.jsonl"
    write_steps(path, 3)
    events.write_text(
        '{"event": "steps_dropped", "t": 0, "stream": "other", "first": 2}\nnot JSON\n{"event": "run_started"}\n'
    )
    with stage.follow(path, events, "data", first=0) as data:
        assert [step.index for step in data] == [0, 1, 2]


def test_the_events_that_are_looked_for_are_events() -> None:
    assert {event_names.STEPS_DROPPED, event_names.RUN_FINISHED, event_names.STAGE_IGNORED} <= KINDS.keys()
