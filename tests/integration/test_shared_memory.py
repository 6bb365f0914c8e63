"""Streams `via: shm`: the data of a run are those of SST, its memory is bounded, and what cannot work is refused."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import numpy as np
import pytest

from tests.support.hurt_runs import HurtRun, newest_pid
from tests.support.pipelines import Done, run
from tests.support.reliability import steps_done
from tests.support.waiting import wait_until
from workflow import stage
from workflow.compare.compare_runs import compare_runs

CHAIN = """
stages:
  sim: {component: gray_scott, ranks: WRITERS, with: {size: [20, 12, 12], steps: 60, write_every: 10}}
  pdf: {component: histogram, ranks: READERS, with: {variable: V}}
  raw: {component: archive, with: {path: raw.bp}}
  out: {component: archive, with: {path: pdf.bp}}
streams:
  field: {from: sim, to: [pdf, raw], via: VIA}
  pdf: {from: pdf, to: out, via: VIA}
"""


def chain(folder: Path, via: str, writers: int, readers: int) -> Done:
    text = CHAIN.replace("VIA", via).replace("WRITERS", str(writers)).replace("READERS", str(readers))
    done = run(folder, text, name=via)
    assert done.code == 0, done.said
    return done


@pytest.mark.parametrize(("writers", "readers"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_a_chain_gives_the_data_of_sst(writers: int, readers: int, tmp_path: Path) -> None:
    shared, streamed = (chain(tmp_path, via, writers, readers) for via in ("shm", "sst"))
    assert compare_runs(shared.folder, streamed.folder).identical
    assert {stream.name: (stream.engine, stream.steps) for stream in shared.report.streams} == {
        "field": ("SHM", 7), "pdf": ("SHM", 7),
    }  # fmt: skip
    assert not list((shared.folder / "streams").iterdir())  # no contact file is left


PAIR = """
wf: 1
name: pair
oversubscribe: true
deadlines: {start: 60 s, step: 60 s, run: 100 s}
stages:
  make: {component: synthetic, with: {bytes: 2 MB, steps: 12}}
  take:
    command: ["${{ wf.python }}", "FOLDER/take.py", "FOLDER/go"]
    reads: {data: {}}
streams:
  data: {from: make, to: take, via: shm, queue: {limit: 2, when_full: FULL}}
"""
TAKE = """
import sys, time
from pathlib import Path
from workflow import stage
with stage.open_reader("data") as steps:
    for step in steps:
        while not Path(sys.argv[1]).exists():
            time.sleep(0.01)
        for name in step.names():
            step.read(name)
"""


def held_pair(folder: Path, full: str) -> HurtRun:
    (folder / "take.py").write_text(TAKE)
    (folder / "pipeline.yaml").write_text(PAIR.replace("FOLDER", str(folder)).replace("FULL", full))
    return HurtRun(folder, "pair")


def shared_bytes(pid: int) -> int:
    """The memory that a writer shares."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    spans = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*memfd:wf-step", maps, re.MULTILINE)
    return sum(int(end, 16) - int(first, 16) for first, end in spans)


def test_the_writer_holds_the_queue_and_the_step_that_it_fills(tmp_path: Path) -> None:
    pair, seen = held_pair(tmp_path, "block"), list[int]()

    def let_go(run_dir: Path, _: int) -> None:
        wait_until(lambda: steps_done(run_dir, "make") >= 2, "two steps are written")
        pid = newest_pid(run_dir, "make")
        assert pid is not None
        wait_until(lambda: shared_bytes(pid) >= 5_000_000, "the third step is being held")
        seen.append(shared_bytes(pid))
        (tmp_path / "go").touch()

    done = pair.go(let_go)
    assert done.code == 0, done.said
    assert seen[0] <= 3 * 2_200_000
    (stream,) = done.report.streams
    assert [(end.steps, end.bytes) for end in stream.readers] == [(12, stream.bytes)]


def test_a_full_queue_drops_the_newest_step(tmp_path: Path) -> None:
    pair = held_pair(tmp_path, "discard")

    def let_go(run_dir: Path, _: int) -> None:
        wait_until(lambda: steps_done(run_dir, "make") == 12, "all steps are written")
        (tmp_path / "go").touch()

    done = pair.go(let_go)
    assert done.code == 0, done.said
    (stream,) = done.report.streams
    assert (stream.steps, stream.readers[0].steps) == (12, 2)


IGNORED = """
stages:
  sim: {component: gray_scott, with: {size: [12], steps: 200, write_every: 10}}
  look: {command: ["${{ wf.python }}", "-c", "PROGRAM"], reads: {field: {}}, on_failure: ignore}
  keep: {component: archive, with: {path: raw.bp}}
streams:
  field: {from: sim, to: [look, keep], via: shm}
"""


@pytest.mark.parametrize("program", ["raise SystemExit('no licence')", "from workflow import stage; next(stage.open_reader('field')); import os; os.kill(os.getpid(), 9)"], ids=["before it opens", "in a step"])  # fmt: skip  # noqa: E501
def test_the_others_go_on_without_a_reader_that_may_fail(program: str, tmp_path: Path) -> None:
    done = run(tmp_path, IGNORED.replace("PROGRAM", program))
    assert done.code == 0, done.said
    with stage.open_reader(path=done.folder / "raw.bp") as steps:
        assert [int(step.read("step")) for step in steps] == [10 * number for number in range(21)]


