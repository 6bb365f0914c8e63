"""What the guard of a node does of what it is asked: one request that cannot be met holds up no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.formats.guard_requests import GuardRequest
from workflow.run.guard import node_guard
from workflow.run.guard.node_guard import RequestTaker


def test_what_cannot_be_freed_is_a_problem_and_the_rest_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = []

    def drop(file: Path, step: int) -> None:
        if file.name == "damaged.bp":
            raise IndexError("tuple index out of range")
        freed.append((file.name, step))

    monkeypatch.setattr(node_guard, "drop_data", drop)
    monkeypatch.setattr(node_guard, "end_members", lambda *_, **__: 1 / 0)
    for name in ("damaged.bp", "whole.bp"):
        (tmp_path / "streams" / name).mkdir(parents=True)
    taker = RequestTaker(str(tmp_path))
    taker.take(GuardRequest(("/r/stage.json",), {"whole.bp": 3}))
    assert (
        taker.problem == "/r/stage.json: what is left of it here cannot be ended: ZeroDivisionError('division by zero')"
    )
    taker.take(GuardRequest(first={"damaged.bp": 4, "whole.bp": 4}, ended=True))
    assert taker.problem == "the spool damaged.bp keeps all its steps: IndexError('tuple index out of range')"
    assert freed == [("whole.bp", 3), ("whole.bp", 4)]
    assert taker.ended
