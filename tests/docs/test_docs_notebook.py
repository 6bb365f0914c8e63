"""docs/how-to/notebook.md in a real Jupyter kernel: its cells, what a notebook shows of them, and interrupts."""

from __future__ import annotations

import json
import queue
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from tests.support.pipelines import start
from tests.support.waiting import wait_until
from workflow.run.processes.process_reaper import find_members
from workflow.run.records.events_file import read_events
from workflow.run.state.events import StageSteered

ROOT = Path(__file__).parents[2]
CELL = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LONGEST_S = 120.0
# Runs for hours, unless it is interrupted.
LONG_RUN = """
from workflow import run_pipeline
report = run_pipeline("pipeline.yaml", run_dir="run", sets=["stages.sim.with.steps=100000000"])
report
"""
STAGES = ("sim", "pdf", "keep", "snapshots")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The starter's directory; Jupyter keeps its own files outside of it."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    return Path(shutil.copytree(ROOT / "examples/00-starter", tmp_path / "first"))


@pytest.fixture
def kernel(folder: Path) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(folder))
    yield manager, client
    client.stop_channels()
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)


def wait_for_progress(client: BlockingKernelClient) -> None:
    """Until a shown progress counts steps."""
    deadline = time.monotonic() + LONGEST_S
    seen = ""
    while not re.search(r"[1-9]\d* written, [1-9]\d* read", seen):
        assert time.monotonic() < deadline, f"no progress with steps was shown: {seen}"
        with_data = [message["content"].get("data", {}) for message in messages(client)]
        seen = " ".join(data.get("text/plain", "") for data in with_data) or seen


def messages(client: BlockingKernelClient) -> list[dict[str, Any]]:
    """The next message that the kernel shows, if there is one soon."""
    try:
        return [client.get_iopub_msg(timeout=1)]
    except queue.Empty:
        return []


def reply_to(client: BlockingKernelClient, question: str) -> dict[str, Any]:
    """The answer to this request. A kernel that was slow to start was asked more than once who it is."""
    while True:
        reply: dict[str, Any] = client.get_shell_msg(timeout=LONGEST_S)
        if reply["parent_header"]["msg_id"] == question:
            return reply


def data_of(cell: Any) -> list[dict[str, str]]:
    """What a cell shows, by its MIME types."""
    assert all(output.output_type in ("display_data", "execute_result") for output in cell.outputs), cell.outputs
    return [output.data for output in cell.outputs]


def test_cells_run_as_written(folder: Path) -> None:
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    page = (ROOT / "docs/how-to/notebook.md").read_text(encoding="utf-8")
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in CELL.findall(page)]  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    run, stages, steps, archive, plan = notebook.cells

    progress, report = data_of(run)  # one output was replaced, none was added
    lines = progress["text/plain"].splitlines()
    assert lines[0].startswith(f"starter: {folder}/runs/starter-")
    assert [line.split()[:2] for line in lines[1:5]] == [[name, "succeeded"] for name in STAGES]
    assert all("41 written, 41 read" in line for line in lines[5:7])
    assert progress["text/html"].startswith("<pre") and "41 written, 41 read" in progress["text/html"]

    html = report["text/html"]
    rows = [
        re.findall(r"<t[hd][^>]*>(?:<span[^>]*>)?([^<]*)<", row)
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    ]
    assert [row[0] for row in rows] == ["stage", *STAGES, "stream", "field", "field", "pdf"]
    assert [row[rows[0].index("state")] for row in rows[1:5]] == ["succeeded"] * 4
    assert [row[rows[5].index("written")] for row in (rows[6], rows[8])] == ["41", "41"]
    link = re.findall(r'href="([^"]*)"', html)
    assert len(link) == 1 and (folder / link[0]).name == "report.html" and (folder / link[0]).is_file()

    (table,) = data_of(stages)
    assert [line.split()[:2] for line in table["text/plain"].splitlines()[2:]] == [
        [name, "succeeded"] for name in STAGES
    ]
    (sums,) = data_of(steps)
    assert re.search(r"^sim +field +\d{8}$", sums["text/plain"], re.MULTILINE), sums
    assert data_of(archive)[0]["text/plain"] == "41"
    assert data_of(plan)[0]["text/plain"] == "'BP5'"


