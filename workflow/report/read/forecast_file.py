"""The forecast that was made before a run: `forecast.json` in its directory."""

from __future__ import annotations

from pathlib import Path

from workflow.forecast.forecast_model import FORECAST_FILE, FORECAST_VERSION, Forecast
from workflow.formats.read_json import read_json
from workflow.plan.plan_model import Plan


def read_forecast(run_dir: Path, plan: Plan) -> Forecast | None:
    """The forecast; None where none was made, or where it is of another version or plan: the report does without it."""
    try:
        forecast = Forecast.model_validate(read_json((run_dir / FORECAST_FILE).read_bytes()))
    except (OSError, ValueError):
        return None
    stages, streams = {each.name for each in plan.stages}, {each.name for each in plan.streams}
    fits = {each.name for each in forecast.stages} <= stages and {each.name for each in forecast.streams} <= streams
    return forecast if fits and forecast.forecast_version == FORECAST_VERSION else None
