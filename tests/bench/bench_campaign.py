"""What a campaign costs per repetition: `wf campaign run` against the same commands in a shell loop.

Repetitions of two pipelines of almost nothing, one after the other: one stage, `true`; and three coupled stages that
copy and list one small BP5 file. The time is that of the whole command divided by the repetitions, less that of a shell
loop which makes a directory for each and runs the same commands in it; so the start of wf itself is in it. Each
repetition of wf leaves a run directory with its plan, its origin, its events and its logs. Beside it Snakemake (one
call, one core), Parsl (one thread, its fastest way) and HyperQueue (a server and a worker of one core), where they are
installed: the same commands and dependencies, their start included as well; HyperQueue's client looks about once a
second whether all has ended. They take turns. Then one long campaign of the three coupled stages, whose first and last
hundred repetitions are compared, and how long `wf campaign run` takes when everything has succeeded before.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.streams import QUICK, Row, repetitions

# Peers live in an environment of their own: their dependencies are not ours (`make bench` makes it).
PEERS = os.environ.get("WF_PEERS_PYTHON", sys.executable)
COUNT = 40 if QUICK else 100
LONG = 100 if QUICK else 1000
FINISHED = (100, 200) if QUICK else (2000, 4000)
TURNS = repetitions(3)
TEMPLATE = "template.bp"
# A pipeline is a chain: each command uses what the one before has written, `{work}/NAME.bp`.
CHAINS = {
    "one stage `true`": (("true",),),
    "three coupled stages": (
        ("cp", "-r", "{top}/template.bp", "{work}/a.bp"),
        ("cp", "-r", "{work}/a.bp", "{work}/b.bp"),
        ("ls", "{work}/b.bp"),
    ),
}
PIPELINES = {
    "one stage `true`": """
wf: 1
name: one
stages:
  a: {command: ["true"]}
""",
    "three coupled stages": """
wf: 1
name: three
stages:
  a: {command: [cp, -r, "${{ pipeline.dir }}/template.bp", "${{ streams.a.path }}"],
      writes: {out: {io: out, config: adios2.xml}}}
  b: {command: [cp, -r, "${{ streams.a.path }}", "${{ streams.b.path }}"],
      reads: {in: {io: in, config: adios2.xml}}, writes: {out: {io: out, config: adios2.xml}}}
  c: {command: [ls, "${{ streams.b.path }}"], reads: {in: {io: in, config: adios2.xml}}}
streams:
  a: {from: a, to: b, via: bp5, coupling: after}
  b: {from: b, to: c, via: bp5, coupling: after}
""",
}
CAMPAIGN = """
wf: 1
campaign: bench
pipeline: pipeline.yaml
repetitions: {count}
warmup: 0
keep: records
metrics: {{time: run.wall_s}}
"""
MATRIX = "matrix: {{stages.a.env.NUMBER: [{values}]}}\n"
PARSL = """
import os, parsl
from parsl import bash_app
from parsl.config import Config
from parsl.executors.threads import ThreadPoolExecutor
@bash_app
def stage(line, inputs=()):
    return line
with parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=1)], usage_tracking=0)):
    ends = []
    for index in range(COUNT):
        os.makedirs(f"work/{index}")
        last = None
        for line in LINES:
            last = stage(line.replace("INDEX", str(index)), inputs=[last] if last else [])
        ends.append(last)
    for end in ends:
        end.result()
"""
HYPERQUEUE = """
import os
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=1))
    client, job = cluster.client(), Job()
    for index in range(COUNT):
        os.makedirs(f"work/{index}")
        last = None
        for words in CHAIN:
            words = [word.replace("INDEX", str(index)) for word in words]
            last = job.program(words, stdout=None, stderr=None, deps=[last] if last else [])
    client.wait_for_jobs([client.submit(job)])
"""
Chain = tuple[tuple[str, ...], ...]


def measure() -> list[Row]:
    """Overhead of all, then the long campaign, then resuming."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        write_template(top)
        rows = [row for chain in CHAINS for row in overhead(chain, top)]
        return [*rows, *long_campaign(top), *resume(top)]


def overhead(name: str, top: Path) -> list[Row]:
    """Milliseconds per repetition more than the loop."""
    ways: dict[str, Callable[[str, Path], float]] = {"wf": by_wf, "shell loop": by_shell}
    peers: dict[str, Callable[[str, Path], float]] = {
        "Snakemake": by_snakemake, "Parsl": by_parsl, "HyperQueue": by_hyperqueue
    }  # fmt: skip
    ways |= {peer: way for peer, way in peers.items() if is_installed(peer.lower())}
    turns: list[dict[str, float]] = []
    for turn in range(TURNS):
        turns.append({})
        for way, seconds in ways.items():
            folder = top / f"{name.split()[0]}-{way.split()[0]}-{turn}"
            folder.mkdir()
            turns[-1][way] = 1000 * seconds(name, folder) / COUNT
    rows = []
    for way in ways:
        if way == "shell loop":
            continue
        more = sorted(turn[way] - turn["shell loop"] for turn in turns)
        total, loop = (statistics.median(turn[each] for turn in turns) for each in (way, "shell loop"))
        rows.append(
            {"name": f"{name}: {way}, more than the loop", "value": statistics.median(more), "unit": "ms/repetition",
             "target": 40 if way == "wf" else None, "better": "lower",
             "detail": f"{COUNT} repetitions: {total:.1f} ms each, loop {loop:.1f} ms; "
                       f"{more[0]:.1f} to {more[-1]:.1f} in {len(more)} turns"}
        )  # fmt: skip
    return rows


