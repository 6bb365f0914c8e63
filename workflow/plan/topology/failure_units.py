"""Which stages are started again when one fails, and why some cannot be.

A stage that fails takes with it what it had not passed on: the steps in the queues of its streams. So it is started
again together with all stages that such streams join to it, its unit. A unit ends at streams that are kept, from which
it reads again and to which it appends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import nlargest

from workflow.engines import KEPT_VIA
from workflow.plan.plan_model import START_OF_SOURCES, RestartPlan, SourceBegin, is_kept
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, streams_by_stage
from workflow.spec.file_formats import chosen_format
from workflow.spec.references import has_spool, spool_steps
from workflow.spec.suggest import listing


def plan_restarts(
    stages: Mapping[str, DeclaredStage],
    streams: Mapping[str, JoinedStream],
    paths: Mapping[str, str],
    live: Collection[str],
    notes: Notes,
) -> dict[str, RestartPlan]:
    """Stage → how it is restarted, of those that are. Notes the rules of `on_failure` that cannot work.

    Args:
        paths: stream → its path.
        live: the streams that are read while they are written.
    """
    transient = [stream for stream in streams.values() if not is_kept(stream.engine.traits, paths[stream.name])]
    found: dict[str, RestartPlan] = {}
    streams_at = streams_by_stage(streams.values())
    for name, stage in stages.items():
        rule = stage.spec.on_failure
        if rule.may_ignore:
            _check_ignored(stage, stages, streams_at.get(name, []), notes.problems)
        if rule.do != "restart":
            continue
        unit = unit_of(name, list(stages), transient)
        if problem := next(_obstacles(name, unit, stages, streams_at, transient, live), None):
            notes.problems.add(f"stages.{name}.on_failure", *problem)
            continue
        if rule.same_step == "skip" and (why := _why_no_skip(stage, streams_at.get(name, []))):
            hint = "use `same_step: stop`"
            notes.problems.add(f"stages.{name}.on_failure.same_step", f"{name} cannot skip a step: it {why}", hint)
            continue
        anew = [each for each in unit if _reads_from_start(stages[each])]
        if anew and (short := next(_dropping(unit, streams.values()), "")):
            text = f"{name} cannot be started again: {listing(anew)} would need the first step of {short} again"
            hint = f"keep all steps: `--set streams.{short}.keep=true`"
            notes.problems.add(f"stages.{name}.on_failure", text, hint)
            continue
        found[name] = RestartPlan(
            times=rule.times, within_s=rule.within, backoff_s=rule.backoff, stages=unit, from_start=bool(anew),
            sources=_sources(unit, stages, streams_at, from_start=bool(anew)), same_step=rule.same_step,
            then=rule.then,
        )  # fmt: skip
        others = [each for each in unit if each != name]
        together = f", together with {listing(others)}" if others else ""
        where = f"from the first step, because of {listing(anew)}" if anew else "at the step where it was"
        begins = "".join(f"; {each} begins {START_OF_SOURCES[how]}" for each, how in found[name].sources.items())
        notes.why(f"stages.{name}.on_failure", f"when {name} fails, it is started again{together}, {where}{begins}")
    _advise_spools(found, stages, transient, notes)
    return found


def _sources(
    unit: Collection[str],
    stages: Mapping[str, DeclaredStage],
    streams_at: Mapping[str, Collection[JoinedStream]],
    *,
    from_start: bool,
) -> dict[str, SourceBegin]:
    """The stages of a unit that read no stream → where they begin."""
    ports = {name: [port for stream in streams_at.get(name, []) for port in stream.readers] for name in unit}
    sources = [name for name in unit if all(port.stage != name for port in ports[name])]
    return {name: "first" if from_start else _source_begin(stages[name]) for name in sources}


def _source_begin(stage: DeclaredStage) -> SourceBegin:
    """Where a stage that reads no stream begins when it goes on where it was."""
    if stage.component is not None:
        return "state" if stage.component.state == "saved" else "first"
    # A program may save a state without having declared it.
    return "state" if stage.spec.checkpoint is not None else "either"


def _advise_spools(
    restarts: Mapping[str, RestartPlan],
    stages: Mapping[str, DeclaredStage],
    transient: Collection[JoinedStream],
    notes: Notes,
) -> None:
    """Where a stage that fails takes a simulation with it, because nothing is kept of a stream between them: what keeps
    it."""
    for stream in transient:
        source = "" if stream.writer is None else stream.writer.stage
        behind = [name for name, rule in restarts.items() if source in rule.sources and name != source]
        if any(port.does_without for port in stream.readers):
            continue  # a stream of a member has no spool: it is kept where `via` is left out
        if behind and not has_spool(stream.spec, stream.engine):
            begins = START_OF_SOURCES[restarts[behind[0]].sources[source]]
            notes.advise(
                f"streams.{stream.name}: when {' or '.join(behind)} fails, {source} is started again too: it begins "
                f"{begins}, and computes what follows again; `--set streams.{stream.name}.{_keep_key(stream, stages)}` "
                f"keeps the steps, so that {source} runs on"
            )


def _dropping(unit: Collection[str], streams: Collection[JoinedStream]) -> Iterator[str]:
    """The streams that a unit reads and whose spools keep the newest steps only."""
    for stream in streams:
        is_read = {port.stage for port in stream.readers} & {*unit}
        if is_read and has_spool(stream.spec, stream.engine) and spool_steps(stream.spec) is not None:
            yield stream.name


def longest_pauses_s(restarts: Iterable[RestartPlan], start_s: float) -> list[tuple[str, float]]:
    """The two stages that may write nothing for longest because they are started again, as often as they may be, and
    for how long, the longest first.

    `start_s`: how long each attempt may take to open its streams.
    """
    found: dict[str, float] = {}
    for rule in restarts:
        for name in rule.stages:
            found[name] = max(found.get(name, 0.0), rule.times * (rule.backoff_s + start_s))
    return nlargest(2, found.items(), key=lambda each: each[1])


def unit_of(stage: str, order: Collection[str], transient: Collection[JoinedStream]) -> list[str]:
    """The stages that are started again with this one, itself included.

    The readers of a stream that a unit writes lose their writer. The writer of one that a unit reads has to write its
    steps again, unless they are in a spool.
    """
    unit, grown = {stage}, True
    while grown:
        more: set[str] = set()
        for stream in transient:
            writer, readers = stream.writer, {port.stage for port in stream.readers}
            if writer is not None and writer.stage in unit:
                more |= readers
            if writer is not None and readers & unit and not has_spool(stream.spec, stream.engine):
                more.add(writer.stage)
        grown = not more <= unit
        unit |= more
    return [name for name in order if name in unit]


def _obstacles(
    name: str,
    unit: list[str],
    stages: Mapping[str, DeclaredStage],
    streams_at: Mapping[str, Collection[JoinedStream]],
    transient: Collection[JoinedStream],
    live: Collection[str],
) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to type next) for each reason why a unit cannot be started again."""
    for stream, reader in _discarding(unit, stages, transient):
        has = f"{name} cannot be started again" + (f" together with {reader}" if reader != name else "")
        needed = "keep=true" if reader == name and not has_spool(stream.spec, stream.engine) else ""
        hint = "keep those that come" if needed else "let none be discarded"
        yield (
            f"{has}: {reader} reads {stream.name}, which may discard steps: it is not known which ones arrived",
            f"{hint}: `--set streams.{stream.name}.{needed or 'queue.when_full=block'}`",
        )
    for member in unit:
        why, hint = _why_not(stages[member], streams_at.get(member, []), live)
        if why and member == name:
            yield f"{name} cannot be started again: it {why}", hint
        elif why:
            through = next(stream for stream in transient if member in {port.stage for port in stream.ports})
            yield (
                f"{name} cannot be started again without {member}, because nothing is kept of stream {through.name}: "
                f"{member} {why}",
                f"keep its steps: `--set streams.{through.name}.{_keep_key(through, stages)}`",
            )


