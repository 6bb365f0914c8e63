"""The pictures of a run that report.html embeds: single ones, and series with one picture per step."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from workflow.formatting import size

MOST_PICTURES = 6
LARGEST_BYTES = 1_500_000  # a larger picture is named, not embedded
MOST_OF_SERIES = 60
LARGEST_SERIES_BYTES = 6_000_000
_NUMBERED = re.compile(r"(.*?)(\d+)")


class Picture(NamedTuple):
    """One picture; `png` is the file as base64, empty where it is too large."""

    name: str
    size: str
    png: str


class PictureSeries(NamedTuple):
    """Pictures of steps in one folder, in their order; `found`: how many there are in the run."""

    name: str
    pictures: list[Picture]
    found: int


class ReportPictures(NamedTuple):
    """All that report.html shows; `found`: how many single pictures there are in the run."""

    single: list[Picture]
    found: int
    series: list[PictureSeries]


def embed_pictures(run_dir: Path) -> ReportPictures:
    """The chosen pictures below pictures/."""
    found = sorted(path for path in (run_dir / "pictures").rglob("*.png") if path.is_file())
    numbered = find_series(found)
    in_series = {path for paths in numbered.values() for path in paths}
    single = [path for path in found if path not in in_series]
    chosen = choose_pictures(single)
    series = [
        PictureSeries(
            f"{key.relative_to(run_dir).as_posix()}…",
            [_embedded(path, run_dir) for path in choose_of_series(paths)],
            len(paths),
        )
        for key, paths in numbered.items()
    ]
    return ReportPictures([_embedded(path, run_dir) for path in chosen], len(single), series)


def find_series(found: Sequence[Path]) -> dict[Path, list[Path]]:
    """Pictures of one folder whose names differ in the number at their end: their beginning → two files or more."""
    series: dict[Path, list[Path]] = {}
    for path in found:
        if (match := _NUMBERED.fullmatch(path.stem)) is not None:
            series.setdefault(path.with_name(match[1]) if match[1] else path.parent, []).append(path)
    return {key: sorted(paths, key=number_of) for key, paths in series.items() if len(paths) > 1}


def number_of(path: Path) -> int:
    """The number at the end of a name: that of the step."""
    match = _NUMBERED.fullmatch(path.stem)
    return int(match[2]) if match is not None else 0


def choose_pictures(found: Sequence[Path]) -> list[Path]:
    """At most six, summaries first, the others evenly spread."""
    summaries = [path for path in found if "summary" in path.stem][:MOST_PICTURES]
    others = [path for path in found if path not in summaries]
    return summaries + _spread(others, MOST_PICTURES - len(summaries))


def choose_of_series(paths: Sequence[Path]) -> list[Path]:
    """Evenly spread ones, as many as the page can hold."""
    most = MOST_OF_SERIES
    while most > 2 and sum(path.stat().st_size for path in _spread(paths, most)) > LARGEST_SERIES_BYTES:
        most = most * 4 // 5
    return _spread(paths, most)


def _spread(paths: Sequence[Path], most: int) -> list[Path]:
    room = min(most, len(paths))
    places = {round(index * (len(paths) - 1) / max(1, room - 1)) for index in range(room)}
    return [paths[index] for index in sorted(places)]


def _embedded(path: Path, run_dir: Path) -> Picture:
    data = path.read_bytes()
    png = base64.b64encode(data).decode("ascii") if len(data) <= LARGEST_BYTES else ""
    return Picture(path.relative_to(run_dir).as_posix(), size(len(data)), png)
