"""Print the unit tests of what has changed since the last commit: those that were changed, and those that import it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

TESTS = Path("tests/unit")


def changed_files() -> list[Path]:
    """Files that differ from the last commit, and new ones."""
    lines = subprocess.run(["git", "status", "--porcelain", "-uall"], capture_output=True, text=True, check=True).stdout
    return [Path(line[3:].rpartition(" -> ")[2]) for line in lines.splitlines()]


def affected_tests(changed: list[Path], texts: dict[Path, str]) -> list[Path]:
    """The test files of these changes. `texts`: test file → its text. Pure."""
    modules = [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in changed if path.suffix == ".py"
    ]
    names = [name for name in modules if not name.startswith("tests.unit.")]
    # `from workflow.plan.make import make_plan`, or `from workflow.plan import make`.
    words = [re.compile(rf"{re.escape(name)}\b|from {re.escape(room)} import .*\b{last}\b")
             for name in names for room, _, last in [name.rpartition(".")]]  # fmt: skip
    return [path for path, text in texts.items() if path in changed or any(word.search(text) for word in words)]


if __name__ == "__main__":
    print(*affected_tests(changed_files(), {path: path.read_text() for path in sorted(TESTS.glob("test_*.py"))}))
