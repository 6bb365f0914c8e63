"""`wf balance`: the candidates of a pipeline, run until it is known which one is the fastest."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow.api.plans import find_site, make_plan, refuse_missing, show_warnings
from workflow.balance.search import TODAY
from workflow.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, Problem, RunError, SpecError
from workflow.formatting import plural

if TYPE_CHECKING:
    from workflow.balance.balance_model import Balance, BalancedCandidate, Goal, ProbeRecord
    from workflow.balance.candidates import Settings, Space
    from workflow.balance.knobs import Knob
    from workflow.balance.probe_costs import RunCost
    from workflow.balance.search import Belief, KeyValue, RatioBounds, Standing
    from workflow.forecast.calibration_model import Calibration
    from workflow.forecast.quartiles import Estimate
    from workflow.launch.allocation import Allocation
    from workflow.plan.plan_model import Plan
    from workflow.site.site_model import Site
    from workflow.spec.load import Loaded

BALANCES = "balance"
"""The folder below the current one, as `runs`."""
# A run whose steps take less in all is timed badly.
LEAST_S = 2.0


@dataclass(frozen=True)
class BalanceRequest:
    """What is asked."""

    path: str | os.PathLike[str]
    goal: Goal = "time"
    probes: int = 30
    """Runs at most, those of earlier calls included."""
    steps: int = 24
    """Of each run, at least."""
    nodes: int | None = None
    """That a run may use; None: all that there are."""
    node_hours: float | None = None
    """No run is started that is expected to exceed it, with all runs before, those of earlier calls included; None: no
    limit but their number. The pipeline as it is runs once in any case: only then is it known what a run takes."""
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Keys → values to try, besides those that wf chooses."""
    fixed: Sequence[str] = ()
    """Keys that stay as they are."""
    profiles: Sequence[str] = ()
    sets: Sequence[str] = ()
    via: str | None = None
    site: str | None = None
    directory: Path | None = None
    """Default: `balance/NAME` below the current directory."""


def balance_pipeline(
    request: BalanceRequest,
    *,
    plan_only: bool = False,
    begin: Callable[[Space], None] = lambda _space: None,
    show: Callable[[ProbeRecord, float | None, int], None] = lambda _probe, _seconds, _left: None,
) -> tuple[Balance, Path]:
    """Choose ranks, placement, transports and policies of a pipeline, by forecast and by short runs on this machine.

    Runs of an earlier call with the same pipeline count, so that an interrupted one goes on. Returns the choice and its
    directory, which holds `balance.json` and `overlay.yaml`: `wf run PIPELINE --overlay FILE`. The pipeline file is
    left as it is.

    Args:
        request: what is asked.
        plan_only: run and write nothing: the choice by the forecast and by what ran before.
        begin: is called with the candidates, before any of them runs.
        show: is called with each probe, its seconds per step, and how many may follow.

    Raises:
        SpecError: the pipeline is wrong, or this machine lacks what it needs.
        RunError: today's pipeline fails; nothing can be varied; there are no nodes here; another process searches in
            the same directory; Ctrl-C.
    """
    from workflow.campaign.execution.driver_lease import driver_lease

    search = BalanceSearch(request)
    begin(search.space)
    if plan_only:
        search.recall()
        return search.result(), search.directory
    with contextlib.ExitStack() as stack:
        with search.usable_folder():
            search.directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(driver_lease(search.directory, "this search"))
        search.recall()  # not before: another search may just have added to them
        search.search(show)
        balance = search.result()
        search.write(balance)
    return balance, search.directory


