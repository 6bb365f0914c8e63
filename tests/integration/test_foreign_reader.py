"""A reader that nobody planned attaches to a stream and reads: the run names it while the writer waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import wait_until
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StrangeReader

WRITER = """
import os, numpy, adios2
io = adios2.Adios("adios2.xml").declare_io("out")
with adios2.Stream(io, os.environ["FIELD"], "w") as stream:
    while not os.path.exists(os.environ["STOP"]):
        stream.begin_step()
        stream.write("x", numpy.zeros(8), [8], [0], [8])
        stream.end_step()
"""
READER = """
import sys, adios2
io = adios2.Adios().declare_io("in")
io.set_engine("SST")
io.set_parameters({"OpenTimeoutSecs": "60"})
with adios2.Stream(io, sys.argv[1], "r") as stream:
    for _ in stream.steps():
        if len(sys.argv) > 2:  # the foreign one: it takes a step and keeps it
            print("has a step", flush=True)
            sys.stdin.read()
            break
"""
PIPELINE = """
wf: 1
name: watched
stages:
  one:
    command: [PYTHON, "${{ pipeline.dir }}/writer.py"]
    env: {FIELD: "${{ streams.field.path }}", STOP: "${{ pipeline.dir }}/stop"}
    writes: {out: {io: out, config: adios2.xml}}
  other:
    # its environment says nothing of the run
    command: [env, -u, WF_RUN_DIR, PYTHON, "${{ pipeline.dir }}/reader.py", "${{ streams.field.path }}"]
    reads: {in: {io: in}}
streams:
  field: {from: one, to: other}
"""


def test_a_foreign_reader_is_named(tmp_path: Path) -> None:
    (tmp_path / "writer.py").write_text(WRITER)
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("PYTHON", sys.executable))
    run = tmp_path / "run"
    wf = [sys.executable, "-m", "workflow.cli"]
    with (
        subprocess.Popen([*wf, "run", "p.yaml", "--run-dir", str(run)], cwd=tmp_path) as supervisor,
        (tmp_path / "foreign.log").open("wb") as log,
    ):
        try:
            contact = run / "streams" / "field.sst"
            wait_until(lambda: contact.exists() or list((run / "streams").glob("*.sst")), "the contact file")
            name = next((run / "streams").glob("*.sst")).with_suffix("")
            foreign = [sys.executable, str(tmp_path / "reader.py"), str(name), "keep"]
            with subprocess.Popen(foreign, stdin=subprocess.PIPE, stdout=log, stderr=log, env=_plain()) as reader:
                wait_until(lambda: _strangers(run), "an event on the foreign reader")
                (event,) = _strangers(run)
                assert event.stage == "one" and event.streams == ["field"]
                assert event.who.startswith(f"process {reader.pid} of user ")
                said = subprocess.run([*wf, "status", str(run)], capture_output=True, text=True, timeout=60).stdout
                assert "field has 1 reader more than planned" in " ".join(said.split())
                (tmp_path / "stop").touch()
                reader.communicate(b"")
        finally:
            (tmp_path / "stop").touch()
            if supervisor.poll() is None:
                subprocess.run([*wf, "cancel", str(run)], timeout=60, capture_output=True)


def _strangers(run: Path) -> list[StrangeReader]:
    try:
        return [each for each in read_events(run) if isinstance(each, StrangeReader)]
    except OSError:
        return []


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WF_")}
