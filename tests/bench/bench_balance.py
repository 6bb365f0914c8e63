"""What `wf balance` chooses, against a campaign of all its candidates, at a tenth of its cost.

First `wf calibrate` measures transports, files and compressors, once for all. Then six pipelines. The campaign runs
each candidate twice, in random order, and then the four fastest eight times more, in random order: its best one is the
fastest of these by all its runs. `wf balance` may spend a tenth of the campaign's time. Then its choice, the best one
of the campaign and the file as it is run in turns, fifteen times each. These runs, which neither has seen, say how much
slower the choice is: the campaign's own runs flatter its best one, since the least of many means is too small by
chance. All runs: [balance-runs.csv](balance-runs.csv). Takes the Python that runs it: that of `make adios2-mpi` has all
transports, and the compressors that one of the pipelines needs. `WF_BENCH_BALANCE` names those that are measured.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench import streams
from workflow.api.balances import BalanceRequest, BalanceSearch
from workflow.balance.balance_model import ProbeRecord
from workflow.balance.search import TODAY, TOLERANCE
from workflow.campaign.verdicts import paired_ratio

REPETITIONS, FINALISTS, FINALS, ROUNDS, TENTH = 2, 4, 8, 15, 0.1
MANY = 10_000
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
    """How many choices are good, then that of each pipeline. `WF_BENCH_BALANCE`: `NAME, NAME` of some pipelines."""
    wanted = os.environ.get("WF_BENCH_BALANCE", ", ".join(PIPELINES)).split(", ")
    found: list[Judged] = []
    with streams.folder() as name:
        calibrate(Path(name))
        for number, (title, held) in enumerate(PIPELINES.items()):
            if held.needs_operators and "mpi" not in streams.planes():
                print(f"{title}: not measured: it needs the ADIOS2 of `make adios2-mpi`", file=sys.stderr, flush=True)
            elif title in wanted:
                folder = Path(name) / str(number)
                folder.mkdir()
                with busy_beside() if held.beside else contextlib.nullcontext():
                    found.append(judged(title, held, folder))
    far = [each for each in found if not each.is_near]
    near: streams.Row = {
        "name": "pipelines of which the choice is within 5 % of the campaign's best", "value": len(found) - len(far),
        "unit": "", "better": "higher", "target": len(found),
        "detail": f"of the others undecided, with the best one open: {sum(each.leaves_best_open for each in far)}",
    }  # fmt: skip
    return [near, *(row for each in found for row in each.rows)]


def calibrate(folder: Path) -> None:
    """Measure this machine, for all pipelines; the user's own calibration is neither read nor written."""
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    (folder / "measured").mkdir()
    parts = ["transports", "file_system", "memory", *(["compressors"] if "mpi" in streams.planes() else [])]
    argv = [sys.executable, "-m", "workflow.cli", "calibrate", "--dir", str(folder / "measured")]
    argv += [word for part in parts for word in ("--only", part)] + (["--quick"] if streams.QUICK else [])
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=streams.environment({}))


class Judged(NamedTuple):
    """The rows of a pipeline, and what became of its choice."""

    rows: list[streams.Row]
    is_near: bool
    """Within the tolerance of the campaign's best."""
    leaves_best_open: bool


