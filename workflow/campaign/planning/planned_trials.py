"""The trials of a campaign with their plans: each is loaded and planned like a run, and starts nothing."""

from __future__ import annotations

import contextlib
import gc
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from workflow.campaign.file.campaign_spec import CampaignSpec, RunOrder
from workflow.campaign.file.load_campaign import Campaign, metric_path
from workflow.campaign.file.trials import Trial, make_trials, settings_of, short_names, trial_text
from workflow.campaign.ledger import Repetition, TrialContent
from workflow.campaign.planning.content_key import content_key, file_sums, trial_content
from workflow.errors import Problem, SpecError
from workflow.formatting import plural
from workflow.plan.plan_model import Plan, StagePlan
from workflow.provenance.plan_files import LookedUp, examine_plan, files_of
from workflow.report_figures import FigureName, to_figure_name
from workflow.spec.check import Library
from workflow.spec.load import Loaded, load_pipeline
from workflow.spec.overlay import Setting
from workflow.spec.suggest import did_you_mean, listing
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import Node

# As in hints: `--set KEY=VALUE`.
_SET = re.compile(r"--set ([\w.-]+)=([^`\s]*)")
# Of the notes on the plans of trials, which may differ in numbers only.
MOST_NOTES = 6
Decide = Callable[[Loaded, Sequence[Setting]], Plan]
"""A loaded pipeline and what a trial lays over its site → the plan."""


@dataclass(frozen=True)
class ReadyTrial:
    """A trial that can run."""

    trial: Trial
    loaded: Loaded
    plan: Plan
    key: str
    """Its content key."""
    content: TrialContent = field(repr=False)
    """What the key is made from."""
    baseline: str = ""
    """The key of the trial without I/O that belongs to it; empty without one."""
    is_baseline: bool = False
    files: Mapping[Path, str] = field(default_factory=dict)
    """Its programs, inputs and Python modules → their checksums, which are part of the key."""
    made_from: tuple[Path, ...] = ()
    """All files that its plan is made from and names."""

    @property
    def nodes(self) -> int:
        """How many nodes it needs."""
        return self.plan.nodes


@dataclass(frozen=True)
class RefusedTrial:
    """A trial that cannot be planned, and why."""

    trial: Trial
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class PlannedCampaign:
    """A campaign with all that was decided before anything runs."""

    campaign: Campaign
    ready: tuple[ReadyTrial, ...]
    """In the order of the file, then the baselines, each once."""
    refused: tuple[RefusedTrial, ...]

    @property
    def spec(self) -> CampaignSpec:
        """What the user wrote."""
        return self.campaign.spec

    @cached_property
    def repetitions(self) -> list[Repetition]:
        """All repetitions of the trials that can run, in the order in which they run."""
        spec = self.spec
        return make_schedule([each.key for each in self.ready], spec.repetitions, spec.warmup, spec.order)

    @cached_property
    def by_key(self) -> dict[str, ReadyTrial]:
        """Content key → its trial."""
        return {each.key: each for each in self.ready}

    @property
    def problems(self) -> list[Problem]:
        """Why it cannot run: each mistake once, with its place in the campaign file or the pipeline."""
        return list(dict.fromkeys(problem for each in self.refused for problem in each.problems))


def plan_campaign(campaign: Campaign, decide: Decide) -> PlannedCampaign:
    """Load and plan every trial.

    Raises:
        SpecError: the campaign has no trials, or measures what none of its trials has.
    """
    trials = make_trials(campaign)
    ready: list[ReadyTrial] = []
    refused: list[RefusedTrial] = []
    baselines: dict[str, ReadyTrial] = {}
    without_io = settings_of(campaign.root, ("baseline", "set")) if campaign.spec.baseline is not None else []
    shared = _Shared(_deadline(campaign), decide, Library(Path(campaign.pipeline).absolute().parent), LookedUp())
    with _without_collector():
        for trial in trials:
            planned = _planned(campaign, trial, shared)
            if isinstance(planned, ReadyTrial) and without_io:
                twin = _planned(campaign, trial.with_settings(without_io), shared)
                if isinstance(twin, ReadyTrial):
                    baselines.setdefault(twin.key, _as_baseline(twin))
                    planned = replace(planned, baseline=twin.key)
                else:
                    planned = RefusedTrial(trial, twin.problems)
            if isinstance(planned, ReadyTrial):
                ready.append(planned)
            else:
                refused.append(planned)
    problems = [*_twins(ready), *(_unknown_figures(campaign, ready) if ready else [])]
    if problems:
        raise SpecError(problems)
    # A trial without I/O among those that vary is its own baseline, and that of others: it is measured once.
    measured = {each.key for each in ready}
    others = [each for key, each in baselines.items() if key not in measured]
    return PlannedCampaign(campaign, (*ready, *others), tuple(refused))


