"""What the verbs of `wf campaign` print: the plan, a line per repetition, the state, and the results."""

from __future__ import annotations

import os
from pathlib import Path

from workflow.campaign.campaign_advice import expected_cost
from workflow.campaign.campaign_directory import replace_file
from workflow.campaign.campaign_run import CampaignOutcome
from workflow.campaign.execution.remaining import EndedRepetition
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.junit import TrialCase, to_junit
from workflow.campaign.packing_text import packing_lines
from workflow.campaign.planning.packed_campaign import PackedCampaign
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial, RefusedTrial
from workflow.campaign.results.campaign_tables import comparison_table, metric_table, plan_table, status_table, varied
from workflow.campaign.results.results_model import CampaignResults, CampaignStatus, TrialCount
from workflow.errors import Problem, RunError, to_message, to_notes
from workflow.formatting import duration, moment, plural
from workflow.report.show.printing import show_messages
from workflow.report.show.rich_terminal import COLOURS, draw_table, make_output, say


def show_plan(planned: PlannedCampaign, packed: PackedCampaign | None, messages: list[Problem]) -> None:
    """The trials of a campaign, how they run and what they cost."""
    console = make_output()
    spec, cost = planned.spec, expected_cost(planned)
    trials = sum(not each.is_baseline for each in planned.ready) + len(planned.refused)
    without_io = len(planned.ready) + len(planned.refused) - trials
    head = [plural(trials, "trial"), *([f"{without_io} without I/O"] if without_io else [])]
    say(console, f"{spec.campaign}: {', '.join(head)}", "bold")
    draw_table(console, plan_table(planned))
    warmup = f" and {spec.warmup} for warm-up" if spec.warmup else ""
    order = f"in random blocks, seed {spec.order.seed}" if spec.order.by == "blocks" else "in the order of the file"
    say(console, "")
    say(console, f"runs: {cost.repetitions}, {spec.repetitions} of each trial{warmup}, {order}")
    for line in packing_lines(packed, spec) if packed is not None else []:
        say(console, line)
    show_messages(messages, console)


class ProgressLines:
    """A line for each repetition that ended."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = None if quiet else make_output()

    def __call__(self, ended: EndedRepetition) -> None:
        """Print its line."""
        if self._console is None:
            return
        attempt, repetition = ended.attempt, ended.repetition
        width = len(str(ended.total))
        kind = "warm-up" if repetition.warmup else "repetition"
        again = f", attempt {attempt.attempt}" if attempt.attempt > 1 else ""
        left = f", {duration(ended.left_s)} left" if ended.left_s else ""
        which = f"[{ended.done:{width}}/{ended.total}] {_name(ended.trial)}, {kind} {repetition.number}{again}"
        colour = "" if attempt.state == "succeeded" else COLOURS[attempt.state]
        say(self._console, f"{which}: {attempt.state}, {duration(attempt.wall_s)}{left}", colour)
        if attempt.reason:
            say(self._console, f"  {attempt.reason}")

    def tell(self, text: str) -> None:
        """Print what happened to a pilot or a job."""
        if self._console is not None:
            say(self._console, text, "dim")


def show_end(outcome: CampaignOutcome) -> None:
    """The last lines of `wf campaign run`."""
    status = outcome.status
    console = make_output(stderr=not status.complete)
    done, wanted = (sum(getattr(each, name) for each in status.trials) for name in ("succeeded", "wanted"))
    failed = sum(each.failed for each in status.trials)
    text = f"{status.campaign}: {done} of {plural(wanted, 'repetition')} succeeded"
    text += f", {failed} failed" if failed else ""
    say(console, f"{text}, {duration(status.spent_s)} in all", COLOURS["succeeded" if status.complete else "failed"])
    where = os.path.relpath(outcome.directory)
    for count in status.trials:
        if count.reason:
            say(console, f"  {_label(count, status)}: {count.reason}")
    if outcome.interrupted:
        say(console, "interrupted: the same command goes on from here")
    elif outcome.left:
        more = "; raise it, and the same command goes on" if "budget" in outcome.left_because else ""
        say(console, f"{plural(outcome.left, 'run')} left: {outcome.left_because}{more}")
    elif failed:
        say(console, "`--failed` runs again what failed")
    say(console, f"  next: wf campaign report {where}")


def show_status(status: CampaignStatus) -> None:
    """How far a campaign is."""
    console = make_output()
    say(console, f"{status.campaign}: site {status.site}, {duration(status.spent_s)} spent", "bold")
    draw_table(console, status_table(status))
    for count in status.trials:
        if count.reason:
            show_messages([to_message("error", f"{_label(count, status)}: {count.reason}")], console)


def show_results(results: CampaignResults) -> None:
    """Medians, intervals and comparisons."""
    console = make_output()
    say(console, f"{results.campaign}: site {results.site}, {moment(results.started)}", "bold")
    for metric in results.metrics:
        say(console, f"\n{metric.name} ({metric.of}, {metric.better} is better)", "bold")
        draw_table(console, metric_table(results, metric))
    if results.comparisons:
        count = plural(len(results.comparisons), "comparison")
        say(console, f"\ncomparisons: ratio of the medians; p of Mann–Whitney, corrected for {count} (Holm)", "bold")
        draw_table(console, comparison_table(results))
    show_messages(to_notes(results.notes), console)


def write_plan_junit(path: Path, planned: PlannedCampaign) -> None:
    """Trials as test cases: those that cannot be planned failed. Raises RunError when the file cannot be written."""
    trials: list[ReadyTrial | RefusedTrial] = [*planned.ready, *planned.refused]
    names = short_names(varied(each.trial.parameters for each in trials))
    cases = []
    for each in trials:
        fault = "" if isinstance(each, ReadyTrial) else "\n".join(str(problem) for problem in each.problems)
        kind = " without I/O" if isinstance(each, ReadyTrial) and each.is_baseline else ""
        cases.append(TrialCase(trial_text(each.trial.parameters, names) + kind, fault=fault))
    _write(path, to_junit(planned.spec.campaign, cases))


def write_status_junit(path: Path, status: CampaignStatus) -> None:
    """Trials as test cases: those with a failed repetition failed. Raises RunError when the file cannot be written."""
    cases = []
    for count in status.trials:
        skipped = "" if count.succeeded + count.failed == count.wanted else f"{count.succeeded} of {count.wanted} ran"
        cases.append(TrialCase(_label(count, status), fault=count.reason if count.failed else "", skipped=skipped))
    _write(path, to_junit(status.campaign, cases))


def _write(path: Path, data: bytes) -> None:
    try:
        replace_file(path, data)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}", "name another file: `--junit FILE`") from error


def _name(trial: ReadyTrial) -> str:
    parameters = trial.trial.parameters
    return trial_text(parameters, short_names(list(parameters))) + (" without I/O" if trial.is_baseline else "")


def _label(count: TrialCount, status: CampaignStatus) -> str:
    names = short_names(varied(each.parameters for each in status.trials))
    return trial_text(count.parameters, names) + (" without I/O" if count.is_baseline else "")
