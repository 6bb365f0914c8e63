"""The end of an SSC stream, without SSC: its status can be wrong, which a healthy run does not show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workflow.stage.ssc import Message, SscReadEngine
from workflow.stage.stream_engines import StepStatus


@pytest.mark.parametrize(("message", "ended"), [(Message.STEP, False), (Message.CLOSING, True)])
@pytest.mark.parametrize("status", [StepStatus.ENDED, StepStatus.READY])
def test_the_writers_message_decides_whether_a_stream_has_ended(
    message: Message, ended: bool, status: StepStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = object.__new__(SscReadEngine)
    engine.partner = SimpleNamespace(receive=lambda *_: message)
    engine._io = SimpleNamespace(RemoveAllVariables=lambda: None)
    engine._held = engine._ended = engine.discarding = False
    engine._begun = None
    monkeypatch.setattr(SscReadEngine, "_ask", lambda *_: status)
    engine.serve()
    assert engine._ended is ended
    assert engine._begun is (None if ended else message)
