"""Writes the fake commands and their answers, and reads what was asked of them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

COMMANDS = (
    "sbatch", "squeue", "scancel", "scontrol", "sacct", "sinfo", "qsub", "qstat", "qselect", "qdel", "bsub", "bjobs",
    "bkill", "flux",
)  # fmt: skip
PROGRAM = Path(__file__).with_name("fake_command.py")


class FakeScheduler:
    """A folder of commands. Each answer is given once, in order; the last one again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        for name in COMMANDS:
            command = folder / name
            command.write_text(f'#!/bin/sh\nexec {sys.executable} -S {PROGRAM} {folder} {name} "$@"\n')
            command.chmod(0o755)

    @property
    def path(self) -> str:
        """PATH with these commands first."""
        return f"{self.folder}:{os.environ['PATH']}"

    def answer(self, command: str, *answers: str | dict[str, Any]) -> None:
        """What a command says from now on: its standard output, or `{stdout, stderr, code, run}`. `run`: it executes
        the script that it gets, as a job with that id, in the background;
        `env`: with these variables. `flux batch` is a command of its own here."""
        whole = [{"stdout": each} if isinstance(each, str) else each for each in answers]
        (self.folder / f"{command}.json").write_text(json.dumps(whole))
        (self.folder / f"{command}.count").unlink(missing_ok=True)

    def calls(self, command: str) -> list[list[str]]:
        """The arguments of all calls of a command so far."""
        log = self.folder / f"{command}.calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
