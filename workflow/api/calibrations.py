"""Calibrations: what runs have measured, kept for forecasts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflow.calibration.keep_measurements import KeptMeasurements


def keep_measurements(source: str | os.PathLike[str]) -> KeptMeasurements:
    """Keep what a run, or the repetitions of a campaign, measured: `calibration/SITE.json` beside the user's sites.

    Args:
        source: the name or the directory of a run or of a campaign.

    Raises:
        WfError: there is no such run, it has not succeeded, or nothing is known about its stages.
    """
    from workflow.calibration.keep_measurements import keep_measurements as keep

    return keep(Path(source))
