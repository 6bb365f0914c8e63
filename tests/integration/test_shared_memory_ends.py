"""The two ends of a stream in shared memory, without a run: what arrives when one of them does something unusual."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.shared_memory_cycles import forked
from tests.support.waiting import wait_until
from workflow import stage
from workflow.stage.shared_memory.step_memory import MemorySegment

BLOCK = {"RendezvousReaderCount": "1", "QueueLimit": "3"}
DISCARD = {**BLOCK, "QueueLimit": "2", "QueueFullPolicy": "Discard"}


def ended(pid: int) -> int:
    """The exit code of a forked program."""
    found: list[int] = []

    def has_ended() -> bool:
        done, status = os.waitpid(pid, os.WNOHANG)
        found.extend([os.waitstatus_to_exitcode(status)] if done else [])
        return bool(done)

    wait_until(has_ended, f"process {pid} ends")
    return found[0]


def writing(path: Path, program: Callable[[stage.Writer], None], parameters: dict[str, str] = BLOCK) -> int:
    """The process of a program that writes the stream."""

    def write() -> None:
        with stage.open_writer(path=path, engine="SHM", parameters=parameters) as out:
            program(out)

    return forked(write)


def reader(path: Path) -> stage.Reader:
    return stage.open_reader(path=path, engine="SHM")


def shared_now() -> int:
    """How many bytes of other processes this one has mapped."""
    spans = re.findall(r"^(\w+)-(\w+) .*memfd:wf-step", Path("/proc/self/maps").read_text(), re.MULTILINE)
    return sum(int(end, 16) - int(first, 16) for first, end in spans)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_memory_of_another_stream_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """The writer gives up with steps in its queue, and has other memory under the same numbers then."""

    def write() -> None:
        try:
            with stage.open_writer(path=tmp_path / "a", engine="SHM", parameters=BLOCK) as out:
                for number in range(3):
                    with out.step():
                        out.write("x", np.full(100_000, number))
                raise ValueError
        except ValueError:
            pass
        with stage.open_writer(path=tmp_path / "b", engine="SHM", parameters=BLOCK) as out:
            for number in range(3):
                with out.step():
                    out.write("x", np.full(100_000, 99 + number))

    pid = forked(write)
    with reader(tmp_path / "a") as first, reader(tmp_path / "b") as second:
        with pytest.raises(stage.StreamFailed):
            for step in first:
                assert int(step.read("x")[0]) == step.index
        assert [int(step.read("x")[0]) for step in second] == [99, 100, 101]
    assert ended(pid) == 0


def test_steps_are_dropped_however_long_their_layout_is(tmp_path: Path) -> None:
    took = tmp_path / "took"

    def write(out: stage.Writer) -> None:
        begin = time.monotonic()
        for number in range(6):
            with out.step():
                for variable in range(3000):
                    out.write(f"v{variable}", number)
        took.write_text(str(time.monotonic() - begin))

    pid = writing(tmp_path / "a", write, DISCARD)
    with reader(tmp_path / "a") as steps:
        wait_until(took.exists, "the writer has written all steps without a reader that takes them")
        assert [int(step.read("v2999")) for step in steps] == [0, 1]
    assert ended(pid) == 0


def test_a_queue_of_many_small_steps_does_not_wait_for_its_reader(tmp_path: Path) -> None:
    sent = tmp_path / "sent"

    def write(out: stage.Writer) -> None:
        for number in range(1000):
            with out.step():
                out.write("x", number)
        sent.touch()

    pid = writing(tmp_path / "a", write, {**BLOCK, "QueueLimit": "2000"})
    with reader(tmp_path / "a") as steps:
        wait_until(sent.exists, "all steps are in the queue")
        assert [int(step.read("x")) for step in steps] == list(range(1000))
    assert ended(pid) == 0


def test_few_files_are_open_and_little_is_mapped_whatever_the_number_of_variables(tmp_path: Path) -> None:
    def write(out: stage.Writer) -> None:
        before = open_files()
        for number in range(12):
            with out.step():
                for variable in range(200):
                    out.write(f"v{variable}", np.full(2000 * (1 + number), variable))
        assert open_files() < before + 80, open_files()

    pid, before = writing(tmp_path / "a", write), open_files()
    with reader(tmp_path / "a") as steps:
        for step in steps:
            assert all(int(step.read(f"v{variable}")[-1]) == variable for variable in range(200))
            assert open_files() < before + 40
        # The steps have grown to 38 MB: what came before is not mapped any more.
        assert shared_now() < 6 * 200 * 2000 * 12 * 8
    assert shared_now() == 0
    assert ended(pid) == 0


def test_memory_of_dropped_steps_is_forgotten(tmp_path: Path) -> None:
    def write(out: stage.Writer) -> None:
        for number in range(40):
            with out.step():
                for variable in range(3):
                    out.write(f"v{variable}", np.full(20_000 * (1 + number), number))

    pid = writing(tmp_path / "a", write, {**BLOCK, "QueueLimit": "1", "QueueFullPolicy": "Discard"})
    with reader(tmp_path / "a") as steps:
        for step in steps:
            step.read("v2")
            assert shared_now() < 4 * 3 * 20_000 * 40 * 8
    assert ended(pid) == 0


def test_a_reader_that_has_forked_and_leaves_is_gone(tmp_path: Path) -> None:
    def write(out: stage.Writer) -> None:
        for number in range(20):
            with out.step():
                out.write("x", number)

    pid, held = writing(tmp_path / "a", write), -1
    with reader(tmp_path / "a") as steps:
        next(steps)
        held = forked(lambda: time.sleep(60))  # it has a copy of all that is open
    try:
        assert ended(pid) == 0
    finally:
        os.kill(held, 9)
        os.waitpid(held, 0)


def test_a_python_without_a_function_for_it_asks_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of miniforge and uv were built with a glibc that had none (globus-compute issue 2204)."""
    monkeypatch.delattr(os, "memfd_create")
    path = tmp_path / "data"

    def write(out: stage.Writer) -> None:
        with out.step():
            out.write("x", np.arange(1000.0))

    pid = writing(path, write)
    with reader(path) as steps:
        for step in steps:
            np.testing.assert_array_equal(step.read("x"), np.arange(1000.0))
            assert shared_now() >= 8000, "its memory has the name by which it is known"
    assert ended(pid) == 0 and steps.steps == 1
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="vax"))
    with pytest.raises(
        stage.StageError, match=r"this Python has no os\.memfd_create; use `via: sst` with `transport: tcp`"
    ):
        MemorySegment(0, 4096)


