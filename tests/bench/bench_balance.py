"""What `wf balance` chooses, against all its candidates run one by one.

First `wf calibrate` measures transports, files and compressors, once for all. Then six pipelines: the choice has a
tenth of the runs of a campaign of all candidates. Then each candidate runs twice, in random order; its time is the mean
of both (`WF_BENCH_REPEAT`: other numbers, of which it is the median). The choice is judged by these runs, which it has
not seen: they are as long as its own. The least of so many means is too small by chance, so that even the best
candidate is rarely at 1.00. All runs: [balance-runs.csv](balance-runs.csv). Takes the Python that runs it: that of
`make adios2-mpi` has all transports, and the compressors that one of the pipelines needs. `WF_BENCH_BALANCE` names
those that are measured; the others are not on the page then. So far: "compression", "four stages" and "two runs".
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench import streams
from workflow.api.balances import BalanceRequest, BalanceSearch

REPETITIONS, TENTH = 2, 0.1
RUNS = streams.ROOT / "docs/balance-runs.csv"
HEADER = ["pipeline", "part", "candidate", "s_between_steps", "s_first_to_last_per_step", "wall_s", "settings"]
# Of a normal distribution, in standard deviations.
INSIDE_80 = 1.2816
GRAY_SCOTT = "{{component: gray_scott, with: {{size: [{size}], steps: 4000, write_every: {every}}}}}"
QUEUE = {"streams.field.queue.limit": [4]}


class Held(NamedTuple):
    """A pipeline, what is varied besides what wf varies by itself, and whether another program is on the machine."""

    text: str
    vary: Mapping[str, Sequence[Any]] = {}
    fixed: Sequence[str] = ()
    """What is not varied: all candidates run, so there may not be too many."""
    beside: bool = False
    needs_operators: bool = False


def gray_scott(size: int, every: int) -> str:
    """The simulation, as a stage."""
    return GRAY_SCOTT.format(size=size, every=every)


PIPELINES = {
    "compute-bound": Held(
        f"stages:\n  sim: {gray_scott(48, 40)}\n  pdf: {{component: histogram, with: {{variable: V}}}}\n"
        "  keep: {component: archive}\n"
        "streams:\n  field: {from: sim, to: pdf}\n  pdf: {from: pdf, to: keep}\n",
        QUEUE, ["streams.pdf.via"],
    ),
    "analysis-bound": Held(
        f"stages:\n  sim: {gray_scott(64, 1)}\n"
        "  stat: {component: statistics, with: {variable: V, other: U}}\n  keep: {component: \"null\"}\n"
        "streams:\n  field: {from: sim, to: stat}\n  stat: {from: stat, to: keep}\n",
        QUEUE, ["streams.stat.via"],
    ),
    "memory-bound": Held(
        "stages:\n  sim: {component: synthetic, with: {bytes: 32 MB, steps: 500}}\n"
        "  a: {component: \"null\", place: {cores_per_rank: 1}}\n  b: {component: \"null\"}\n"
        "streams:\n  field: {from: sim, to: [a, b]}\n",
        {**QUEUE, "stages.a.ranks": [2], "stages.b.ranks": [2],
         "streams.field.queue.when_full": ["discard"]},
        ["stages.a.place.cores_per_rank"],
    ),
    "compression": Held(
        f"stages:\n  sim: {gray_scott(64, 5)}\n  pdf: {{component: histogram, with: {{variable: V}}}}\n"
        '  keep: {component: "null"}\n'
        "streams:\n  field: {from: sim, to: pdf, via: bp5}\n  pdf: {from: pdf, to: keep}\n",
        {"streams.field.coupling": ["live"], "stages.sim.output.compression": [
            {"*": {"blosc": {"codec": "zstd", "level": 1}}}, {"*": {"bzip2": {"level": 1}}}]},
        ["streams.pdf.via", "stages.pdf.place.cores_per_rank"],
        needs_operators=True,
    ),
    "four stages": Held(
        f"stages:\n  sim: {gray_scott(48, 20)}\n  pdf: {{component: histogram, with: {{variable: V}}}}\n"
        '  stat: {component: statistics, with: {variable: pdf}}\n  keep: {component: "null"}\n'
        "streams:\n  field: {from: sim, to: pdf}\n  pdf: {from: pdf, to: stat}\n  stat: {from: stat, to: keep}\n",
        QUEUE, ["streams.pdf.via", "streams.stat.via", "stages.stat.ranks", "stages.stat.place.cores_per_rank"],
    ),
    "two runs": Held(
        f"stages:\n  sim: {gray_scott(48, 20)}\n  pdf: {{component: histogram, with: {{variable: V}}}}\n"
        '  keep: {component: "null"}\n'
        "streams:\n  field: {from: sim, to: pdf}\n  pdf: {from: pdf, to: keep}\n",
        QUEUE, ["streams.pdf.via"],
        beside=True,
    ),
}  # fmt: skip


def measure() -> list[streams.Row]:
    """A row for the choice of each pipeline, and one for its cost. `WF_BENCH_BALANCE`: `NAME, NAME` of some of them."""
    wanted = os.environ.get("WF_BENCH_BALANCE", ", ".join(PIPELINES)).split(", ")
    rows: list[streams.Row] = []
    with streams.folder() as name:
        calibrate(Path(name))
        for number, (title, held) in enumerate(PIPELINES.items()):
            if held.needs_operators and "mpi" not in streams.planes():
                print(f"{title}: not measured: it needs the ADIOS2 of `make adios2-mpi`", file=sys.stderr, flush=True)
            elif title in wanted:
                folder = Path(name) / str(number)
                folder.mkdir()
                with busy_beside() if held.beside else contextlib.nullcontext():
                    rows += judged(title, held, folder)
    return rows


def calibrate(folder: Path) -> None:
    """Measure this machine, for all pipelines; the user's own calibration is neither read nor written."""
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    (folder / "measured").mkdir()
    parts = ["transports", "file_system", "memory", *(["compressors"] if "mpi" in streams.planes() else [])]
    argv = [sys.executable, "-m", "workflow.cli", "calibrate", "--dir", str(folder / "measured")]
    argv += [word for part in parts for word in ("--only", part)] + (["--quick"] if streams.QUICK else [])
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=streams.environment({}))


