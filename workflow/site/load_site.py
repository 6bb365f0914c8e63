"""Sites from `configs/sites`, as checked models. A mistake in such a file is reported with its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from workflow.errors import SpecError
from workflow.site.machine import interfaces, look, memory_bytes
from workflow.site.site_checks import check_site
from workflow.site.site_model import Site, SiteFile
from workflow.spec.config_dirs import read_config
from workflow.spec.validation_messages import validated

# For a plan that is the same on every machine: where a file says `auto`, there is enough, or it is not known.
_ANY_MACHINE: dict[str, Any] = {
    "cores_per_node": 4096,
    "memory_per_node": 2**60,
    "launcher_path": "",
    "planes": [],
    "fabric": False,
    "peer_memory": True,
    "parallel_adios2": None,
    "memory_policy": ["huge_pages", "keep_freed"],
    "glibc": "2.35",
}


def read_site_file(name: str, base: Path | None = None) -> SiteFile:
    """The site as it is written; see `load_site`."""
    node = read_config("sites", name, base)
    file, problems = validated(SiteFile, node)
    if file is not None:
        problems = problems + check_site(file, node)
    if file is None or problems:
        raise SpecError(problems)
    return file


def any_machine(file: SiteFile) -> tuple[Site, set[str]]:
    """(the site with fixed values where its file leaves a fact to the machine, the facts that the file states)."""
    known = file.model_dump()
    stated = {name for name in _ANY_MACHINE if known[name] != "auto"}
    return Site(**known | {name: value for name, value in _ANY_MACHINE.items() if name not in stated}), stated


def load_site(name: str, base: Path | None = None) -> Site:
    """The site of that name, or with `base` of that file, relative to `base`; `auto` is filled from this machine.

    Raises:
        WfError: there is none of that name.
        SpecError: its file is wrong.
    """
    file = read_site_file(name, base)
    known: dict[str, Any] = file.model_dump()
    if file.cores_per_node == "auto":
        known["cores_per_node"] = len(os.sched_getaffinity(0))
        known["interfaces"] = interfaces()  # stages run here: elsewhere they may be others
    if file.memory_per_node == "auto":
        known["memory_per_node"] = memory_bytes()
    return Site(**look(known))
