"""One run of a small pipeline that is measured: written, planned, run to its end, read and removed."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow.errors import WfError
from workflow.launch.allocation import Allocation
from workflow.plan.plan_model import Plan
from workflow.report.read.run_records import Records, read_records
from workflow.report.report_files import compute_report
from workflow.run.records.run_directory import create_run_dir
from workflow.run.supervisor import supervise
from workflow.site.site_model import Site
from workflow.spec.load import Loaded, load_pipeline

# A run that hangs is ended after this; those of a calibration take seconds.
DEADLINES = "deadlines: {start: 60 s, step: 60 s, run: 5 min}"


class NotMeasuredError(Exception):
    """A measurement is not possible here: why."""


class MeasurementEndedError(Exception):
    """Somebody ended the measurement."""


@dataclass(frozen=True)
class MeasuringPlace:
    """Where the measured pipelines run."""

    site: Site
    site_name: str
    """As it was given: a name, or the path of a file."""
    allocation: Allocation
    folder: Path
    """On the file system that is measured; everything in it is removed at the end."""
    decide: Callable[[Loaded], Plan]
    """Makes the plan of a loaded pipeline."""
    quick: bool = False

    @property
    def nodes(self) -> int:
        """Nodes that are here to be used."""
        return max(1, len(self.allocation.host_names))


@dataclass(frozen=True)
class MeasuredRun:
    """What a run left, and what its programs printed, by stage."""

    records: Records
    printed: Mapping[str, Any]


@contextmanager
def measured_run(pipeline: str, place: MeasuringPlace) -> Generator[MeasuredRun, None, None]:
    """Run a pipeline whose programs each print one line of JSON. Its files exist until the block is left.

    Raises:
        NotMeasuredError: it cannot be planned here, or it failed.
        MeasurementEndedError: Ctrl-C.
    """
    file, run_dir = place.folder / "pipeline.yaml", place.folder / "run"
    file.write_text(f"wf: 1\nname: calibration\n{DEADLINES}\n{pipeline}")
    try:
        loaded = load_pipeline(file, site=place.site_name)
        plan = place.decide(loaded)
    except WfError as error:
        raise NotMeasuredError(error.problems[0].statement) from error
    try:
        create_run_dir(plan, loaded, run_dir, latest=False)
        with contextlib.closing(supervise(run_dir, place.allocation)) as states:
            for _ in states:
                pass
        report = compute_report(run_dir)
        if report.run.state == "interrupted":
            raise MeasurementEndedError
        if report.run.state != "succeeded":
            raise NotMeasuredError(report.run.reason)
        yield MeasuredRun(read_records(run_dir), {stage.name: _printed(run_dir, stage.name) for stage in plan.stages})
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)


def _printed(run_dir: Path, stage: str) -> Any:
    lines = (run_dir / "stages" / stage / "stdout.log").read_text().splitlines()
    found = [line for line in lines if line.startswith("{")]
    return json.loads(found[-1]) if found else None
