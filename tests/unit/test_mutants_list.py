"""The list of `make mutants`: 22 modules and their tests exist, and each known survivor has a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutants import KNOWN, known_survivors, modules

ROOT = Path(__file__).parents[2]


def test_modules_and_tests_exist() -> None:
    listed = modules()
    assert len(listed) == 22
    files = {name.partition("::")[0] for tests in listed.values() for name in tests} | set(listed)
    assert sorted(name for name in files if not (ROOT / name).is_file()) == []


def test_each_known_survivor_has_a_reason_and_a_module_of_the_list() -> None:
    text = KNOWN.read_text()
    assert {line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")} <= set(modules())
    assert known_survivors(text, modules())


def test_an_entry_without_a_reason_is_refused() -> None:
    with pytest.raises(SystemExit, match="no reason"):
        known_survivors("## a.py\n- f: `x` → `y`\n", ["a.py"])
