"""What watching costs: the supervisor's CPU while two stages sleep.

CPU time of the supervisor and its guard over 16 seconds in the middle of a run of two stages that do nothing, as a
share of one core; starting and ending are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.chains import make_plan, make_stage, write_run  # noqa: E402

OBSERVED_S = 16.0


def measure() -> list[dict[str, Any]]:
    """One run of 20 s."""
    with tempfile.TemporaryDirectory() as name:
        stages = [make_stage(stage, ["sleep", "20"]) for stage in ("one", "two")]
        run_dir = write_run(make_plan(stages), Path(name))
        process = subprocess.Popen([sys.executable, "-m", "workflow.run.supervisor", str(run_dir)], cwd=ROOT)
        try:
            wait_for(run_dir / "events.jsonl", '"stage_open"', 2)
            time.sleep(1.5)  # past the work of starting
            processes = [process.pid, *(pid for pid in children(process.pid) if is_guard(pid))]
            begin, before = time.perf_counter(), sum(map(cpu_s, processes))
            time.sleep(OBSERVED_S)
            used, seconds = sum(map(cpu_s, processes)) - before, time.perf_counter() - begin
            memory = sum(map(memory_mb, processes))
        finally:
            process.wait()
    return [
        {"name": "supervisor and guard, two sleeping stages", "value": 100 * used / seconds, "unit": "% of a core",
         "target": 0.5, "better": "lower",
         "detail": f"{1000 * used:.0f} ms in {seconds:.0f} s; {memory:.0f} MB resident"},
    ]  # fmt: skip


def wait_for(file: Path, text: str, times: int) -> None:
    """Until a file holds this text so often."""
    deadline = time.monotonic() + 20
    while not file.exists() or file.read_text().count(text) < times:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file} does not say {text}")
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Process ids."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_guard(pid: int) -> bool:
    """Whether this is the process that waits for the supervisor's death."""
    return b"members.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def cpu_s(pid: int) -> float:
    """Seconds on a core so far, of all threads, to the nanosecond where the kernel tells."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def memory_mb(pid: int) -> float:
    """Resident memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    print(measure())
