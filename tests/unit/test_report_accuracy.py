"""What the report says of compression: the largest error against the bound, and what nobody compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workflow.report.read.stage_metrics import read_metrics
from workflow.report.report_model import AccuracyPart
from workflow.report.show.run_in_words import accuracy_text


@pytest.mark.parametrize(
    ("largest", "bound", "compared", "text"),
    [
        (2.9e-4, 1e-3, 4096, "x: zfp, largest error 0.00029 ≤ 0.001 (4096 values of 4 steps)"),
        (2e-3, 1e-3, 4096, "x: zfp, largest error 0.002 > 0.001 (4096 values of 4 steps)"),
        (0.0, 0.0, 64, "x: zfp, every bit arrived (64 values of 4 steps)"),
        (None, 1e-3, 64, "x: zfp, infinite error > 0.001 (64 values of 4 steps)"),
        (0.0, 1e-3, 0, "x: zfp, nothing compared"),
    ],
)
def test_text(largest: float | None, bound: float, compared: int, text: str) -> None:
    part = AccuracyPart(variable="x", operator="zfp", bound=bound, largest=largest, compared=compared, steps=4)
    assert accuracy_text(part) == text


def test_an_infinite_error_survives_json(tmp_path: Path) -> None:
    """JSON has no infinity; Python writes one all the same, and pydantic does not."""
    line = {
        "kind": "accuracy", "t": 1.0, "stream": "s", "side": "read", "variable": "x", "operator": "zfp", "bound": 0.1,
        "largest": float("inf"), "compared": 3, "steps": 1,
    }  # fmt: skip
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    metrics = read_metrics(tmp_path / "metrics.jsonl")
    part = AccuracyPart.model_validate(metrics.accuracy["s"][0])
    assert part.largest is None
    assert AccuracyPart.model_validate_json(part.model_dump_json()) == part
