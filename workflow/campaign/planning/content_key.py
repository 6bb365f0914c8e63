"""What a trial depends on, as one key: the same key means that running it again would measure the same thing.

Paths are left out: a campaign directory can be moved, and a second clone of the pipeline has the same keys.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflow.provenance.file_checksums import checksum
from workflow.provenance.installed_versions import PACKAGES, versions, versions_of_stages
from workflow.provenance.plan_files import ExaminedPlan, files_of
from workflow.spec.load import Loaded

KEY_LENGTH = 12
# Limits in time, as the texts for people and what is expected, which are not in `data`: they change no measured figure.
_LEFT_OUT = {"deadlines"}
# It says which of the parameters are files, for drawings.
_LEFT_OUT_OF_STAGES = {"file_parameters"}


def file_sums(examined: ExaminedPlan, loaded: Loaded) -> dict[Path, str]:
    """The programs, inputs and Python modules of a plan with their checksums."""
    # What the pipeline, the site and the description of a component say is in the plan.
    return {
        path: _sum(path)
        for path, role in files_of(examined, loaded).items()
        if role in ("program", "input") or path.suffix == ".py"
    }


def changed_file(files: Mapping[Path, str]) -> Path | None:
    """The first of these files that no longer has its checksum; None where all have.

    Files whose size and time are the same are not read again.
    """
    return next((path for path, known in files.items() if _sum(path) != known), None)


def content_key(examined: ExaminedPlan, loaded: Loaded, files: Mapping[Path, str]) -> str:
    """The key of a plan: its decisions without paths, its files (`file_sums`) by checksum, and versions.

    A file of the plan that does not exist counts by its name. Hexadecimal digits, `KEY_LENGTH` of them.
    """
    sums = {str(path): f"<{path.name} {known}>" for path, known in files.items()}
    kept = {name: part for name, part in examined.data.items() if name not in _LEFT_OUT}
    kept["stages"] = [
        {name: part for name, part in stage.items() if name not in _LEFT_OUT_OF_STAGES} for stage in kept["stages"]
    ]
    data = _without_places(kept, sums, _places(loaded))
    others = [each.versions for each in versions_of_stages(examined.programs)]
    whole = json.dumps([data, sorted(sums.values()), key_versions(), others], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:KEY_LENGTH]


def key_versions() -> dict[str, str]:
    """Of Python and what stages import. That of wf is in the plan; an update of the kernel changes no key."""
    return {name: version for name, version in versions().items() if name in ("python", "mpi", *PACKAGES)}


def _sum(path: Path) -> str:
    try:
        return checksum(path)
    except FileNotFoundError:
        return "missing"
    except OSError:  # it may be executed, but not read
        return "unreadable"


def _places(loaded: Loaded) -> list[tuple[str, str]]:
    """Folders of this machine → what stands for them, the deepest first."""
    components = {str(folder): f"<component {name}>" for name, folder in loaded.component_dirs.items()}
    places = {**components, str(loaded.path.parent): "<pipeline>", sys.executable: "<python>", sys.prefix: "<prefix>"}
    return sorted(places.items(), key=lambda item: -len(item[0]))


def _without_places(value: Any, sums: Mapping[str, str], places: list[tuple[str, str]]) -> Any:
    """JSON-like data in which files stand by their checksum, and folders by what they are."""
    if isinstance(value, dict):
        return {
            _without_places(key, sums, places) if "/" in key else key: _without_places(item, sums, places)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_places(item, sums, places) for item in value]
    if not isinstance(value, str) or "/" not in value:
        return value
    if value in sums:
        return sums[value]
    for place, name in places:
        value = value.replace(place, name)
    return value
