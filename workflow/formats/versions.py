"""Versions of the files of a run: each file states its own, and a reader takes those of its own version only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class OtherVersionError(ValueError):
    """A file was written by another version of wf than the one that reads it."""


def check_version(record: Mapping[str, Any], key: str, known: int, file: object) -> None:
    """Refuse a record that does not state the version `known` under `key`.

    Raises:
        OtherVersionError: it states another one, or none.
    """
    version = record.get(key)
    if version != known:
        stated = f"{key} is {version}" if key in record else f"it has no {key}"
        raise OtherVersionError(f"{file}: {stated}, and this wf reads version {known}; use the wf that wrote it")
