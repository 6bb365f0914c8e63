"""Archives in the tests: unpacked, validated by roc-validator, and searched."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

# A Python with roc-validator: `make test` makes it.
CRATE_PYTHON = os.environ.get("WF_CRATE_PYTHON", "")
_SCRIPT = Path(__file__).with_name("validate_crate.py")
_TIMEOUT_S = 200


def problems_of(crate: Path, *profiles: str) -> list[str]:
    """What roc-validator misses in a crate of what these profiles require, by default that of workflow runs."""
    if not CRATE_PYTHON:
        pytest.skip("WF_CRATE_PYTHON does not name a Python with roc-validator: `make test` makes one")
    done = subprocess.run(
        [CRATE_PYTHON, str(_SCRIPT), str(crate), *profiles], capture_output=True, text=True, timeout=_TIMEOUT_S,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [f"{profile}: {check}: {message}" for profile, _, check, message in json.loads(done.stdout)]


def unpacked(archive: Path, folder: Path) -> Path:
    """The archive in a folder, programs executable as `unzip` leaves them."""
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
        for each in opened.infolist():
            if mode := each.external_attr >> 16:
                (folder / each.filename).chmod(mode & 0o777)
    return folder


def repeat_command(folder: Path) -> list[str]:
    """The command of the README, as words."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return shlex.split(str(block).splitlines()[-1])


def entities_of(folder: Path) -> dict[str, Any]:
    """Id → entity."""
    text = (folder / "ro-crate-metadata.json").read_text()
    return {each["@id"]: each for each in json.loads(text)["@graph"]}


def files_with(folder: Path, text: str) -> list[str]:
    """The files below a folder that hold a text."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(str(path.relative_to(folder)) for path in files if text.encode() in path.read_bytes())
