"""A balance as text: what is tried, what ran, the choice beside the pipeline as it is, and the overlay file. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from workflow.balance.balance_model import Balance, BalancedCandidate, ProbeRecord
from workflow.balance.candidates import Space, setting_text
from workflow.balance.search import TOLERANCE
from workflow.formatting import NOTHING, duration, percent, plural, size, three_figures
from workflow.report.show.forecast_tables import short_time, time_text
from workflow.report.show.text_table import TERMINAL, Column, Table, make_table, number_column, text_column

AS_IT_IS = "as in the file"
# Beyond it an estimate says only that it takes long.
LONG_S, MANY = 4 * 3600.0, 500
MOST_RIVALS = 3
# Gains that are smaller do not count.
LEAST_GAIN = percent(TOLERANCE)


class _ComparedLine(NamedTuple):
    what: str
    today: str
    chosen: str


_COMPARED: list[Column[_ComparedLine]] = [
    text_column("", lambda line: line.what, TERMINAL),
    text_column(AS_IT_IS, lambda line: line.today, TERMINAL),
    text_column("chosen", lambda line: line.chosen, TERMINAL),
]
_RAN: list[Column[BalancedCandidate]] = [
    text_column("candidate", lambda each: settings_text(each.settings), TERMINAL),
    number_column("runs", lambda each: str(len(each.probes)), TERMINAL),
    number_column("time per step", lambda each: time_text(each.seconds), TERMINAL),
    number_column("÷ that of the file", lambda each: three_figures(each.ratio.median), TERMINAL),
]


def tried_lines(space: Space) -> Iterator[str]:
    """What is tried, and what cannot be."""
    for knob in space.knobs:
        if len(knob.values) > 1:
            yield f"{knob.key}: {', '.join(_value(each) for each in knob.values)}"
    for text in space.refused:
        yield f"not {text}"
    yield plural(len(space.candidates), "candidate")


def probe_line(probe: ProbeRecord, seconds: float | None, left: int) -> str:
    """A run that has ended: `0.31 s per step  sim.ranks=2  (at most 28 more runs)`."""
    took = f"{short_time(seconds)} per step" if seconds is not None else f"failed: {probe.reason}"
    more = f"  (at most {plural(left, 'more run')})" if left else ""
    return f"{took:>20}  {settings_text(probe.settings)}{more}"


def verdict_lines(balance: Balance) -> Iterator[str]:
    """What can be relied upon, and what it lacks where it is undecided."""
    chosen, ratio = balance.chosen, balance.chosen.ratio
    of = plural(balance.candidates, "candidate")
    tried = f"{plural(balance.probes, 'run')}, {of}, {duration(balance.spent_s)}"
    what, best = "time per step", "fastest"
    if balance.goal == "node-hours":
        what, best = "node-hours", "cheapest"
    if not balance.probes:
        first = min(balance.rivals, key=lambda each: each.ratio.median, default=balance.today)
        if None in [each.forecast for each in (balance.today, *balance.rivals)]:
            yield f"nothing has run, and not all have a forecast (`wf calibrate`): {of}"
        elif chosen.settings:
            yield f"nothing has run; by the forecast the {best} of {of}: {settings_text(chosen.settings)}"
        elif first.ratio.median > 1 - TOLERANCE:
            pace = f"the pace is limited by {balance.limited_by}, and " if balance.limited_by else ""
            yield f"nothing has run; by the forecast {pace}none of {of} gains more than {LEAST_GAIN}: the file is kept"
        else:
            gain = f"{what} smaller by a factor of {three_figures(1 / first.ratio.median)}"
            yield f"nothing has run; by the forecast the {best} of {of}: {settings_text(first.settings)}, {gain}"
            yield "  the file is kept: the error of a forecast may be larger"
        return
    if balance.decided and not chosen.settings:
        yield f"the pipeline is balanced as it is: nothing that was tried is better by more than {LEAST_GAIN} ({tried})"
        return
    factor = f"{three_figures(1 / ratio.median)} ({three_figures(1 / ratio.high)} to {three_figures(1 / ratio.low)})"
    gain = f"{what} smaller by a factor of {factor}"
    if balance.decided:
        yield f"{gain}: {settings_text(chosen.settings)} ({tried})"
        return
    yield f"undecided ({tried})"
    so_far = f"nothing that has run gains more than {LEAST_GAIN}"
    yield f"  so far the {best}: {settings_text(chosen.settings)}, {gain}" if chosen.settings else f"  so far {so_far}"
    for rival in balance.rivals[:MOST_RIVALS]:
        low, high = (three_figures(each / chosen.seconds.median) for each in (rival.seconds.low, rival.seconds.high))
        ran = plural(len(rival.probes), "run") if rival.probes else "it has not run"
        yield f"  open: {settings_text(rival.settings)}, {low} to {high} times as long ({ran})"
    if len(balance.rivals) > MOST_RIVALS:
        yield f"  and {plural(len(balance.rivals) - MOST_RIVALS, 'other')}"
    if balance.more_s is not None and balance.more_probes and (balance.more_s > LONG_S or balance.more_probes > MANY):
        yield "  more runs of this length may not tell them apart: for this noise their times are too near"
    elif balance.more_probes is not None and balance.more_s is not None:
        options = f"--probes {balance.probes + balance.more_probes}"
        if balance.more_node_hours is not None:
            # Runs differ: with exactly so much the last one might not fit.
            in_all = 1.1 * (balance.spent_node_hours + balance.more_node_hours)
            options += f" --budget-node-hours {in_all:.2g}"
        yield f"  at least {plural(balance.more_probes, 'more run')}, {duration(balance.more_s)}: {options}"


def runs_table(balance: Balance) -> Table:
    """Each candidate that ran, the fastest first."""
    chosen = [balance.chosen] if balance.chosen.settings else []
    ran = [each for each in (*chosen, *balance.others, balance.today) if each.probes]
    return make_table(_RAN, sorted(ran, key=lambda each: each.ratio.median))


def compared_table(balance: Balance) -> Table:
    """The pipeline as it is beside the chosen one."""
    today, chosen = balance.today, balance.chosen

    def row(what: str, cell: Callable[[BalancedCandidate], str]) -> _ComparedLine:
        return _ComparedLine(what, cell(today), cell(chosen))

    def waits(name: str) -> _ComparedLine:
        return row(f"{name} waits", lambda each: _percent(each.waits.get(name)))

    ran = bool(balance.probes)
    lines = [row(f"time per step of {balance.counted}", lambda each: time_text(each.seconds) if ran else NOTHING)]
    lines += [waits(name) for name in dict.fromkeys([*today.waits, *chosen.waits])]
    lines += [
        row("nodes", lambda each: str(each.nodes)),
        row("steps in a node-hour", lambda each: _steps_in_node_hour(each) if ran else NOTHING),
        row("runs", lambda each: str(len(each.probes))),
    ]
    if today.queue_memory is not None or chosen.queue_memory is not None:
        lines.append(row("memory of queues", lambda each: size(each.queue_memory)))
    return make_table(_COMPARED, lines)


def setting_lines(balance: Balance) -> Iterator[str]:
    """`stages.sim.ranks: 1 → 2` for each key that changes."""
    for key, value in balance.chosen.settings.items():
        yield f"  {key}: {_value(balance.keys[key][0])} → {_value(value)}"


def overlay_text(balance: Balance, path_of: Callable[[str], Sequence[str]]) -> str:
    """The overlay file: the settings of the choice as YAML, with a comment that says where they come from.

    `path_of`: the parts of a key, which may have dots.
    """
    lines = [f"# Written by `wf balance {balance.pipeline}` on site {balance.site}."]
    if balance.probes:
        lines += [f"# {line.strip()}" for line in verdict_lines(balance)]
        promised, today = time_text(balance.chosen.seconds), time_text(balance.today.seconds)
        lines.append(f"# Time per step of {balance.counted}: {promised}, with the file alone {today}.")
    return "\n".join([*lines, *settings_yaml(balance.chosen.settings, path_of)]) + "\n"


def settings_yaml(settings: Mapping[str, Any], path_of: Callable[[str], Sequence[str]]) -> list[str]:
    """The lines of an overlay with these settings: key → value, as of a candidate."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        place = tree
        *path, last = path_of(key)
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return [f"{section}: {json.dumps(content)}" for section, content in tree.items()] or ["{}"]


def settings_text(settings: Mapping[str, Any]) -> str:
    """`simulation.ranks=2 field.via=shm`: keys without their section, which says nothing that the key does not."""
    return " ".join(setting_text(key.partition(".")[2] or key, value) for key, value in settings.items()) or AS_IT_IS


def _value(value: Any) -> str:
    return NOTHING if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f} %"


def _steps_in_node_hour(candidate: BalancedCandidate) -> str:
    low, middle, high = (
        three_figures(3600 / each / candidate.nodes)
        for each in (candidate.seconds.high, candidate.seconds.median, candidate.seconds.low)
    )
    return f"{middle} ({low} to {high})"
