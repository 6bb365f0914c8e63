"""Writes the double of what it reads, and fails at one step in its first attempts."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from workflow import stage
from workflow.component_program import arguments


def fails_now(args: SimpleNamespace, where: str, index: int) -> bool:
    """Whether this is the place, in an attempt that is to fail. Counts it."""
    if args.how == "none" or where != args.where or (where not in ("start", "close") and index != args.at):
        return False
    tokens = Path(args.tokens)
    tokens.mkdir(parents=True, exist_ok=True)
    number = len(list(tokens.iterdir()))
    if number >= args.times:
        return False
    (tokens / str(number)).touch()
    return True


def fail(args: SimpleNamespace, where: str, index: int = 0) -> None:
    """Fail, if it is to be here."""
    if not fails_now(args, where, index):
        return
    if args.how == "raise":
        raise ArithmeticError("requested by the test")
    if args.how in ("exit0", "exit1"):
        os._exit(int(args.how[-1]))
    if args.how == "hang":
        while True:
            signal.pause()
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "segv": signal.SIGSEGV}[args.how])


def main() -> None:
    """Read `grid`, write `y`."""
    args = arguments(__file__)
    fail(args, "start")
    with stage.open_reader("input") as stream, stage.open_writer("output") as out:
        for step in stream:
            time.sleep(args.pause)
            fail(args, "before", step.index)
            first = stage.once("first", lambda: float(step.read("grid")[0]))  # noqa: B023 - called at once
            with out.step():
                out.attribute("first", first)
                out.write("index", step.index)
                fail(args, "inside", step.index)
                out.write("y", 2.0 * step.read("grid") - first)
            fail(args, "after", step.index)
        fail(args, "close")
    sys.exit(0)


if __name__ == "__main__":
    main()
