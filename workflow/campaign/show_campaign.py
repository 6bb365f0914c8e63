"""What the verbs of `wf campaign` print: the plan, a line per repetition, the state, and the results."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workflow.campaign.campaign_advice import expected_cost
from workflow.campaign.campaign_control import CampaignEnd
from workflow.campaign.campaign_directory import RUNS_FOLDER, ScheduledTrial
from workflow.campaign.campaign_run import CampaignOutcome
from workflow.campaign.campaign_state import state_of
from workflow.campaign.execution.campaign_loop import EndedRepetition
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.junit import JUnitCase, to_junit
from workflow.campaign.ledger import Attempt
from workflow.campaign.planning.campaign_size import CampaignSize
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial, RefusedTrial
from workflow.campaign.results.campaign_tables import (
    comparison_table,
    method_text,
    metric_table,
    plan_table,
    status_table,
    varied,
)
from workflow.campaign.results.make_results import violated_by, why_unknown
from workflow.campaign.results.results_model import CampaignResults, CampaignStatus, RunningRepetition, TrialViolation
from workflow.campaign.results.results_summary import results_summary
from workflow.errors import EXIT_OK, Problem, RunError, to_message, to_notes
from workflow.formatting import duration, moment, node_hours, plural
from workflow.plan.plan_model import ExpectationPlan
from workflow.replace_file import replace_file
from workflow.report.show.printing import show_messages
from workflow.report.show.report_tables import figure_text
from workflow.report.show.terminal import Output, make_output
from workflow.report.show.text_table import COLOURS
from workflow.run.records.run_directory import RUNS

# Of the repetitions that run at the same time.
MOST_SHOWN = 20
_KNOWN = {"expected": "as expected in the file", "measured": "by what has been measured"}


def show_plan(planned: PlannedCampaign, size: CampaignSize | None, messages: list[Problem], wide: bool = False) -> None:
    """The trials of a campaign, how they run and what they cost."""
    output = make_output(wide=wide)
    spec, cost = planned.spec, expected_cost(planned)
    trials = sum(not each.is_baseline for each in planned.ready) + len(planned.refused)
    without_io = len(planned.ready) + len(planned.refused) - trials
    head = [plural(trials, "trial"), *([f"{without_io} without I/O"] if without_io else [])]
    output.say(f"{spec.campaign}: {', '.join(head)}", "bold")
    output.draw(plan_table(planned))
    warmup = f" and {spec.warmup} for warm-up" if spec.warmup else ""
    order = f"in random blocks, seed {spec.order.seed}" if spec.order.by == "blocks" else "in the order of the file"
    output.say("")
    how_many = f"{spec.repetitions} of each trial" if spec.search is None else "fewer of a trial that is not the best"
    most = "" if spec.search is None else "at most "
    output.say(f"runs: {most}{cost.repetitions}, {how_many}{warmup}, {order}")
    for line in size_lines(size, spec, refused=bool(planned.refused)) if size is not None else []:
        output.say(line, wrap=True)
    if planned.refused:
        output.say(f"{plural(len(planned.refused), 'trial')} cannot run: the errors say why")
    show_messages(messages, output)


class ProgressLines:
    """A line for each repetition that ended."""

    def __init__(self, quiet: bool = False) -> None:
        self._output = None if quiet else make_output()

    def __call__(self, ended: EndedRepetition) -> None:
        """Print the line of one, whichever process has run it."""
        if self._output is None:
            return
        which, attempt = ended.repetition, ended.attempt
        again = f", attempt {attempt.attempt}" if attempt.attempt > 1 else ""
        left = f", {duration(ended.left_s)} left" if ended.left_s else ""
        count = f"[{ended.done:{len(str(ended.total))}}/{ended.total}]"
        line = f"{count} {_name(ended.trial)}, {_kind(which.warmup)} {which.number}{again}"
        violated = violation_lines([] if which.warmup else ended.trial.expectations, attempt)
        colour = COLOURS["violated"] if violated else "" if attempt.state == "succeeded" else COLOURS[attempt.state]
        self._output.say(f"{line}: {attempt.state}, {duration(attempt.wall_s)}{left}", colour)
        if attempt.reason:
            self._output.say(f"  {attempt.reason} ({RUNS_FOLDER}/{attempt.run})")
        for line in violated:
            self._output.say(f"  {line} ({RUNS_FOLDER}/{attempt.run})")

    def tell(self, text: str) -> None:
        """Print what happened to a pilot or a job."""
        if self._output is not None:
            self._output.say(text, "dim")


def _kind(warmup: bool) -> str:
    return "warm-up" if warmup else "repetition"


def show_end(outcome: CampaignOutcome, *, gate: bool = False) -> None:
    """The last lines of `wf campaign run`, and of a gate that cannot compare."""
    status = outcome.status
    output = make_output(stderr=status.exit_code != EXIT_OK)
    failed = _counts(status)[1]
    _say_counts(output, status)
    where, names = os.path.relpath(outcome.directory), trial_names(status)
    for count in status.trials:
        if count.reason:
            output.say(f"  {names[count.trial]}: {count.reason}")
    show_messages(violation_messages(status, names), output)
    if outcome.interrupted:
        output.say("interrupted: the same command continues from here")
    elif outcome.left:
        more = "; raise it, and the same command continues" if "budget" in outcome.left_because else ""
        output.say(f"{plural(outcome.left, 'run')} left: {outcome.left_because}{more}")
    if failed and not outcome.interrupted and (gate or not outcome.left):
        output.say(
            "the same command runs the failed repetitions again"
            if gate
            else "`--failed` runs the failed repetitions again",
        )
    goes_on = outcome.left and (outcome.interrupted or not _counts(status)[0])
    output.say(f"  next: wf campaign {'run' if goes_on else 'report'} {where}")


def show_status(status: CampaignStatus, wide: bool = False) -> None:
    """How far a campaign is."""
    output = make_output(wide=wide)
    output.say(f"{status.campaign}: site {status.site}, {duration(status.spent_s)} spent", "bold")
    _say_options(output, status.options)
    output.say(driver_text(status))
    output.draw(status_table(status))
    names = trial_names(status)
    for line in (_running_text(each, names) for each in status.running[:MOST_SHOWN]):
        output.say(line)
    if len(status.running) > MOST_SHOWN:
        output.say(f"and {len(status.running) - MOST_SHOWN} more")
    for count in status.trials:
        if count.reason:
            show_messages([to_message("error", f"{names[count.trial]}: {count.reason}")], output)
    show_messages([*violation_messages(status, names), *to_notes(status.notes)], output)


def show_now(status: CampaignStatus) -> None:
    """How far a campaign is when it begins to be watched, and what runs."""
    output = make_output()
    succeeded, failed, wanted = _counts(status)
    text = f"{status.campaign}: {driver_text(status)}; {succeeded} of {plural(wanted, 'repetition')} succeeded"
    output.say(text + (f", {failed} failed" if failed else ""), "bold")
    names = trial_names(status)
    for each in status.running[:MOST_SHOWN]:
        output.say(_running_text(each, names))


def show_left(status: CampaignStatus, directory: Path) -> None:
    """How a campaign has ended that another process ran, and how to go on."""
    output = make_output(stderr=status.exit_code != EXIT_OK)
    where = os.path.relpath(directory)
    _say_counts(output, status)
    show_messages(violation_messages(status, trial_names(status)), output)
    state = state_of(status)
    if state == "failed":
        output.say(f"`wf campaign run {where} --failed` runs the failed repetitions again")
    elif state != "complete":
        output.say(f"no process runs it now: wf campaign run {where} goes on")
    output.say(f"  next: wf campaign report {where}")


def show_cancelled(end: CampaignEnd, status: CampaignStatus, directory: Path) -> None:
    """What the end of a campaign has interrupted."""
    output, names = make_output(), trial_names(status)
    for repetition, attempt in end.ended:
        name = names.get(repetition.key, repetition.key)
        output.say(f"{name}, {_kind(repetition.warmup)} {repetition.number}: {attempt.state}", COLOURS[attempt.state])
    _say_counts(output, status)
    output.say(f"  next: wf campaign run {os.path.relpath(directory)} goes on")


def _counts(status: CampaignStatus) -> tuple[int, int, int]:
    """(succeeded, failed, wanted) of all trials together."""
    trials = status.trials
    return (
        sum(each.succeeded for each in trials),
        sum(each.failed for each in trials),
        sum(each.wanted for each in trials),
    )


def _say_counts(output: Output, status: CampaignStatus) -> None:
    succeeded, failed, wanted = _counts(status)
    text = f"{status.campaign}: {succeeded} of {plural(wanted, 'repetition')} succeeded"
    text += f", {failed} failed" if failed else ""
    text += f", {status.violated} violated an expectation" if status.violated else ""
    colour = COLOURS["succeeded" if status.exit_code == EXIT_OK else "failed"]
    output.say(f"{text}, {duration(status.spent_s)} in all", colour)


def driver_text(status: CampaignStatus) -> str:
    """Who runs a campaign now."""
    driver = status.driver
    if driver is None:
        return "no process runs it now"
    who = f"process {driver.pid} on {driver.host}"
    return f"{who} runs it" if driver.alive else f"{who}, which ran it, has died: `wf campaign run` goes on"


def trial_names(status: CampaignStatus) -> dict[str, str]:
    """Key of a trial → its values in one line."""
    names = short_names(varied(each.parameters for each in status.trials))
    return {each.trial: trial_text(each.parameters, names, is_baseline=each.is_baseline) for each in status.trials}


def _running_text(each: RunningRepetition, names: Mapping[str, str]) -> str:
    name = names.get(each.trial, each.trial)
    place = f", {each.place}" if each.place else ""
    since = duration(max(0.0, time.time() - each.started))
    return f"runs now: {name}, {_kind(each.warmup)} {each.number}, for {since}{place}"


def show_results(results: CampaignResults, wide: bool = False) -> None:
    """Medians, intervals and comparisons."""
    output = make_output(wide=wide)
    output.say(f"{results.campaign}: site {results.site}, {moment(results.started)}", "bold")
    output.say(results_summary(results), wrap=True)
    _say_options(output, results.options)
    for metric in results.metrics:
        output.say(f"\n{metric.name} ({metric.of}, {metric.better} is better)", "bold")
        output.draw(metric_table(results, metric))
    if results.comparisons:
        output.say(f"\ncomparisons: {method_text(results.comparisons)}", "bold", wrap=True)
        output.draw(comparison_table(results))
    show_messages(to_notes(results.notes), output)


def _say_options(output: Output, options: list[str]) -> None:
    if options:
        output.say(f"with the options of its last run: {shlex.join(options)}")


def write_plan_junit(path: Path, planned: PlannedCampaign) -> None:
    """Trials as test cases: those that cannot be planned failed. Raises RunError when the file cannot be written."""
    trials: list[ReadyTrial | RefusedTrial] = [*planned.ready, *planned.refused]
    names = short_names(varied(each.trial.parameters for each in trials))
    cases = []
    for each in trials:
        fault = "" if isinstance(each, ReadyTrial) else "\n".join(str(problem) for problem in each.problems)
        is_baseline = isinstance(each, ReadyTrial) and each.is_baseline
        cases.append(JUnitCase(trial_text(each.trial.parameters, names, is_baseline=is_baseline), fault=fault))
    _write(path, to_junit(planned.spec.campaign, cases))


def write_status_junit(path: Path, status: CampaignStatus) -> None:
    """Trials as test cases: those with a repetition that failed, or violated an expectation, failed.

    Raises RunError when the file cannot be written.
    """
    cases, names = [], trial_names(status)
    for count in status.trials:
        skipped = "" if count.succeeded + count.failed == count.wanted else f"{count.succeeded} of {count.wanted} ran"
        fault = (
            count.reason
            if count.failed
            else "\n".join(violation_text(each, count.succeeded) for each in count.violations)
        )
        cases.append(JUnitCase(names[count.trial], fault=fault, skipped=skipped))
    _write(path, to_junit(status.campaign, cases))


def _write(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}", "name another file: `--junit FILE`") from error


def _name(trial: ScheduledTrial) -> str:
    names = short_names(list(trial.parameters))
    return trial_text(trial.parameters, names, is_baseline=trial.is_baseline)


def violation_lines(expected: Sequence[ExpectationPlan], attempt: Attempt) -> list[str]:
    """What a repetition that has just ended has not kept."""
    return [
        f"{each.figure}: expected {each.expected}, "
        + (
            _not_measured(why_unknown(each.figure, [attempt]))
            if each.measured is None
            else f"measured {figure_text(each.measured, each.unit, each.limit)}"
        )
        for each in violated_by(expected, attempt)
    ]


def _not_measured(why: str) -> str:
    return f"not measured: {why}" if why else "not measured"


def violation_messages(status: CampaignStatus, names: Mapping[str, str]) -> list[Problem]:
    """An error for each expectation that repetitions of a trial did not meet; `names`: key of a trial → its name."""
    return [
        Problem(each.place, 0, 0, each.key, f"{names[trial.trial]}: {violation_text(each, trial.succeeded)}")
        for trial in status.trials
        for each in trial.violations
    ]


def violation_text(each: TrialViolation, succeeded: int) -> str:
    """`expected > 1 GB/s, and 2 of 6 repetitions did not meet it; at worst 312 MB/s (runs/3f2a91c07b12-r03)`."""
    worst = (
        _not_measured(each.why) if each.worst is None else f"at worst {figure_text(each.worst, each.unit, each.limit)}"
    )
    count = f"{each.count} of {plural(succeeded, 'repetition')} did not meet it"
    return f"expected {each.expected}, and {count}; {worst} ({RUNS}/{each.run})"


def size_lines(size: CampaignSize, spec: CampaignSpec, *, refused: bool = False) -> list[str]:
    """What is left, a line or two on side by side or not, and one on time and cost.

    `refused`: some trials cannot run.
    """
    if not size.left:
        return ["all of them are finished" + ("" if refused else ": nothing is left to run")]
    done = f"{size.finished} of them {'is' if size.finished == 1 else 'are'} finished; for the other {size.left}:"
    return [*([done] if size.finished else []), *_of_those_left(size, spec)]


def _of_those_left(size: CampaignSize, spec: CampaignSpec) -> list[str]:
    if size.pilots.job_each:
        return _job_each(size, spec)
    lines = [_side_by_side(size)] if size.at_once > 1 else _one_at_a_time(size)
    if size.pilots.in_jobs:
        lines.append(_jobs(size))
    if never := size.never:
        too_long = "expected to take longer than a job: give `jobs:` a longer `time`"
        fault = too_long if size.pilots.in_jobs else "too large for the nodes that are here"
        lines.append(f"{never} of them {'is' if never == 1 else 'are'} {fault}")
    return [*lines, _time(size, spec)]


def _job_each(size: CampaignSize, spec: CampaignSpec) -> list[str]:
    """The queue decides how many run at once; how long that takes is not known."""
    text = "each runs in a batch job of its own, as many at once as the queue runs"
    if size.known_by == "deadline":
        return [text, _time(size, spec)]
    about = "" if spec.search is None else "about "
    return [text, f"cost: {about}{node_hours(size.node_s / 3600)}, {_KNOWN[size.known_by]}"]


def _side_by_side(size: CampaignSize) -> str:
    text = f"they run side by side, up to {size.at_once} at once, "
    if size.pilots.share_nodes:
        return text + "each on its own cores: those on one node disturb each other"
    return text + "each on its own nodes"


def _one_at_a_time(size: CampaignSize) -> list[str]:
    where = "" if size.pilots.in_jobs else " on this machine"
    text = f"they run one at a time{where}, so that none disturbs another"
    if size.most_if_shared < 2 or size.pilots.share_nodes:
        return [text]
    more = f"`side_by_side: cores` runs up to {size.most_if_shared} at once"
    return [text, f"{more}; they then disturb each other"]


def _jobs(size: CampaignSize) -> str:
    pilot, count = size.pilots.size, 1 if size.pilots.one_at_a_time else size.pilots.count
    same_time = f", {count} at the same time" if count > 1 else ""
    return f"jobs: {plural(pilot.nodes, 'node')} for at most {duration(pilot.time_s)} each{same_time}"


def _time(size: CampaignSize, spec: CampaignSpec) -> str:
    if size.known_by == "deadline":
        most = f"at most {duration(spec.deadline)} a run"
        return f"time: not known; {most}; write `expected: 20 s` in the file to state it"
    bound = "at least " if size.at_once > 1 else ""
    if spec.search is not None:  # as if its largest trials went on
        bound = "about " if bound or size.known_by == "measured" else "at most "
    queue = ", besides the time in the queue" if size.pilots.in_jobs else ""
    cost = f"cost: {bound}{node_hours(size.node_s / 3600)}, {_KNOWN[size.known_by]}"
    return f"time: {bound}{duration(size.time_s)}{queue}, {cost}"
