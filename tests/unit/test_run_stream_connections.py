"""What is not of the run and is connected to a writer of a stream is told of, by its address or its process."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.sample_run import make_plan
from workflow.formats.run_variables import RUN_VARIABLE
from workflow.run.observe import stream_connections
from workflow.run.observe.stream_connections import StrangerWatch
from workflow.run.processes.process_reaper import find_members
from workflow.run.state.events import StageStarted, StrangeReader
from workflow.run.state.reducer import apply
from workflow.run.state.run_state import initial_state
from workflow.run.verdict.stall_detection import present_warnings
from workflow.run.verdict.wait_diagnosis import diagnose

LISTEN = """import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
admitted = listener.accept()
print("admitted", flush=True)
sys.stdin.read()"""
CONNECT = """import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
sys.stdin.read()"""


@contextmanager
def program(text: str, *words: str, run: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Python program, and the first line that it prints."""
    env = {key: value for key, value in os.environ.items() if key != RUN_VARIABLE}
    env |= {RUN_VARIABLE: str(run)} if run is not None else {}
    with subprocess.Popen(
        [sys.executable, "-c", text, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


@pytest.mark.parametrize("own", [True, False], ids=["of the run", "of another one"])
def test_a_process_of_this_node(own: bool, tmp_path: Path) -> None:
    watch = StrangerWatch(make_plan())
    with program(LISTEN, run=tmp_path) as (writer, port):
        other_run = tmp_path if own else tmp_path / "other"
        with program(CONNECT, port, run=other_run) as (reader, said):
            assert said == "connected" and writer.stdout is not None and writer.stdout.readline() == "admitted\n"
            found = [watch.look([writer.pid], lambda: find_members(str(tmp_path))) for _ in range(3)]
    text = f"process {reader.pid} of user {pwd.getpwuid(os.getuid()).pw_name} on this node"
    assert found == ([[], [], []] if own else [[], [text], []])


TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:9C40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 70
   1: 0A00000A:9C40 0500000A:9D50 01 00000000:00000000 00:00000000 00000000     0        0 71
   2: 0A00000A:9D88 0600000A:0050 01 00000000:00000000 00:00000000 00000000     0        0 72
   3: 0A00000A:9C40 0700000A:9D50 01 00000000:00000000 00:00000000 00000000     0        0 99
"""


@pytest.mark.parametrize(("nodes", "strangers"), [(1, ["10.0.0.5 port 40272"]), (2, [])])
def test_another_address(nodes: int, strangers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 1 has come in at a port of the writer, row 2 goes out, row 3 is of another process."""
    folder = tmp_path / "41"
    (folder / "fd").mkdir(parents=True)
    (folder / "net").mkdir()
    (folder / "net" / "tcp").write_text(TABLE)
    for number, inode in enumerate((70, 71, 72)):
        (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
    monkeypatch.setattr(stream_connections, "PROC", tmp_path)
    watch = StrangerWatch(make_plan().model_copy(update={"nodes": nodes}))
    assert [watch.look([41], set) for _ in range(3)] == [[], strangers, []]


def test_one_writer_is_looked_at_a_time() -> None:
    watch = StrangerWatch(make_plan())
    turns = [watch.next_turn(now) for now in (0.0, 1.0, 2.0, 4.0)]
    assert turns[1] is None and set(turns) - {None} == set(watch.streams)
    assert StrangerWatch(make_plan(engine="BP5")).next_turn(0.0) is None


def test_wait_diagnosis_and_status_name_it() -> None:
    plan = make_plan()
    state, (writer, *_) = initial_state(plan), StrangerWatch(plan).streams
    events = [StageStarted(1.0, writer, 5), StrangeReader(2.0, writer, ["field"], "10.0.0.5 port 40272")]
    for event in events:
        state = apply(state, event)
    text = f"field has 1 reader more than planned: 10.0.0.5 port 40272 is connected to {writer}"
    assert present_warnings(state) == [text]
    assert text in diagnose(state, writer, 30.0)[1]
