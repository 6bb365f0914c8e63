"""A run on another host is asked to stop."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path

from tests.support.chains import chain, write_run
from workflow.formats.lease_file import LEASE_FILE
from workflow.run.control.cancellation import stop_run
from workflow.run.control.lease import Lease
from workflow.run.records.control_requests import CONTROL_FILE
from workflow.run.records.events_file import EVENTS_FILE
from workflow.run.records.run_directory import read_filled_plan


class ElsewhereSupervisor(threading.Thread):
    """Beats until somebody asks it to stop; then it writes the verdict and ends."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(daemon=True)
        self.run_dir, self.given_up = run_dir, threading.Event()
        self.beat(0)

    def beat(self, number: int) -> None:
        lease = Lease("n9", 7, number, str(self.run_dir), system="another boot")
        temporary = self.run_dir / "lease.new"
        temporary.write_text(json.dumps(asdict(lease)))
        temporary.replace(self.run_dir / LEASE_FILE)

    def run(self) -> None:
        number = 0
        while not self.given_up.wait(0.1):
            number += 1
            self.beat(number)
            if number > 3 and (self.run_dir / CONTROL_FILE).exists():
                verdict = {
                    "event": "run_finished", "t": 5.0, "state": "interrupted", "exit_code": 130, "reason": "asked",
                    "stage": "",
                }  # fmt: skip
                (self.run_dir / EVENTS_FILE).write_text(json.dumps(verdict) + "\n")
                return


def test_the_verdict_ends_the_wait_and_not_the_silence_after_it(tmp_path: Path) -> None:
    run_dir = write_run(chain("sst", stop=60), tmp_path)
    supervisor = ElsewhereSupervisor(run_dir)
    supervisor.start()
    try:
        lives = stop_run(run_dir, read_filled_plan(run_dir), "stop")
    finally:
        supervisor.given_up.set()
        supervisor.join()
    assert lives.alive, "it waited until the supervisor had been silent for long"
    assert len((run_dir / CONTROL_FILE).read_text().splitlines()) == 1
