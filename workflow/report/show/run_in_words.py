"""A run in words: its summary, what went wrong, what limits it; in a paragraph for `wf explain`.

Pure, except that `result_paths` checks which files exist. The paragraph only words what others found: the waits come
from `run.verdict.wait_diagnosis`, the limit from `report.build`.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import Problem, Severity, to_message
from workflow.formatting import NOTHING, clock_time, duration, moment, percent, plural, size
from workflow.plan.plan_model import Plan, StagePlan
from workflow.report.build.limiting_stage import Limit, run_limit, shortages
from workflow.report.build.report_notes import begin_notes, program_notes, restart_note
from workflow.report.build.steering_notes import steering_note
from workflow.report.read.run_records import Records
from workflow.report.read.run_states import attached_notes, next_part_notes
from workflow.report.show.folded_members import fold_report
from workflow.report.show.report_tables import expectations_text
from workflow.run.records.find_runs import typed_name
from workflow.run.state.lifecycle_events import FROM_OUTSIDE
from workflow.run.verdict.restarts import skip_warnings
from workflow.run.verdict.wait_diagnosis import diagnose, waits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workflow.report.report_model import AccuracyPart, Activity, Report, RunPart, StagePart, StreamPart
    from workflow.run.records.run_notes import RunNote

# With more streams than this their steps are not listed one by one.
MOST_LISTED = 3
# Of the restarts that `wf status` and `wf explain` list.
MOST_RESTARTS = 5
# Of the changes of values.
MOST_CHANGES = 5
# A shorter line may be part of any reason by chance.
SHORTEST_REPEAT = 10


def summary(report: Report) -> str:
    """How long, how many steps of each stream, how much, and what limited it, in one line."""
    run = report.run
    parts = [duration(run.wall_s), *_step_texts(report.streams)]
    if report.streams:
        parts.append(total_text(report))
    if run.limited_by:
        parts.append(f"limited by {run.limited_by}" + (f", overlap {percent(run.overlap)}" if run.overlap else ""))
    parts += [text] if (text := expectations_text(report)) else []
    return ", ".join(parts)


def _step_texts(streams: Sequence[StreamPart]) -> list[str]:
    """`field 41 steps` of each stream; of many `7 streams of 20 to 41 steps`."""
    if len(streams) <= MOST_LISTED:
        return [f"{stream.name} {_steps(stream)}" for stream in streams]
    counts = [stream.steps for stream in streams if stream.steps is not None]
    some = "" if not counts else f" of {plural(counts[0], 'step')}"
    if counts and min(counts) < max(counts):
        some = f" of {min(counts)} to {plural(max(counts), 'step')}"
    return [f"{len(streams)} streams{some}"]


def _steps(stream: StreamPart) -> str:
    return "steps not counted" if stream.steps is None else plural(stream.steps, "step")


def total_text(report: Report) -> str:
    """Data of all streams: `5.78 MB`, or `at least 320 kB (not known of field)` where some were not counted."""
    streams = [stream for stream in report.streams if not stream.passed_on]
    total = sum(stream.bytes or 0 for stream in streams)
    known = size(total)
    uncounted = [stream.name for stream in streams if stream.bytes is None and stream.steps != 0]
    partial = any(stream.bytes_are == "at_least" for stream in streams)
    if not uncounted:
        return f"at least {known}" if partial else known
    names = ", ".join(uncounted[:MOST_LISTED]) + (" and others" if len(uncounted) > MOST_LISTED else "")
    return f"at least {known} (not known of {names})" if total else f"size not known of {names}"


def note_lines(tags: Sequence[str], notes: Sequence[RunNote]) -> list[str]:
    """The tags, and what people have noted on a run."""
    first = [f"tags: {', '.join(tags)}"] if tags else []
    return first + [f"note of {moment(note.t)} by {note.user}: {note.text}" for note in notes]


def course_lines(report: Report) -> list[str]:
    """How the run has gone on: with which run or what of it, from where its stages were started again, what its
    programs say of it, what has joined it, and which run goes on with it. Of many restarts and changes of values the
    newest ones."""
    restarts = [restart_note(each) for each in report.restarts]
    left_out = max(0, len(restarts) - MOST_RESTARTS)
    more = [f"{plural(left_out, 'restart')} before these: `wf report` has all of them"] if left_out else []
    begin, attached = begin_notes(report.run, report.stages), attached_notes(report)
    steering = [steering_note(each) for each in report.steering]
    others = max(0, len(steering) - MOST_CHANGES)
    earlier = [f"{plural(others, 'change')} of values before these: `wf events` has all"] if others else []
    steering = [*earlier, *steering[others:]]
    said = program_notes(report.stages)
    return [*begin, *more, *restarts[left_out:], *steering, *said, *attached, *next_part_notes(report.run)]


def fault_text(report: Report) -> str:
    """Why the run did not succeed, with the stage that caused it; empty when it did."""
    run = report.run
    if run.state == "succeeded" or not run.reason:
        return ""
    return f"stage {run.stage}: {run.reason}" if run.stage and run.stage not in run.reason else run.reason


def fault_messages(report: Report) -> list[Problem]:
    """Why the run did not succeed: an error, unless somebody ended it."""
    level: Severity = "error" if report.run.state in ("failed", "lost") else "note"
    return [to_message(level, text)] if (text := fault_text(report)) else []


def last_lines(report: Report) -> list[tuple[str, str]]:
    """The last output of the stages of a run that did not succeed: lines with their styles."""
    lines = []
    for stage in report.stages:
        for file, found in (("stdout.log", stage.last_output), ("stderr.log", stage.last_lines)):
            last = [line for line in found if not _repeats(line, report.run.reason)]
            if last:
                lines.append((f"  last lines of stages/{stage.name}/{file}:", ""))
                lines += [(f"    {line}", "dim") for line in last]
    return lines


def compression_lines(report: Report) -> list[str]:
    """How much smaller the compressed streams are on disk, and the largest error of each variable, by reader."""
    lines = []
    for stream in report.streams:
        if stream.compressed and stream.stored and stream.bytes:
            share = percent(stream.stored / stream.bytes)
            lines.append(f"{stream.name}: stored {size(stream.stored)} of {size(stream.bytes)} ({share})")
        lines += [
            f"{stream.name} → {reader.stage}: {accuracy_text(each)}"
            for reader in stream.readers
            for each in reader.accuracy
        ]
        lines += [f"{stream.name}: {name}: not checked, because no stage read it" for name in stream.unread]
    return lines


def accuracy_text(accuracy: AccuracyPart) -> str:
    """`density: zfp, largest error 0.00029 ≤ 0.001 (4096 values of 4 steps)`."""
    head = f"{accuracy.variable}: {accuracy.operator}"
    if not accuracy.compared:
        return f"{head}, nothing compared"
    values = f"({accuracy.compared} values of {plural(accuracy.steps, 'step')})"
    if accuracy.bound == accuracy.largest == 0:
        return f"{head}, every bit arrived {values}"
    if accuracy.largest is None:
        return f"{head}, infinite error > {accuracy.bound:g} {values}"
    sign = "≤" if accuracy.largest <= accuracy.bound else ">"
    return f"{head}, largest error {accuracy.largest:.2g} {sign} {accuracy.bound:g} {values}"


def result_paths(run_dir: Path) -> list[Path]:
    """The report page and the directory of pictures, where they exist."""
    pictures = run_dir / "pictures"
    found = [pictures] if any(path.is_file() for path in pictures.rglob("*")) else []
    return [path for path in (run_dir / "report.html",) if path.exists()] + found


def _repeats(line: str, reason: str) -> bool:
    """Whether the reason already holds this line: as it is, or without the name of the error or of the stage."""
    texts = (line.strip(), line.partition(": ")[2].strip())
    return any(len(each) >= SHORTEST_REPEAT and each in reason for each in texts)


# Smaller shares of a stage's time are left out.
SMALL_SHARE = 0.05
# Of a shorter stage shares mean nothing.
SHORT_S = 0.1
WORK: dict[Activity, str] = {
    "compute": "computed", "device": "copied to or from a device", "io": "moved data",
    "wait": "waited for other stages", "open": "opened its streams",
    "cpu": "had a core", "ready": "waited for a core",
}  # fmt: skip


def explanation(report: Report, records: Records, has_data: bool) -> list[str]:
    """The sentences.

    Args:
        report: of the run now.
        records: of a run that goes on as they are now.
        has_data: there are files that `wf look` can draw.
    """
    sentences = [_what_it_is(report)]
    begun = [stage.name for stage in report.stages if stage.first_step is not None]
    if report.run.state == "running":
        sentences += [_doing_now(stage, records) for stage in records.plan.stages if stage.name in begun]
        sentences += [*course_lines(report), *report.warnings, *_transports(records.plan), _limit_so_far(records)]
    elif report.run.state not in ("submitted", "unfinished"):
        did = [stage for stage in report.stages if stage.first_step is not None]
        started = [[stage for stage in did if (stage.started is not None) == has] for has in (True, False)]
        for stages in started:  # the members of an ensemble together
            sentences += [_did(stage) for stage in fold_report(report.model_copy(update={"stages": stages})).stages]
        # What a supervisor that has died warned of is of long ago; steps that are missing stay missing.
        lasting = skip_warnings(records.state) if report.run.state == "lost" else report.warnings
        sentences += [*course_lines(report), *lasting, *_transports(records.plan)]
    if report.run.state == "failed":
        sentences.insert(1, _last_line(report))
    if report.run.state == "succeeded":
        # The evidence is about the time in which data moved; where it tells of a lack of cores, that is said once.
        is_told = "had a core" in report.run.limit_evidence
        lacked = [] if is_told else [f"From start to end, {text}" for text in shortages(records)]
        sentences += [_limit(report), *lacked, expectations_text(report)]
    return [_sentence(text) for text in [*sentences, _next(report, records, has_data)] if text]


def _what_it_is(report: Report) -> str:
    run = report.run
    since = f"since {moment(run.started)}, for {duration(run.wall_s)} so far" if run.started is not None else ""
    took = f"after {duration(run.wall_s)}, at {moment(run.ended)}" if run.ended is not None else "before it started"
    where = f" in {run.job}" if run.job else f" on {run.host}" if run.host else ""
    match run.state:
        case "running":
            return f"{run.directory} is running{where} {since}" + (f"; {run.reason}" if run.reason else "")
        case "submitted":
            return f"{run.directory} waits for its batch job: {run.reason or run.job}"
        case "unfinished":
            return f"{run.directory} was created, but never started"
        case "lost":
            return f"{run.directory} is lost: its supervisor has died without a verdict: {run.reason}"
        case "succeeded":
            return f"{run.directory} succeeded{where} {took}" + (f", but {run.lacks}" if run.lacks else "")
    reason = fault_text(report)
    state = {"interrupted": "was interrupted", "stopped": "was stopped cleanly"}.get(run.state, run.state)
    return f"{run.directory} {state} {took}" + (f": {reason}" if reason else "")


def _doing_now(stage: StagePlan, records: Records) -> str:
    """What a stage does while the run goes on."""
    state, name = records.state, stage.name
    seen = state.stages[name]
    if seen.is_over:
        return f"{name} was stopped" if seen.status == "stopped" else f"{name} has {seen.status}"
    if seen.exited is None and (waits := waits_of(state, name)):
        since = min((end.waiting for end in state.ends_of(name) if end.waiting is not None), default=None)
        return f"{name} {' and '.join(wait.text for wait in waits)}" + (f", since {clock_time(since)}" if since else "")
    return diagnose(state, name, state.t)[1].partition(";")[0]


def _did(stage: StagePart) -> str:
    """What a stage did in a run that has ended."""
    if stage.started is None:
        return f"{stage.name} did not start"
    shares = {WORK[part]: share for part, share in stage.parts().items() if part in WORK and share >= SMALL_SHARE}
    work = [f"{what} {percent(shares[what])}" for what in sorted(shares, key=lambda what: -shares[what])]
    known = work and (stage.wall_s or 0.0) >= SHORT_S
    text = f"{stage.name} ran for {duration(stage.wall_s)}" + (f" ({', '.join(work)} of the time)" if known else "")
    steps = [
        f"{verb} {plural(count, 'step')}"
        for verb, count in (("read", stage.steps_in), ("wrote", stage.steps_out))
        if count is not None
    ]
    end = {"failed": ["failed"], "stopped": ["was stopped"], "running": ["still runs"]}.get(stage.state, [])
    end = [stage.state] if ", " in stage.state else end  # of members: `5 succeeded, 1 failed`
    return _and([text, *steps, *end])


def _transports(plan: Plan) -> list[str]:
    """How the data of its streams move, and why, as the plan has it."""
    from workflow.report.show.plan_tables import transport_rows

    rows = [
        (_and([*row.streams]), "" if row.transport == NOTHING else f"{row.transport}, ", row.reason)
        for row in transport_rows(plan)
    ]
    return [f"the transport of {names} as planned: {word}{reason}" for names, word, reason in rows]


def _limit(report: Report) -> str:
    run = report.run
    return _limit_text(Limit(run.limited_by, run.limit_unknown, run.limit_evidence), "it was limited by")


def _limit_so_far(records: Records) -> str:
    return _limit_text(run_limit(records), "so far it is limited by")


def _limit_text(limit: Limit, by: str) -> str:
    if limit.stage:
        return f"{by} {limit.stage}: {limit.evidence}"
    return f"what limits it is not known: {limit.why_unknown}" if limit.why_unknown else ""


def _next(report: Report, records: Records, has_data: bool) -> str:
    """The command that helps most."""
    run, pipeline = report.run, shlex.quote(records.plan.pipeline_file)
    name = typed_name(records.run_dir)
    match run.state:
        case "running":
            return f"next: `wf watch {name}` follows it, `wf cancel {name}` ends it" + (
                f"; {page(ON_WAITS)} explains waits" if report.warnings else ""
            )
        case "submitted":
            return f"next: `wf watch {name}` waits for it, `wf cancel {name}` cancels the job"
        case "lost":
            then = resume_text(run, name) if run.resumable else f"`wf run {pipeline}` starts a new run"
            return f"next: `wf cancel {name}` ends what is left of it; then {then}"
        case "succeeded":
            faster = f"; to make {run.limited_by} faster, see {page(ON_SPEED)}" if run.limited_by else ""
            look = f", `wf look {name}` draws the data" if has_data else ""
            return f"next: `wf report {name}` has all figures{look}{faster}"
        case "failed" if run.cause not in FROM_OUTSIDE:
            anew = f"correct the error and start a new run: `wf run {pipeline}`"
            return f"next: {logs_text(run, name)}; {resume_text(run, name) if run.resumable else anew}"
    return f"next: {resume_text(run, name)}" if run.resumable else f"next: `wf run {pipeline}` starts a new run"


# Titles of pages: their files are in a clone of wf only, or on a site of somebody's own.
ON_SPEED = "Find the bottleneck: what limits a stream"
ON_WAITS = "When it hangs or fails"


def page(title: str) -> str:
    """A page of the documentation, by its title."""
    return f'"{title}" in the documentation of wf'


def next_line(run: RunPart, name: str) -> str:
    """What to type after a run that has failed, or has been interrupted; empty after others."""
    if run.resumable:
        return f"next: {resume_text(run, name)}"
    if run.state == "interrupted" and not run.next_part:
        return "nothing of it can be used again: `wf run` starts a new run"
    return f"next: {logs_text(run, name)}" if run.state == "failed" and run.cause not in FROM_OUTSIDE else ""


def logs_text(run: RunPart, name: str) -> str:
    """What shows the output of the stage that failed."""
    return f"`wf logs {f'{shlex.quote(run.stage)} ' if run.stage else ''}--run {name}` shows what it printed"


def resume_text(run: RunPart, name: str) -> str:
    """What to type to go on with a run, and what to do before. `name`: its name, or its path as a shell takes it."""
    if run.state == "failed" and run.cause not in FROM_OUTSIDE:
        return f"correct the error and go on: `wf resume {name}` (with `--dry-run`: from which steps)"
    return f"`wf resume {name}` goes on (with `--dry-run`: from which steps)"


def _last_line(report: Report) -> str:
    """What the stage that failed printed last, where the reason does not say it already."""
    stage = next((each for each in report.stages if each.name == report.run.stage), None)
    if stage is None or not (stage.last_lines or stage.last_output):
        return ""
    what, last = ("of its errors", stage.last_lines) if stage.last_lines else ("that it printed", stage.last_output)
    return f"the last line {what} is `{last[-1].strip()}`" if last[-1].strip() not in report.run.reason else ""


def _and(texts: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _sentence(text: str) -> str:
    """With a full stop; names at the begin keep their case."""
    known = ("so far", "it was", "what limits", "the transport", "the last line", "next:")
    text = text[0].upper() + text[1:] if text.startswith(known) else text
    return text if text.endswith(".") else f"{text}."
