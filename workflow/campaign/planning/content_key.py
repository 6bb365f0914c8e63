"""What a trial depends on, as one key: the same key means that running it again would measure the same thing.

Paths are left out: a campaign directory can be moved, and a second clone of the pipeline has the same keys.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workflow.plan.plan_model import Plan
from workflow.spec.load import Loaded

KEY_LENGTH = 12
# Texts for people and limits in time: they change no measured figure.
_LEFT_OUT = {"pipeline_file", "deadlines", "reasons", "advice"}


def content_key(plan: Plan, loaded: Loaded) -> str:
    """The key of a plan: its decisions without paths, its programs and inputs by checksum, and versions.

    A file of the plan that does not exist counts by its name. Hexadecimal digits, `KEY_LENGTH` of them.
    """
    data = plan.model_dump(mode="json", exclude=_LEFT_OUT)
    files = {path for text in _texts(data) if (path := _file(text)) is not None}
    files |= {path for folder in loaded.component_dirs.values() for path in folder.rglob("*.py")}
    text = json.dumps(data, sort_keys=True, ensure_ascii=False)
    for place, name in sorted(_places(loaded).items(), key=lambda item: -len(item[0])):
        text = text.replace(place, name)
    sums = sorted(_checksum(path, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    whole = json.dumps([text, sums, versions()], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:KEY_LENGTH]


@functools.cache
def versions() -> dict[str, str]:
    """Python and the packages on which the figures of a run depend."""
    found = {"python": platform.python_version()}
    for package in ("adios2", "numpy", "mpi4py"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _places(loaded: Loaded) -> dict[str, str]:
    """Folders of this machine → what stands for them."""
    components = {str(folder): f"<component {name}>" for name, folder in loaded.component_dirs.items()}
    return {**components, str(loaded.path.parent): "<pipeline>", sys.executable: "<python>", sys.prefix: "<prefix>"}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _file(text: str) -> Path | None:
    """The file that a text of the plan names; None for anything else."""
    if not text.startswith("/") or "\n" in text:
        return None
    try:
        path = Path(text)
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None


@functools.cache
def _checksum(path: Path, mtime_ns: int, size: int) -> str:  # noqa: ARG001 - a changed file has another time or size
    """SHA-256 of a file; read once as long as it does not change."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
