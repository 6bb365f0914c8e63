"""What goes into an archive, under which names, and what is left out. Data, without effects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

METADATA_FILE = "ro-crate-metadata.json"
README_FILE = "README.md"
SOURCE = "source"
CONFIGS = "configs"
RECORDS = "records"
DEFAULT_LARGEST = 100 << 20


@dataclass(frozen=True)
class ArchivedFile:
    """A file of the archive: `name` in it, with slashes; `sha256` is filled when it has been read."""

    name: str
    path: Path
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A file that the archive does not hold, and why. `size` in bytes, None where there is no such file."""

    path: str
    size: int | None
    why: str


@dataclass(frozen=True)
class SourceFiles:
    """The files that a run is started from, in the archive."""

    pipeline: str
    """Name of the pipeline file in the archive."""
    files: dict[str, Path]
    """Name in the archive → the file."""
    left_out: tuple[LeftOut, ...]
    absolute: tuple[tuple[str, str], ...]
    """(path, name in the archive) of files that the pipeline names by an absolute path."""
    campaign: str = ""
    """Name of the campaign file in the archive; empty for a run."""

    def moved(self, words: Iterable[str]) -> list[str]:
        """A command line in which files of the archive have their new names."""
        names = {str(path): name for name, path in self.files.items()}
        return [names.get(word, word) for word in words]


@dataclass
class ArchiveContents:
    """All of it, as it grows."""

    files: list[ArchivedFile] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Name → text that is made for the archive."""
    left_out: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def named(self, name: str) -> ArchivedFile | None:
        """The file of that name."""
        return next((each for each in self.files if each.name == name), None)
