"""A reader whose progress a test controls through files, without any clock."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from workflow import stage
from workflow.component_program import arguments

DEADLINE_S = 60


def wait_for(path: Path, text: str) -> None:
    """Return when the file exists and contains `text`."""
    deadline = time.monotonic() + DEADLINE_S
    while not (path.exists() and (not text or text in path.read_text())):
        if time.monotonic() > deadline:
            raise SystemExit(f"holding: {path} does not exist after {DEADLINE_S} s")
        time.sleep(0.01)


def main() -> None:
    """Print each step, and wait or fail at the given one."""
    args = arguments(__file__)
    if args.fail == "early":
        raise SystemExit("holding: failed before opening")
    if args.after:
        wait_for(Path(args.after), args.holds)
    with stage.open_reader("input") as stream:
        for step in stream:
            print(int(step.read("step")), flush=True)
            if step.index == args.at:
                if args.touch:
                    Path(args.touch).touch()
                if args.until:
                    wait_for(Path(args.until), args.holds)
                if args.fail == "raise":
                    raise ArithmeticError("requested by the test")
                if args.fail == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if args.fail == "deaf":
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while args.fail in ("hang", "deaf"):
                    signal.pause()


if __name__ == "__main__":
    main()