def plan_notes(planned: PlannedCampaign) -> list[str]:
    """What `wf plan` says of the trials, each once, with the number of trials of which it is said."""
    counts = Counter(text for each in planned.ready for text in each.plan.advice)
    total = len(planned.ready)
    texts = [text if count == total else f"{text} ({count} of {total} trials)" for text, count in counts.items()]
    more = len(texts) - MOST_NOTES
    return [*texts[:MOST_NOTES], *([f"{plural(more, 'more note')} on the plans of trials"] if more > 0 else [])]


def make_schedule(keys: Sequence[str], repetitions: int, warmup: int, order: RunOrder) -> list[Repetition]:
    """Every repetition of the trials with these keys, in the order in which they run.

    In blocks, each trial runs once per block, in an order drawn from the seed and the block's number: blocks that are
    added later do not change those before.
    """
    numbers = [*((number, True) for number in range(1, warmup + 1)), *((n, False) for n in range(1, repetitions + 1))]
    if order.by == "file":
        return [Repetition(key, number, is_warmup) for key in keys for number, is_warmup in numbers]
    schedule = []
    for number, is_warmup in numbers:
        block = list(keys)
        random.Random(f"{order.seed} {'warmup' if is_warmup else 'measured'} {number}").shuffle(block)
        schedule += [Repetition(key, number, is_warmup) for key in block]
    return schedule


def _as_baseline(trial: ReadyTrial) -> ReadyTrial:
    return replace(trial, is_baseline=True, content=replace(trial.content, is_baseline=True))


@dataclass(frozen=True)
class _Shared:
    """What all trials of a campaign have in common while they are planned."""

    limit: Setting
    decide: Decide
    library: Library
    looked_up: LookedUp


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """All that is planned is kept: Python's collector of cycles would look through it again and again, for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled and not gc.get_freeze_count():
            gc.freeze()  # and so among the old ones, without a look at each
            gc.unfreeze()
        if enabled:
            gc.enable()


def _deadline(campaign: Campaign) -> Setting:
    """The supervisor of each run keeps the campaign's deadline."""
    root = campaign.root
    given = root.child("deadline")
    place = given.place if given is not None else root.place
    return Setting("deadlines.run", Node(f"{campaign.spec.deadline} s", place, place))


def _planned(campaign: Campaign, trial: Trial, shared: _Shared) -> ReadyTrial | RefusedTrial:
    settings = [shared.limit, *trial.of_pipeline]
    try:
        loaded = load_pipeline(
            campaign.pipeline, profiles=trial.profiles, site=campaign.site, settings=settings, library=shared.library
        )
        loaded = replace(loaded, python=campaign.python)
        plan = shared.decide(loaded, trial.of_site)
    except SpecError as error:
        return RefusedTrial(trial, tuple(_placed(problem, trial, campaign) for problem in error.problems))
    examined = examine_plan(plan, loaded, shared.looked_up)
    named = files_of(examined, loaded)
    files = file_sums(named)
    content = trial_content(trial.parameters, examined, loaded, files)
    return ReadyTrial(trial, loaded, plan, content_key(content), content, files=files, made_from=tuple(named))


