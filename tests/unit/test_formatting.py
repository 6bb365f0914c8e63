"""Numbers as people read them."""

from __future__ import annotations

from datetime import datetime

import pytest

from workflow import formatting
from workflow.campaign.results.campaign_tables import metric_text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (999.5, "1.00 kB"), (999.7, "1.00 kB"), (12_345, "12.3 kB"),
     (3.12e8, "312 MB"), (999_600_000, "1.00 GB"), (5e17, "500 PB"), (5e19, "50000 PB")],
)  # fmt: skip
def test_size(count: float | None, text: str) -> None:
    assert formatting.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0 s"), (0.0123, "12 ms"), (0.9995, "1.00 s"), (0.9999, "1.00 s"), (3.214, "3.21 s"),
     (42.0, "42.0 s"), (99.94, "99.9 s"), (99.95, "1 min 40 s"), (99.96, "1 min 40 s"), (3599.7, "1 h 00 min"),
     (7380, "2 h 03 min")],
)  # fmt: skip
def test_duration(seconds: float | None, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.00"), (9.994, "9.99"), (9.995, "10.0"), (10.5, "10.5"), (99.94, "99.9"), (99.95, "100"), (100.5, "100"),
     (123.4, "123"), (-12.34, "-12.3"), (-123.4, "-123")],
)  # fmt: skip
def test_three_figures(value: float, text: str) -> None:
    assert formatting.three_figures(value) == text


def test_a_moment_is_local_time() -> None:
    assert formatting.moment(datetime(2026, 11, 22, 3, 4, 5).timestamp()) == "2026-11-22 03:04:05"
    assert formatting.clock_time(datetime(2026, 11, 22, 13, 4, 5).timestamp()) == "13:04:05"


def test_the_others() -> None:
    assert formatting.rate(1.4e9) == "1.40 GB/s"
    assert (
        formatting.rate(None) == formatting.percent(None) == formatting.number(None) == formatting.moment(None) == "-"
    )
    assert formatting.number(7) == "7"
    assert formatting.percent(0.934) == "93 %"
    assert (formatting.plural(1, "step"), formatting.plural(2, "step")) == ("1 step", "2 steps")


@pytest.mark.parametrize(("hours", "text"), [(1, "1 node-hour"), (0.5, "0.5 node-hours"), (4613.4, "4,613 node-hours")])
def test_node_hours(hours: float, text: str) -> None:
    assert formatting.node_hours(hours) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (0.00041234, "0.41 ms"), (0.0994, "99.4 ms"), (0.1, "100 ms"), (1.0, "1.00 s"), (3.214, "3.21 s")],
)
def test_a_short_duration_has_three_figures(seconds: float, text: str) -> None:
    assert formatting.fine_duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "most", "text"),
    [
        (1, 1, ""),
        (1, 2, "part 1 of at most 2"),
        (1, 5, "part 1 of at most 5"),
        (5, 5, "part 5 of at most 5"),
        (2, 1, "part 2"),
        (6, 5, "part 6"),
    ],
)
def test_the_part_of_a_run(number: int, most: int, text: str) -> None:
    assert formatting.part_text(number, most) == text


def test_a_text_in_one_line_and_a_command_for_a_shell() -> None:
    assert formatting.one_line(" a\tb\n c\x07d ") == "a b c d"
    assert formatting.in_one_line("3.2 s of 4 s") == "3.2\u00a0s\u00a0of\u00a04\u00a0s"
    assert formatting.command_text(["run", "a b", "--n", "…", "-n…"]) == "run 'a b' --n … '-n…'"


def test_small_figures_are_not_zero() -> None:
    values = (0.0, 1.234, 123.4, 0.0999, 0.00123, -4.5e-6)
    assert [formatting.plain_figure(value) for value in values] == [
        "0.00",
        "1.23",
        "123",
        "0.0999",
        "0.00123",
        "-4.5e-06",
    ]
    assert metric_text(3.2e-5, "") == "3.2e-05" and metric_text(0.001, "steps/s") == "0.001 steps/s"
    assert metric_text(1.23456, "K") == "1.23456 K", "a result of a program"
