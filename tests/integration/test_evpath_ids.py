"""Two processes of SST with one id in EVPath: what ADIOS2 does without our patch, and that it is gone with it.

EVPath's id is made from process id plus time in seconds, so two nodes can give two processes the same one. A test needs
no nodes for it: the process with the larger id opens its stream as many seconds earlier. docs/decisions/0022.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.stage_programs import BUILDS, PYTHONS
from workflow.formats.json_lines import Tail
from workflow.run.observe.sst_log import TransportFaultFollower
from workflow.run.state.events import TransportFault

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60
STEPS = 3
# A chain: `first` → a → `middle` → b → `last`. `middle` has a connection to both others. Each opens its stream at the
# time that it reads from stdin; then its id is fixed.
PROGRAM = """
import os, sys, time
import adios2, numpy

def io(name, **more):
    found = adios2.Adios().declare_io(name)
    found.set_engine("SST")
    found.set_parameters({"DataTransport": "WAN", "RendezvousReaderCount": "1", "OpenTimeoutSecs": "60", **more})
    return found

def put(stream, values):
    stream.begin_step()
    stream.write("x", values, [10], [0], [10])
    stream.end_step()

role, preload = sys.argv[1:]
print("ready", flush=True)
at = float(sys.stdin.readline())
while time.time() < at:
    time.sleep(0.001)
if role == "first":
    with adios2.Stream(io("a"), "a", "w") as out:
        for step in range(STEPS):
            put(out, numpy.full(10, float(step)))
        sys.stdin.readline()  # with its connection open
elif role == "middle":
    with adios2.Stream(io("a"), "a", "r") as into, adios2.Stream(io("b"), "b", "w") as out:
        for _ in into.steps():
            put(out, into.read("x"))
else:
    with adios2.Stream(io("b", SpeculativePreloadMode=preload), "b", "r") as into:
        for _ in range(STEPS):
            into.begin_step()
            print(into.read("x").tolist(), flush=True)
            into.end_step()
""".replace("STEPS", str(STEPS))


class Chain(NamedTuple):
    """The three processes, and where they write."""

    processes: dict[str, subprocess.Popen[bytes]]
    folder: Path

    def lines(self, role: str) -> list[str]:
        return (self.folder / f"{role}.out").read_text(errors="replace").splitlines()


def wait_until(chain: Chain, what: str, condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        said = {role: (chain.folder / f"{role}.err").read_text(errors="replace")[-500:] for role in chain.processes}
        assert time.monotonic() < end, f"not within {TIMEOUT_S} s: {what}; {said}"
        time.sleep(0.02)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[object]:
    """`started(python, preload)`: the chain, whose first and last process open their streams so that the sums agree."""
    with ExitStack() as stack:

        def start(python: str, preload: str) -> Chain:
            processes = {}
            for role in ("first", "last", "middle"):
                out = stack.enter_context((tmp_path / f"{role}.out").open("wb"))
                err = stack.enter_context((tmp_path / f"{role}.err").open("wb"))
                command = [python, "-c", PROGRAM, role, preload]
                processes[role] = stack.enter_context(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=tmp_path)
                )
                stack.callback(processes[role].kill)
            chain = Chain(processes, tmp_path)
            wait_until(chain, "all have started", lambda: all(chain.lines(role) for role in processes))
            ahead = processes["last"].pid - processes["first"].pid
            # In the first part of a second, so that the seconds agree on a busy machine too.
            base = int(time.time()) + 1.1 + max(0, ahead)
            for role, at in {"first": base, "last": base - ahead, "middle": base}.items():
                stdin = processes[role].stdin
                assert stdin is not None
                stdin.write(f"{at}\n".encode())
                stdin.flush()
            return chain

        yield start


def has_random_ids(python: str) -> bool:
    program = (
        "import json; from workflow.site import adios2_library; print(json.dumps(adios2_library.adios2_random_ids()))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return bool(json.loads(subprocess.run([python, "-c", program], env=env, stdout=subprocess.PIPE, check=True).stdout))


@pytest.mark.parametrize("preload", ["On", "Off"])
def test_without_the_patch_messages_go_to_the_wrong_process(started: object, preload: str) -> None:
    """In every such start: `last` waits for ever for data that `first` got. What is printed is a fault for wf."""
    assert callable(started)
    assert not has_random_ids(sys.executable)
    chain = started(sys.executable, preload)
    follower = TransportFaultFollower("first", Tail(chain.folder / "first.err"), fresh=True)
    faults: list[TransportFault] = []

    def found() -> bool:
        faults.extend(follower.poll(1.0))
        return bool(faults)

    wait_until(chain, "the message in the log of first", found)
    word = "EvpathPreload" if preload == "On" else "EvpathReadReply"
    line = f'CM - No handler for incoming data of this version of format "{word}"'
    assert faults == [TransportFault(1.0, "first", "misdirected", line)]
    assert chain.processes["last"].poll() is None
    assert chain.lines("last") == ["ready"]


@pytest.mark.parametrize("preload", ["On", "Off"])
def test_with_the_patch_the_data_arrive(started: object, preload: str) -> None:
    assert callable(started)
    if "mpi" not in BUILDS:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    python = PYTHONS["mpi"]
    assert has_random_ids(python), f"{python}: its ADIOS2 is older than the patch: `make adios2-mpi`"
    chain = started(python, preload)
    wait_until(chain, "the last one has all steps", lambda: len(chain.lines("last")) == 1 + STEPS)
    for each in chain.processes.values():
        assert each.stdin is not None
        each.stdin.close()
    wait_until(chain, "all have ended", lambda: all(each.poll() is not None for each in chain.processes.values()))
    assert {role: each.returncode for role, each in chain.processes.items()} == dict.fromkeys(chain.processes, 0)
    assert chain.lines("last")[1:] == [str([float(step)] * 10) for step in range(STEPS)]
    assert "No handler" not in (chain.folder / "first.err").read_text()
