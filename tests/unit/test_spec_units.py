"""Durations and sizes with units."""

from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter

from workflow.spec.models.units import WRITTEN, Duration, to_bytes, to_seconds, to_share


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250 ms", 0.25), ("30 s", 30.0), ("30 sec", 30.0), ("10 min", 600.0), ("1.5 h", 5400.0), ("2 d", 172800.0),
        ("1min", 60.0), ("  .5 s ", 0.5), ("1e2 s", 100.0), ("1E+2 s", 100.0), ("5e-1 min", 30.0),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert to_seconds(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("7 B", 7), ("3 kB", 3_000), ("16 MB", 16_000_000), ("4 GB", 4_000_000_000), ("1 TB", 10**12),
        ("3 KiB", 3072), ("2 MiB", 2**21), ("2 GiB", 2**31), ("1.5 TiB", 3 * 2**39), ("0.5 kB", 500),
        ("1.2345 kB", 1234),
    ],
)  # fmt: skip
def test_sizes(text: str, nbytes: int) -> None:
    found = to_bytes(text)
    assert (found, type(found)) == (nbytes, int)


@pytest.mark.parametrize("number", [0, 3, 1.5, True, None])
def test_what_is_no_text_passes_unchanged(number: object) -> None:
    """A bare 1.5 stays one: pydantic refuses it as a size, with its own message."""
    for convert in (to_seconds, to_bytes):
        found = convert(number)
        assert (found, type(found)) == (number, type(number))


def test_a_duration_in_a_file_has_a_unit() -> None:
    model = TypeAdapter(Duration)
    for number in (90, 90.0):
        with pytest.raises(ValueError, match='got "90"; did you mean `90 s`, `90 min` or `90 h`'):
            model.validate_python(number, context=WRITTEN)
        assert model.validate_python(number) == 90, "as in a record"
    assert model.validate_python("90 min", context=WRITTEN) == 5400


SECONDS = "units: ms, s, sec, min, h, d"
BYTES = "units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
DURATION = "expected a duration such as `10 min` or `30 s`, got"
SIZE = "expected a size such as `2 GiB` or `16 MB`, got"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.5", f'{DURATION} "1.5"; did you mean `1.5 s`, `1.5 min` or `1.5 h`? {SECONDS}'),
        ("1:30", f'{DURATION} "1:30"; did you mean `90 min` or `90 s`? {SECONDS}'),
        ("00:30:00", f'{DURATION} "00:30:00"; did you mean `30 min`? {SECONDS}'),
        ("1-00:00:00", f'{DURATION} "1-00:00:00"; did you mean `1 d`? {SECONDS}'),
        ("1-12:30", f'{DURATION} "1-12:30"; did you mean `2190 min`? {SECONDS}'),
        ("1h30m", f'{DURATION} "1h30m"; did you mean `90 min`? {SECONDS}'),
        ("2 hours", f'{DURATION} "2 hours"; did you mean `2 h`? {SECONDS}'),
        ("1 day, 12 hrs", f'{DURATION} "1 day, 12 hrs"; did you mean `36 h`? {SECONDS}'),
        ("0", f'{DURATION} "0"; {SECONDS}'),
        ("", f'{DURATION} ""; {SECONDS}'),
        ("min", f'{DURATION} "min"; {SECONDS}'),
        ("-1 s", f'{DURATION} "-1 s"; {SECONDS}'),
        ("1 s 2", f'{DURATION} "1 s 2"; {SECONDS}'),
        ("10 weeks", f'{DURATION} "10 weeks"; {SECONDS}'),
        ("10 MIN", f'{DURATION} "10 MIN"; did you mean `10 min`? {SECONDS}'),
        ("2 Sec", f'{DURATION} "2 Sec"; did you mean `2 sec`? {SECONDS}'),
    ],
)
def test_what_is_no_duration(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        to_seconds(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.5", f'{SIZE} "1.5"; {BYTES}'),
        ("2 gib", f'{SIZE} "2 gib"; did you mean `2 GiB`? {BYTES}'),
        ("1.5 Mb", f'{SIZE} "1.5 Mb"; did you mean `1.5 MB`? {BYTES}'),
        ("2 s", f'{SIZE} "2 s"; {BYTES}'),
    ],
)
def test_what_is_no_size(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        to_bytes(text)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), (" 5 % ", 0.05), ("0.05", 0.05), (0.05, 0.05), (1, 1)])
def test_shares(text: object, share: float) -> None:
    assert to_share(text) == share


@pytest.mark.parametrize("text", ["5x", "", "%", "nan", "5 %%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"expected a share such as `5%` or `0.05`, got `{text}`")):
        to_share(text)