def test_an_interrupt_of_the_kernel_ends_the_run_in_order(
    folder: Path, kernel: tuple[KernelManager, BlockingKernelClient]
) -> None:
    manager, client = kernel
    question = client.execute(LONG_RUN, user_expressions={"state": "report.run.state"})
    wait_for_progress(client)
    assert find_members(str(folder / "run")), "no stage runs"
    manager.interrupt_kernel()
    reply = reply_to(client, question)
    assert reply["content"]["status"] == "ok", reply["content"]
    assert reply["content"]["user_expressions"]["state"]["data"]["text/plain"] == "'interrupted'"
    assert find_members(str(folder / "run")) == set(), "processes are left"


def test_no_stage_outlives_the_kernel(folder: Path, kernel: tuple[KernelManager, BlockingKernelClient]) -> None:
    manager, client = kernel
    client.execute(LONG_RUN)
    wait_for_progress(client)
    assert find_members(str(folder / "run")), "no stage runs"
    manager.shutdown_kernel(now=True)
    wait_until(lambda: find_members(str(folder / "run")) == set(), "the stages end with the kernel")


STEERED = """
import sys, time
from pathlib import Path
import numpy as np
from workflow import stage
field, step = np.zeros(100), 0
with stage.open_writer("field") as out:
    while not Path(sys.argv[1]).exists():
        feed = stage.steered(step, feed=0.03)["feed"]
        field = 0.9 * field + feed
        with out.step():
            out.write("V", field)
        step += 1
        time.sleep(0.01)
"""
RUNNING = """
wf: 1
name: steered
oversubscribe: true
deadlines: {start: 60 s, step: 60 s, run: 150 s, stop: 3 s}
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py", "${{ pipeline.dir }}/end"]
    writes: {field: {}}
    steer: {feed: {value: 0.03, minimum: 0, maximum: 0.1}}
  count: {component: "null"}
streams:
  field: {from: sim, to: count, keep: {steps: 2, where: /dev/shm}}
"""
CELLS = (
    "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nimport workflow\n"
    "run = workflow.attach('run')",
    # 0.03 / (1 - 0.9): where it stays until somebody changes it.
    "with run.stream('field') as field:\n    for step in field:\n        before = step.read('V')\n"
    "        if abs(before[0] - 0.3) < 1e-6:\n            break",
    "plt.plot(before)\nplt.savefig('picture.png')",
    "taken = run.set('sim', feed=0.09)\ntaken.step",
    "with run.stream('field') as field:\n    for step in field:\n        after = step.read('V')\n"
    "        if abs(after[0] - 0.9) < 1e-6:\n            break\n[float(before[0]), float(after[0])]",
)


def test_a_notebook_joins_a_run_draws_steers_sees_the_effect_and_leaves(folder: Path) -> None:
    (folder / "sim.py").write_text(STEERED)
    (folder / "steered.yaml").write_text(RUNNING)
    run = start(folder, "-m", "workflow.cli", "run", "steered.yaml", "--run-dir", "run", "-q")
    index = folder / "run/streams/field-spool.bp/md.idx"
    wait_until(lambda: run.poll() is not None or (index.exists() and index.stat().st_size > 200), "steps are kept")
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=int(LONGEST_S), resources=where).execute()
    (folder / "end").touch()
    said, _ = run.communicate(timeout=LONGEST_S)
    assert run.returncode == 0, said
    before, after = json.loads(notebook.cells[-1].outputs[0]["data"]["text/plain"])
    assert (round(before, 5), round(after, 5)) == (0.3, 0.9)
    (steered,) = [event for event in read_events(folder / "run") if isinstance(event, StageSteered)]
    assert (steered.stage, steered.new) == ("sim", {"feed": 0.09})
    assert str(steered.step) == notebook.cells[3].outputs[0]["data"]["text/plain"]
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
