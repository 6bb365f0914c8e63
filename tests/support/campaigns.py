"""A folder with a pipeline of one tiny command and a campaign of it, and `wf campaign` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120
# Each run leaves a line in ran.txt; it fails while a file fail-VALUE exists.
PIPELINE = """wf: 1
name: tiny
oversubscribe: true
stages:
  one:
    command: [sh, -c, 'echo "$VALUE" | tee -a "$FOLDER/ran.txt" > data; test ! -e "$FOLDER/fail-$VALUE"']
    env: {VALUE: 0, FOLDER: "${{ pipeline.dir }}"}
"""


def ledger_records(directory: Path, *events: str) -> list[dict[str, Any]]:
    """The lines of a campaign's ledger of these kinds."""
    path = directory / "ledger.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    found = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # cut off by a kill
        if record["event"] in events:
            found.append(record)
    return found


class CampaignFolder:
    """The files, and what they lead to."""

    def __init__(self, folder: Path, values: int, repetitions: int, more: str = "") -> None:
        self.folder = folder
        self.directory = folder / "campaigns" / "tiny"
        (folder / "pipeline.yaml").write_text(PIPELINE)
        self.write(values, repetitions, more)

    def write(self, values: int, repetitions: int, more: str = "") -> None:
        """The campaign file: trials 1 … `values`, without warm-up."""
        varied = ", ".join(str(value) for value in range(1, values + 1))
        (self.folder / "campaign.yaml").write_text(
            "wf: 1\ncampaign: tiny\npipeline: pipeline.yaml\n"
            f"matrix: {{stages.one.env.VALUE: [{varied}]}}\nrepetitions: {repetitions}\nwarmup: 0\n{more}"
        )

    def argv(self, verb: str, *options: str) -> list[str]:
        """A command line of `wf campaign`."""
        named = [] if verb == "list" else ["campaign.yaml"]
        return [sys.executable, "-m", "workflow.cli", "campaign", verb, *named, *options]

    @property
    def environment(self) -> dict[str, str]:
        """That of the tests, with this tree."""
        return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1"}

    def wf(self, verb: str, *options: str, code: int = 0) -> str:
        """Run a verb; returns what it printed."""
        done = subprocess.run(
            self.argv(verb, *options), cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode == code, f"{verb} {options}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def ran(self) -> list[str]:
        """The value of each run, in the order in which they started."""
        path = self.folder / "ran.txt"
        return path.read_text().split() if path.exists() else []

    def records(self, event: str) -> list[dict[str, Any]]:
        """The lines of the ledger of one kind."""
        return ledger_records(self.directory, event)
