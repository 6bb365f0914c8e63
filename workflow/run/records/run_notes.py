"""Notes and tags that people put on a run: `notes.jsonl` in its directory, one line each.

They are a file of their own, because nothing is written to events.jsonl after the verdict, and a note may come at any
time, from any host.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from workflow.errors import RunError, WfError
from workflow.formats.json_lines import append_record, read_json_lines
from workflow.formatting import one_line, plural
from workflow.run.records.control_requests import requester

NOTES_FILE = "notes.jsonl"
LONGEST_TEXT = 10_000
_TAG = re.compile(r"[\w.:][\w.:-]{0,63}")


def _checked_tag(tag: str) -> str:
    if not _TAG.fullmatch(tag):
        raise ValueError("not a tag")
    return tag


class RunNote(BaseModel):
    """A line of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    t: float = Field(description="Unix seconds", allow_inf_nan=False)
    user: str = Field(description="`user@host`")
    text: str = Field("", description="empty where only tags were added")
    tags: list[Annotated[str, AfterValidator(_checked_tag)]] = Field([])


@dataclass(frozen=True)
class RunNotes:
    """The notes of a run in order, and how many lines of its file could not be read."""

    notes: list[RunNote] = field(default_factory=list)
    unreadable: int = 0

    @property
    def tags(self) -> list[str]:
        """All tags, each once, in the order in which they were added."""
        return list(dict.fromkeys(tag for note in self.notes for tag in note.tags))

    @property
    def with_text(self) -> list[RunNote]:
        """Those that say something."""
        return [note for note in self.notes if note.text]

    @property
    def damage(self) -> list[str]:
        """What to tell the reader of a damaged file; [] of a whole one."""
        lines = plural(self.unreadable, "line")
        return [f"{NOTES_FILE} is damaged: {lines} could not be read"] if self.unreadable else []


def read_notes(run_dir: Path) -> RunNotes:
    """The notes of a run; a missing file holds none."""
    found = read_json_lines(run_dir / NOTES_FILE)
    notes, unreadable = [], found.unreadable
    for record in found.records:
        try:
            note = RunNote.model_validate(record)
        except ValidationError:
            unreadable += 1
        else:
            # Several people may write the file: what they write does not steer a terminal.
            notes.append(note.model_copy(update={"text": one_line(note.text), "user": one_line(note.user)}))
    return RunNotes(notes, unreadable)


def add_note(run_dir: Path, text: str = "", tags: Sequence[str] = ()) -> None:
    """Append a note. Raises WfError for a bad tag or text, and RunError where the file cannot be written."""
    if len(text) > LONGEST_TEXT:
        raise WfError(
            f"a note has at most {LONGEST_TEXT:,} characters, got {len(text):,}",
            "put long texts into a file, and name it in the note",
        )
    note = RunNote(t=time.time(), user=requester(), text=one_line(text), tags=check_tags(tags))
    path = run_dir / NOTES_FILE
    try:
        append_record(path, note.model_dump())
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}", "ask the owner of the run to add the note") from error


def check_tags(tags: Iterable[str]) -> list[str]:
    """The tags, each once. Raises WfError for one that is none."""
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise WfError(
                f"`{one_line(tag)[:80]}` is not a tag",
                "a tag is one word of at most 64 letters, digits and . _ : -, and does not begin with -",
            )
    return list(dict.fromkeys(tags))
