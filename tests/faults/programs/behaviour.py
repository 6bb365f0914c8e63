"""What the tests' programs do wrong, when they are told to: `--hold step:3` at step 3, `--exit end:0`, …"""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import signal
import time
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--read")
    parser.add_argument("--write")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--hold", default="", help="open | step:N | end | closed: stop there for ever")
    parser.add_argument(
        "--exit",
        default="",
        help="open:CODE | step:N:CODE | end:CODE | …: leave there, closing nothing; -N: by signal N",
    )
    parser.add_argument(
        "--fill", default="", help="open | step:N | end | closed: write to the disk there until it is full"
    )
    parser.add_argument("--mute", default="", help="open | step:N | end | closed: no file can grow from there on")
    parser.add_argument("--stop", default="", help="open | step:N | end | closed: stop there until SIGCONT")
    parser.add_argument("--work", default="", help="closed:S: use so many seconds of CPU time there")
    parser.add_argument("--rank", type=int, default=0, help="which rank does it")
    return parser.parse_args()


def first_rank() -> int:
    """Where the ranks of this stage begin in MPI_COMM_WORLD: it may share that with others."""
    if "WF_STAGE" not in os.environ:
        return 0
    told = json.loads(Path(os.environ["WF_STAGE"]).read_text())
    return int(told["group"]["ranks"][told["stage"]][0]) if told.get("group") else 0


class Behaviour:
    def __init__(self, args: argparse.Namespace) -> None:
        here = args.rank == int(os.environ.get("PMI_RANK", "0")) - first_rank()
        self.hold: list[str] = args.hold.split(":") if here else [""]
        self.fill: list[str] = args.fill.split(":") if here else [""]
        self.mute: list[str] = args.mute.split(":") if here else [""]
        self.stop: list[str] = args.stop.split(":") if here else [""]
        self.work: list[str] = args.work.split(":") if here else [""]
        self.exit: list[str] = args.exit.split(":") if here else [""]

    def at(self, place: str, step: int | None = None) -> None:
        here = [place] if step is None else [place, str(step)]
        if self.hold == here:
            Path(".held").write_text(str(os.getpid()))
            Path(".held").rename("held")
            while True:
                signal.pause()
        if self.mute == here:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        if self.fill == here:
            fill_disk()
        if self.stop == here:
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.work[:-1] == here:
            end = time.process_time() + float(self.work[-1])
            while time.process_time() < end:
                pass
        if self.exit[:-1] == here:
            code = int(self.exit[-1])
            if code < 0:
                os.kill(os.getpid(), -code)
            os._exit(code)


def fill_disk() -> None:
    """Take all space of the file system that this program runs in."""
    with Path("ballast").open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
