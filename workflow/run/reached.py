"""How far the stages of a run that has ended have come: by its files, and by those of the parts before it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workflow.errors import WfError
from workflow.formats.kept_state import STATE_DIR, record_path, whole_states
from workflow.plan.part_plan import why_anew
from workflow.plan.plan_model import RUN_DIR, CheckpointPlan, PiecePlan, Plan, StagePlan
from workflow.run.cut import Reached, SavedState
from workflow.run.part_files import in_run, parts_before, pieces_of
from workflow.run.records.run_directory import read_filled_plan, stage_dir
from workflow.run.restart_positions import Member, written_before
from workflow.run.state.run_state import RunState

# File, relative to the run directory → what the parts of the run hold of it, in the order of its steps.
Held = Mapping[str, Sequence[PiecePlan]]


def held_files(run_dir: Path, before: Plan, now: Plan) -> Held:
    """What a run and the parts before it hold of the files with which the next part can go on."""
    names = {name for stage in now.stages for name in kept_files(now, stage.name)}
    # What has lost its first steps, or was on a node, a later part does not see, whatever its own pipeline says; nor
    # what is on a node now.
    lost = [each for each in before.streams if each.spool and not each.has_whole_spool]
    short = {in_run(before.stream(each.spool).path) for each in lost}
    short |= {in_run(now.stream(each.spool).path) for each in now.streams if each.spool_where}
    return {name: [] if name in short else pieces_of(run_dir, before, name) for name in names}


def how_far(
    run_dir: Path, before: Plan, now: Plan, state: RunState, held: Held, unused: Mapping[str, Collection[str]]
) -> dict[str, Reached]:
    """Stage → how far it has come.

    Args:
        before: the plan of the run.
        now: that of the next part.
        state: the last one of the run.
        held: from `held_files`; `unused`: from `unused_states`.
    """
    found = {}
    for stage in now.stages:
        member = _member(stage, now, state, held)
        if why := _why_anew(stage, before, now):
            found[stage.name] = Reached(replace(member, states=[]), why)
        else:
            saved = _saved(run_dir, before, stage, member, unused.get(stage.name, ()))
            found[stage.name] = _reached(stage, state, member, saved)
    return found


def _member(stage: StagePlan, now: Plan, state: RunState, held: Held) -> Member:
    """What a stage has read, and what is kept of what it has written."""
    reads = {end.stream: end.steps for end in state.ends_of(stage.name) if end.side == "read"}
    kept, skipped = {}, state.skipped.get(stage.name, ())
    for name, every in kept_files(now, stage.name).items():
        whole = every * sum(piece.steps for piece in held[name])
        stream = written_streams(now, stage).get(name)
        # A step that is whole need not be done again, whether its end was noted or not. Of a file that holds one of
        # several, what was read since its last step is known by the notes only.
        noted = [written_before(n, skipped) for n in reads.values()]
        kept[stream or name] = whole if stream or every == 1 else min([whole, *noted])
    suppresses = stage.observed == "metrics"
    finished = min((end.steps for end in state.ends_of(stage.name)), default=0)
    return Member(stage.name, list(reads), _passed(stage, now), kept, finished, None, suppresses, skipped)


def _reached(stage: StagePlan, state: RunState, member: Member, saved: list[SavedState] | None) -> Reached:
    if saved is None and member.reads:
        why = _why_uneven(stage, state)
        return Reached(replace(member, states=[]), why) if why else Reached(member)
    newest = max(saved[0].steps.values(), default=0) if saved else 0
    why = f"had saved its state at step {newest}" if saved else "has saved no state"
    return Reached(replace(member, states=[each.steps for each in saved or ()]), why, saved or ())


def _why_uneven(stage: StagePlan, state: RunState) -> str:
    """Why a program of the user's own, which has no state, cannot go on: it does not write a step for each it reads."""
    ends = state.ends_of(stage.name) if stage.component is None else []
    read = max((end.steps for end in ends if end.side == "read"), default=0)
    for end in ends:
        if end.side == "write" and end.steps < written_before(read, state.skipped.get(stage.name, ())) - 1:
            return f"has written {end.steps} steps of {end.stream} for {read} that it read, and has no saved state"
    return ""


def _passed(stage: StagePlan, now: Plan) -> list[str]:
    """The streams whose readers get only what this stage sends from now on.

    Of a file that is read while it is written, a program that uses workflow.stage reads first what earlier parts hold.
    """
    streams = [now.stream(end.stream) for end in stage.ends if end.side == "write"]
    return [
        stream.name
        for stream in streams
        if not (stream.is_kept and all(now.stage(reader).observed == "metrics" for reader in stream.readers))
    ]


def _why_anew(stage: StagePlan, before: Plan, now: Plan) -> str:
    """Why a stage of the next part begins at its first step; "" where it need not. Pure."""
    if why := why_anew(stage, now):
        return why
    if sorted(stage.kept_files.values()) != sorted(before.stage(stage.name).kept_files.values()):
        return "writes every step, or one of several, and did not before"
    return ""


