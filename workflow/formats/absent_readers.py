"""Beside the contact file of a stream in shared memory: which readers will not come, so that its writer does not wait.

The supervisor writes it, on whatever node it is; `workflow.stage` reads it.
"""

from __future__ import annotations

from pathlib import Path

# What its name ends in.
ABSENT = ".absent"


def absent_file(contact: Path) -> Path:
    """Where it is noted."""
    return contact.with_name(contact.name + ABSENT)


def note_absent(contact: Path, reader: str) -> None:
    """Note that this stage will not open the stream. Raises OSError."""
    with absent_file(contact).open("a") as file:
        file.write(f"{reader}\n")


def absent_readers(contact: Path) -> set[str]:
    """The stages that will not open the stream."""
    try:
        return set(absent_file(contact).read_text().split("\n")[:-1])
    except OSError:
        return set()
