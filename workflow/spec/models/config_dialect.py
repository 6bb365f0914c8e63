"""Dialects: the formats in which wf passes engines to programs of the user, and the file names that imply them."""

from __future__ import annotations

from typing import Literal

Dialect = Literal["adios2.xml", "adios2.yaml", "openpmd.json", "openpmd.toml", "env", "warpx", "picongpu"]
# By the end of a config file's name. ADIOS2 has no JSON and no TOML, so these can only be openPMD's.
ENDINGS: dict[str, Dialect] = {
    ".xml": "adios2.xml",
    ".yaml": "adios2.yaml",
    ".yml": "adios2.yaml",
    ".json": "openpmd.json",
    ".toml": "openpmd.toml",
}
OPENPMD: frozenset[Dialect] = frozenset({"openpmd.json", "openpmd.toml", "env", "warpx", "picongpu"})
# What these programs write they cannot read back, or not as a stream.
WRITE_ONLY: frozenset[Dialect] = frozenset({"warpx", "picongpu"})
NAMELESS: frozenset[Dialect] = OPENPMD - {"warpx"}  # openPMD gives its ADIOS2 ios names of its own


def dialect_of(config: str) -> Dialect | None:
    """The dialect that the name of a `config:` implies; None when it implies none."""
    if config == "env":
        return "env"
    return next((dialect for ending, dialect in ENDINGS.items() if config.endswith(ending)), None)


def endings_of(dialect: Dialect) -> list[str]:
    """The endings without which a library ignores a config file of this dialect, or misreads it; [] for any name."""
    return [] if dialect == "openpmd.json" else [ending for ending, each in ENDINGS.items() if each == dialect]
