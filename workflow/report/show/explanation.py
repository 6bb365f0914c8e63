"""A run in a paragraph: what it is, what its stages do or did, what limits it and why, what to do next. Pure.

It only words what others found: the waits come from `run.verdict.wait_diagnosis`, the limit from `report.build`.
"""

from __future__ import annotations

import shlex

from workflow.formatting import clock_time, duration, moment, percent, plural
from workflow.plan.plan_model import StagePlan
from workflow.report.build.limiting_stage import Limit, run_limit, shortages
from workflow.report.read.run_records import Records
from workflow.report.report_model import Activity, Report, StagePart
from workflow.report.show.expectation_table import expectations_text
from workflow.report.show.run_summary import fault_text
from workflow.run.verdict.wait_diagnosis import diagnose, waits_of

# Smaller shares of a stage's time are left out.
SMALL_SHARE = 0.05
# Of a shorter stage shares mean nothing.
SHORT_S = 0.1
WORK: dict[Activity, str] = {
    "compute": "computed", "io": "moved data", "wait": "waited for other stages", "open": "opened its streams",
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
    if report.run.state == "running":
        sentences += [_doing_now(stage, records) for stage in records.plan.stages]
        sentences += [*report.warnings, _limit_so_far(records)]
    elif report.run.state not in ("submitted", "unfinished"):
        sentences += [_did(stage) for stage in report.stages]
    if report.run.state == "failed":
        sentences.insert(1, _last_line(report))
    if report.run.state == "succeeded":
        # The text before is about the time in which data moved.
        lacked = [f"From start to end, {text}" for text in shortages(records)]
        sentences += [_limit(report), *lacked, expectations_text(report)]
    return [_sentence(text) for text in [*sentences, _next(report, records, has_data)] if text]


def _what_it_is(report: Report) -> str:
    run = report.run
    since = f"since {moment(run.started)}, for {duration(run.wall_s)} so far" if run.started is not None else ""
    took = f"after {duration(run.wall_s)}, at {moment(run.ended)}" if run.ended is not None else "before it started"
    where = f" in {run.job}" if run.job else f" on {run.host}" if run.host else ""
    match run.state:
        case "running":
            return f"{run.directory} is running{where} {since}"
        case "submitted":
            return f"{run.directory} waits for its batch job: {run.reason or run.job}"
        case "unfinished":
            return f"{run.directory} was created, but never started"
        case "lost":
            return f"{run.directory} is lost: its supervisor has died without a verdict: {run.reason}"
        case "succeeded":
            return f"{run.directory} succeeded{where} {took}"
    reason = fault_text(report)
    state = {"interrupted": "was interrupted", "stopped": "was stopped cleanly"}.get(run.state, run.state)
    return f"{run.directory} {state} {took}" + (f": {reason}" if reason else "")


def _doing_now(stage: StagePlan, records: Records) -> str:
    """What a stage does while the run goes on."""
    state, name = records.state, stage.name
    seen = state.stages[name]
    if seen.is_over:
        return f"{name} has {seen.status}" if seen.status != "stopped" else f"{name} was stopped"
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
    return _and([text, *steps, *end])


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
    name = shlex.quote(run.directory)
    match run.state:
        case "running":
            return f"next: `wf watch {name}` follows it, `wf cancel {name}` ends it" + (
                "; docs/how-to/when-it-hangs.md explains waits" if report.warnings else ""
            )
        case "submitted":
            return f"next: `wf watch {name}` waits for it, `wf cancel {name}` cancels the job"
        case "lost":
            return f"next: `wf cancel {name}` ends what is left of it; then `wf run {pipeline}` starts a new run"
        case "succeeded":
            faster = f"; to make {run.limited_by} faster, see docs/how-to/slow-stream.md" if run.limited_by else ""
            look = f", `wf look {name}` draws the data" if has_data else ""
            return f"next: `wf report {name}` has all figures{look}{faster}"
        case "failed":
            logs = f"`wf logs {shlex.quote(run.stage)} --run {name}`" if run.stage else f"`wf logs --run {name}`"
            return f"next: {logs} shows what it printed; correct the error and start a new run: `wf run {pipeline}`"
    return f"next: `wf run {pipeline}` starts a new run"


def _last_line(report: Report) -> str:
    """What the stage that failed printed last, where the reason does not say it already."""
    stage = next((each for each in report.stages if each.name == report.run.stage), None)
    last = stage.last_lines[-1].strip() if stage is not None and stage.last_lines else ""
    return f"the last line of its errors is `{last}`" if last and last not in report.run.reason else ""


def _and(texts: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _sentence(text: str) -> str:
    """With a full stop; names at the begin keep their case."""
    known = ("so far", "it was", "what limits", "the last line", "next:")
    text = text[0].upper() + text[1:] if text.startswith(known) else text
    return text if text.endswith(".") else f"{text}."
