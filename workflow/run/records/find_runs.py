"""Which run is meant: by a path, by its name below `runs/` or a part of it that no other run has, or as the newest. The
same for all verbs; those that end or remove a run take no part of a name.

Runs with a directory of their own (`--run-dir`) are found by a file of hints below the user's state directory: a line
for each, with its directory, and the folder in which it was started. A run does not depend on it: if it cannot be
written, it is left as it is; what it names is checked before it is used, and it may be removed at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Iterable
from pathlib import Path

from workflow.errors import RunError
from workflow.formats.json_lines import read_json_lines
from workflow.own_process import set_home
from workflow.replace_file import replace_file
from workflow.run.chain import NextPart, read_next_part
from workflow.run.part_record import PART_FILE, PartRecord, read_part
from workflow.run.records.job_record import read_job
from workflow.run.records.run_directory import LATEST, PLAN_FILE, RUNS, has_started
from workflow.spec.suggest import nearest_name, shortened
from workflow.spec.user_paths import exists

# Runs of a pipeline are called NAME-TIME-ID: all are alike, and only a slip of the keyboard is a reason to suggest one.
ALIKE = 0.9
# Of the runs that a message lists.
SHOWN = 5
# A directory that is written is started, or its job submitted, at once: within this time also on a slow file system.
START_S = 20.0
# Of the file of hints: then the older half of its lines goes, and about a thousand runs are left.
MOST_BYTES = 256 * 1024


def known_runs() -> list[str]:
    """Names of the runs below `runs/`, the oldest first."""
    # What is left of a removed run has a name with a dot.
    found = [plan.parent for plan in Path(RUNS).glob(f"*/{PLAN_FILE}")]
    return [run.name for run in _by_age(run for run in found if run.name != LATEST and not run.name.startswith("."))]


def listed_runs(everywhere: bool = False) -> list[Path]:
    """The runs below `runs/`, and those of `--run-dir` that were started in this folder, the oldest first. With
    `everywhere` also those of `--run-dir` that were started elsewhere."""
    here = Path(RUNS).resolve()
    noted = noted_runs(None if everywhere else Path.cwd())
    return _by_age([*(Path(RUNS) / name for name in known_runs()), *(run for run in noted if run.parent != here)])


def _by_age(runs: Iterable[Path]) -> list[Path]:
    """The oldest first. A run that is being removed may go at any moment."""
    found = []
    for run in runs:
        with contextlib.suppress(OSError):
            found.append(((run / PLAN_FILE).stat().st_mtime, run))
    return [run for _, run in sorted(found)]


def find_run(run: str | os.PathLike[str] | None = None) -> Path:
    """The directory of a run: the one given, by path or by its name below `runs/`, or the newest (`latest`).

    Of a name its beginning, or its parts after a `-`, are enough where they are those of one run only. Raises RunError
    when there is none, or more than one.
    """
    latest = Path(RUNS) / LATEST
    name = LATEST if run is None else os.fspath(run)
    # Below `runs/` first; inside that folder `latest` is the link itself.
    found = latest if name == LATEST and exists(latest / PLAN_FILE) else _directory_of(name)
    if found is not None:
        return found.resolve()
    known = known_runs()
    if name == LATEST and known and not latest.is_symlink():  # a file system without symbolic links
        return (Path(RUNS) / known[-1]).resolve()
    if name == LATEST:
        raise RunError(f"no run here: there is no {latest}", _other_runs("", known))
    if exists(Path(name)):
        text = f"{name} is not a run directory: it has no {PLAN_FILE}"
        raise RunError(text, _other_runs(name, known))
    meant = _meant_by(name, known)
    if len(meant) == 1:
        return (Path(RUNS) / meant[0]).resolve()
    if meant:
        newest = ", ".join(reversed(meant[-SHOWN:])) + (", …" if len(meant) > SHOWN else "")
        raise RunError(f"`{shortened(name)}` fits {len(meant)} runs", f"type more of the name: {newest}")
    raise RunError(f"there is no run `{shortened(name)}`", _other_runs(name, known))


def find_whole_run(run: str | os.PathLike[str] | None = None) -> Path:
    """The same for what cannot be undone: a part of a name does not do, because it may become that of another run.

    A script that names a run which has been removed meanwhile would hit the next one whose name begins so.
    """
    given = "" if run is None else os.fspath(run)
    if (whole := full_name(given)) != given:
        raise RunError(f"`{shortened(given)}` is a part of the name of a run", f"type the whole name: {whole}")
    return find_run(run)


def full_name(run: str) -> str:
    """The name below `runs/` of which a part was given; what was given, where it is that of no run, or of several."""
    meant = [] if is_run(run) or exists(Path(run)) else _meant_by(run, known_runs())
    return meant[0] if len(meant) == 1 else run


def is_run(name: str) -> bool:
    """Whether this names a run."""
    return _directory_of(name) is not None


def typed_name(run_dir: Path) -> str:
    """A run as one types it in this folder, for a shell: its name below `runs/`, elsewhere its path."""
    own = run_dir.resolve()
    return shlex.quote(own.name if own.parent == Path(RUNS).resolve() else str(run_dir))


def _directory_of(run: str) -> Path | None:
    return next((each for each in (Path(run), Path(RUNS) / run) if exists(each / PLAN_FILE)), None)


def _meant_by(name: str, known: list[str]) -> list[str]:
    """The runs whose names begin so, or end so after a `-`: NAME-TIME-ID."""
    return [run for run in known if name and (run.startswith(name) or run.endswith(f"-{name}"))]


def _other_runs(name: str, known: list[str]) -> str:
    """The run that was probably meant, or the newest ones. The name of a pipeline means its newest run."""
    if not known:
        return "start one: wf run PIPELINE"
    last = Path(name).name
    of_pipeline = [run for run in known if last and run.startswith(f"{last}-")]
    meant = of_pipeline[-1] if of_pipeline else nearest_name(last, known, ALIKE) or nearest_name(last, [LATEST])
    return f"did you mean `{meant}`?" if meant else f"the newest runs here: {', '.join(reversed(known[-SHOWN:]))}"


def following_part(run_dir: Path) -> Path | None:
    """The run that goes on with this one, of those in the same folder: the newest, where there are several."""
    return next((path for path, record in reversed(linking_runs(run_dir)) if record.number > 1), None)


def known_next_part(run_dir: Path) -> NextPart | None:
    """What has become of the next part of a run, as far as it is certain: one that was made by hand counts before what
    its job has said. None: nothing is known of any."""
    record, following = read_next_part(run_dir), following_part(run_dir)
    said = record if record is not None and record.is_settled else None
    if following is not None and (said is None or Path(said.run).name != following.name):
        return NextPart("submitted", str(following))
    return said


def following_parts(run_dirs: Iterable[Path]) -> dict[Path, Path]:
    """Run, as a resolved path → the run that goes on with it, of all in the folders of these runs. Each folder is read
    once."""
    folders = dict.fromkeys(run_dir.resolve().parent for run_dir in run_dirs)
    links = [link for folder in folders for link in _links_in(folder)]
    return {Path(record.run).resolve(): path for path, record in links if record.number > 1}


def linking_runs(run_dir: Path) -> list[tuple[Path, PartRecord]]:
    """The runs in the same folder that have links to files of this one, the newest last; not those that nobody will
    start."""
    own = run_dir.resolve()
    return [(path, record) for path, record in _links_in(run_dir.parent) if Path(record.run).resolve() == own]


def _links_in(folder: Path) -> list[tuple[Path, PartRecord]]:
    """The runs in a folder that have links to files of another one, the newest last; not those that nobody will
    start."""
    found = []
    for path in sorted(folder.glob(f"*/{PART_FILE}"), key=lambda path: path.stat().st_mtime):
        record = read_part(path.parent)
        if record is not None and not path.parent.is_symlink() and not is_abandoned(path.parent):
            found.append((path.parent, record))
    return found


def newest_part(run_dir: Path) -> Path:
    """The last of the parts that go on with this run, which may be one itself; the run itself where there is none."""
    newest, seen = run_dir.resolve(), set[Path]()
    while is_abandoned(newest) and (record := read_part(newest)) is not None and record.number > 1:
        newest = Path(record.run).resolve()
    while newest not in seen and (following := following_part(newest)) is not None:
        seen.add(newest)
        newest = following.resolve()
    return newest


def is_abandoned(run_dir: Path) -> bool:
    """Whether nobody will start this run: the process that has made its directory died before it had started the run or
    submitted its job."""
    plan = run_dir / PLAN_FILE  # written last
    if has_started(run_dir) or read_job(run_dir) is not None:
        return False
    try:
        return time.time() - plan.stat().st_mtime > START_S
    except FileNotFoundError:
        return True
    except OSError:
        return False


def state_dir() -> Path:
    """`$XDG_STATE_HOME/wf`, by default below `~/.local/state`."""
    return Path(os.environ.get("XDG_STATE_HOME") or f"{set_home()}/.local/state", "wf")


def index_file() -> Path:
    """The file of hints."""
    return state_dir() / "runs.jsonl"


def note_run(directory: Path) -> None:
    """Add a run, whose directory is absolute. A home that cannot be written is no reason to say anything."""
    index = index_file()
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
    found: dict[Path, None] = {}
    for record in read_json_lines(index_file()).records:
        run, folder = record.get("run"), record.get("from")
        if isinstance(run, str) and run.startswith("/") and (started_in is None or folder == str(started_in)):
            found[Path(run)] = None
    return [run for run in found if exists(run / PLAN_FILE)]
