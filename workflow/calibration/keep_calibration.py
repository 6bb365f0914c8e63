"""What `wf calibrate` does: measures and keeps, or keeps what stages took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.calibration.calibrate import GivenData, Measurement, sample_others
from workflow.calibration.calibration_file import calibration_path, load_calibration, write_calibration
from workflow.calibration.measured_run import MeasuringPlace
from workflow.calibration.stage_records import find_runs, make_records, with_records
from workflow.errors import WfError
from workflow.forecast.calibration_model import PARTS, Calibration, MeasuredPart, MeasuringConditions, StageRecord
from workflow.formatting import plural
from workflow.plan.plan_model import Plan
from workflow.site.discover import discover_allocation
from workflow.site.load_site import load_site, read_site_file, site_here
from workflow.site.site_model import Site
from workflow.spec.load import Loaded
from workflow.spec.models.pipeline import AUTO_SITE
from workflow.spec.shipped import is_path

# Of the cores: more of them used by others make each measurement one of the others.
MOST_BUSY = 0.25


@dataclass(frozen=True)
class KeptCalibration:
    """What was measured, and where it is kept."""

    calibration: Calibration
    file: Path
    notes: list[str]
    interrupted: bool = False
    recorded: Sequence[StageRecord] = ()
    """The stages whose times were recorded now."""


def measuring_place(site: str, folder: Path, decide: Callable[[Loaded, Site], Plan], *, quick: bool) -> MeasuringPlace:
    """Where a site is measured: here. `decide` makes plans."""
    allocation = discover_allocation()
    name = site_here(allocation) if site == AUTO_SITE else site
    machine = load_site(name, Path.cwd(), allocation)
    if is_path(name):
        name = str(Path(name).absolute())
    return MeasuringPlace(machine, name, allocation, folder, lambda loaded: decide(loaded, machine), quick)


def measure_and_keep(
    place: MeasuringPlace,
    parts: Sequence[MeasuredPart],
    data: GivenData | None,
    *,
    new: bool,
    despite_load: bool,
    show: Callable[[str], None],
) -> KeptCalibration:
    """Measure `parts` ([]: all), and write them over the same parts of the site's file. `show` gets lines of progress.

    Raises WfError when nothing could be measured, the file cannot be written, or, unless `despite_load`, other programs
    use much of the machine.
    """
    site = place.site.site
    if place.site.scheduler is not None and place.allocation.source == "local":
        raise WfError(
            f"site {site} has a scheduler, and this is not one of its jobs",
            f"measure on its nodes, for example two: `salloc --nodes=2 wf calibrate --site {site}`",
        )
    file = calibration_path(site)
    old = _old(site, new)
    if not despite_load:
        _refuse_busy(len(place.site.usable_cores))
    measurement = Measurement(place, list(parts) or PARTS, data)
    measurement.measure(show)
    calibration = measurement.into(old)
    if calibration == old:
        if measurement.interrupted:
            raise WfError("interrupted before anything was measured")
        raise WfError("nothing was measured: " + "; ".join(measurement.skipped), "`wf doctor` shows what is missing")
    write_calibration(calibration, file)
    notes = measurement.skipped + [_disturbed(each) for each in _now(calibration, old) if each.is_disturbed]
    return KeptCalibration(calibration, file, notes, measurement.interrupted)


def _refuse_busy(cores: int) -> None:
    """Raises WfError when other programs use so many of these cores that what is measured would be their doing."""
    others = sample_others()
    if others is not None and others > MOST_BUSY * cores:
        used = f"{others:.1f} of {plural(cores, 'core')}"
        raise WfError(
            f"other programs use {used} of this machine: measurements taken now would say little about it",
            "wait until it is idle (`top` shows what is running), or measure anyway: add `--despite-load`",
        )


def _now(calibration: Calibration, old: Calibration) -> list[MeasuringConditions]:
    """The conditions of what was measured just now."""
    found = [each for part, each in calibration.measured.items() if each != old.measured.get(part)]
    return found[:1]


def _disturbed(conditions: MeasuringConditions) -> str:
    return (
        f"measured {conditions.busy_text}: all intervals include the times to be expected on an idle machine; "
        "measure again when it is idle"
    )


def keep_stages(site: str, source: Path, *, new: bool = False) -> KeptCalibration:
    """Keep what the stages of a run, or of the runs in a campaign's directory, took: forecasts need it.

    Raises:
        WfError: there is no such run, or nothing is known about its stages.
    """
    records, left_out = make_records(find_runs(source))
    if not records:
        raise WfError(f"{source}: nothing is known about its stages: {'; '.join(left_out)}")
    name = _site_name(site)
    file = calibration_path(name)
    calibration = with_records(_old(name, new), records)
    write_calibration(calibration, file)
    return KeptCalibration(calibration, file, left_out, recorded=records)


def calibration_of(site: str = AUTO_SITE) -> Calibration:
    """What was measured on a site. Raises WfError where nothing was, or where its file is wrong."""
    name = _site_name(site)
    found = load_calibration(name)
    if found is None:
        raise WfError(
            f"site {name} has not been calibrated", "measure it: `wf calibrate`, or faster: `wf calibrate --quick`"
        )
    return found


def _old(site: str, new: bool) -> Calibration:
    known = None if new else load_calibration(site)
    return Calibration(site=site) if known is None else known


def _site_name(given: str) -> str:
    """The name of a site, of a site file, or of the site that this machine is."""
    name = site_here(discover_allocation()) if given == AUTO_SITE else given
    return read_site_file(name, Path.cwd()).site
