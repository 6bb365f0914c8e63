"""Where the calibration of a site is. Imports nothing: every `wf plan` looks here."""

from __future__ import annotations

from pathlib import Path

from workflow.errors import WfError
from workflow.spec.shipped import SHIPPED, config_dirs
from workflow.spec.user_paths import is_file

FOLDER = "calibration"


def find_calibration(site: str) -> Path | None:
    """The file of a site; None where it has not been calibrated."""
    return next((file for folder in config_dirs(FOLDER) if is_file(file := folder / f"{site}.json")), None)


def calibration_path(site: str) -> Path:
    """Where the calibration of a site is written: where it is, else in the first of the user's folders.

    Raises WfError where the user has none.
    """
    found = find_calibration(site)
    if found is not None:
        return found
    folders = [folder for folder in config_dirs(FOLDER) if not folder.is_relative_to(SHIPPED)]
    if not folders:
        raise WfError("there is no folder for calibrations: HOME is not set", "set HOME, XDG_CONFIG_HOME or WF_CONFIGS")
    return folders[0] / f"{site}.json"
