"""What `wf calibrate` does: measures and keeps, or keeps what stages took."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.calibration.calibrate import GivenData, Measurement
from workflow.calibration.calibration_file import (
    calibration_path,
    find_calibration,
    read_calibration,
    write_calibration,
)
from workflow.calibration.measured_run import MeasuringPlace
from workflow.calibration.stage_records import find_runs, make_records, with_records
from workflow.errors import WfError
from workflow.forecast.calibration_model import PARTS, Calibration, MeasuredPart
from workflow.formatting import plural


@dataclass(frozen=True)
class KeptCalibration:
    """What was measured, and where it is kept."""

    calibration: Calibration
    file: Path
    notes: list[str]
    interrupted: bool = False


def measure_and_keep(
    place: MeasuringPlace,
    parts: Sequence[MeasuredPart],
    data: GivenData | None,
    *,
    new: bool,
    show: Callable[[str], None],
) -> KeptCalibration:
    """Measure `parts` ([]: all), and write them over the same parts of the site's file. `show` gets lines of progress.

    Raises WfError when nothing could be measured, or the file cannot be written.
    """
    site = place.site.site
    if place.site.scheduler is not None and place.allocation.source == "local":
        raise WfError(
            f"site {site} has a scheduler, and this is not one of its jobs",
            f"measure on its nodes, for example two: `salloc --nodes=2 wf calibrate --site {site}`",
        )
    file = calibration_path(site)
    old = _old(site, new)
    measurement = Measurement(place, list(parts) or PARTS, data)
    measurement.measure(show)
    calibration = measurement.into(old)
    if calibration == old:
        if measurement.interrupted:
            raise WfError("interrupted before anything was measured")
        raise WfError("nothing was measured: " + "; ".join(measurement.skipped), "`wf doctor` shows what is missing")
    write_calibration(calibration, file)
    return KeptCalibration(calibration, file, measurement.skipped, measurement.interrupted)


def keep_stages_of(site: str, source: Path, *, new: bool) -> KeptCalibration:
    """Keep what the stages of a run, or of a campaign's runs, took. Raises WfError."""
    records, left_out = make_records(find_runs(source))
    if not records:
        raise WfError(f"{source}: nothing is known of its stages: {'; '.join(left_out)}")
    file = calibration_path(site)
    calibration = with_records(_old(site, new), records)
    write_calibration(calibration, file)
    return KeptCalibration(calibration, file, left_out)


def host_note(calibration: Calibration, site: str) -> list[str]:
    """That the figures are of another machine: of sites that are one machine, not a cluster."""
    hosts = sorted({each.host for each in calibration.measured.values()})
    here = socket.gethostname()
    if site != "local" or not hosts or here in hosts:
        return []
    return [
        f"the forecast is from {plural(len(hosts), 'other machine')} ({', '.join(hosts)}), and this is {here}: "
        "`wf calibrate`"
    ]


def _old(site: str, new: bool) -> Calibration:
    file = None if new else find_calibration(site)
    return Calibration(site=site) if file is None else read_calibration(file)
