"""A balance as text: what was chosen beside today's pipeline, what ran, and the overlay file. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from workflow.balance.balance_model import Balance, BalancedCandidate, KnownRange
from workflow.balance.candidates import setting_text
from workflow.forecast.quartiles import Quartiles
from workflow.formatting import NOTHING, duration, plural, size, three_figures
from workflow.report.show.forecast_tables import short_time, time_text
from workflow.report.show.text_table import TERMINAL, Column, Table, make_table, number_column, text_column

TODAY = "as in the file"
# Beyond it an estimate says only that it takes long.
LONG_S = 4 * 3600.0


class _ComparedLine(NamedTuple):
    what: str
    today: str
    chosen: str


_COMPARED: list[Column[_ComparedLine]] = [
    text_column("", lambda line: line.what, TERMINAL),
    text_column("as in the file", lambda line: line.today, TERMINAL),
    text_column("chosen", lambda line: line.chosen, TERMINAL),
]


def verdict_lines(balance: Balance) -> Iterator[str]:
    """One sentence that can be relied upon, and what it lacks where it is undecided."""
    chosen, ratio = balance.chosen, balance.chosen.ratio
    tried = f"{plural(balance.probes, 'run')} of {plural(balance.candidates, 'candidate')}, {duration(balance.spent_s)}"
    if not balance.probes:
        of = plural(balance.candidates, "candidate")
        yield f"nothing has run: by the forecast the best of {of} is {_name(chosen)}"
        return
    if balance.decided and not chosen.settings:
        yield f"the pipeline is balanced as it is: nothing that was tried is faster by more than 5 % ({tried})"
        return
    if balance.decided:
        gain = f"{three_figures(1 / ratio.median)} ({three_figures(1 / ratio.high)} to {three_figures(1 / ratio.low)})"
        less = "node-hours are less" if balance.goal == "node-hours" else "faster"
        yield f"{less} by a factor of {gain}: {_name(chosen)} ({tried})"
        return
    others = len(balance.rivals) - 1
    more = f" and {plural(others, 'other')}" if others else ""
    yield f"undecided between {_name(chosen)} and {_name(balance.rivals[0])}{more} ({tried})"
    if balance.more_probes is None or balance.more_s is None or balance.more_s > LONG_S:
        yield "  more runs of this length may not tell them apart: their times differ by too little"
    else:
        need, probes = plural(balance.more_probes, "more run"), balance.probes + balance.more_probes
        yield f"  about {need}, {duration(balance.more_s)}, would decide: --probes {probes}"


def compared_table(balance: Balance) -> Table:
    """Today's pipeline beside the chosen one."""
    today, chosen = balance.today, balance.chosen

    def row(what: str, cell: Any) -> _ComparedLine:
        return _ComparedLine(what, cell(today), cell(chosen))

    ran = bool(balance.probes)
    lines = [row(f"time per step of {balance.counted}", lambda each: _time(each.seconds) if ran else NOTHING)]
    lines += [
        row(f"{name} waits", lambda each, name=name: _percent(each.waits.get(name)))
        for name in dict.fromkeys([*today.waits, *chosen.waits])
    ]
    lines += [
        row("nodes", lambda each: str(each.nodes)),
        row("node-hours for 1,000 steps", lambda each: _node_hours(each) if ran else NOTHING),
        row("queues", lambda each: size(each.queue_memory)),
        row("runs", lambda each: str(len(each.probes))),
    ]
    return make_table(_COMPARED, lines)


def runs_table(balance: Balance) -> Table:
    """Each candidate that ran, the fastest first, with what the forecast said before."""
    columns: list[Column[BalancedCandidate]] = [
        text_column("candidate", _name, TERMINAL),
        number_column("runs", lambda each: str(len(each.probes)), TERMINAL),
        number_column("time per step", lambda each: _time(each.seconds), TERMINAL),
        number_column("÷ the file's", lambda each: three_figures(each.ratio.median), TERMINAL),
        number_column(
            "forecast", lambda each: NOTHING if each.forecast is None else short_time(each.forecast), TERMINAL
        ),
    ]
    chosen = [balance.chosen] if balance.chosen.settings else []
    ran = [each for each in (*chosen, *balance.others, balance.today) if each.probes]
    return make_table(columns, sorted(ran, key=lambda each: each.ratio.median))


def setting_lines(balance: Balance) -> Iterator[str]:
    """`stages.sim.ranks: 1 → 2` for each key that changes."""
    for key, value in balance.chosen.settings.items():
        today = balance.keys[key][0]
        yield f"  {key}: {_value(today)} → {_value(value)}"


def overlay_text(balance: Balance) -> str:
    """The overlay file: the settings of the choice as YAML, with a comment that says where they come from."""
    lines = [f"# Written by `wf balance {balance.pipeline}` on site {balance.site}."]
    if balance.probes:
        lines += [f"# {line.strip()}" for line in verdict_lines(balance)]
        promised = _time(balance.chosen.seconds)
        lines.append(
            f"# Time per step of {balance.counted}: {promised}, with the file alone {_time(balance.today.seconds)}."
        )
    tree: dict[str, Any] = {}
    for key, value in balance.chosen.settings.items():
        place = tree
        *path, last = key.split(".")
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    lines += [f"{section}: {json.dumps(content)}" for section, content in tree.items()] or ["{}"]
    return "\n".join(lines) + "\n"


def settings_text(settings: Mapping[str, Any]) -> str:
    """`simulation.ranks=2 field.via=shm`: keys without their section, which says nothing that the key does not."""
    return " ".join(setting_text(key.partition(".")[2], value) for key, value in settings.items()) or TODAY


def _name(candidate: BalancedCandidate) -> str:
    return settings_text(candidate.settings)


def _value(value: Any) -> str:
    return NOTHING if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _time(bounds: KnownRange) -> str:
    return time_text(Quartiles(median=bounds.median, low=bounds.low, high=bounds.high))


def _known_time(seconds: float | None) -> str:
    return NOTHING if seconds is None else short_time(seconds)


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.0f} %"


def _node_hours(candidate: BalancedCandidate) -> str:
    values: Sequence[float] = [
        each * candidate.nodes * 1000 / 3600
        for each in (candidate.seconds.median, candidate.seconds.low, candidate.seconds.high)
    ]
    return f"{three_figures(values[0])} ({three_figures(values[1])} to {three_figures(values[2])})"


def probe_line(probe: Any, left: int) -> str:
    """A run that has ended: `0.31 s per step  stages.sim.ranks=2  (at most 28 more)`."""
    took = f"{short_time(probe.seconds)} per step" if probe.seconds is not None else f"failed: {probe.reason}"
    return f"{took:>20}  {settings_text(probe.settings)}  (at most {plural(left, 'more run')})"


def tried_lines(balance: Balance) -> Iterator[str]:
    """What would be tried, and what cannot be."""
    for key, values in balance.keys.items():
        yield f"{key}: {', '.join(_value(each) for each in values)}"
    for text in balance.refused:
        yield f"not {text}"