def _placed(problem: Problem, trial: Trial, campaign: Campaign) -> Problem:
    """A problem of a trial, with hints that `wf campaign` takes.

    That of `--site` or `--profile` has the place where the campaign names the site or the profile.
    """
    problem = problem._replace(hint=_SET.sub(lambda found: _campaign_set(found, campaign.spec), problem.hint))
    option, _, name = problem.source.partition(" ")
    if option == "--site" and (site := campaign.root.child("site")) is not None:
        place: tuple[str, int, int] = site.place
    elif option == "--profile":
        written = campaign.root.child("profiles")
        named = (each for each in written.children.values() if each.value == name) if written is not None else iter(())
        place = next((each.place for each in named), trial.place)
    else:
        return problem
    return problem._replace(source=place[0], line=place[1], column=place[2])


def _campaign_set(found: re.Match[str], spec: CampaignSpec) -> str:
    """`--set KEY=VALUE` of a pipeline, as an option of a campaign: keys that vary get another list of values."""
    key, value = found.groups()
    section = "matrix" if key in spec.matrix else "zip" if key in spec.zip_ else ""
    return f"--set '{section}.{key}=[{value}, …]'" if section else f"--set set.{key}={value}"


def _twins(ready: list[ReadyTrial]) -> list[Problem]:
    """Trials whose plans are equal although their values differ: something that varies has no effect there.

    One message for each value, with the first pair of trials.
    """
    seen: dict[str, Trial] = {}
    names = short_names(list(dict.fromkeys(key for each in ready for key in each.trial.parameters)))
    found: dict[tuple[str, int, int], Problem] = {}
    for each in ready:
        if (first := seen.setdefault(each.key, each.trial)) is not each.trial:
            keys = [key for key, value in each.trial.parameters.items() if first.parameters.get(key) != value]
            both = " and ".join(f"`{trial_text(trial.parameters, names)}`" for trial in (first, each.trial))
            message = f"{both} run the same: {', '.join(keys)} changes nothing there"
            hint = "leave one of them out with `exclude`"
            varied = next((item for item in each.trial.settings if item.key == keys[0]), None) if keys else None
            place = varied.value.place if varied is not None else each.trial.place
            found.setdefault(place, Problem(*place, "", message, hint))
    return list(found.values())


def _unknown_figures(campaign: Campaign, ready: list[ReadyTrial]) -> list[Problem]:
    """Metrics that no trial can have: there is no such stage or stream, or its program does not record them."""
    found = []
    for name, metric in campaign.spec.metrics.items():
        figure = to_figure_name(metric.of)
        if figure is None or figure.section == "run":
            continue
        plans = [each.plan for each in ready]
        names = {part.name for plan in plans for part in (plan.stages if figure.section == "stages" else plan.streams)}
        path = metric_path(campaign.root, name)
        one = figure.section.removesuffix("s")
        if figure.name not in names:
            hint = did_you_mean(figure.name, names) or f"{figure.section}: {listing(names)}"
            message = f"no trial has a {one} `{figure.name}`"
            found.append(problem_at(campaign.root, path, message, hint))
        elif not figure.figure.own_program and all(_is_silent(plan, figure) for plan in plans):
            message = f"the program of {figure.name} does not report {figure.field}"
            hint = "only programs that use workflow.stage report it; `run.wall_s` is known for all programs"
            found.append(problem_at(campaign.root, path, message, hint))
        elif figure.field == "stored" and all(_in_memory(plan, figure.name) for plan in plans):
            message = f"no trial has a file of stream {figure.name}: its steps go from memory to memory"
            found.append(problem_at(campaign.root, path, message, f"measure `streams.{figure.name}.bytes` instead"))
    return found


def _in_memory(plan: Plan, stream: str) -> bool:
    """Whether a stream has no file; also where a plan does not have it."""
    return all(each.traits.in_memory for each in plan.streams if each.name == stream)


def _is_silent(plan: Plan, figure: FigureName) -> bool:
    """Whether the stage, or the writer of the stream, keeps no metrics; also where a plan does not have it."""
    stage: StagePlan | None
    if figure.section == "stages":
        stage = next((each for each in plan.stages if each.name == figure.name), None)
    else:
        writer = next((each.writer for each in plan.streams if each.name == figure.name), None)
        stage = next((each for each in plan.stages if each.name == writer), None)
    return stage is None or stage.observed == "evidence"
