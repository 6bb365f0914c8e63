"""Calibrations: a machine measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.api.plans import make_plan

if TYPE_CHECKING:
    from workflow.calibration.calibrate import GivenData
    from workflow.calibration.keep_calibration import KeptCalibration
    from workflow.forecast.calibration_model import MeasuredPart


def calibrate_site(
    site: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    parts: Sequence[MeasuredPart] = (),
    data: GivenData | None = None,
    quick: bool = False,
    new: bool = False,
    despite_load: bool = False,
    show: Callable[[str], None] = print,
) -> KeptCalibration:
    """Measure a site, and keep it in `calibration/SITE.json` beside the user's sites.

    Args:
        site: a name, the path of a file, or `auto`.
        folder: on the file system that is measured; files are written there, and removed.
        parts: what is measured; by default everything.
        data: the data to compress; by default data of the component gray_scott.
        quick: fewer sizes, everything once.
        new: forget what was known before.
        despite_load: measure also where other programs use more than a quarter of the cores.
        show: is called with a line of text before each measurement.

    Raises:
        WfError: nothing can be measured here, or other programs use too much of the machine.
    """
    from workflow.calibration.keep_calibration import measure_and_keep, measuring_place

    place = measuring_place(os.fspath(site), Path(folder).absolute(), make_plan, quick=quick)
    return measure_and_keep(place, parts, data, new=new, despite_load=despite_load, show=show)
