"""Which unit tests `make check` runs after a change."""

from __future__ import annotations

from pathlib import Path

from tools.changed_tests import affected_tests

PLAN, RUN, NEW = (Path("tests/unit", name) for name in ("test_plan.py", "test_run.py", "test_new.py"))
TEXTS = {
    PLAN: "from workflow.plan.make import make_plan\n",
    RUN: "from workflow.run import run_loop, cut\nfrom workflow.plan import maker\n",
    NEW: "import workflow.planner\n",
}


def found(*changed: str) -> list[Path]:
    return affected_tests([Path(each) for each in changed], TEXTS)


def test_they_import_what_has_changed() -> None:
    assert found("workflow/plan/make.py") == [PLAN]
    assert found("workflow/run/cut.py", "workflow/run/run_loop.py") == [RUN]
    assert found("workflow/plan/__init__.py") == [PLAN, RUN], "what imports from the room"


def test_they_have_changed_themselves() -> None:
    assert found("tests/unit/test_new.py") == [NEW]


def test_others_are_left_out() -> None:
    assert found("docs/page.md", "workflow/plan/mak.py", "workflow/other.py", "tools/mutants.py") == []
