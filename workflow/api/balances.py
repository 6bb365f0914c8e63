"""`wf balance`: the candidates of a pipeline, run until it is known which one is the fastest."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow.api.plans import find_site, make_plan, refuse_missing, show_warnings
from workflow.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, Problem, RunError, SpecError
from workflow.formatting import plural

if TYPE_CHECKING:
    from workflow.balance.balance_model import Balance, BalancedCandidate, Goal, KnownRange, ProbeRecord
    from workflow.balance.candidates import Settings, Space
    from workflow.balance.knobs import Knob
    from workflow.balance.search import Belief, RatioBounds, Standing
    from workflow.forecast.calibration_model import Calibration
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
    show: Callable[[ProbeRecord, int], None] = lambda _probe, _left: None,
) -> tuple[Balance, Path]:
    """Choose ranks, placement, transports and policies of a pipeline, by forecast and by short runs on this machine.

    Runs of an earlier call with the same pipeline count, so that an interrupted one goes on. Returns the choice and its
    directory, which holds `balance.json` and `overlay.yaml`: `wf run PIPELINE --overlay FILE`. The pipeline file is
    left as it is.

    Args:
        request: what is asked.
        plan_only: run nothing: the choice by the forecast and by what ran before.
        show: is called with each probe, and how many may follow.

    Raises:
        SpecError: the pipeline is wrong, or this machine lacks what it needs.
        RunError: today's pipeline fails; nothing can be varied; there are no nodes here; Ctrl-C.
    """
    search = BalanceSearch(request)
    if not plan_only and not search.count:
        show(search.run(0), request.probes - search.count)
    search.widen()
    while not plan_only and (number := search.next_probe()) is not None:
        probe = search.run(number)
        show(probe, request.probes - search.count)
    balance = search.result()
    search.write(balance)
    return balance, search.directory


class BalanceSearch:
    """The candidates of a pipeline with what is known of each."""

    def __init__(self, request: BalanceRequest) -> None:
        from workflow.balance.candidates import Space
        from workflow.balance.probe_runs import counted_stage, read_probes
        from workflow.calibration.calibration_file import load_calibration
        from workflow.forecast.calibration_model import Calibration
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
        self.counted = counted_stage(today)
        self.calibration: Calibration = load_calibration(self.site.site) or Calibration(site=self.site.site)
        self.directory = (request.directory or Path(BALANCES, self.loaded.spec.name)).absolute()
        self.earlier = read_probes(self.directory)
        self.steps = max([request.steps, *(each.steps for each in self.earlier)])
        self._take(Space.of_today(today))

    def widen(self) -> None:
        """Add the candidates to today's pipeline, whose probe says which streams matter. Raises RunError for none."""
        from workflow.balance.candidates import make_space
        from workflow.balance.knobs import find_knobs

        today = self.space.candidates[0].plan
        nodes = self.request.nodes or max(today.nodes, len(self.allocation.host_names))
        sizes = self.probes[0][1].sizes if self.probes else {}
        knobs = self._asked(find_knobs(self.loaded, sizes, len(self.site.usable_cores) * nodes, nodes))
        space = make_space(knobs, today, self._plan, nodes)
        if not space.knobs:
            text = "nothing of this pipeline can be varied" + "".join(f"\n  {each}" for each in space.refused)
            raise RunError(text, "name a key and its values: `--vary stages.NAME.ranks=[1,2]`")
        self._take(space)

    def _take(self, space: Space) -> None:
        """These candidates, with what earlier calls have run of them."""
        from workflow.balance.candidates import forecasts
        from workflow.balance.probe_runs import probe_key

        self.space = space
        self.keys = [probe_key(each.plan, self.loaded) for each in space.candidates]
        index = {key: number for number, key in enumerate(self.keys)}
        self.probes: list[tuple[int, ProbeRecord]] = [
            (index[each.key], each) for each in self.earlier if each.key in index
        ]
        self.first_forecast = forecasts(space, self.calibration, [], self.counted)
        self._learn()

    def _load(self, settings: Settings) -> Loaded:
        from workflow.balance.candidates import setting_text
        from workflow.spec.load import load_pipeline

        request = self.request
        sets = [*request.sets, *(setting_text(key, value) for key, value in settings.items())]
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
        """What is varied: what wf chooses and `vary` names, without what `fixed` and `--set` keep. Raises SpecError."""
        from workflow.balance.knobs import Knob
        from workflow.spec.suggest import did_you_mean, listing

        request = self.request
        given = {text.partition("=")[0] for text in request.sets}
        kept = {knob.key: knob for knob in knobs if knob.key not in given}
        for key in request.fixed:
            if key not in kept:
                hint = did_you_mean(key, kept) or f"what is varied: {listing(kept)}"
                raise SpecError([Problem(f"--fixed {key}", 0, 0, "", "this key is not varied", hint)])
        for key, values in request.vary.items():
            first = self._value(key)
            kept[key] = Knob(key, (first, *(each for each in values if each != first)))
            self._plan({key: values[0]})  # a mistake in what was asked is no candidate that is left out
        return [knob for key, knob in kept.items() if key not in request.fixed]

    def _value(self, key: str) -> Any:
        """The value of a key in the file; None where it is not written."""
        from workflow.spec.yaml_tree.node import key_path, nearest, plain

        root, _ = self.library.pipeline(Path(self.request.path), os.fspath(self.request.path))
        found, node = nearest(root, path := key_path(root, key))
        return plain(node) if found == path else None

    @property
    def count(self) -> int:
        """Probes so far."""
        return len(self.probes)

    @property
    def spent_s(self) -> float:
        """Wall time of these."""
        return sum(probe.wall_s for _, probe in self.probes)

    @property
    def times(self) -> dict[int, list[float]]:
        """Candidate → seconds per step of its probes."""
        found: dict[int, list[float]] = {}
        for number, probe in self.probes:
            if probe.seconds is not None:
                found.setdefault(number, []).append(probe.seconds)
        return found

    @property
    def failed(self) -> dict[int, str]:
        """Candidates of which a probe has failed, with the reason."""
        return {number: probe.reason for number, probe in self.probes if probe.seconds is None}

    def _learn(self) -> None:
        """The forecast of each candidate with what the stages took in the probes so far."""
        from workflow.balance.candidates import forecasts
        from workflow.calibration.stage_records import make_records

        ran = [self.directory / "runs" / each.run for _, each in self.probes if each.seconds is not None]
        there = [run_dir for run_dir in ran if run_dir.is_dir()]
        self.records = make_records(there)[0] if there else []
        self.forecast = forecasts(self.space, self.calibration, self.records, self.counted)

    def _now(self) -> tuple[Belief, Standing, dict[int, list[float]]]:
        from workflow.balance.candidates import to_search
        from workflow.balance.search import believe, standing

        candidates, counted = to_search(self.space, self.forecast, self.request.goal, self.times)
        belief = believe(candidates, counted)
        return belief, standing(belief, counted, list(self.failed)), counted

    def next_probe(self) -> int | None:
        """The candidate to run next; None: it is decided, or enough have run."""
        return None if self.count >= self.request.probes else self._now()[1].next

    def run(self, number: int) -> ProbeRecord:
        """Run a candidate. Raises RunError where today's pipeline fails, or on Ctrl-C."""
        from workflow.balance.probe_runs import note_probe, run_probe, shortened
        from workflow.campaign.execution.repetition import remove_data

        candidate = self.space.candidates[number]
        short = shortened(self._load(candidate.settings), self.steps)
        loaded = self._load({**candidate.settings, **short})
        plan = make_plan(loaded, self.site, self.allocation)
        run_dir = self._new_run()
        key = self.keys[number]
        probe, interrupted = run_probe(loaded, plan, self.allocation, run_dir, key, candidate.settings)
        if interrupted:
            hint = f"the same command goes on: {plural(self.count, 'run')} of candidates count"
            raise _ended("interrupted", hint, EXIT_INTERRUPTED)
        if number == 0 and probe.seconds is None:
            raise _ended(f"the pipeline fails as it is: {probe.reason}", f"wf report {run_dir}", EXIT_RUN_FAILED)
        remove_data(run_dir)
        spanned = (probe.seconds or LEAST_S) * probe.steps
        if number == 0 and short and spanned < LEAST_S and not self.probes:
            # Too short to be timed: not counted, and from now on all have more steps.
            self.steps = math.ceil(self.steps * LEAST_S / spanned)
            return self.run(number)
        note_probe(self.directory, probe)
        self.earlier.append(probe)
        self.probes.append((number, probe))
        self._learn()
        return probe

    def _new_run(self) -> Path:
        folder = self.directory / "runs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"probe-{sum(1 for _ in folder.iterdir()) + 1:03}"

    def result(self) -> Balance:
        """What is known now."""
        from workflow.balance.balance_model import Balance, FailedCandidate
        from workflow.balance.search import probes_to_decide

        belief, now, counted = self._now()
        failed = self.failed
        ran = sorted((each for each in counted if each not in (now.best, 0)), key=lambda each: belief.mean[each])
        more = [probes_to_decide(belief, now.best, each, counted) for each in now.rivals]
        more_probes = None if not more or None in more else max(each or 0 for each in more)
        mean_s = self.spent_s / max(1, self.count)
        candidates = self.space.candidates
        return Balance(
            pipeline=os.fspath(self.request.path),
            site=self.site.site,
            goal=self.request.goal,
            counted=self.counted,
            keys={knob.key: list(knob.values) for knob in self.space.knobs},
            refused=self.space.refused,
            candidates=len(candidates),
            today=self._described(0, belief),
            chosen=self._described(now.best, belief),
            others=[self._described(each, belief) for each in ran],
            rivals=[self._described(each, belief) for each in now.rivals],
            more_probes=more_probes,
            more_s=None if more_probes is None else more_probes * mean_s,
            failed=[
                FailedCandidate(settings=candidates[each].settings, reason=reason) for each, reason in failed.items()
            ],
            probes=self.count,
            spent_s=self.spent_s,
        )

    def _described(self, number: int, belief: Belief) -> BalancedCandidate:
        from workflow.balance.balance_model import BalancedCandidate
        from workflow.balance.candidates import weight

        candidate, times = self.space.candidates[number], self.times.get(number, [])
        ran = [probe for index, probe in self.probes if index == number and probe.seconds is not None]
        memory = [stream.queue_memory for stream in candidate.plan.streams if stream.queue is not None]
        return BalancedCandidate(
            settings=candidate.settings,
            probes=times,
            seconds=_bounds(belief.time(number), 1 / weight(candidate, self.request.goal)),
            ratio=_bounds(belief.ratio(number, 0)),
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

        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            replace_file(self.directory / BALANCE_FILE, balance.to_json().encode())
            replace_file(self.directory / OVERLAY_FILE, overlay_text(balance).encode())
        except OSError as error:
            raise RunError(f"{self.directory}: {error.strerror}", "use another folder: `--dir`") from error


def _ended(message: str, hint: str, exit_code: int) -> RunError:
    error = RunError(message, hint)
    error.exit_code = exit_code
    return error


def _bounds(interval: RatioBounds, factor: float = 1.0) -> KnownRange:
    from workflow.balance.balance_model import KnownRange

    return KnownRange(median=interval.median * factor, low=interval.low * factor, high=interval.high * factor)


def read_vary(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`KEY=[VALUE, …]` of `--vary`. Raises SpecError."""
    from workflow.spec.overlay import read_set
    from workflow.spec.yaml_tree.node import plain

    found = {}
    for text in texts:
        setting = read_set(text)
        if isinstance(setting, Problem):
            raise SpecError([setting])
        values = plain(setting.value)
        if not isinstance(values, list) or not values:
            hint = "for example `--vary stages.sim.ranks=[1,2,4]`"
            raise SpecError([Problem(f"--vary {text}", 0, 0, "", "expected a list of values", hint)])
        found[setting.key] = values
    return found