class BalanceSearch:
    """The candidates of a pipeline with what is known of each."""

    def __init__(self, request: BalanceRequest) -> None:
        from workflow.balance.candidates import forecasts
        from workflow.balance.probe_runs import counted_stage, outputs_elsewhere
        from workflow.calibration.calibration_file import load_calibration
        from workflow.forecast.calibration_model import Calibration
        from workflow.provenance.collect import start_context
        from workflow.provenance.plan_files import LookedUp
        from workflow.site.discover import discover_allocation
        from workflow.spec.check import Library

        self.request = request
        self.allocation: Allocation = discover_allocation()
        self.library = Library(Path(request.path).absolute().parent)
        self.loaded = self._load({})
        self.site: Site = find_site(self.loaded, self.allocation)
        today = make_plan(self.loaded, self.site, self.allocation)
        if today.allocation is not None and self.allocation.source == "local":
            text = f"site {today.site} has a scheduler, and this is not one of its jobs: candidates run where wf runs"
            raise RunError(text, f"for example: salloc --nodes={today.nodes} wf balance {request.path}")
        self._refuse_missing(today)
        if elsewhere := outputs_elsewhere(self.loaded):
            text = f"{', '.join(elsewhere)}: this output is not in the run directory, and each candidate would write it"
            raise RunError(text, "make it relative: it is then below the run directory")
        self.counted = counted_stage(today)
        self.calibration: Calibration = load_calibration(self.site.site) or Calibration(site=self.site.site)
        self.directory = (request.directory or Path(BALANCES, self.loaded.spec.name)).absolute()
        self.looked_up, self.common = LookedUp(), start_context(self.loaded.path.parent, sys.argv)
        self.space = self._space(today)
        self.started: list[tuple[int, ProbeRecord]] = []
        self.first_forecast = forecasts(self.space, self.calibration, [], self.counted)
        self._learn()

    def recall(self) -> None:
        """Take up the runs of earlier calls. Raises RunError."""
        from workflow.balance.probe_runs import read_probes

        if earlier := read_probes(self.directory):
            index = {self._key(number): number for number in range(len(self.space.candidates))}
            self.started = [(index[each.key], each) for each in earlier if each.key in index]
            self._learn()

    def search(self, show: Callable[[ProbeRecord, float | None, int], None]) -> None:
        """Run candidates until it is decided, or as many have run as may."""
        while self._runs_left() and (number := self.standing.next) is not None:
            probe = self.run(number)
            show(probe, self.seconds(probe), self._runs_left())

    def _runs_left(self) -> int:
        """How many more may run, if all take what the next one is expected to take."""
        from workflow.balance.probe_costs import runs_that_fit

        left, number = max(0, self.request.probes - self.count), self.standing.next
        if self.request.node_hours is None or not self.count or number is None:
            return left
        return min(left, runs_that_fit(self.request.node_hours, self._costs, self._expected_node_s(number)))

    @property
    def _costs(self) -> list[RunCost]:
        from workflow.balance.probe_costs import RunCost

        nodes = [each.plan.nodes for each in self.space.candidates]
        return [
            RunCost(probe.wall_s, nodes[number], probe.steps, self.seconds(probe)) for number, probe in self.started
        ]

    def _expected_node_s(self, number: int) -> float:
        """Node-seconds that a run of this candidate is expected to take."""
        from workflow.balance.candidates import weight
        from workflow.balance.probe_costs import expected_wall_s
        from workflow.balance.probe_runs import shortened

        candidate = self.space.candidates[number]
        steps = self._steps(number) if shortened(self._load(candidate.settings), 1) else None
        step_s = self.belief.time(number).median / weight(candidate, self.request.goal)
        return candidate.plan.nodes * expected_wall_s(self._costs, steps, step_s)

    def _space(self, today: Plan) -> Space:
        """The candidates. Raises RunError for none."""
        from workflow.balance.candidates import make_space
        from workflow.balance.knobs import find_knobs

        here = max(today.nodes, len(self.allocation.host_names))
        nodes = min(self.request.nodes or here, here)
        shared = {stream.name for stream in today.streams if stream.traits.one_node}
        knobs = self._asked(find_knobs(self.loaded, len(self.site.usable_cores) * nodes, nodes, shared))
        space = make_space(knobs, today, self._plan, nodes)
        if len(space.candidates) == 1:
            text = "nothing of this pipeline can be varied" + "".join(f"\n  not {each}" for each in space.refused)
            raise RunError(text, "name a key and its values: `--vary 'stages.NAME.ranks=[1,2]'`")
        return space

    def _key(self, number: int) -> str:
        """What tells whether a probe was of this candidate."""
        from workflow.balance.probe_runs import probe_key

        return probe_key(self.space.candidates[number].plan, self.loaded, self.looked_up)

    def _load(self, settings: Settings) -> Loaded:
        from workflow.balance.candidates import set_text
        from workflow.spec.load import load_pipeline

        request = self.request
        sets = [*request.sets, *(set_text(key, value) for key, value in settings.items())]
        return load_pipeline(
            request.path, profiles=request.profiles, sets=sets, via=request.via, site=request.site,
            library=self.library,
        )  # fmt: skip

    def _plan(self, settings: Settings) -> Plan:
        return make_plan(self._load(settings), self.site, self.allocation)

    def _refuse_missing(self, plan: Plan) -> None:
        from workflow.plan.topology.implicit_stages import complete_pipeline

        show_warnings(refuse_missing(complete_pipeline(self.loaded), plan, self.site))

    def _asked(self, knobs: Sequence[Knob]) -> list[Knob]:
        """What is varied: the values of `vary`, then those that wf chooses, without what `fixed` and options keep.

        Raises SpecError for a value of `vary` that is wrong by itself, and a key of `fixed` that there is not.
        """
        from workflow.balance.knobs import Knob
        from workflow.spec.suggest import did_you_mean, listing

        request = self.request
        given = [text.partition("=")[0] for text in request.sets] + (["streams.*.via"] if request.via else [])
        kept = {knob.key: knob for knob in knobs if not any(fnmatch(knob.key, each) for each in given)}
        for key in request.fixed:
            if self._value(key) is None and key not in kept:
                hint = did_you_mean(key, kept) or f"what is varied: {listing(kept)}"
                raise SpecError([Problem(f"--fixed {key}", 0, 0, "", "there is no such key", hint)])
        asked = []
        for key, values in request.vary.items():
            chosen = kept.pop(key, Knob(key, (self._value(key),)))
            asked.append(Knob(key, tuple(_distinct([*chosen.values, *values])), chosen.joint))
            for value in values:
                self._check(key, value, joint=chosen.joint)
        return [knob for knob in (*asked, *kept.values()) if knob.key not in request.fixed]

    def _check(self, key: str, value: object, *, joint: bool) -> None:
        """A mistake in what was asked is no candidate that is left out. Raises SpecError."""
        try:
            self._load({key: value}) if joint else self._plan({key: value})
        except SpecError as error:
            option = f"--vary {key}=[{json.dumps(value)}]"
            raise SpecError(
                [each._replace(source=option) if each.source.startswith("--set ") else each for each in error.problems]
            ) from None

    def _value(self, key: str) -> Any:
        """The value of a key with all that is laid over the file; None where there is none, or no default."""
        found: Any = self.loaded.spec.model_dump(mode="json", by_alias=True)
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found

    @property
    def probes(self) -> list[tuple[int, ProbeRecord]]:
        """The runs that count, each with its candidate."""
        return [(number, probe) for number, probe in self.started if probe.counts]

    @property
    def count(self) -> int:
        """Probes so far."""
        return len(self.probes)

    @property
    def spent_s(self) -> float:
        """Wall time of all runs, those included that do not count."""
        return sum(each.wall_s for each in self._costs)

    @property
    def spent_node_hours(self) -> float:
        """Of the nodes that all runs used."""
        return sum(each.node_s for each in self._costs) / 3600

    @property
    def times(self) -> dict[int, list[float]]:
        """Candidate → seconds per step of its probes."""
        found: dict[int, list[float]] = {}
        for number, probe in self.probes:
            if (seconds := self.seconds(probe)) is not None:
                found.setdefault(number, []).append(seconds)
        return found

    def seconds(self, probe: ProbeRecord) -> float | None:
        """Per step of a run, measured as for all candidates; None: it has failed."""
        return probe.pace_s if self.space.paced else probe.span_s

    @property
    def failed(self) -> dict[int, str]:
        """Candidates of which a probe has failed, with the reason."""
        return {number: probe.reason for number, probe in self.probes if probe.reason}

    def _learn(self) -> None:
        """What is known of the candidates: by the forecast with what the stages took in the probes so far, and by the
        times of the probes."""
        from workflow.balance.candidates import forecasts, to_search
        from workflow.balance.search import believe, fail_too, standing, values_that_fail
        from workflow.calibration.stage_records import make_records

        ran = [self.directory / "runs" / each.run for _, each in self.probes if not each.reason]
        there = [run_dir for run_dir in ran if run_dir.is_dir()]
        forecast = self.first_forecast
        if there:
            forecast = forecasts(self.space, self.calibration, make_records(there)[0], self.counted)
        candidates, self.measured = to_search(self.space, forecast, self.request.goal, self.times)
        self.belief: Belief = believe(candidates, self.measured)
        self.given_up: set[KeyValue] = values_that_fail(candidates, self.failed, self.measured)
        failing = {*self.failed, *fail_too(candidates, self.given_up)}
        self.standing: Standing = standing(self.belief, self.measured, sorted(failing))

    def run(self, number: int, steps: int | None = None) -> ProbeRecord:
        """Run a candidate; `steps`: by default so many as take long enough, as far as is known.

        Raises RunError where today's pipeline fails, or something else has ended the run.
        """
        from workflow.balance.probe_runs import run_probe, shortened
        from workflow.provenance.collect import to_provenance

        candidate = self.space.candidates[number]
        short = shortened(self._load(candidate.settings), steps or self._steps(number))
        loaded = self._load({**candidate.settings, **short})
        plan = make_plan(loaded, self.site, self.allocation)
        run_dir = self._new_run()
        probe, from_outside = run_probe(
            loaded, plan, self.allocation, run_dir, to_provenance(self.common, plan, loaded), self._key(number),
            candidate.settings,
        )  # fmt: skip
        spanned = (self.seconds(probe) or LEAST_S) * probe.steps
        too_short = number == TODAY and short and spanned < LEAST_S / 2 and not self.count and steps is None
        fails = number == TODAY and probe.reason
        self._note(number, probe.model_copy(update={"counts": not (from_outside or fails or too_short)}))
        if from_outside:
            hint = f"the same command goes on: {plural(self.count, 'run')} of candidates count"
            raise _ended(probe.reason or "interrupted", hint, EXIT_INTERRUPTED)
        if fails:
            hint = f"wf logs --run {run_dir}, or wf report {run_dir}"
            raise _ended(f"the pipeline fails as it is: {probe.reason}", hint, EXIT_RUN_FAILED)
        if too_short:  # to be timed: only its time counts, and it runs again with more steps
            return self.run(number, math.ceil(probe.steps * LEAST_S / spanned))
        self._learn()
        return probe

    def _note(self, number: int, probe: ProbeRecord) -> None:
        from workflow.balance.probe_runs import note_probe

        note_probe(self.directory, probe)
        self.started.append((number, probe))

    def _steps(self, number: int) -> int:
        """How many steps of a candidate take long enough to be timed, as far as is known."""
        from workflow.balance.candidates import weight

        if not self.times:
            return self.request.steps
        expected = self.belief.time(number).median / weight(self.space.candidates[number], self.request.goal)
        return max(self.request.steps, math.ceil(LEAST_S / expected))

    def _new_run(self) -> Path:
        folder = self.directory / "runs"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            numbers = [int(each.name.removeprefix("probe-")) for each in folder.glob("probe-[0-9]*")]
        except (OSError, ValueError) as error:
            raise RunError(f"{folder}: it cannot be used for runs: {error}", "use another folder: `--dir`") from error
        return folder / f"probe-{max([*numbers, len(self.started)]) + 1:03}"

    def _more_node_hours(self, more_probes: int | None) -> float | None:
        """Of so many more runs, each as the next one; None where nobody asked for a limit."""
        if more_probes is None or self.request.node_hours is None or self.standing.next is None:
            return None
        return more_probes * self._expected_node_s(self.standing.next) / 3600 if self.count else 0.0

    def result(self) -> Balance:
        """What is known now."""
        from workflow.balance.balance_model import Balance, FailedCandidate
        from workflow.balance.candidates import limited_by
        from workflow.balance.search import best_that_ran, least_probes_to_decide, still_open

        belief, now, measured = self.belief, self.standing, self.measured
        failed, decided = self.failed, now.next is None
        chosen = now.choice if decided else best_that_ran(belief, now, measured)
        ran = sorted((each for each in measured if each not in (chosen, TODAY)), key=lambda each: belief.mean[each])
        more_probes = None if decided else least_probes_to_decide(belief, now, measured)
        mean_s = sum(probe.wall_s for _, probe in self.probes) / max(1, self.count)
        candidates = self.space.candidates
        return Balance(
            pipeline=os.fspath(self.request.path),
            site=self.site.site,
            goal=self.request.goal,
            counted=self.counted,
            paced=self.space.paced,
            keys={knob.key: list(knob.values) for knob in self.space.knobs},
            refused=self.space.refused,
            given_up=self._given_up_texts(),
            candidates=len(candidates),
            today=self._described(TODAY),
            limited_by=limited_by(candidates[TODAY].plan, self.calibration),
            chosen=self._described(chosen),
            decided=decided,
            others=[self._described(each) for each in ran],
            rivals=[self._described(each) for each in still_open(belief, now, chosen)],
            more_probes=more_probes,
            more_s=None if more_probes is None else more_probes * mean_s,
            more_node_hours=self._more_node_hours(more_probes),
            failed=[
                FailedCandidate(settings=candidates[each].settings, reason=reason) for each, reason in failed.items()
            ],
            probes=self.count,
            spent_s=self.spent_s,
            spent_node_hours=self.spent_node_hours,
        )

    def _given_up_texts(self) -> list[str]:
        from workflow.balance.candidates import setting_text

        knobs = self.space.knobs
        return [setting_text(knobs[key].key, knobs[key].values[value]) for key, value in sorted(self.given_up)]

    def _described(self, number: int) -> BalancedCandidate:
        from workflow.balance.balance_model import BalancedCandidate
        from workflow.balance.candidates import weight

        candidate, times = self.space.candidates[number], self.times.get(number, [])
        ran = [probe for index, probe in self.probes if index == number and not probe.reason]
        memory = [stream.queue_memory for stream in candidate.plan.streams if stream.queue is not None]
        return BalancedCandidate(
            settings=candidate.settings,
            probes=times,
            seconds=_bounds(self.belief.time(number), 1 / weight(candidate, self.request.goal)),
            ratio=_bounds(self.belief.ratio(number, TODAY)),
            forecast=self.first_forecast[number],
            nodes=candidate.plan.nodes,
            queue_memory=None if None in memory else sum(each or 0 for each in memory),
            waits=ran[-1].waits if ran else {},
        )

    def write(self, balance: Balance) -> None:
        """Write `balance.json` and the overlay. Raises RunError."""
        from workflow.balance.balance_model import BALANCE_FILE, OVERLAY_FILE
        from workflow.balance.show_balance import overlay_text
        from workflow.replace_file import replace_file
        from workflow.spec.yaml_tree.node import key_path

        with self.usable_folder():
            replace_file(self.directory / BALANCE_FILE, balance.to_json().encode())
            root, _ = self.library.pipeline(Path(self.request.path), os.fspath(self.request.path))
            text = overlay_text(balance, lambda key: [str(part) for part in key_path(root, key)])
            replace_file(self.directory / OVERLAY_FILE, text.encode())

    @contextlib.contextmanager
    def usable_folder(self) -> Iterator[None]:
        """Raise RunError where its directory cannot be used."""
        try:
            yield
        except OSError as error:
            raise RunError(f"{self.directory}: {error.strerror}", "use another folder: `--dir`") from error


