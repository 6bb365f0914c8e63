"""A stream between two nodes by tcp: under `wf run` against raw adios2 in a batch script by hand.

One rank on each node, 64 MB steps; each may use both cores of its node, which are those of this machine. By hand the
same raw adios2 programs are started by two `srun` in the background, with the engine parameters and the environment of
the plan. "unchanged program" is these programs under `wf run`, which read a config file; "workflow.stage" are programs
that open their stream by its name. Throughput is the bytes of a step ÷ the median time from step to step, seen by the
reader, after some steps of warming up; a value is the median over the turns, a ratio is taken within each turn.
"""

from __future__ import annotations

import json
import shlex
import tempfile
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.bench import on_cluster, streams
from tests.bench.streams import Row
from tests.support.slurm_cluster import SlurmCluster

NBYTES = 64_000_000
WARM = 4
PIPELINE = """
wf: 1
name: throughput
stages:
  write: {{command: {write}, writes: {{data: {port}}}, place: {{nodes: 1, cores_per_rank: 2}}}}
  read: {{command: {read}, reads: {{data: {port}}}, place: {{nodes: 1, cores_per_rank: 2}}}}
streams:
  data: {{from: write, to: read, via: sst-tcp}}
"""
IO = "{io: data, config: adios2.xml}"


# the programs


def write(settings: dict[str, Any]) -> None:
    """Writes the steps."""
    import numpy as np

    data = np.full(settings["bytes"] // 8, 1.0)
    if settings["api"] == "stage":
        from workflow import stage

        with stage.open_writer("data") as out:
            for _ in range(settings["steps"]):
                with out.step():
                    out.write("x", data, shape=data.shape, start=(0,))
        return
    with open_raw(settings, "w") as stream:
        for step in stream.steps(settings["steps"]):
            step.write("x", data, [data.size], [0], [data.size])


def read(settings: dict[str, Any]) -> float:
    """Reads the steps; median seconds from one step's end to the next one's."""
    ends = []
    if settings["api"] == "stage":
        from workflow import stage

        with stage.open_reader("data") as steps:
            for each in steps:
                each.read("x")
                ends.append(time.perf_counter())
    else:
        with open_raw(settings, "r") as stream:
            for step in stream.steps():
                step.read("x")
                ends.append(time.perf_counter())
    return streams.median([after - before for before, after in pairwise(ends)][WARM:])


def open_raw(settings: dict[str, Any], mode: str) -> Any:
    """The stream, by a config file or by engine parameters."""
    import adios2
    from mpi4py import MPI

    if "parameters" in settings:
        io = adios2.Adios(MPI.COMM_WORLD).declare_io("data")
        io.set_engine("SST")
        io.set_parameters(settings["parameters"])
    else:
        io = adios2.Adios("adios2.xml", MPI.COMM_WORLD).declare_io("data")
    return adios2.Stream(io, settings["path"], mode, MPI.COMM_WORLD)


PROGRAMS: dict[str, streams.Program] = {"write": write, "read": read}


# starting them


def measure() -> list[Row]:
    """Three ways, and the ratios."""
    with on_cluster.four_nodes() as cluster, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ways = {
            "raw adios2 by hand": partial(by_hand_s, cluster, folder),
            "wf run, unchanged program": partial(wf_s, cluster, folder, "raw"),
            "wf run, workflow.stage": partial(wf_s, cluster, folder, "stage"),
        }
        wf_s(cluster, folder, "raw")  # leaves the plan that the script by hand follows
        seconds = streams.take_turns(ways, streams.repetitions(7))
    rates = {way: [NBYTES / each / 1e9 for each in times] for way, times in seconds.items()}
    hand, *ours = rates
    return [
        *(streams.measured(f"64 MB steps between two nodes: {way}", values, "GB/s") for way, values in rates.items()),
        *(streams.against(f"{way} ÷ {hand}", rates[way], rates[hand], 0.97) for way in ours),
    ]


def wf_s(cluster: SlurmCluster, folder: Path, api: str) -> float:
    """Seconds per step under `wf run`; `plan.json` of the last run of unchanged programs stays in the folder."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        pipeline, run_dir = Path(name, "pipeline.yaml"), Path(name, "run")
        settings = {**_settings(), "api": api, "path": "${{ streams.data.path }}"}
        commands = {each: json.dumps([streams.PYTHON, __file__, each, json.dumps(settings)]) for each in PROGRAMS}
        pipeline.write_text(PIPELINE.format(**commands, port=IO if api == "raw" else "{}"))
        on_cluster.run_job(cluster, f"exec {on_cluster.wf_run(pipeline, run_dir, '--no-probe')}", folder, 2)
        if api == "raw":
            (folder / "plan.json").write_text((run_dir / "plan.json").read_text())
        return _measured((run_dir / "stages/read/stdout.log").read_text())


def by_hand_s(cluster: SlurmCluster, folder: Path) -> float:
    """Seconds per step of the same programs, started by srun."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        lines = []
        for node, stage in enumerate(json.loads((folder / "plan.json").read_text())["stages"]):
            settings = {
                **_settings(),
                "api": "raw",
                "path": f"{name}/data",
                "parameters": stage["ends"][0]["parameters"],
            }
            environment = [f"{key}={value}" for key, value in stage["env"].items() if not key.startswith("WF_")]
            srun = ["srun", "--overlap", "--nodes=1", "--ntasks=1", f"--relative={node}", "--cpu-bind=mask_cpu:0x3"]
            program = [streams.PYTHON, __file__, stage["name"], json.dumps(settings)]
            lines.append(f"{shlex.join([*srun, 'env', *environment, *program])} &")
        return _measured(on_cluster.run_job(cluster, "\n".join([*lines, "wait"]), folder, 2))


def _settings() -> dict[str, Any]:
    return {"bytes": NBYTES, "steps": WARM + (8 if streams.QUICK else 24)}


def _measured(printed: str) -> float:
    return float(streams.result_in(printed))


if __name__ == "__main__":
    streams.serve(PROGRAMS, measure)