def judged(title: str, held: Held, folder: Path) -> Judged:
    """Run the campaign, then balance the pipeline, then compare."""
    file = folder / "pipeline.yaml"
    file.write_text(f"wf: 1\nname: held\noversubscribe: true\n{held.text}")
    request = BalanceRequest(file, vary=held.vary, fixed=held.fixed, directory=folder / "all", probes=MANY)
    campaign = BalanceSearch(request)
    best = best_of_all(campaign)
    cost, times, ran = campaign.spent_s, campaign.times, campaign.count
    search = BalanceSearch(replace(request, directory=folder / "balance", node_hours=TENTH * cost / 3600))
    search.search(lambda _probe, _seconds, _left: None)
    balance = search.result()
    number = {repr(each.settings): index for index, each in enumerate(search.space.candidates)}
    chosen, *others = (number[repr(each.settings)] for each in (balance.chosen, *balance.rivals))
    took = in_turns(campaign, {best, chosen, TODAY})
    parts = {"all": campaign.probes[:ran], "choice": search.probes, "in turns": campaign.probes[ran:]}
    keep_runs(title, parts)
    ratio, gain = (paired_ratio(list(zip(took[one], took[chosen], strict=True))) for one in (best, TODAY))
    slower = 1 / (ratio.ratio or math.nan)
    is_open, told = not balance.decided and best in (chosen, *others), "decided"
    if not balance.decided:
        told = f"undecided between {1 + len(others)}, {'with' if is_open else 'without'} the best one"
    bounds = f" ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})" if ratio.low and ratio.high else ""
    detail = f"{told}; {balance.probes} runs of {len(times)} candidates; {gain.ratio:.2f} times as fast as the file"
    rows: list[streams.Row] = [
        {"name": f"{title}: time of the choice ÷ that of the campaign's best", "value": slower,
         "unit": "", "better": "lower", "target": 1.05, "detail": f"{slower:.2f}{bounds}: {detail}"},
        {"name": f"{title}: cost of the choice ÷ cost of the campaign", "value": balance.spent_s / cost, "unit": "",
         "better": "lower", "target": TENTH, "detail": f"{balance.spent_s:.0f} s against {cost:.0f} s"},
        *expected(title, search, times),
    ]  # fmt: skip
    return Judged(rows, slower <= 1 + TOLERANCE, is_open)


def expected(title: str, search: BalanceSearch, times: Mapping[int, Sequence[float]]) -> list[streams.Row]:
    """What was expected of the candidates that had not run, beside their times; and beside those of others."""
    belief = search.belief
    unseen = [each for each in times if each not in search.times]  # some fail
    took = [statistics.median(times[each]) for each in unseen]
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


def best_of_all(campaign: BalanceSearch) -> int:
    """Run all candidates, then the fastest ones again, in random order. Returns the fastest of these."""
    dice, count = random.Random(0), len(campaign.space.candidates)
    for _ in range(streams.repetitions(REPETITIONS)):
        for number in dice.sample(range(count), count):
            run(campaign, number)
    found = campaign.times
    finalists = sorted(found, key=lambda each: statistics.median(found[each]))[:FINALISTS]
    for _ in range(streams.repetitions(FINALS)):
        for number in dice.sample(finalists, len(finalists)):
            run(campaign, number)
    found = campaign.times
    return min(finalists, key=lambda each: statistics.median(found[each]))


def in_turns(campaign: BalanceSearch, candidates: Collection[int]) -> dict[int, list[float]]:
    """Candidate → seconds per step of new runs; all run once before one runs again. A turn in which one fails is left
    out."""
    dice, turns = random.Random(1), list[dict[int, float | None]]()
    for _ in range(streams.repetitions(ROUNDS)):
        turns.append({number: run(campaign, number) for number in dice.sample(sorted(candidates), len(candidates))})
    whole = [turn for turn in turns if None not in turn.values()]
    return {number: [turn[number] or math.nan for turn in whole] for number in candidates}


def run(campaign: BalanceSearch, number: int) -> float | None:
    """Run a candidate, and keep only its time, which is returned; None: it has failed. To forecast from hundreds of
    runs would take longer than the next one."""
    probe = campaign.run(number)
    shutil.rmtree(campaign.directory / "runs")
    return campaign.seconds(probe)


def keep_runs(title: str, parts: Mapping[str, Sequence[tuple[int, ProbeRecord]]]) -> None:
    """Write the times of all runs of a pipeline, in the order in which they ran; those of the others stay."""
    if streams.QUICK:
        return
    lines = [HEADER]
    if RUNS.exists():
        with RUNS.open(newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line[0] != title]
    for part, probes in parts.items():
        for number, probe in probes:
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