def _distinct(values: Sequence[object]) -> list[object]:
    """Each once, in this order; lists and mappings are values, too."""
    return [value for index, value in enumerate(values) if value not in values[:index]]


def _ended(message: str, hint: str, exit_code: int) -> RunError:
    error = RunError(message, hint)
    error.exit_code = exit_code
    return error


def _bounds(interval: RatioBounds, factor: float = 1.0) -> Estimate:
    from workflow.forecast.quartiles import Estimate

    return Estimate(**interval._asdict()) * factor


def read_vary(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`KEY=[VALUE, …]` of `--vary`. Raises SpecError."""
    from workflow.spec.overlay import read_set
    from workflow.spec.yaml_tree.node import plain

    found = {}
    for text in texts:
        setting = read_set(text, "stages.sim.ranks=[1,2,4]")
        if isinstance(setting, Problem):
            hint = setting.hint.replace("--set", "--vary")
            raise SpecError([setting._replace(source=f"--vary {text}", hint=hint)])
        values = plain(setting.value)
        if not isinstance(values, list) or not values:
            hint = "for example `--vary stages.sim.ranks=[1,2,4]`"
            raise SpecError([Problem(f"--vary {text}", 0, 0, "", "expected a list of values", hint)])
        found[setting.key] = values
    return found
