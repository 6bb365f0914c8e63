"""Campaigns whose repetitions run side by side: their files, `wf campaign run`, and what their records prove."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.campaigns import ledger_records
from tests.support.waiting import wait_until
from workflow.core_set import parse_cores

ROOT = Path(__file__).parents[2]
WITHIN_S = 120.0
# Each run leaves a line in ran.txt, and waits for the file `go` if it is to be held.
PIPELINE = """wf: 1
name: tiny
deadlines: {{stop: 4 s}}
stages:
  one:
    command: [sh, -c, 'echo "$VALUE" >> "$FOLDER/ran.txt"; sleep {sleep_s}; {hold} echo "$VALUE" > result']
    env: {{VALUE: 0, SLEEP: 0, FOLDER: "${{{{ pipeline.dir }}}}"}}
    ranks: 1
{more}"""


# By the name of the run directory, …-r03 or …-r03-a2.
HOLD = (
    'n=${{WF_RUN_DIR##*-r0}}; if test "${{n%%-*}}" -ge {number}; then : > held; '
    'while test ! -e "$FOLDER/go"; do sleep 0.05; done; fi;'
)


@dataclass(frozen=True)
class RanAt:
    """One repetition that succeeded: when its run went on, and where its ranks were by the proof of the placement."""

    run: str
    begin: float
    end: float
    cores: frozenset[tuple[str, int]]

    @property
    def hosts(self) -> frozenset[str]:
        """Its nodes."""
        return frozenset(host for host, _ in self.cores)


class PilotCampaign:
    """A campaign in a folder. `variables`: those of a cluster's clients.

    `held_from`: repetitions from this number on, of each trial, end only after `let_go`. At most 9 repetitions.
    """

    def __init__(
        self,
        folder: Path,
        campaign: str,
        sleep_s: float | str = 0.0,
        more: str = "",
        variables: Mapping[str, str] = {},
        held_from: int = 10,
    ) -> None:
        self.folder, self.variables = folder, variables
        self.directory = folder / "campaigns" / "tiny"
        (folder / "pipeline.yaml").write_text(
            PIPELINE.format(sleep_s=sleep_s, more=more, hold=HOLD.format(number=held_from))
        )
        self.write(campaign)

    def write(self, campaign: str) -> None:
        """The campaign file."""
        (self.folder / "campaign.yaml").write_text(
            f"wf: 1\ncampaign: tiny\npipeline: pipeline.yaml\nwarmup: 0\nkeep: all\n{campaign}\n"
        )

    @property
    def argv(self) -> list[str]:
        """`wf campaign run`."""
        return [sys.executable, "-m", "workflow.cli", "campaign", "run", str(self.folder / "campaign.yaml")]

    @property
    def environment(self) -> dict[str, str]:
        """That of the tests, with this tree."""
        return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1", **self.variables}

    def start(self) -> subprocess.Popen[str]:
        """Run it in the background."""
        return subprocess.Popen(
            self.argv, cwd=self.folder, env=self.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def finish(self, process: subprocess.Popen[str], code: int = 0, within_s: float = WITHIN_S) -> str:
        """Wait for its end; what it printed."""
        try:
            said, _ = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=WITHIN_S)
            raise AssertionError(f"not ended within {within_s} s:\n{said}") from None
        assert process.returncode == code, f"exit code {process.returncode}\n{said}"
        assert "Traceback" not in said, said
        return said

    def run(self) -> str:
        """Run it to its end; what it printed."""
        return self.finish(self.start())

    def records(self, *events: str) -> list[dict[str, Any]]:
        """The lines of the ledger of these kinds."""
        return ledger_records(self.directory, *events)

    def held(self) -> list[dict[str, Any]]:
        """The attempts that are held now: the lines with which they started."""
        ended = {each["run"] for each in self.records("ended")}
        mark = "stages/one/work/held"
        return [
            each
            for each in self.records("started")
            if each["run"] not in ended and (self.directory / "runs" / each["run"] / mark).exists()
        ]

    def let_go(self) -> None:
        """Nothing is held any more."""
        (self.folder / "go").touch()

    def assert_not_again(self, done: Sequence[tuple[str, int]]) -> None:
        """These repetitions have started once."""
        started = Counter((each["key"], each["number"]) for each in self.records("started"))
        assert {started[each] for each in done} == {1}, started

    def succeeded(self) -> list[tuple[str, int]]:
        """Key and number of each repetition that succeeded."""
        return [(each["key"], each["number"]) for each in self.records("ended") if each["state"] == "succeeded"]

    def assert_complete(self, count: int) -> None:
        """Every repetition has succeeded once, and has left its result."""
        done = self.succeeded()
        assert len(done) == count and len(set(done)) == count, sorted(done)
        for each in self.records("ended"):
            if each["state"] == "succeeded":
                assert (self.directory / "runs" / each["run"] / "stages/one/work/result").read_text()

    def ran_at(self) -> list[RanAt]:
        """Where and when what succeeded has run."""
        return ran_at(self.directory)

    def wait_for_ends(self, count: int, within_s: float = WITHIN_S) -> None:
        """Until so many attempts have ended."""
        wait_until(lambda: len(self.records("ended")) >= count, f"{count} attempts have ended", within_s)

    def processes(self) -> list[str]:
        """All processes of this machine, its nodes' included, whose command line or environment names the campaign."""
        found = []
        mark = os.fsencode(str(self.directory))
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes()
                if mark in words or b"WF_RUN_DIR=" + mark in (process / "environ").read_bytes():
                    found.append(f"{process.name} {words.decode(errors='replace')}")
            except OSError:  # it has ended
                continue
        return found


def ran_at(directory: Path) -> list[RanAt]:
    """Where and when the repetitions of a campaign that succeeded have run, by the proof of their placement."""
    found = []
    for each in ledger_records(directory, "ended"):
        if each["state"] == "succeeded":
            folder = directory / "runs" / each["run"]
            proof = json.loads((folder / "proof.json").read_text())
            assert proof["state"] == "proved", proof
            ranks = [rank for ranks in proof["stages"].values() for rank in ranks]
            cores = {(rank["host"], core) for rank in ranks for core in parse_cores(rank["cores"])}
            lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
            found.append(RanAt(each["run"], lines[0]["t"], lines[-1]["t"], frozenset(cores)))
    return found


def overlapping(ran: list[RanAt]) -> list[tuple[RanAt, RanAt]]:
    """Pairs of repetitions that ran at the same time."""
    return [(one, two) for one, two in itertools.combinations(ran, 2) if one.begin < two.end and two.begin < one.end]
