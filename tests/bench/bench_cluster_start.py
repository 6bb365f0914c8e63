"""From a granted allocation to stages that run, on four nodes: `wf run` against a batch script by hand.

Four stages of two ranks, each on a node of its own; a rank writes the time at which it starts, and ends when all have
started. The time counts from the first line of the batch script to the last rank's start. The script by hand starts the
same programs by four `srun` in the background, with overlapping steps and masks as in the plan. Jobs take turns.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from tests.bench import on_cluster, streams
from tests.bench.streams import Row
from tests.support.slurm_cluster import SlurmCluster

NODES, RANKS = 4, 2
STARTED = f"""
date +%s.%N > "$1/$2-$SLURM_PROCID"
until [ "$(ls "$1" | wc -l)" -ge {NODES * RANKS} ]; do sleep 0.05; done
"""
GRANTED = "date +%s.%N"


def measure() -> list[Row]:
    """Three ways, and the differences."""
    with on_cluster.four_nodes() as cluster, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "started.sh").write_text(STARTED)
        ways = {
            "by hand": partial(by_hand_s, cluster, folder),
            "wf": partial(wf_s, cluster, folder, "--no-probe"),
            "wf with probe": partial(wf_s, cluster, folder),
        }
        for way in ways.values():
            way()  # what was read from disk is in memory then
        seconds = streams.take_turns(ways, streams.repetitions(9))
    extra = [ours - theirs for ours, theirs in zip(seconds["wf"], seconds["by hand"], strict=True)]
    proved = [ours - theirs for ours, theirs in zip(seconds["wf with probe"], seconds["by hand"], strict=True)]
    rows = [streams.measured(f"all stages started, {way}", values, "s") for way, values in seconds.items()]
    return [
        *rows,
        streams.measured("wf more than by hand, without probe", extra, "s", 0.5, better="lower"),
        streams.measured("wf more than by hand, probe and smoke streams included", proved, "s", 2.0, better="lower"),
    ]


def by_hand_s(cluster: SlurmCluster, folder: Path) -> float:
    """Seconds until all ranks have started, by srun."""
    with tempfile.TemporaryDirectory(dir=folder) as moments:
        srun = f"srun --overlap --nodes=1 --ntasks={RANKS} --cpu-bind=mask_cpu:0x1,0x2"
        steps = [f"{srun} --relative={node} sh {folder}/started.sh {moments} s{node} &" for node in range(NODES)]
        printed = on_cluster.run_job(cluster, "\n".join([GRANTED, *steps, "wait"]), folder, NODES)
        return _since(printed, Path(moments))


def wf_s(cluster: SlurmCluster, folder: Path, *options: str) -> float:
    """Seconds until all ranks have started, by `wf run`."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        moments = Path(name, "moments")
        moments.mkdir()
        lines = ["wf: 1", "name: start", "stages:"]
        for node in range(NODES):
            command = f"[sh, {folder}/started.sh, {moments}, s{node}]"
            lines.append(f"  s{node}: {{command: {command}, ranks: {RANKS}, place: {{nodes: 1}}}}")
        pipeline = Path(name, "pipeline.yaml")
        pipeline.write_text("\n".join(lines) + "\n")
        run = on_cluster.wf_run(pipeline, Path(name, "run"), *options)
        return _since(on_cluster.run_job(cluster, f"{GRANTED}\nexec {run}", folder, NODES), moments)


def _since(printed: str, moments: Path) -> float:
    started = [float(path.read_text()) for path in moments.iterdir()]
    assert len(started) == NODES * RANKS, started
    return max(started) - float(printed.split()[0])


if __name__ == "__main__":
    streams.serve({}, measure)
