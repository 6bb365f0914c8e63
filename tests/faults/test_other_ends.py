"""What is no kill -9: hangs, a full disk, a full memory, damaged files. In the end the data are those of an undisturbed
run, each step once: after a restart in the run, or after `wf resume`.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.hurt_runs import WAYS, HurtRun, at_step, newest_pid, small_disk, undisturbed_run
from tests.support.long_tables import long_table
from tests.support.memory_limit_here import LIMITS_WORK, limited_cgroup
from tests.support.reliability import steps_done
from tests.support.waiting import wait_until
from workflow.formats.kept_state import read_states

ROLES = ("sim", "work", "keep")
# A step of 160 kB: a disk of 64 MB has room for a run, its next part and their states.
LARGE, DISK = 20_000, 64 * 2**20


class Cell(NamedTuple):
    """One fault: what befalls which stage, when the simulation has written so many steps."""

    kind: str
    role: str
    way: str
    step: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.role}, {self.way}, step {self.step}"


def cells(kinds: tuple[str, ...], roles: tuple[str, ...], ways: tuple[str, ...] = tuple(WAYS)) -> list[Cell]:
    """The same ones each time."""
    dice = random.Random(8)
    return [
        Cell(kind, role, way, dice.randrange(1, 18))
        for kind in kinds for role in roles for way in ways
    ]  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return undisturbed_run(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def undisturbed_large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return undisturbed_run(tmp_path_factory.mktemp("large"), LARGE)


def go_on(run: HurtRun, cell: Cell, *reasons: str) -> str:
    """Check that one of these was said of the fault, and resume the run unless it has gone on. Returns the outcome."""
    (done,) = run.parts
    report = done.report
    if cell.role != "sim":
        assert done.code == 0, done.said
        (restart,) = report.restarts
        assert restart.stage == cell.role
        assert any(each in restart.reason for each in reasons), restart.reason
        return "restarted"
    assert done.code == 1, done.said
    assert report.run.stage == "sim", report.run.reason
    assert any(each in report.run.reason for each in reasons), report.run.reason
    run.hurt.clear()
    run.write()
    return resume(run)


def resume(run: HurtRun, where: Path | None = None) -> str:
    """Go on in a next part, or anew where nothing can be used. Returns the outcome."""
    before = run.parts[-1]
    done = run.go(where=where)
    if done.code != 2:
        return "resumed"
    assert f"nothing of {before.folder.name} can be used" in done.said, done.said
    run.parts = []
    run.folder = run.folder / "anew"
    run.folder.mkdir()
    run.write()
    run.go(where=where and where / "anew")
    return "run anew"


STOPPED = cells(("stopped in open", "stopped"), ROLES)


@pytest.mark.parametrize("cell", long_table(STOPPED, sample=1, seed=0), ids=str)
def test_a_stage_that_is_stopped_beyond_its_deadline(cell: Cell, undisturbed: Path, tmp_path: Path) -> None:
    in_open = cell.kind == "stopped in open"
    run = HurtRun(tmp_path, cell.way, start="12 s" if in_open else "60 s", step="60 s" if in_open else "6 s")
    run.write()

    # Of a step its reader may say so first.
    reasons = ["streams not open within 12 s"] if in_open else ["no step for 6 s", "no new step within 6 s"]

    def stop(run_dir: Path, pid: int) -> None:  # noqa: ARG001
        wait_until(lambda: newest_pid(run_dir, cell.role) is not None, f"{cell.role} is started")
        if not in_open:
            at_step(run_dir, cell.step)
            wait_until(lambda: steps_done(run_dir, cell.role), f"a step of {cell.role}")
        run.signal(run_dir, cell.role, signal.SIGSTOP)

    run.go(stop)
    outcome = go_on(run, cell, *reasons)
    run.check(cell.kind, cell.role, undisturbed, outcome)


FULL = cells(("disk full",), ("disk",)) + cells(("files limited",), ("disk",))


@pytest.mark.parametrize("cell", long_table(FULL, sample=1), ids=str)
def test_a_disk_that_is_full(cell: Cell, undisturbed_large: Path, tmp_path: Path) -> None:
    """All stages and the supervisor write to it. When there is room again, the run goes on."""
    run = HurtRun(tmp_path, cell.way, LARGE)
    run.write()
    with small_disk(DISK) as disk:
        if disk is None or cell.kind == "files limited":
            run.limit_bytes = (cell.step + 1) * LARGE * 8
            run.go()
            run.limit_bytes, where, words = None, None, "File too large"
        else:
            full, where, words = disk / "full", disk, "no space is left on the disk"

            def fill(run_dir: Path, pid: int) -> None:  # noqa: ARG001
                at_step(run_dir, cell.step)
                fill_up(full)
                run.at = full.stat().st_mtime

            run.go(fill, disk)
            full.unlink()
        failed = run.parts[0]
        assert failed.code == 1, failed.said
        assert words in failed.said
        kind = "files limited" if where is None else cell.kind
        run.check(kind, cell.role, undisturbed_large, resume(run, where))


def fill_up(path: Path) -> None:
    """Write until there is no room left."""
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 2**12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


ONCE = "if step{index} == {at} and not Path({flag!r}).exists(): Path({flag!r}).touch(); {what}"
LIMITED = (
    "import resource; used = int(Path('/proc/self/statm').read_text().split()[0]) * 4096; "
    "resource.setrlimit(resource.RLIMIT_AS, (used + 2**26,) * 2); np.ones(2**28)"
)
FILLING = (
    "import time; Path({group!r}, 'cgroup.procs').write_text('0'); time.sleep(1.5); "
    "kept = [b'x' * 2**20 for _ in range(2000)]"
)


@pytest.fixture
def group() -> Iterator[str]:
    """A cgroup of 64 MiB."""
    with limited_cgroup() as folder:
        yield str(folder)


def hurt_once(cell: Cell, folder: Path, what: str) -> HurtRun:
    """A run in which a stage does this at its step, the first time."""
    index = "" if cell.role == "sim" else ".index"
    line = ONCE.format(index=index, at=cell.step, flag=str(folder / "flag"), what=what)
    run = HurtRun(folder, cell.way, hurt={cell.role: line})
    run.write()
    return run


@pytest.mark.parametrize("cell", long_table(cells(("no memory",), ("sim", "work")), sample=0), ids=str)
def test_a_stage_that_gets_no_memory(cell: Cell, undisturbed: Path, tmp_path: Path) -> None:
    run = hurt_once(cell, tmp_path, LIMITED)
    run.go()
    run.at = (tmp_path / "flag").stat().st_mtime
    # Of the threads of SST none survives it.
    ends = ("ended with exit code 1", "SIGSEGV", "SIGABRT")
    run.check(cell.kind, cell.role, undisturbed, go_on(run, cell, *ends))


if LIMITS_WORK:

    @pytest.mark.reliability
    @pytest.mark.parametrize("cell", cells(("killed for lack of memory",), ("sim", "work")), ids=str)
    def test_a_stage_that_the_kernel_kills(cell: Cell, group: str, undisturbed: Path, tmp_path: Path) -> None:
        run = hurt_once(cell, tmp_path, FILLING.format(group=group))
        run.go()
        run.at = (tmp_path / "flag").stat().st_mtime
        run.check(cell.kind, cell.role, undisturbed, go_on(run, cell, "out of memory"))


CUT = [
    cell
    for name in ("data.0", "md.0", "md.idx")
    for cell in cells((f"spool cut: {name}",), ("spool",), ("spool then sst",) * 2)
]


@pytest.mark.parametrize("cell", long_table(CUT, sample=1), ids=str)
def test_a_spool_that_is_cut_off(cell: Cell, undisturbed: Path, tmp_path: Path) -> None:
    """Everything is killed, and the end of a file of the spool is gone: of what is left, whole steps count."""
    run = HurtRun(tmp_path, cell.way)
    run.write()

    def cut(run_dir: Path, pid: int) -> None:
        at_step(run_dir, cell.step)
        run.end_all(run_dir, pid)
        file = run_dir / "streams/field-spool.bp" / cell.kind.rpartition(" ")[2]
        if file.exists():
            # About two steps, and a half.
            os.truncate(file, max(64, file.stat().st_size * max(0, cell.step - 2) // (cell.step + 1) - 7))

    run.go(cut)
    run.check(cell.kind, cell.role, undisturbed, resume(run))


DAMAGES = ("state cut", "state changed", "state empty", "record changed", "record empty")


@pytest.mark.parametrize("cell", long_table(cells(DAMAGES, ("sim",)), sample=0), ids=str)
def test_of_damaged_states_the_one_before_is_used(cell: Cell, undisturbed: Path, tmp_path: Path) -> None:
    run = HurtRun(tmp_path, cell.way)
    run.write()

    def damage(run_dir: Path, pid: int) -> None:
        at_step(run_dir, cell.step)
        run.end_all(run_dir, pid)
        damage_newest(run_dir / "stages/sim/state", cell.kind)

    run.go(damage)
    outcome = resume(run)
    run.check(cell.kind, cell.role, undisturbed, outcome)
    if outcome == "resumed":
        begun = [each for each in run.parts[-1].report.notes if "sim" in each and "began at step" in each]
        assert begun, run.parts[-1].report.notes


def damage_newest(folder: Path, how: str) -> None:
    """Damage the newest state of a stage."""
    newest = read_states(folder)[0]
    record = folder / f"{newest.number:08d}.json"
    file = record if how.startswith("record") else folder / newest.files[0].name
    content = bytearray(file.read_bytes())
    if how.endswith("cut"):
        file.write_bytes(content[: len(content) // 2])
    elif how.endswith("empty"):
        file.write_bytes(b"")
    else:
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)
