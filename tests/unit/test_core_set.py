"""Sets of cores as text."""

from __future__ import annotations

import pytest

from workflow.core_set import format_cores, parse_cores


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("8,0-1", (0, 1, 8)), ("5", (5,)), ("", ()), (" 1 , 3-4 ", (1, 3, 4)), ("7-7", (7,))],
)
def test_text_to_cores(text: str, cores: tuple[int, ...]) -> None:
    assert parse_cores(text) == cores


@pytest.mark.parametrize("text", ["a", "3-1", "1,,2", "0x3", "-1", "1-", "0-99999999999", "[0-3]"])
def test_what_is_no_set_of_cores(text: str) -> None:
    with pytest.raises(ValueError, match="expected cores such as `0-7,16`"):
        parse_cores(text)


def test_a_core_comes_once() -> None:
    with pytest.raises(ValueError, match='core 2 comes twice in "0-2,2-3"'):
        parse_cores("0-2,2-3")


@pytest.mark.parametrize("text", ["", "0", "0-1", "0-7,16", "1,3,5-7"])
def test_cores_to_text_and_back(text: str) -> None:
    assert format_cores(parse_cores(text)) == text
