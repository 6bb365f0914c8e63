"""`calibration/SITE.json` beside the user's sites: found, read, written."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from workflow.errors import WfError
from workflow.formatting import plural
from workflow.spec.shipped import SHIPPED, config_dirs
from workflow.spec.user_paths import is_file

if TYPE_CHECKING:
    from workflow.forecast.calibration_model import Calibration

FOLDER = "calibration"


def find_calibration(site: str) -> Path | None:
    """The file of a site; None where no run was kept."""
    return next((file for folder in config_dirs(FOLDER) if is_file(file := folder / f"{site}.json")), None)


def calibration_path(site: str) -> Path:
    """Where the calibration of a site is written: where it is, else in the first of the user's folders."""
    found = find_calibration(site)
    if found is not None:
        return found
    folders = [folder for folder in config_dirs(FOLDER) if not folder.is_relative_to(SHIPPED)]
    return folders[0] / f"{site}.json"


def load_calibration(site: str) -> Calibration | None:
    """What was measured on a site; None where nothing was.

    Raises:
        WfError: the file cannot be read, or a newer wf has written it.
    """
    file = find_calibration(site)
    return None if file is None else read_calibration(file)


def read_calibration(file: Path) -> Calibration:
    """The calibration in this file. Raises WfError as `load_calibration` does."""
    # Every `wf plan` looks whether there is such a file, and few read one.
    from workflow.forecast.calibration_model import CALIBRATION_VERSION, VERSION_KEY, Calibration
    from workflow.formats.read_json import read_json
    from workflow.formats.versions import OtherVersionError, check_version

    again = "remove it, and keep what runs have measured again: `wf calibrate RUN`"
    try:
        data = read_json(file.read_bytes())
        if not isinstance(data, dict):
            raise WfError(f"{file}: it is not a calibration", again)
        check_version(data, VERSION_KEY, CALIBRATION_VERSION, file)
        return Calibration.model_validate(data)
    except OtherVersionError as error:
        message, _, hint = str(error).partition("; ")
        raise WfError(message, f"{hint}, or {again}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise WfError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}", again) from error
    except OSError as error:
        raise WfError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise WfError(f"{file}: it is not JSON: {error}", again) from error


def write_calibration(calibration: Calibration, file: Path) -> None:
    """Write it whole, or leave the old file as it is. Raises WfError."""
    from workflow.replace_file import replace_file

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, calibration.to_json().encode())
    except OSError as error:
        raise WfError(f"{file}: {error.strerror}", "set WF_CONFIGS to a folder that you can write to") from error


def host_note(calibration: Calibration, site: str) -> list[str]:
    """That the figures are of other machines: of sites that are one machine, not a cluster."""
    hosts = sorted({*(each.host for each in calibration.stages), *(each.host for each in calibration.ends)} - {""})
    here = socket.gethostname()
    if site != "local" or not hosts or here in hosts:
        return []
    text = f"the figures are from {plural(len(hosts), 'other machine')} ({', '.join(hosts)}), and this is {here}"
    return [f"{text}: `wf calibrate RUN` with a run of this one"]
