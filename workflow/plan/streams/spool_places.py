"""Spools in the memory or on the disk of a node: who could read them, and whether they fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from workflow.formats.node_folder import MEMORY
from workflow.formatting import plural, size
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.placement.nodes import nodes_text
from workflow.plan.plan_model import StagePlan, StreamPlan
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.streams.queue import MUCH
from workflow.plan.topology.ports import JoinedStream
from workflow.site.site_model import Site

_IN_RUN_DIR = "remove `where`: the run directory keeps it"


def spool_text(stream: StreamPlan) -> str:
    """What the spool of a stream keeps, and where: `the newest 64 steps, in memory`."""
    amount = "all steps"
    if stream.spool_steps is not None:
        amount = f"the newest {plural(stream.spool_steps, 'step')}"
    return f"{amount}, in {stream.spool_where or 'the run directory'}"


def note_unheeded_keep(stream: JoinedStream, notes: Notes) -> None:
    """Says, for `wf plan --explain`, that what is asked of kept steps means nothing for a file, as after a switch of
    `via`: it has all of them, in its place."""
    keep = stream.spec.keep
    if keep is not None and (keep.where or keep.steps not in ("all", 0)) and not stream.engine.traits.in_memory:
        text = "a file keeps all steps, at its own path: `steps` and `where` are for streams in memory"
        notes.why(f"streams.{stream.name}.keep", text)


def check_spool_places(stages: Sequence[StagePlan], streams: Sequence[StreamPlan], site: Site, notes: Notes) -> None:
    """Notes spools on a node that a stage could not read when it is started again, or that do not fit."""
    by_name = {stage.name: stage for stage in stages}
    on_nodes = [stream for stream in streams if stream.spool_where]
    for stream in on_nodes:
        _check_readers(stream, by_name, notes)
        _check_guards(stream, stages, site, notes.problems)
    _check_memory([stream for stream in on_nodes if _is_in_memory(stream)], by_name, site, notes)


def readers_behind(stream: StreamPlan, stages: Mapping[str, StagePlan]) -> list[str]:
    """The stages that read the spool of a stream when they are started again."""
    rules = [stage.restart for stage in stages.values() if stage.restart is not None]
    again = {name for rule in rules if stream.writer not in rule.stages for name in rule.stages}
    return [name for name in stream.readers if name in again]


def _check_readers(stream: StreamPlan, stages: Mapping[str, StagePlan], notes: Notes) -> None:
    """Only the node that has the spool can read it."""
    key, readers, here = f"streams.{stream.name}.keep", readers_behind(stream, stages), stages[stream.spool].placement
    if not readers and not stream.drops:
        notes.advise(
            f"{key}: only `wf attach` and `wf look --live` can read what it keeps: no reader of {stream.name} is "
            "started again (`on_failure: restart`), and after the run it is gone"
        )
    for name in readers:
        nodes = stages[name].placement.nodes
        if nodes != here.nodes:
            text = f"{name} is on {nodes_text(nodes)}, and its steps are kept in {stream.spool_where} of "
            text += f"{nodes_text(here.nodes)}: it could not read them when it is started again"
            notes.problems.add(key, text, _IN_RUN_DIR)


def _check_guards(stream: StreamPlan, stages: Sequence[StagePlan], site: Site, problems: Problems) -> None:
    """What is on another node than the supervisor's, its guard there removes."""
    several = max(end for stage in stages for _, end in stage.placement.nodes) > 1
    if several and not LAUNCHERS[site.launcher].shares_cores:
        text = (
            f"on several nodes wf's guard cannot run beside the stages under launcher {site.launcher}, so the spool "
            "would be left behind"
        )
        problems.add(f"streams.{stream.name}.keep", text, _IN_RUN_DIR)


def _is_in_memory(stream: StreamPlan) -> bool:
    return PurePosixPath(stream.spool_where).is_relative_to(MEMORY)


class _Held(NamedTuple):
    """What a spool holds in memory, as far as that is known."""

    stream: StreamPlan
    node: int
    bytes: int | None
    why: str


def _held(stream: StreamPlan, stages: Mapping[str, StagePlan]) -> _Held:
    node = stages[stream.spool].placement.nodes[0][0]
    steps = stream.spool_steps if stream.drops else stages[stream.writer].end(stream.name, "write").steps
    if steps is None or stream.step_size is None:
        return _Held(stream, node, None, "")
    return _Held(stream, node, steps * stream.step_size, f"{plural(steps, 'step')} × {size(stream.step_size)} = ")


def _check_memory(streams: Sequence[StreamPlan], stages: Mapping[str, StagePlan], site: Site, notes: Notes) -> None:
    held, room = [_held(stream, stages) for stream in streams], site.memory_per_node
    for each in held:
        if not each.stream.drops:
            much = "" if each.bytes is None else f", {each.why}{size(each.bytes)}"
            notes.advise(
                f"streams.{each.stream.name}.keep: all steps stay in the memory of a node until the run has "
                f"ended{much}: `steps: 64` keeps the newest ones"
            )
    for node in sorted({each.node for each in held}):
        here = [each for each in held if each.node == node and each.bytes is not None]
        total = sum(each.bytes or 0 for each in here)
        biggest = max(here, key=lambda each: each.bytes or 0, default=None)
        if biggest is None or total <= MUCH * room:
            continue
        key = f"streams.{biggest.stream.name}.keep"
        others = f", with other spools {size(total)}" if len(here) > 1 else ""
        text = f"it keeps {biggest.why}{size(biggest.bytes or 0)} in memory{others}; "
        text += f"a node of site {site.site} has {size(room)}"
        if total > room:
            notes.problems.add(key, text, f"keep less, `steps: 64`, or {_IN_RUN_DIR}")
        else:
            notes.advise(f"{key}: {text}, and /dev/shm takes no more than half of it where nobody has changed that")
