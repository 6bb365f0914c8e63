"""The states that a stage keeps between its steps, so that a later attempt goes on from one: `stages/NAME/state/`.

Of each state every rank writes a file of its own. Then rank 0 writes the record, a small JSON file: a state without one
is none. It says how many steps of each stream were read and written when the state was saved, and which files belong to
it. The stage writes these, the supervisor decides by them at which step an attempt begins. Standard library only.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from workflow.formats.read_json import read_json
from workflow.replace_file import replace_file

STATE_DIR = "state"
# Values that all attempts of a stage share, and all parts of a run from where they go on.
ONCE_FILE = "once.json"
# Of a stage that merges the streams of members: whose steps it has sent, in order (`workflow.stage.api.members`).
ORDER_FILE = "order.jsonl"
STATE_VERSION = 1
VERSION_KEY = "state_version"
# Of larger states only the sizes of the files are looked at before the attempt; it checks what it reads itself.
CHECKED_BYTES = 1 << 30
_CHUNK = 1 << 20


@dataclass(frozen=True)
class StateFile:
    """What one rank has saved."""

    name: str
    bytes: int
    crc32: int


@dataclass(frozen=True)
class KeptState:
    """One saved state. `number` counts on from state to state, over all attempts.

    `steps`: stream → how many of its steps belong to this state, read or written.
    """

    number: int
    steps: Mapping[str, int]
    files: Sequence[StateFile]


def record_path(folder: Path, number: int) -> Path:
    """The record of a state."""
    return folder / f"{number:08d}.json"


def rank_path(folder: Path, number: int, rank: int) -> Path:
    """The file of a rank."""
    return folder / f"{number:08d}.{rank}.npz"


def write_record(folder: Path, state: KeptState) -> None:
    """Write the record: from now on the state counts. Raises OSError."""
    data = {VERSION_KEY: STATE_VERSION, **asdict(state)}
    replace_file(record_path(folder, state.number), json.dumps(data).encode())


def read_states(folder: Path) -> list[KeptState]:
    """All whose records can be read, the newest first."""
    found = (_read_record(path) for path in sorted(folder.glob("*.json"), reverse=True))
    return [state for state in found if state is not None]


def whole_states(folder: Path, streams: Collection[str], ranks: int) -> Iterator[KeptState]:
    """The states from which a stage with these streams and ranks can go on, the newest first."""
    for state in read_states(folder):
        if state.steps.keys() == {*streams} and len(state.files) == ranks and is_whole(folder, state):
            yield state


def is_whole(folder: Path, state: KeptState) -> bool:
    """Whether all files of a state are there as they were written."""
    try:
        if any((folder / each.name).stat().st_size != each.bytes for each in state.files):
            return False
        small = sum(each.bytes for each in state.files) <= CHECKED_BYTES
        return not small or all(checksum(folder / each.name) == each.crc32 for each in state.files)
    except OSError:
        return False


def checksum(path: Path) -> int:
    """The CRC-32 of a file. Raises OSError."""
    found = 0
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            found = zlib.crc32(data, found)
    return found


def link_state(record: Path, folder: Path) -> None:
    """Put a state, by its record, into another folder as well, without a copy where the file system can.

    Raises OSError, and ValueError where the record is damaged.
    """
    state = _read_record(record)
    if state is None:
        raise ValueError(f"{record} is damaged")
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*(each.name for each in state.files), record.name]:
        try:
            os.link(record.parent / name, folder / name)
        except OSError:
            import shutil  # every rank of a stage imports this module

            shutil.copyfile(record.parent / name, folder / name)


def remove_state(folder: Path, state: KeptState) -> None:
    """Remove a state, its record first: files without one mean nothing."""
    for path in (record_path(folder, state.number), *(folder / each.name for each in state.files)):
        path.unlink(missing_ok=True)


def _read_record(path: Path) -> KeptState | None:
    """The state of a record; None where it is damaged, or of another version."""
    try:
        data = read_json(path.read_bytes())
        if not isinstance(data, dict) or data.get(VERSION_KEY) != STATE_VERSION:
            return None
        steps = {str(stream): int(count) for stream, count in data["steps"].items()}
        files = [StateFile(Path(each["name"]).name, int(each["bytes"]), int(each["crc32"])) for each in data["files"]]
        return KeptState(int(data["number"]), steps, files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
