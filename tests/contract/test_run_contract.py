"""The contract of a run on this machine: held by its terminal, detached, and by PSI/J's local executor."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.contract.run_contract import RunContract, wf


class TestLocal(RunContract):
    def command(self, pipeline: Path) -> list[str]:
        return wf("run", str(pipeline))


class TestDetached(RunContract):
    def command(self, pipeline: Path) -> list[str]:
        start = f"{sys.executable} -m workflow.cli"
        return ["sh", "-c", f"{start} run {pipeline} --detach && exec {start} watch"]


class TestPsijLocal(RunContract):
    def command(self, pipeline: Path) -> list[str]:
        return [sys.executable, "-m", "tests.support.psij_local", str(pipeline)]
