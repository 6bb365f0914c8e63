"""Sites from `configs/sites`, as checked models. A mistake in such a file is reported with its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workflow.errors import SpecError
from workflow.site.machine import interfaces, look, memory_bytes
from workflow.site.site_model import Site, SiteFile
from workflow.spec.config_dirs import read_config
from workflow.spec.validation_messages import validated


def load_site(name: str, base: Path | None = None) -> Site:
    """The site of that name, or with `base` of that file, relative to `base`; `auto` is filled from this machine.

    Raises:
        WfError: there is none of that name.
        SpecError: its file is wrong.
    """
    node = read_config("sites", name, base)
    file, problems = validated(SiteFile, node)
    if file is None or problems:
        raise SpecError(problems)
    known: dict[str, Any] = file.model_dump()
    if file.cores_per_node == "auto":
        known["cores_per_node"] = len(os.sched_getaffinity(0))
        known["interfaces"] = interfaces()  # stages run here: elsewhere they may be others
    if file.memory_per_node == "auto":
        known["memory_per_node"] = memory_bytes()
    return Site(**look(known))
