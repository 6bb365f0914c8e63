"""Where runs with a directory of their own (`--run-dir`) are: a file of hints below the user's state directory.

A line for each such run: its directory, and the folder in which it was started. A run does not depend on it: if it
cannot be written, it is left as it is; what it names is checked before it is used, and it may be removed at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from workflow.formats.json_lines import read_json_lines
from workflow.replace_file import replace_file
from workflow.run.run_directory import PLAN_FILE
from workflow.spec.user_paths import exists

# Then the older half of the lines goes: about a thousand runs are left.
MOST_BYTES = 256 * 1024


def state_dir() -> Path | None:
    """`$XDG_STATE_HOME/wf`, by default below `~/.local/state`; None without a home."""
    home = os.environ.get("HOME", "")
    state = os.environ.get("XDG_STATE_HOME") or (f"{home}/.local/state" if home else "")
    return Path(state, "wf") if state else None


def index_file() -> Path | None:
    """The file of hints; None without a home."""
    state = state_dir()
    return state / "runs.jsonl" if state else None


def note_run(directory: Path) -> None:
    """Add a run, whose directory is absolute. A home that cannot be written is no reason to say anything."""
    index = index_file()
    if index is None:
        return
    with contextlib.suppress(OSError):
        line = json.dumps({"run": str(directory), "from": str(Path.cwd())})
        index.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # In one piece at the end of the file: several writers leave whole lines.
        with index.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())
            size = file.tell()
        if size > MOST_BYTES:
            lines = index.read_bytes().splitlines(keepends=True)
            replace_file(index, b"".join(lines[len(lines) // 2 :]))


def noted_runs(started_in: Path | None = None) -> list[Path]:
    """Directories of runs that are there now, each once; with `started_in` those that were started in this folder."""
    index = index_file()
    found: dict[Path, None] = {}
    for record in read_json_lines(index).records if index is not None else ():
        run, folder = record.get("run"), record.get("from")
        if isinstance(run, str) and run.startswith("/") and (started_in is None or folder == str(started_in)):
            found[Path(run)] = None
    return [run for run in found if exists(run / PLAN_FILE)]
