"""Versions of the files of a run: each file states its own, and a reader refuses one that is newer than the reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NewerVersionError(ValueError):
    """A file was written by a newer wf than the one that reads it."""


def check_version(record: Mapping[str, Any], key: str, known: int, file: object) -> int:
    """The version that `record` states under `key`; a record without one is of version 1, from before versions.

    Raises:
        NewerVersionError: the version is above `known`.
    """
    version = record.get(key, 1)
    if not isinstance(version, int) or version > known:
        raise NewerVersionError(
            f"{file}: {key} is {version}, this wf reads versions up to {known}; use the wf that wrote it"
        )
    return version