def _discarding(
    unit: Collection[str], stages: Mapping[str, DeclaredStage], transient: Iterable[JoinedStream]
) -> Iterator[tuple[JoinedStream, str]]:
    """The streams inside of a unit of which steps may be discarded, with a reader that needs them.

    What their writer would send again has other numbers than what was read. A spool behind which nobody sends again is
    right: SST discards a step for all readers, the spool included, so that its steps have the numbers of the others.
    """
    for stream in transient:
        if stream.writer is None or stream.writer.stage not in unit or stream.spec.queue.when_full == "block":
            continue
        for reader in (port.stage for port in stream.readers) if stream.engine.traits.in_memory else ():
            if not stages[reader].is_optional:
                yield stream, reader


def _keep_key(stream: JoinedStream, stages: Mapping[str, DeclaredStage]) -> str:
    """What keeps the steps of a stream, for all its readers that may be started again."""
    again = [port.stage for port in stream.readers if stages[port.stage].spec.on_failure.do == "restart"]
    can = stream.engine.traits.in_memory and all(stages[name].spec.uses_stage for name in again)
    return "keep=true" if can else "via=bp5"


def _why_not(stage: DeclaredStage, streams: Collection[JoinedStream], live: Collection[str]) -> tuple[str, str]:
    """Why this stage cannot be started again, as the rest of a sentence, and what to type next; empty: it can."""
    read = [stream for stream in streams if stage.name in {port.stage for port in stream.readers}]
    written = [stream for stream in streams if stream.writer is not None and stream.writer.stage == stage.name]
    stop = "use `on_failure: stop`"
    if stage.component is not None and stage.component.state == "accumulates" and stage.component.restart_from is None:
        why = f"runs component `{stage.component.component}`, which accumulates over its steps and saves nothing"
        return why, f"{stop}; or save its state with `stage.State`, or add `restart_from: first` to its component.yaml"
    if stage.component is not None and stage.component.state is None:
        what = "simulation" if stage.component.kind == "simulation" else "component"
        return f"runs {what} `{stage.component.component}`, which cannot go on where it was", stop
    resume = "`wf resume` begins at its newest checkpoint when the run has ended"
    if not read and not stage.spec.uses_stage:
        if stage.spec.checkpoint is not None:
            return "goes on from its checkpoints in the next part of a run, not within this one", f"{stop}: {resume}"
        more = f"; with `checkpoint: {{files: NAME.*, …}}` {resume}"
        return "reads no stream, so that wf does not know where it was", stop + more
    for stream in read:
        if has_spool(stream.spec, stream.engine) and not stage.spec.uses_stage:
            why = f"reads {stream.name} by SST without workflow.stage, and would have to read its spool by BP5"
            return why, f"let it read a file: `--set streams.{stream.name}.via=bp5`"
    for stream in written:
        engine = stream.engine.traits
        if not engine.in_memory and not engine.resumable:
            why = f"writes {stream.name} by {engine.name}, to which a second attempt cannot append"
            return why, f"use another file: `--set streams.{stream.name}.via=bp5`"
        if not stage.spec.uses_stage and stream.name in live:
            return f"writes {stream.name} without workflow.stage, so that its readers would get steps twice", stop
    if written and stage.spec.output.files == "each_step":
        why = "writes a file for each step, which a second attempt would write anew"
        return why, f"use `--set stages.{stage.name}.output.files=one`"
    return "", ""