def test_who_connects_and_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    pid = writing(tmp_path / "a", lambda _: None)
    contact = tmp_path / "a.shm"
    wait_until(contact.exists, "the writer waits for its reader")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.connect(f"\0{json.loads(contact.read_text())['socket']}")
        with reader(tmp_path / "a") as steps:
            assert list(steps) == []
        assert ended(pid) == 0


def test_a_buffer_that_is_written_too_is_copied_and_what_was_written_last_counts(tmp_path: Path) -> None:
    def write(out: stage.Writer) -> None:
        with out.step():
            room = out.buffer("room", (4,))
            room[...] = 1
            out.write("before", room)
            room[...] = 2
            out.write("twice", np.zeros(3))
            out.write("twice", np.ones(3))

    pid = writing(tmp_path / "a", write)
    with reader(tmp_path / "a") as steps:
        step = next(steps)
        for read in (step.read, step.view):
            assert [read(name).tolist() for name in ("room", "before", "twice")] == [[2] * 4, [1] * 4, [1] * 3]
    assert ended(pid) == 0


def test_a_step_with_a_wrong_buffer_is_no_regular_end(tmp_path: Path) -> None:
    def write(out: stage.Writer) -> None:
        for number in range(3):
            try:
                with out.step():
                    out.buffer("x", (4,), shape=(4,), start=(number,))
            except stage.StageError:
                wait_until((tmp_path / "read").exists, "the step before has been read")
                break

    pid = writing(tmp_path / "a", write)
    seen = []
    with pytest.raises(stage.StreamFailed), reader(tmp_path / "a") as steps:
        for step in steps:
            seen.append(step.index)
            (tmp_path / "read").touch()
    assert seen == [0]
    assert ended(pid) == 0
