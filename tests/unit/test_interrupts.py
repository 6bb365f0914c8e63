"""Ctrl-C in the midst of an import, where Python loses the exception."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from workflow.cli.main import main

PROGRAM = """
import os, signal, weakref
from workflow.interrupts import interrupts_noted
from workflow.run.processes.signals import Signals
{before}
class Thing: pass
thing = Thing()
with interrupts_noted():
    callback = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    try:
        del thing  # Python prints the exception of a callback, and goes on
    except KeyboardInterrupt:
        raise SystemExit("the exception was not lost")
    with Signals() as signals:
        print(signals.take())
"""


def said(before: str = "") -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip(), done.stderr


def test_one_that_was_lost_stops_the_run_all_the_same() -> None:
    printed, errors = said()
    assert "Exception ignored" in errors and "KeyboardInterrupt" in errors
    assert printed == "['SIGINT']"


def test_where_it_is_ignored_it_stays_so() -> None:
    assert said("signal.signal(signal.SIGINT, signal.SIG_IGN)") == ("[]", "")


def test_a_verb_that_fails_leaves_ctrl_c_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["wf", "check", "/nowhere/pipeline.yaml"])
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        main()
    assert signal.getsignal(signal.SIGINT) is before
