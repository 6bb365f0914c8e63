"""What a balance has promised of a run that uses its overlay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from workflow.balance.balance_model import BALANCE_FILE, OVERLAY_FILE, Balance
from workflow.forecast.forecast_model import Promise
from workflow.forecast.quartiles import Quartiles


def read_promise(options: Sequence[str]) -> Promise | None:
    """The time per step of the newest balance among the overlays of a run; None where there is none.

    `options`: what was laid over the pipeline, as options of `wf run`.
    """
    overlays = [Path(text) for text in options if Path(text).name == OVERLAY_FILE]
    for overlay in reversed(overlays):
        try:
            found = Balance.model_validate_json((overlay.parent / BALANCE_FILE).read_bytes())
        except (OSError, ValidationError):
            continue
        took = found.chosen.seconds
        if found.chosen.probes:
            return Promise(stage=found.counted, step=Quartiles(median=took.median, low=took.low, high=took.high))
    return None
