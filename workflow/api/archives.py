"""Archives of runs and campaigns, and what is seen of archived data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflow.crate.archive_files import ArchiveContents
    from workflow.crate.fill_archive import ArchiveOptions
    from workflow.look.write_look import WrittenPage


def archive_run(
    run: str | os.PathLike[str] | None = None,
    archive: str | os.PathLike[str] | None = None,
    *,
    data: bool = False,
    largest: int | None = None,
    license: str | None = None,
) -> tuple[Path, ArchiveContents]:
    """Write a run into one archive, a Workflow Run RO-Crate, to repeat it; returns its path and contents.

    Args:
        run: as for `read_report`.
        archive: a name that ends in `.zip`, or that of a folder; by default NAME.zip in the current directory.
        data: include the data that the stages wrote.
        largest: bytes; larger inputs and records are left out (default: 100 MiB).
        license: of the archive, as text or URL.

    Raises:
        RunError: there is no such run, it is in progress, or the archive exists.
        WfError: rocrate is not installed.
    """
    from workflow.crate.archive_run import archive_run as write
    from workflow.run.records.find_runs import find_run

    directory = find_run(run)
    target = Path(f"{directory.name}.zip" if archive is None else archive)
    return target, write(directory, target, _archive_options(data, largest, license))


def archive_campaign(
    campaign: str | os.PathLike[str],
    archive: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    *,
    data: bool = False,
    largest: int | None = None,
    license: str | None = None,
) -> tuple[Path, ArchiveContents]:
    """Write a campaign into one archive, to repeat it; returns its path and contents.

    The campaign is named by its file, its directory, or its name below `campaigns/`; the rest is as for `archive_run`.

    Raises:
        RunError: it has not been run, nothing has succeeded, or the archive exists.
        WfError: rocrate is not installed.
    """
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.crate.archive_campaign import archive_campaign as write

    found, its, schedule = find_campaign(Path(campaign), None if directory is None else Path(directory))
    target = Path(f"{its.spec.campaign}.zip" if archive is None else archive)
    return target, write(found, its, schedule, target, _archive_options(data, largest, license))


def look_at(
    run: str | os.PathLike[str] | None = None,
    other: str | os.PathLike[str] | None = None,
    page: str | os.PathLike[str] | None = None,
    *,
    limit: int | None = None,
) -> WrittenPage:
    """Write a page that draws what a run archived, or two runs side by side; returns its path and what it holds.

    Args:
        run: as for `read_report`; or an archive of a run, a folder, or a BP or HDF5 file.
        other: the second one; the page shows their difference.
        page: by default NAME.html in the current directory.
        limit: bytes of numbers that the page carries (default: 20 MB); what exceeds them is thinned.

    Raises:
        RunError: there is no such run, it has no data, or the page cannot be written.
        WfError: it is no run and no data, or a library is not installed: plotly, numpy, adios2, h5py.
    """
    from workflow.look.write_look import DEFAULT_LIMIT, write_look
    from workflow.run.records.run_directory import LATEST

    given = [Path(LATEST if run is None else run), *([] if other is None else [Path(other)])]
    return write_look(given, None if page is None else Path(page), DEFAULT_LIMIT if limit is None else limit)


def _archive_options(data: bool, largest: int | None, license: str | None) -> ArchiveOptions:
    from workflow.crate.archive_files import DEFAULT_LARGEST
    from workflow.crate.fill_archive import NO_LICENSE, ArchiveOptions

    return ArchiveOptions(data, DEFAULT_LARGEST if largest is None else largest, license or NO_LICENSE)