def test_a_restarted_unit_and_a_spool(tmp_path: Path) -> None:
    """A spool reads the stream as any reader does; the analysis that is started again reads the spool."""
    (tmp_path / "work.py").write_text(
        "import os, sys\nfrom pathlib import Path\nfrom workflow import stage\n"
        "with stage.open_reader('field') as field, stage.open_writer('sum') as out:\n"
        "    for step in field:\n"
        "        if step.index == 5 and not Path(sys.argv[1]).exists():\n"
        "            Path(sys.argv[1]).touch()\n            os.kill(os.getpid(), 9)\n"
        "        with out.step():\n            out.write('sum', step.read('V').sum())\n"
    )
    text = f"""
stages:
  sim: {{component: gray_scott, with: {{size: [12], steps: 200, write_every: 10}}}}
  work:
    command: ["${{{{ wf.python }}}}", "{tmp_path}/work.py", "{tmp_path}/once"]
    reads: {{field: {{}}}}
    writes: {{sum: {{}}}}
    on_failure: {{do: restart, backoff: 0.1 s}}
  keep: {{component: archive, with: {{path: sum.bp}}, on_failure: restart}}
  raw: {{component: archive, with: {{path: raw.bp}}}}
streams:
  field: {{from: sim, to: [work, raw], via: shm, keep: true}}
  sum: {{from: work, to: keep, via: shm}}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    assert [restart.stage for restart in done.report.restarts] == ["work"]
    with stage.open_reader(path=done.folder / "raw.bp") as steps:
        expected = [step.read("V").sum() for step in steps]
    with stage.open_reader(path=done.folder / "sum.bp") as steps:
        np.testing.assert_array_equal([step.read("sum") for step in steps], expected)
    assert len(expected) == 21


def test_a_view_is_the_memory_of_the_writer(tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(
        "import numpy as np\nfrom workflow import stage\n"
        "with stage.open_reader('field') as field:\n"
        "    for step in field:\n"
        "        seen, again, part = step.view('V'), step.view('V'), step.view('V', (2, 0, 0), (3, 12, 5))\n"
        "        assert not seen.flags.writeable and np.shares_memory(seen, part) and seen.base is not None\n"
        "        whole = step.read('V')\n"
        "        assert whole.flags.writeable and not np.shares_memory(whole, seen)\n"
        "        assert np.array_equal(seen, whole) and np.array_equal(part, whole[2:5, :, :5])\n"
        "print(field.steps, 'steps')\n"
    )
    text = f"""
stages:
  sim: {{component: gray_scott, with: {{size: [12], steps: 40, write_every: 10}}}}
  look: {{command: ["${{{{ wf.python }}}}", "{tmp_path}/look.py"], reads: {{field: {{}}}}}}
streams:
  field: {{from: sim, to: look, via: shm}}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    assert (done.folder / "stages/look/stdout.log").read_text() == "5 steps\n"


@pytest.mark.parametrize("via", ["shm", "sst", "bp5"])
def test_what_is_put_into_a_buffer_arrives(via: str, tmp_path: Path) -> None:
    (tmp_path / "make.py").write_text(
        "import numpy as np\nfrom workflow import stage\n"
        "rank, ranks = stage.rank(), stage.size()\n"
        "with stage.open_writer('data') as out:\n"
        "    for number in range(4):\n"
        "        with out.step():\n"
        "            part = out.buffer('part', (2, 3), np.float32, shape=(2 * ranks, 3), start=(2 * rank, 0))\n"
        "            part[...] = 10 * number + rank\n"
        "            out.write('beside', np.full(1000 * number, number))\n"
        "            out.buffer('sum', ())[...] = part.sum()\n"
        "            out.buffer('last', (5,))[...] = number\n"
    )
    text = f"""
stages:
  make: {{command: ["${{{{ wf.python }}}}", "{tmp_path}/make.py"], ranks: 2, writes: {{data: {{}}}}}}
  keep: {{component: archive, with: {{path: out.bp}}}}
streams:
  data: {{from: make, to: keep, via: {via}}}
"""
    done = run(tmp_path, text)
    assert done.code == 0, done.said
    with stage.open_reader(path=done.folder / "out.bp") as steps:
        for step in steps:
            rows = 10 * step.index + np.repeat([0, 1], 2)
            np.testing.assert_array_equal(step.read("part"), np.repeat(rows[:, None], 3, axis=1).astype("float32"))
            np.testing.assert_array_equal(step.read("beside"), np.full(1000 * step.index, step.index))
            np.testing.assert_array_equal(step.read("last"), np.full(5, step.index))
            assert step.read("sum") == 60 * step.index
        assert steps.steps == 4


def test_without_room_the_writer_says_so(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "import numpy as np\nfrom workflow import stage\n"
        "with stage.open_writer('data') as out:\n    with out.step():\n        out.write('x', np.zeros(1 << 20))\n"
    )
    (tmp_path / "make.py").write_text(program)
    text = f"""
stages:
  make: {{command: ["${{{{ wf.python }}}}", "{tmp_path}/make.py"], writes: {{data: {{}}}}}}
  take: {{component: "null"}}
streams:
  data: {{from: make, to: take, via: shm}}
"""
    done = run(tmp_path, text)
    assert done.code == 1
    assert "stream data: step 0: no room in memory for 8.39 MB more of this step" in done.said


def test_a_reader_on_another_node_is_refused(tmp_path: Path) -> None:
    contact = tmp_path / "field.shm"
    contact.write_text(json.dumps({"node": "elsewhere", "socket": "wf-none"}))
    with pytest.raises(
        stage.StageError, match=rf"its writer is on node elsewhere, this reader on {socket.gethostname()}"
    ):
        stage.open_reader(path=tmp_path / "field", engine="SHM")
    contact.write_text(json.dumps({"node": socket.gethostname(), "socket": "wf-none"}))
    with pytest.raises(stage.StageError, match="its writer has gone"):
        stage.open_reader(path=tmp_path / "field", engine="SHM")
