"""Ctrl-C while pydantic builds the schema of a model."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import SchemaError

from workflow.spec.validation_messages import validated
from workflow.spec.yaml_tree.parse import parse_yaml


@pytest.mark.parametrize(
    ("text", "raised"),
    [("Error building `model` serializer:\n  KeyboardInterrupt: ", KeyboardInterrupt), ("unknown type", SchemaError)],
)
def test_it_is_an_interrupt(text: str, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(BaseModel):
        pass

    def build(*_: Any, **__: Any) -> None:
        raise SchemaError(text)

    monkeypatch.setattr(Model, "model_validate_json", build)
    with pytest.raises(raised):
        validated(Model, parse_yaml("{}", "file.yaml"))
