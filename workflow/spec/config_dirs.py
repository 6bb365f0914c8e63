"""The files of `configs/`: engines and sites. A user's own folder, `$WF_CONFIGS`, comes before the shipped one."""

from __future__ import annotations

import os
from pathlib import Path

from workflow.errors import WfError
from workflow.spec.shipped import SHIPPED
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.user_paths import is_file
from workflow.spec.yaml_tree.node import Node
from workflow.spec.yaml_tree.parse import read_yaml


def config_dirs(kind: str) -> list[Path]:
    """Folders with `engines` or `sites` files, the strongest first: the user's `$WF_CONFIGS`, then the shipped ones."""
    own = os.environ.get("WF_CONFIGS")
    return [folder / kind for folder in ([Path(own).expanduser()] if own else []) + [SHIPPED / "configs"]]


def find_config(kind: str, name: str) -> Path | None:
    """The file that describes an engine or a site; the user's own shadows a shipped one. `SST` also finds `sst.yaml`:
    ADIOS2 writes its engines' names in capitals."""
    files = (folder / f"{each}.yaml" for each in (name, name.lower()) for folder in config_dirs(kind))
    return next((file for file in files if is_file(file)), None)


def known_configs(kind: str) -> list[str]:
    """Names of all engines or sites, sorted."""
    return sorted({file.stem for folder in config_dirs(kind) for file in folder.glob("*.yaml")})


def read_config(kind: str, name: str) -> Node:
    """The tree of an engine's or a site's file. Raises WfError when there is none of that name."""
    file = find_config(kind, name)
    if file is None:
        one, known = kind.removesuffix("s"), known_configs(kind)
        raise WfError(
            f"there is no {one} `{shortened(name)}`", did_you_mean(name, known) or f"{kind}: {listing(known)}"
        )
    return read_yaml(file)[0]
