"""The pictures of a run that report.html embeds."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

from workflow.formatting import size

MOST_PICTURES = 6
LARGEST_BYTES = 1_500_000  # a larger picture is named, not embedded


class Picture(NamedTuple):
    """One picture; `png` is the file as base64, empty where it is too large."""

    name: str
    size: str
    png: str


def embed_pictures(run_dir: Path) -> tuple[list[Picture], int]:
    """The chosen pictures below pictures/, and how many there are."""
    chosen, count = choose_pictures(run_dir)
    pictures = []
    for path in chosen:
        data = path.read_bytes()
        png = base64.b64encode(data).decode("ascii") if len(data) <= LARGEST_BYTES else ""
        pictures.append(Picture(path.relative_to(run_dir).as_posix(), size(len(data)), png))
    return pictures, count


def choose_pictures(run_dir: Path) -> tuple[list[Path], int]:
    """At most six PNG files below pictures/, summaries first, the others evenly spread; and how many there are."""
    found = sorted(path for path in (run_dir / "pictures").rglob("*.png") if path.is_file())
    summaries = [path for path in found if "summary" in path.stem][:MOST_PICTURES]
    others = [path for path in found if path not in summaries]
    room = min(MOST_PICTURES - len(summaries), len(others))
    spread = {round(index * (len(others) - 1) / max(1, room - 1)) for index in range(room)}
    return summaries + [others[index] for index in sorted(spread)], len(found)