def _why_no_skip(stage: DeclaredStage, streams: Collection[JoinedStream]) -> str:
    """Why no step can be left out of what this stage reads, as the rest of a sentence; empty: one can.

    From the number of steps that it has written follows where it was: so each step that it reads must be one that it
    writes, but for those that it skips.
    """
    read = [stream for stream in streams if stage.name in {port.stage for port in stream.readers}]
    if not stage.spec.uses_stage and stage.component is None:
        return "runs a program without workflow.stage, which reads all steps"
    if not read:
        return "reads no stream"
    if len(read) > 1:
        return f"reads {listing(stream.name for stream in read)}, and may have failed because of a step of any of them"
    (stream,) = read
    if stream.spec.queue.when_full == "discard" and stream.engine.traits.in_memory:
        return f"reads {stream.name}, which may discard steps, so their numbers do not identify them"
    files = None if stage.component is None else stage.component.file_formats
    if files is not None and files.every and stage.parameters.get(files.every, 1) > 1:
        return f"writes one of {stage.parameters[files.every]} steps"
    return ""


def _reads_from_start(stage: DeclaredStage) -> bool:
    """Whether a new attempt reads from the first step: of an unchanged program nobody knows at which step it was."""
    if stage.component is None:
        return not stage.spec.uses_stage
    form = chosen_format(stage.component, stage.parameters)
    return stage.component.restart_from == "first" or (form is not None and not form[1].appends)


