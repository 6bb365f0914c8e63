"""The list of `make mutants`: 21 modules and their tests exist, and each known survivor has a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutants import KNOWN, Outcome, known_survivors, modules, updated_list

ROOT = Path(__file__).parents[2]


def test_modules_and_tests_exist() -> None:
    listed = modules()
    assert len(listed) == 19
    files = {name.partition("::")[0] for tests in listed.values() for name in tests} | set(listed)
    assert sorted(name for name in files if not (ROOT / name).is_file()) == []


def test_each_known_survivor_has_a_reason_and_a_module_of_the_list() -> None:
    text = KNOWN.read_text()
    assert {line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")} <= set(modules())
    assert known_survivors(text, modules())


def test_an_entry_without_a_reason_is_refused() -> None:
    with pytest.raises(SystemExit, match="no reason"):
        known_survivors("## a.py\n- f: `x` → `y`\n", ["a.py"])


def test_a_run_brings_the_list_up_to_date() -> None:
    """Reasons are kept, killed mutants and their sections are left out, and other modules stay as they are."""
    text = (
        "# Mutants\n\n| module | killed of |\n|---|---|\n| workflow/a.py | 1 of 3 |\n| workflow/b.py | 7 of 8 |\n\n"
        "Together 8 of 11: 72.7% killed.\n\n"
        "## workflow/a.py\n\n- f: `x` → `y` | equivalent: an alias\n- f: `x` → `z` | later\n\n"
        "## workflow/b.py\n\n- g: `x` → `y` | rare\n"
    )
    first = updated_list(text, [Outcome("workflow/a.py", killed=2, survivors=["f: `x` → `y`", "f: `v` → `w`"])])
    assert first == text.replace("1 of 3", "2 of 4").replace("8 of 11: 72.7%", "9 of 12: 75.0%").replace(
        "- f: `x` → `z` | later", "- f: `v` → `w` | "
    )
    second = updated_list(first, [Outcome("workflow/b.py", killed=8), Outcome("workflow/a.py", error="no test ran")])
    assert second.partition("## workflow/b.py")[1] == ""
    assert "| workflow/b.py | 8 of 8 |\n\nTogether 10 of 12: 83.3% killed.\n\n## workflow/a.py\n" in second
    new = updated_list(second, [Outcome("workflow/c.py", killed=4)])
    assert "| workflow/b.py | 8 of 8 |\n| workflow/c.py | 4 of 4 |\n\nTogether 14 of 16" in new