def long_campaign(top: Path) -> list[Row]:
    """Whether a repetition takes longer when there are many before it."""
    folder = top / "long"
    folder.mkdir()
    seconds = by_wf("three coupled stages", folder, LONG)
    part = max(1, LONG // 10)
    starts = [each["started"] for each in ended(folder)]
    times = [1000 * (after - before) for before, after in itertools.pairwise(starts)]
    first, last = statistics.median(times[:part]), statistics.median(times[-part:])
    return [
        {"name": f"{LONG} repetitions of three coupled stages: the last {part} ÷ the first {part}",
         "value": last / first, "unit": "×", "target": 1.1, "better": "lower",
         "detail": f"medians: {first:.1f} ms each at first, {last:.1f} ms at last; {seconds:.1f} s in all"}
    ]  # fmt: skip


def resume(top: Path) -> list[Row]:
    """The same command again, when nothing is left to run: of one trial with many repetitions, and of many trials."""
    folder, many = top / "resume", top / "trials"
    folder.mkdir()
    many.mkdir()
    first, second = FINISHED
    return [
        again(f"{first} repetitions", folder, first, 1, target=2),
        again(f"{second} repetitions", folder, second, 1),
        again(f"{first} trials of one repetition each", many, 1, first, target=2),
    ]


def again(what: str, folder: Path, count: int, trials: int, target: float | None = None) -> Row:
    """A campaign is run to its end, then measured."""
    by_wf("one stage `true`", folder, count, trials)
    if len(ended(folder)) != count * trials:
        raise RuntimeError(f"{len(ended(folder))} repetitions have ended, not {count * trials}")
    times = sorted(by_wf("one stage `true`", folder, count, trials) for _ in range(TURNS))
    return {
        "name": f"`wf campaign run` again, {what} finished", "value": statistics.median(times),
        "unit": "s", "target": target, "better": "lower",
        "detail": f"the whole command; {times[0]:.2f} to {times[-1]:.2f}",
    }  # fmt: skip


def by_wf(name: str, folder: Path, count: int = COUNT, trials: int = 1) -> float:
    """Seconds of `wf campaign run`."""
    matrix = MATRIX.format(values=", ".join(map(str, range(trials)))) if trials > 1 else ""
    (folder / "pipeline.yaml").write_text(PIPELINES[name])
    (folder / "campaign.yaml").write_text(CAMPAIGN.format(count=count) + matrix)
    if not (folder / TEMPLATE).exists():
        (folder / TEMPLATE).symlink_to(folder.parent / TEMPLATE)
    return timed([sys.executable, "-m", "workflow.cli", "campaign", "run", "campaign.yaml", "--quiet"], folder)


def ended(folder: Path) -> list[dict[str, Any]]:
    """The repetitions that succeeded, from the ledger."""
    lines = (folder / "campaigns/bench/ledger.jsonl").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each["event"] == "ended" and each["state"] == "succeeded"]


def by_shell(name: str, folder: Path) -> float:
    """Seconds of a loop."""
    chain = chain_in(name, folder, "$i")
    lines = "\n".join(" ".join(f'"{word}"' for word in words) + " || exit 1" for words in chain)
    (folder / "loop.sh").write_text(
        f"i=0\nwhile [ $i -lt {COUNT} ]; do\nmkdir -p work/$i\n{lines}\ni=$((i + 1))\ndone\n"
    )
    return timed(["sh", "loop.sh"], folder)


def by_snakemake(name: str, folder: Path) -> float:
    """Seconds of one call with a job for each command."""
    chain = chain_in(name, folder, "{wildcards.i}")
    rules = [f'rule all:\n    input: expand("work/{{i}}/{len(chain) - 1}.done", i=range({COUNT}))\n']
    for place, words in enumerate(chain):
        needs = f'    input: "work/{{i}}/{place - 1}.done"\n' if place else ""
        rules.append(
            f'rule stage{place}:\n{needs}    output: touch("work/{{i}}/{place}.done")\n    shell: {" ".join(words)!r}\n'
        )
    (folder / "Snakefile").write_text("".join(rules))
    return timed([PEERS, "-m", "snakemake", "-c", "1", "-q", "all"], folder)


def by_parsl(name: str, folder: Path) -> float:
    """Seconds of a program with an app for each command."""
    lines = [shlex.join(words) for words in chain_in(name, folder, "INDEX")]
    (folder / "chain.py").write_text(PARSL.replace("COUNT", str(COUNT)).replace("LINES", repr(lines)))
    return timed([PEERS, "chain.py"], folder)


def by_hyperqueue(name: str, folder: Path) -> float:
    """Seconds of a program with a task for each command."""
    chain = chain_in(name, folder, "INDEX")
    (folder / "chain.py").write_text(HYPERQUEUE.replace("COUNT", str(COUNT)).replace("CHAIN", repr(chain)))
    return timed([PEERS, "chain.py"], folder)


def chain_in(name: str, folder: Path, index: str) -> Chain:
    """The commands of a repetition. `true` by its path: the shell has one of its own, that starts no process."""
    work = str(folder / "work" / index)
    programs = {"true": "/bin/true"}
    return tuple(
        tuple(programs.get(word, word).format(top=folder.parent, work=work) for word in words) for words in CHAINS[name]
    )


def write_template(top: Path) -> None:
    """A BP5 file of one step."""
    import adios2

    with adios2.Stream(str(top / TEMPLATE), "w") as file:
        for _ in file.steps(1):
            file.write("x", 1.0)


def is_installed(package: str) -> bool:
    """Whether the peers' Python has it."""
    return subprocess.run([PEERS, "-c", f"import {package}"], stderr=subprocess.DEVNULL).returncode == 0


def timed(argv: list[str], folder: Path) -> float:
    """Seconds of a command that must succeed."""
    begin = time.perf_counter()
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(*measure(), sep="\n")
