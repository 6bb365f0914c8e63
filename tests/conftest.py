"""What all tests share: one machine, the bless option, a second start for tests of real processes, no skips in CI."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support import memory_limit_here, same_machine, ucx_here
from tests.support.long_tables import commit_number, take_turns
from workflow.interrupts import has_come

# Their tests start processes, schedulers and browsers. A machine that is busy may break one: decision 44.
SECOND_START = {"browser", "cluster", "contract", "docs", "faults", "integration"}
TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite golden files and expected messages")
    parser.addoption("--turns", action="store_true", help="of the tests that take turns run those of this commit")


def pytest_configure() -> None:
    same_machine.see_the_same_everywhere()
    # Engine and site files of whoever runs the tests stay out of them.
    os.environ.pop("WF_CONFIGS", None)
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
    # No test writes into the home of whoever runs it. Root could make /nonexistent; nobody makes a folder in a device.
    os.environ["XDG_STATE_HOME"] = "/dev/null"
    # With it Python writes a line and its end apart: the lines of two ranks mix.
    os.environ.pop("PYTHONUNBUFFERED", None)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what -m does not name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    take_turns(items, commit_number() if config.getoption("--turns") else None)
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in SECOND_START:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    asks = item.path.relative_to(TESTS).parts[0] == "cluster"
    with same_machine.whole_path() if asks else contextlib.nullcontext():
        return (yield)


@pytest.fixture(autouse=True)
def signals_stay() -> Iterator[None]:
    """A test that leaves a handler, or a Ctrl-C that is remembered, breaks those that come after it in its process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before
    assert not has_come(), "a run in this process would take it for a Ctrl-C"


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--bless"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for left_out in (ucx_here.LEFT_OUT, memory_limit_here.LEFT_OUT):
        if left_out:
            terminalreporter.write_line(left_out)
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"failed at its first start: {report.nodeid}", sep="_")
        terminalreporter.line(report.longreprtext)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    # Under CI everything is installed by the project's own files: a skip is a broken install step, not a choice.
    report = yield
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
    return report
