"""The plan of a large pipeline: 8 stages on 10,000 nodes with 1,000,000 ranks.

Each size in a process of its own, from the YAML file to the JSON text, "shown" to the text of `wf plan`, with node map
and launch lines; CPU time and peak memory include the start of Python and all imports; best of three. Growth is shown
twice: with nodes and ranks, where there should be none, and with stages, where each further one should cost the same.
"frontier" is the shipped site: a simulation with a GPU for each of its 8 ranks a node, an analysis on these 512 nodes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CORES_PER_NODE = 128
PROGRAM = """
import gc, io, json, resource, sys, time
gc.set_threshold(50_000)  # as `wf` does
from workflow.plan.make import make_plan
from workflow.spec.load import load_pipeline
from workflow.site.load_site import load_site
loaded = load_pipeline(sys.argv[1])
plan = make_plan(loaded, load_site(loaded.spec.site), python="/env/bin/python", wf_version="0")
if sys.argv[2] == "shown":
    from workflow.report.show.terminal import Output
    from workflow.report.show.printing import show_plan
    printed = io.StringIO()
    show_plan(plan, Output(printed), whole=True)
    text = printed.getvalue()
else:
    text = plan.to_json()
print(json.dumps({"s": time.process_time(), "bytes": len(text),
                  "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}))
"""
ON_FRONTIER = """
wf: 1
name: large
site: frontier
stages:
  sim:
    command: [./prog]
    ranks: 4096
    place: {nodes: 512, gpus_per_rank: 1, cores_per_rank: 5}
    writes: {field: {io: Out, config: adios2.xml}}
  look:
    command: [./prog]
    ranks: 1024
    place: {share: sim, cores_per_rank: 5}
    reads: {field: {io: In, config: adios2.xml}}
streams:
  field: {from: sim, to: look}
"""
MOST_S, MOST_MB = 0.5, 100.0


def measure() -> list[dict[str, Any]]:
    """Rows of the table."""
    large = planned(stages=8, nodes=10_000, ranks=1_000_000)
    shown = planned(stages=8, nodes=10_000, ranks=1_000_000, way="shown")
    small = planned(stages=8, nodes=10, ranks=1_000)
    some, more, many = (planned(stages=stages, nodes=10_000, ranks=1_000_000) for stages in (100, 400, 1600))
    first, further = (more["s"] - some["s"]) / (400 - 100), (many["s"] - more["s"]) / (1600 - 400)
    frontier = best_of_three(ON_FRONTIER, "shown")
    return [
        row("plan, 8 stages, 10,000 nodes, 1,000,000 ranks", large["s"], "s CPU", MOST_S),
        row("its peak memory", large["MB"], "MB", MOST_MB),
        row("its JSON text", large["bytes"] / 1000, "kB", None),
        row("shown with node map and launch lines", shown["s"], "s CPU", MOST_S),
        row("its peak memory, shown", shown["MB"], "MB", MOST_MB),
        row("its text, shown", shown["bytes"] / 1000, "kB", None),
        row("frontier, 512 nodes, 4,096 GPUs, shown", frontier["s"], "s CPU", MOST_S),
        row("its peak memory", frontier["MB"], "MB", MOST_MB),
        row("against 10 nodes, 1,000 ranks", large["s"] / small["s"], "ratio", 1.2),
        row("100 stages", some["s"], "s CPU", None),
        row("400 stages", more["s"], "s CPU", None),
        row("1,600 stages", many["s"], "s CPU", None),
        row("one stage more: from 400 to 1,600, against from 100 to 400", further / first, "ratio", 1.5),
    ]


def planned(stages: int, nodes: int, ranks: int, way: str = "JSON") -> dict[str, float]:
    """Best of three plans of a chain of programs: CPU seconds, MB at most, bytes of text."""
    site = (
        f"site: large\nsummary: a large machine\nnodes: {nodes}\ncores_per_node: {CORES_PER_NODE}\n"
        "memory_per_node: 512 GiB\nlauncher: srun\nlaunch_single: true\n"
    )
    return best_of_three(chain(stages, ranks), way, site)


def best_of_three(pipeline: str, way: str, site: str = "") -> dict[str, float]:
    """The run with the least CPU time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sites").mkdir()
        if site:
            (folder / "sites/large.yaml").write_text(site)
        (folder / "pipeline.yaml").write_text(pipeline)
        env = {"WF_CONFIGS": name, "PYTHONPATH": str(Path(__file__).parents[2])}
        argv = [sys.executable, "-c", PROGRAM, f"{name}/pipeline.yaml", way]
        runs = [json.loads(subprocess.check_output(argv, env=env)) for _ in range(3)]
    return min(runs, key=lambda run: float(run["s"]))


def chain(stages: int, ranks: int) -> str:
    """Programs over a whole machine, all live, each on nodes of its own."""
    lines = ["wf: 1", "name: large", "site: large", "stages:"]
    for index in range(stages):
        reads = f", reads: {{s{index - 1}: {{io: In, config: adios2.xml}}}}" if index else ""
        writes = f", writes: {{s{index}: {{io: Out, config: adios2.xml}}}}" if index < stages - 1 else ""
        lines.append(f"  p{index}: {{command: [./prog], ranks: {ranks // stages}{reads}{writes}}}")
    lines.append("streams:")
    lines += [f"  s{index}: {{from: p{index}, to: p{index + 1}}}" for index in range(stages - 1)]
    return "\n".join(lines) + "\n"


def row(name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    """One row of the table."""
    return {"name": name, "value": value, "unit": unit, "target": target}


if __name__ == "__main__":
    for each in measure():
        print(json.dumps(each))
