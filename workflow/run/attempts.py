"""The next attempt of stages that have failed: where it goes on, and the files that it gets.

Each attempt after the first has a folder of its own in that of the stage, for its settings, metrics and logs. What the
stage writes stays where it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from workflow.formats.absent_readers import absent_file
from workflow.formats.bp_index import read_index
from workflow.formats.kept_state import STATE_DIR, whole_states
from workflow.formats.metrics_lines import METRICS_FILE
from workflow.formats.stage_file import APPEND_AFTER, STAGE_FILE, read_stage_file, to_json
from workflow.plan.plan_model import EndPlan, StagePlan
from workflow.plan.programs.config_files import config_files, edited_again
from workflow.plan.programs.edited_configs import ConfigError
from workflow.plan.streams.end_plans import end_awaiting, end_of_spool
from workflow.replace_file import replace_file
from workflow.run.records.run_directory import attempt_dir, link_inputs, stage_dir, stage_ends
from workflow.run.restart_positions import Member, Positions, find_positions
from workflow.run.state.events import begin_of_end
from workflow.run.state.lifecycle_events import RestartDecided
from workflow.run.state.run_state import RunState


@dataclass(frozen=True)
class Beginning:
    """Where the next attempt of stages begins.

    `first_step`: the index of the first step that one of them reads. `ends`: stage → stream → the step at which an end
    goes on, where that is another one. `repeated`: stage → stream → how many steps before that the program writes
    again, which are suppressed. `skipped`: stage → the steps of what it reads that it skips.
    """

    first_step: int = 0
    ends: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    repeated: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    skipped: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def begins(self, stage: str, stream: str) -> int:
        """The step at which a stage goes on with one of its streams."""
        return begin_of_end(self.first_step, self.ends, stage, stream)


def find_beginning(run_dir: Path, state: RunState, stages: Sequence[str]) -> Beginning:
    """Where these stages go on together.

    What is written to a file counts: a step that is whole there is not written again. Of a stage that writes none, the
    steps that it has read count; of one that only passes steps on to others of these stages, nothing. A stage that
    saves its state begins at the newest one that fits.
    """
    from_start = any(rule.from_start for name in stages if (rule := state.plan.stage(name).restart) is not None)
    skips = next((each for each in state.restarting if each.stages == [*stages] and each.skips is not None), None)
    if from_start and (state.plan.part is None or state.plan.part.is_reuse):
        return Beginning(skipped=_with_skip(state.skipped, skips))
    members = [_member(run_dir, state, name) for name in stages]
    if from_start:
        # The files of this part begin later: what it writes before that is suppressed.
        members = [replace(each, states=[]) for each in members]
    found, skipped = find_positions(members), state.skipped
    # What is after the step has been written with it: nothing is missing.
    if skips is not None and _first_read(skips.stage, members, found) <= (skips.skips or 0):
        skipped = _with_skip(skipped, skips)
        members = [replace(each, skipped=skipped.get(each.name, ())) for each in members]
        found = find_positions(members)
    first = min((found.begins[each.name][stream] for each in members for stream in each.reads), default=0)
    other = {
        name: steps for name, ends in found.ends.items()
        if (steps := {stream: step for stream, step in ends.items() if step != first})
    }  # fmt: skip
    repeated = {each.name: again for each in members if (again := found.repeated(each.name))}
    return Beginning(first, other, repeated, {name: skipped[name] for name in stages if name in skipped})


def _with_skip(before: Mapping[str, Sequence[int]], decided: RestartDecided | None) -> dict[str, Sequence[int]]:
    """The steps that stages skip, with the one that a restart was decided for."""
    if decided is None or decided.skips is None:
        return dict(before)
    return {**before, decided.stage: sorted({*before.get(decided.stage, ()), decided.skips})}


def _first_read(stage: str, members: Sequence[Member], found: Positions) -> int:
    """The first step that a stage reads when it begins there."""
    (member,) = (each for each in members if each.name == stage)
    return min(found.begins[stage][stream] for stream in member.reads)


def _member(run_dir: Path, state: RunState, name: str) -> Member:
    plan = state.plan.stage(name)
    reads = [end.stream for end in plan.ends if end.side == "read"]
    written = [end for end in plan.ends if end.side == "write"]
    folder = stage_dir(run_dir, name) / STATE_DIR
    states = whole_states(folder, [end.stream for end in plan.ends], plan.ranks) if folder.exists() else None
    kept = {end.stream: _kept_steps(state, name, end) for end in written if state.plan.stream(end.stream).is_kept}
    return Member(
        name,
        reads=reads,
        passed=[end.stream for end in written if end.stream not in kept],
        kept=kept,
        finished=min((end.steps for end in state.ends_of(name)), default=0),
        # What reads nothing can begin only where it has saved a state, or anew.
        states=None if states is None and reads else [each.steps for each in states or ()],
        skipped=state.skipped.get(name, ()),
    )


def _kept_steps(state: RunState, stage: str, end: EndPlan) -> int:
    """How many whole steps there are of what a stage has written, and goes on with."""
    path = Path(end.path)
    if end.on_node and path.is_symlink() and not path.exists():
        # On another node, which only the stage itself can read.
        return end.before if _has_left(state, stage) else max(end.before, state.ends[end.stream, stage, "write"].steps)
    index = read_index(path / "md.idx")
    return end.before + (0 if index is None else index.steps)


def _has_left(state: RunState, stage: str) -> bool:
    """Whether a node of a stage was lost, or replaced, since the stage was started: what it had there is gone."""
    started = state.stages[stage].started
    return bool(state.lost_nodes(stage)) or any(started is None or move.t >= started for move in state.moves_of(stage))


def to_attempt(stage: StagePlan, state: RunState, repeated: Mapping[str, int]) -> StagePlan:
    """The plan of a stage whose next attempt has begun in this state. Pure.

    `repeated`: stream → how many steps that it writes first are suppressed. Raises ValueError where it would need a
    step that its spool does not have any more.
    """
    plan, ends = state.plan, []
    skipped = {"skipped": [*state.skipped.get(stage.name, ())], "skips_now": _skips_now(state, stage.name)}
    for planned in stage.ends:
        now = state.ends[planned.stream, stage.name, planned.side]
        if now.from_spool and now.steps < state.spool_first.get(planned.stream, 0):
            raise ValueError(f"step {now.steps} of {planned.stream} is not in its spool any more")
        end = end_of_spool(plan, planned) if now.from_spool else planned
        readers = state.readers(end.stream) if end.side == "write" else []
        if any(reader.not_awaited for reader in readers):
            end = end_awaiting(end, sum(not reader.not_awaited for reader in readers))
        appends = end.side == "write" and plan.stream(end.stream).is_kept
        parameters = {**end.parameters, APPEND_AFTER: str(now.steps - end.before)} if appends else end.parameters
        changed = {"first_step": now.steps, "repeated": repeated.get(end.stream, 0), "parameters": parameters}
        changed |= skipped if end.side == "read" else {}
        ends.append(end.model_copy(update=changed))
    return stage.model_copy(update={"ends": ends})


def _skips_now(state: RunState, stage: str) -> int | None:
    """The step that no attempt of a stage has skipped yet, of those that it skips: it was decided last, and none has
    come beyond it."""
    found: int | None = None
    for each in state.restarts:
        if each.stage == stage:
            found = None if found is not None and each.step > found else found
            found = found if each.skips is None else each.skips
    return found


def prepare_attempt(run_dir: Path, stage: StagePlan, attempt: int) -> Path:
    """Make the folder of an attempt of a stage, and write its settings. Returns the folder. Raises OSError, and
    RunError where a stream cannot be found under the name that the program knows."""
    folder = attempt_dir(run_dir, stage.name, attempt)
    folder.mkdir(exist_ok=True)
    settings = read_stage_file(stage_dir(run_dir, stage.name) / STAGE_FILE)
    settings = replace(settings, metrics=str(folder / METRICS_FILE), ends=stage_ends(stage))
    replace_file(folder / STAGE_FILE, to_json(settings).encode())
    for path, text in config_files(stage.ends).items():
        if path in stage.edited:
            with contextlib.suppress(ConfigError, UnicodeDecodeError):  # the program has changed it: that is its own
                # A program may remove it; the plan of a run keeps no files of the user.
                now = Path(path).read_text("utf-8") if Path(path).exists() else stage.files.get(path, text)
                replace_file(Path(path), edited_again(path, now, stage.ends).encode())
        else:
            replace_file(Path(path), text.encode())
    link_inputs(stage)
    # A killed writer leaves its contact file, by which readers would try to reach it.
    for end in stage.ends:
        if end.side == "write" and (suffix := end.traits.contact_suffix):
            contact = Path(end.path + suffix)
            for left in (contact, absent_file(contact)):  # it waits for none of those that did not come before
                with contextlib.suppress(FileNotFoundError):
                    left.unlink()
    return folder
