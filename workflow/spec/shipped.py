"""The location of the data that comes with `wf`: components, configs and examples.

In a checkout they are at the top of the repository, because users copy from them; an installed `wf`
has them in `workflow/shipped`.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from workflow.errors import WfError
from workflow.own_process import set_home
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.user_paths import exists, is_file
from workflow.spec.yaml_tree.node import Node
from workflow.spec.yaml_tree.parse import read_yaml

_PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = _PACKAGE / "shipped"
SHIPPED = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent

# Searched in this order. Tests put their own folders in front.
COMPONENT_DIRS: list[Path] = [SHIPPED / "components"]
EXAMPLES_DIR = SHIPPED / "examples"


def known_examples() -> dict[str, str]:
    """Name → title of the shipped examples, sorted. The title is the first heading of their README."""
    folders = sorted(file.parent for file in EXAMPLES_DIR.glob("*/pipeline.yaml"))
    return {folder.name: _title(folder / "README.md") for folder in folders}


def _title(readme: Path) -> str:
    first = readme.read_text(encoding="utf-8").partition("\n")[0] if readme.is_file() else ""
    return re.sub(r"^[#\s]*(\d+: )?", "", first).strip()


def without_outer_links(text: str) -> str:
    """Markdown in which links that leave the folder are their text alone: outside of the checkout they lead nowhere."""
    return re.sub(r"(?<!!)\[([^\]]*)\]\(\.\./[^)]*\)", r"\1", text)


def copy_example(name: str, directory: Path) -> Path:
    """Copies an example into a new directory and returns its pipeline file.

    Raises:
        WfError: no such example; or the directory exists and is not empty.
    """
    known = known_examples()
    if name not in known:
        raise WfError(
            f"there is no example `{shortened(name)}`", did_you_mean(name, known) or f"examples: {listing(known)}"
        )
    left_out = shutil.ignore_patterns("runs", "__pycache__", "build")
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise WfError(f"{directory} exists and is not empty", "name a new directory")
        shutil.copytree(EXAMPLES_DIR / name, directory, dirs_exist_ok=True, ignore=left_out)
        readme = directory / "README.md"
        if readme.is_file():
            readme.write_text(without_outer_links(readme.read_text(encoding="utf-8")), encoding="utf-8")
    except OSError as error:
        message = f"cannot write {shortened(str(directory), 200)}: {error.strerror or error}"
        raise WfError(message, "name a directory that you can write to") from None
    return directory / "pipeline.yaml"


# The files of `configs/`: engines and sites. `$WF_CONFIGS` comes first, then `~/.config/wf`, then the shipped ones.


def config_dirs(kind: str) -> list[Path]:
    """Folders with `engines` or `sites` files, the strongest first: `$WF_CONFIGS`, the user's, then the shipped ones.

    Raises WfError when `WF_CONFIGS` names no folder. The user's is `$XDG_CONFIG_HOME/wf`, by default `~/.config/wf`.
    """
    named = [Path(own).expanduser()] if (own := os.environ.get("WF_CONFIGS")) else []
    for folder in named:
        if not exists(folder):
            raise WfError(f"WF_CONFIGS={folder}: there is no such folder", "create it, or unset the variable")
    users = os.environ.get("XDG_CONFIG_HOME") or f"{set_home()}/.config"
    return [folder / kind for folder in (*named, Path(users, "wf"), SHIPPED / "configs")]


def is_path(name: str) -> bool:
    """Whether a user who wrote this means a file, not one of the folders' names."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def find_configs(kind: str, name: str, base: Path | None = None) -> list[Path]:
    """The files that describe an engine or a site, the strongest first; the user's own shadows a shipped one.

    `SST` also finds `sst.yaml`: ADIOS2 writes the names of its engines in capitals. With `base` the name may be a path,
    relative to that folder.
    """
    if base is not None and is_path(name):
        return [base / name] if is_file(base / name) else []
    files = (folder / f"{each}.yaml" for each in dict.fromkeys((name, name.lower())) for folder in config_dirs(kind))
    return [file for file in files if is_file(file)]


def find_config(kind: str, name: str, base: Path | None = None) -> Path | None:
    """The file that describes an engine or a site, the first of `find_configs`; None where there is none."""
    return next(iter(find_configs(kind, name, base)), None)


def known_configs(kind: str) -> list[str]:
    """Names of all engines or sites, sorted."""
    return sorted({file.stem for folder in config_dirs(kind) for file in folder.glob("*.yaml")})


def read_config(kind: str, name: str, base: Path | None = None) -> Node:
    """The tree of an engine's or a site's file, found as `find_config` does. Raises WfError when there is none."""
    file = find_config(kind, name, base)
    if file is None:
        raise no_config(kind, name)
    return read_yaml(file)[0]


def no_config(kind: str, name: str) -> WfError:
    """There is no engine or site of that name."""
    one, known = kind.removesuffix("s"), known_configs(kind)
    return WfError(f"there is no {one} `{shortened(name)}`", did_you_mean(name, known) or f"{kind}: {listing(known)}")
