"""A campaign on four nodes by one pilot, from the login node: how well its nodes are used, and what a start costs.

80 repetitions of 20 trials on one, two and four nodes, which sleep 2 to 8 s: none needs the cores that all nodes share
here. Efficiency is the ideal (node-seconds of the repetitions ÷ the nodes, or the longest) ÷ the time from the first
start to the last end; node-seconds are those of the ledger, from the run directory to the figures.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from tests.bench import on_cluster, streams
from tests.bench.streams import Row
from tests.support.pilot_campaigns import PilotCampaign

NODES = 4
SIZES = [1] * 11 + [2] * 6 + [4] * 3


def measure() -> list[Row]:
    """One campaign."""
    chance = random.Random(1)
    trials = [f"{{stages.one.ranks: {nodes}, stages.one.env.SLEEP: '{chance.uniform(2, 8):.1f}'}}" for nodes in SIZES]
    repetitions = streams.repetitions(4)
    given = f"site: {on_cluster.SITE}\ninclude: [{', '.join(trials)}]\nrepetitions: {repetitions}\nexpected: 6 s\n"
    with on_cluster.four_nodes() as cluster, tempfile.TemporaryDirectory() as name:
        campaign = PilotCampaign(
            Path(name), f"{given}jobs: {{time: 20 min, nodes: {NODES}}}", sleep_s="$SLEEP",
            more="    place: {ranks_per_node: 1}\n", variables=cluster.environment,
        )  # fmt: skip
        begun = time.time()
        said = campaign.finish(campaign.start(), within_s=600)
        ended = [each for each in campaign.records("ended") if each["state"] == "succeeded"]
    assert len(ended) == len(SIZES) * repetitions, said
    first = min(each["started"] for each in ended)
    last = max(each["started"] + each["wall_s"] for each in ended)
    node_s = sum(each["wall_s"] * each["nodes"] for each in ended)
    ideal_s = max(node_s / NODES, max(each["wall_s"] for each in ended))
    return [
        streams.row(
            "efficiency of the packing", ideal_s / (last - first), "×", 0.9, detail=f"{len(ended)} repetitions"
        ),
        streams.row("from the first start to the last end", last - first, "s"),
        streams.row("from the command to the first start", first - begun, "s"),
    ]


if __name__ == "__main__":
    streams.serve({}, measure)
