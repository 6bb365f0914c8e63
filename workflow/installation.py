"""How this `wf` was installed, and the command that adds an extra to it: from a clone, a wheel, or a package index."""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import sys
from pathlib import Path
from urllib.parse import urlparse

_CLONE = Path(__file__).resolve().parents[1]


def install_command(extra: str) -> str:
    """The command that installs an extra of `wf`, e.g. `laptop`, into this Python, however `wf` came here."""
    if (_CLONE / "pyproject.toml").is_file():
        source = f"--editable {shlex.quote(f'{_CLONE}[{extra}]')}"
    else:
        source = shlex.quote(f"{_installed_from() or 'wf-hpc'}[{extra}]")
    return f"{shlex.quote(sys.executable)} -m pip install {source}"


def _installed_from() -> Path | None:
    """The wheel on this machine from which `wf` was installed (PEP 610); it may be gone."""
    try:
        record = importlib.metadata.distribution("wf-hpc").read_text("direct_url.json")
        url = urlparse(json.loads(record)["url"]) if record else None
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError):
        return None
    if url is None or url.scheme != "file":
        return None
    from urllib.request import url2pathname

    return Path(url2pathname(url.path))