def judged(title: str, held: Held, folder: Path) -> list[streams.Row]:
    """Balance a pipeline, then run all candidates."""
    file = folder / "pipeline.yaml"
    file.write_text(f"wf: 1\nname: held\noversubscribe: true\n{held.text}")
    request = BalanceRequest(file, vary=held.vary, fixed=held.fixed, directory=folder / "balance")
    search = BalanceSearch(request)
    # The choice has a tenth of the runs.
    probes = max(2, round(TENTH * streams.repetitions(REPETITIONS) * len(search.space.candidates)))
    search = BalanceSearch(replace(request, probes=probes))
    search.search(lambda _probe, _seconds, _left: None)
    balance = search.result()
    every = exhaustive(replace(request, directory=folder / "all"))
    keep_runs(title, search, every)
    times, cost = medians(every), every.spent_s
    chosen, best = times[repr(balance.chosen.settings)], min(times, key=lambda each: times[each])
    told = "decided"
    if not balance.decided:
        among = best in map(repr, [balance.chosen.settings, *(each.settings for each in balance.rivals)])
        told = f"undecided between {1 + len(balance.rivals)}, {'with' if among else 'without'} the best one"
    gain = times[repr(balance.today.settings)] / chosen
    detail = f"{told}; {balance.probes} runs of {len(times)} candidates; {gain:.2f} times as fast as the file"
    return [
        {"name": f"{title}: time of the choice ÷ that of the best candidate", "value": chosen / min(times.values()),
         "unit": "", "better": "lower", "target": 1.05, "detail": detail},
        {"name": f"{title}: cost of the choice ÷ cost of all", "value": balance.spent_s / cost, "unit": "",
         "better": "lower", "target": 0.1, "detail": f"{balance.spent_s:.0f} s against {cost:.0f} s"},
        *expected(title, search, times),
    ]  # fmt: skip


def expected(title: str, search: BalanceSearch, times: Mapping[str, float]) -> list[streams.Row]:
    """What was expected of the candidates that had not run, beside their times; and beside those of others."""
    belief, ran = search.belief, search.times
    names = [repr(each.settings) for each in search.space.candidates]
    unseen = [index for index, name in enumerate(names) if index not in ran and name in times]  # others fail
    took = [times[names[index]] for index in unseen]
    errors = [abs(math.log(belief.time(index).median / time)) for index, time in zip(unseen, took, strict=True)]
    others = random.Random(0).sample(took, len(took))
    control = [abs(math.log(belief.time(index).median / time)) for index, time in zip(unseen, others, strict=True)]
    inside = [error < INSIDE_80 * belief.deviation(index) for index, error in zip(unseen, errors, strict=True)]
    return [
        {"name": f"{title}: error of what was expected of candidates that had not run, median",
         "value": statistics.median(errors), "unit": "", "better": "lower", "target": 0.1,
         "detail": f"{len(unseen)} candidates; {statistics.median(control):.2f} beside the shuffled times of others"},
        {"name": f"{title}: inside the interval of 80 %", "value": statistics.fmean(inside), "unit": "",
         "better": "higher", "target": 0.7, "detail": "0.7 to 0.9 would be right"},
    ]  # fmt: skip


def exhaustive(request: BalanceRequest) -> BalanceSearch:
    """All candidates with their runs, in random order."""
    search = BalanceSearch(request)
    dice, count = random.Random(0), len(search.space.candidates)
    for _ in range(streams.repetitions(REPETITIONS)):
        for number in dice.sample(range(count), count):
            search.run(number)
    return search


def medians(search: BalanceSearch) -> dict[str, float]:
    """Settings → median seconds per step."""
    names = [repr(each.settings) for each in search.space.candidates]
    return {names[each]: statistics.median(found) for each, found in search.times.items()}


def keep_runs(title: str, chosen: BalanceSearch, every: BalanceSearch) -> None:
    """Write the times of all runs of a pipeline, in the order in which they ran; those of the others stay."""
    if streams.QUICK:
        return
    lines = [HEADER]
    if RUNS.exists():
        with RUNS.open(newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line[0] != title]
    for part, search in (("choice", chosen), ("all", every)):
        for number, probe in search.probes:
            settings = "; ".join(f"{key}={json.dumps(value)}" for key, value in probe.settings.items())
            times = ["" if each is None else f"{each:.6g}" for each in (probe.pace_s, probe.span_s)]
            lines.append([title, part, str(number), *times, str(probe.wall_s), settings])
    with RUNS.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


@contextlib.contextmanager
def busy_beside() -> Iterator[None]:
    """Another program computes on one core, as a second run would."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
