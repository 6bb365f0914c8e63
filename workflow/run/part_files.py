"""The files of a run that goes on with an earlier one: what each part holds of a stream, and all of it as one file.

A part writes only the steps that follow. When its writer has ended, the file is moved to `.pieces/`, and a file that
joins the steps of all parts takes its place: its data are links. Earlier parts stay as they are.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from workflow.formats import bp5_metadata
from workflow.formats.bp_index import is_blank
from workflow.formats.joined_bp import BpPiece, is_joined, join_bp5
from workflow.formats.kept_state import ONCE_FILE, ORDER_FILE, STATE_DIR, link_state
from workflow.plan.placeholders import checkpoint_path, earlier_file, stage_dir
from workflow.plan.plan_model import RUN_DIR, EndPlan, PartPlan, PiecePlan, Plan
from workflow.run.part_record import PartRecord, read_part

# Hidden: what is in it is seen through the files that join the parts.
PIECES = ".pieces"
# What a component calls a file until its stream has ended.
PARTIAL = ".partial"


def own_file(run_dir: Path, name: str) -> Path | None:
    """What this part has written of a file, wherever it is by now; None: nothing. `name` is relative to the run."""
    places = [run_dir / PIECES / name, run_dir / name, run_dir / f"{name}{PARTIAL}"]
    return next((path for path in places if (path / "md.idx").exists() and not is_joined(path)), None)


def whole_steps(path: Path | None) -> int:
    """The steps of a BP5 file that can be read; 0 where there is none."""
    if path is None or is_blank(path / "md.idx"):
        return 0
    try:
        return bp5_metadata.whole_steps(path)
    except (OSError, ValueError, struct.error):
        return 0


def pieces_of(run_dir: Path, plan: Plan, name: str) -> list[PiecePlan]:
    """What a run and the parts before it hold of a file, in the order of its steps."""
    earlier = [] if plan.part is None else plan.part.pieces.get(name, [])
    own = own_file(run_dir, name)
    steps = whole_steps(own)
    return [*earlier, PiecePlan(path=str(own), steps=steps)] if steps else list(earlier)


def first_pieces(pieces: Iterable[PiecePlan], steps: int) -> list[PiecePlan]:
    """What holds the first steps. Pure."""
    found = []
    for piece in pieces:
        taken = min(piece.steps, steps)
        if taken > 0:
            found.append(piece.model_copy(update={"steps": taken}))
        steps -= taken
    return found


def in_run(path: str) -> str:
    """The path relative to the run directory, of one in a plan whose run directory is not filled in."""
    return path.removeprefix(f"{RUN_DIR}/")


def parts_before(part: PartPlan) -> Iterator[Path]:
    """The directories of the parts before this one, the newest first; not that of a run that was only re-used."""
    record: PartRecord | None = PartRecord(part.number, part.run)
    while record is not None and record.number > 1:
        yield Path(record.run)
        record = read_part(Path(record.run))


def link_states(run_dir: Path, plan: Plan, part: PartPlan) -> None:
    """Put what the stages go on with where they look for it: the state that each had saved, and the values that all
    parts share. Raises OSError, ValueError."""
    for name, saved in part.states.items():
        folder, checkpoint = run_dir / in_run(stage_dir(name)), plan.stage(name).checkpoint
        if checkpoint is not None and checkpoint.files:
            (run_dir / in_run(checkpoint_path(name, checkpoint.files))).symlink_to(saved)
        else:
            link_state(Path(saved), folder / STATE_DIR)
    for stage in plan.stages:
        for name in (ONCE_FILE, ORDER_FILE):
            place = Path(in_run(stage_dir(stage.name)), name)
            shared = next((path for each in parts_before(part) if (path := each / place).exists()), None)
            # What others have read of it stays in this order, also where it begins with its first step.
            goes_on = name == ORDER_FILE or any(end.first_step for end in stage.ends)
            if shared is not None and stage.name not in part.finished and goes_on:
                shutil.copyfile(shared, run_dir / place)


def link_reused(run_dir: Path, part: PartPlan) -> None:
    """Put links in the places of the other files of stages that are re-used. Raises OSError."""
    for name, path in part.linked.items():
        place = run_dir / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(place):
            # The folder of both runs may be moved.
            place.symlink_to(os.path.relpath(path, place.parent))


def join_earlier(run_dir: Path, plan: Plan, part: PartPlan) -> None:
    """Join what earlier parts hold of the files that stages read on from, or may read from when they are started again.

    Raises OSError, ValueError.
    """
    wanted = {end.earlier for stage in plan.stages for end in stage.ends if end.earlier}
    spools = {stream.spool for stream in plan.streams}
    for stage in plan.stages:
        for end in stage.ends:
            earlier = earlier_file(end.path)
            if end.side == "write" and end.before and (earlier in wanted or end.stream in spools):
                target = run_dir / in_run(earlier)
                target.parent.mkdir(parents=True, exist_ok=True)
                pieces = [BpPiece(Path(each.path), each.steps) for each in part.pieces[in_run(end.path)]]
                join_bp5(pieces, target, run_dir.parent)


def join_files(run_dir: Path, pieces: Mapping[str, Sequence[PiecePlan]], names: Collection[str] | None = None) -> None:
    """Put files that join all parts in the places of these files, by default of all; those that are joined stay.

    Raises OSError, ValueError, of the first file that cannot be joined, when all others are.
    """
    problems = list[OSError | ValueError]()
    for name in pieces if names is None else names:
        target, moved = run_dir / name, run_dir / PIECES / name
        if is_joined(target) or (run_dir / f"{name}{PARTIAL}").exists():
            continue
        if target.exists():
            moved.parent.mkdir(parents=True, exist_ok=True)
            target.rename(moved)
        own = [BpPiece(moved)] if moved.exists() else []
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            join_bp5([*(BpPiece(Path(each.path), each.steps) for each in pieces[name]), *own], target, run_dir.parent)
        except (OSError, ValueError) as error:
            if own:
                moved.rename(target)
            problems.append(error)
    if problems:
        raise problems[0]


def joined_inputs(plan_ends: Iterable[EndPlan], run_dir: Path, pieces: Collection[str]) -> list[str]:
    """The files, relative to the run directory, that a stage reads from their first step on."""
    found = []
    for end in plan_ends:
        name = os.path.relpath(end.path, run_dir)
        if end.side == "read" and not end.before and name in pieces:
            found.append(name)
    return found