def why_from_start(stage: DeclaredStage, streams: Collection[JoinedStream], restarted: Collection[str]) -> str:
    """Why a stage begins with the first step when its run goes on in another directory; "" where it need not.

    A simulation needs a saved state besides: that is not asked here. `restarted`: the stages that save what they have,
    because they may be started again.
    """
    for stream in streams:
        engine = stream.engine.traits
        is_written = stream.writer is not None and stream.writer.stage == stage.name
        if is_written and not engine.in_memory and not engine.resumable:
            return f"writes {stream.name} by {engine.name}, which cannot be joined to what there is"
    if stage.spec.output.files == "each_step":
        return "writes a file for each step"
    if stage.component is None:
        known = stage.spec.uses_stage or (stage.spec.checkpoint is not None and stage.spec.checkpoint.files is not None)
        return "" if known else "is a program without workflow.stage or a checkpoint: nobody knows where it was"
    name = f"runs component `{stage.component.component}`"
    if stage.component.restart_from == "first":
        return f"{name}, which needs all steps"
    if stage.component.state == "accumulates":
        return f"{name}, which accumulates over its steps and saves nothing"
    saves = stage.component.state != "saved" or stage.spec.checkpoint is not None or stage.name in restarted
    if stage.component.kind != "simulation" and not saves:
        return f"{name}, which saves its state only with `checkpoint` or `on_failure: restart`"
    if stage.component.state is None and stage.component.kind != "simulation":
        return f"{name}, which cannot go on where it was"
    form = chosen_format(stage.component, stage.parameters)
    if form is not None and not form[1].appends:
        return f"writes a file of format {form[0]}, which cannot be joined to what there is"
    return ""


def _check_ignored(
    stage: DeclaredStage,
    stages: Mapping[str, DeclaredStage],
    streams: Collection[JoinedStream],
    problems: Problems,
) -> None:
    """A stage can be left out when no other needs its data."""
    for stream in streams:
        if stream.writer is None or stream.writer.stage != stage.name:
            continue
        # Of a live stream nobody knows what the reader has had of it when its writer dies.
        kept = not stream.engine.traits.in_memory
        needs = [port.stage for port in stream.readers if not (port.does_without and kept)]
        needs = [each for each in needs if stages[each].spec.on_failure.do != "ignore"]
        hint = "let those that read from it be ignored too, or use `restart`"
        if any(port.does_without for port in stream.readers):
            hint = f"use `via: {KEPT_VIA}` for {stream.name}, or `restart`"
        needs = [each for each in needs if not stages[each].is_optional]
        if needs:
            problems.add(
                f"stages.{stage.name}.on_failure",
                f"the others cannot go on without {stage.name}: {listing(needs)} "
                f"read{'s' if len(needs) == 1 else ''} its stream {stream.name}",
                hint,
            )
