"""The location of the data that comes with `wf`: components, configs and examples.

In a checkout they are at the top of the repository, because users copy from them; an installed `wf`
has them in `workflow/shipped`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from workflow.errors import WfError
from workflow.spec.suggest import did_you_mean, listing, shortened

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
        raise WfError(message, "name a directory that you may write") from None
    return directory / "pipeline.yaml"