def written_streams(plan: Plan, stage: StagePlan) -> dict[str, str]:
    """File, relative to the run directory → the stream that a stage writes there. Pure."""
    return {in_run(plan.stream(end.stream).path): end.stream for end in stage.ends if end.side == "write"}


def kept_files(plan: Plan, stage: str) -> dict[str, int]:
    """File, relative to the run directory, that a stage writes and a later part can go on with → of how many steps it
    holds one. Pure."""
    found = {path: every for path, every in plan.stage(stage).kept_files.items() if path.startswith(RUN_DIR)}
    found |= {each.path: 1 for each in plan.streams if each.writer == stage and each.is_kept}
    return {in_run(path): every for path, every in found.items()}


def kept_streams(plan: Plan, state: RunState, held: Held) -> set[str]:
    """The streams all of whose steps can be read again: from their own file, or from that of their spool. Pure."""
    found = set()
    for stream in plan.streams:
        holder = plan.holder(stream)
        if holder.is_kept and (stream.has_whole_spool or not stream.spool):
            steps = sum(piece.steps for piece in held[in_run(holder.path)])
            if steps >= state.writer(stream.name).steps:
                found.add(stream.name)
    return found


def unused_states(plan: Plan, state: RunState) -> dict[str, list[str]]:
    """Stage → the states with which this part, or one before it, has failed before its first step. Pure."""
    if plan.part is None:
        return {}
    found = {name: list(paths) for name, paths in plan.part.unused.items()}
    for name, path in plan.part.states.items():
        first = {(end.stream, end.side): end.first_step for end in plan.stage(name).ends}
        came = any(end.steps > first[end.stream, end.side] for end in state.ends_of(name))
        if state.culprit == name and not came:
            found.setdefault(name, []).append(path)
    return found


def _saved(
    run_dir: Path, before: Plan, stage: StagePlan, member: Member, unused: Collection[str]
) -> list[SavedState] | None:
    """What a stage has saved in a run and the parts before it, the newest first; None: it has no state.

    `unused`: the files of those that are left out.
    """
    found, has_state = list[SavedState](), False
    begun: dict[str, int] = {}
    for folder, plan in _parts(run_dir, before):
        here = list[SavedState]()
        own = stage_dir(folder, stage.name) / STATE_DIR
        if own.exists():
            has_state = True
            here += _states(own, stage, member)
        # As it was written then: the file of the pipeline may have changed.
        then = plan.stage(stage.name)
        if then.checkpoint is not None and then.checkpoint.files:
            has_state = True
            here += _checkpoints(then.checkpoint, member)
        # What a part has saved after the step at which the next one began is of a past that did not happen.
        found += (each for each in here if _is_before(each, begun))
        begun = {end.stream: min(end.begin, begun.get(end.stream, end.begin)) for end in then.ends}
    if not has_state:
        return None
    known = {*map(_identity, unused)}
    usable = [each for each in found if _identity(each.path) not in known]
    return sorted(usable, key=lambda each: -max(each.steps.values(), default=0))


def _is_before(state: SavedState, begun: Mapping[str, int]) -> bool:
    """Whether a state is not after the steps at which the next part began."""
    return all(step <= begun[stream] for stream, step in state.steps.items() if stream in begun)


def _identity(path: str) -> str:
    """By which the same state is known in another part: its name, because it is linked there. A checkpoint stays."""
    return Path(path).name if Path(path).parent.name == STATE_DIR else path


def _parts(run_dir: Path, plan: Plan) -> Iterator[tuple[Path, Plan]]:
    """A run, and the parts before it, back to the first one that is still there."""
    yield run_dir, plan
    for earlier in () if plan.part is None else parts_before(plan.part):
        try:
            yield earlier, read_filled_plan(earlier)
        except WfError:
            return


def _states(folder: Path, stage: StagePlan, member: Member) -> Iterator[SavedState]:
    """The whole states that a program has saved by `workflow.stage`."""
    streams = {end.stream for end in stage.ends}
    for each in whole_states(folder, streams, stage.ranks):
        # Of a file that is no stream it goes on where it reads on.
        read = min((each.steps[name] for name in member.reads), default=0)
        others = {name: read for name in member.kept if name not in streams}
        yield SavedState({**each.steps, **others}, str(record_path(folder, each.number)))


def _checkpoints(checkpoint: CheckpointPlan, member: Member) -> Iterator[SavedState]:
    """The checkpoints that a program has written, by the numbers in their names."""
    before, _, after = checkpoint.files.partition("*")
    folder, start = os.path.split(before)
    if not Path(folder).is_dir():
        return
    for path in Path(folder).iterdir():
        number = path.name.removeprefix(start).removesuffix(after)
        if path.name == f"{start}{number}{after}" and number.isdecimal() and _holds_something(path):
            yield SavedState(dict.fromkeys(member.streams, checkpoint.steps_before(int(number))), str(path))


def _holds_something(path: Path) -> bool:
    """Whether a checkpoint is more than an empty file or folder."""
    try:
        return any(path.iterdir()) if path.is_dir() else path.stat().st_size > 0
    except OSError:
        return False
