"""Balances as `wf balance` writes them, of candidates that never ran."""

from __future__ import annotations

from pathlib import Path
from statistics import geometric_mean
from typing import Any

from workflow.balance.balance_model import BALANCE_FILE, OVERLAY_FILE, Balance, BalancedCandidate
from workflow.balance.show_balance import overlay_text
from workflow.forecast.quartiles import Estimate

VIA, RANKS, SHARE = "streams.field.via", "stages.sim.ranks", "stages.mean.place.share"
_KEYS = {"via": VIA, "ranks": RANKS, "share": SHARE}


def candidate(*probes: float, nodes: int = 1, high: float = 1.05, **settings: Any) -> BalancedCandidate:
    """A candidate whose probes took so many ms per step; `via`, `ranks` and `share` stand for keys.

    `high`: the upper bound of what it promises, ÷ the median.
    """
    seconds = [each / 1000 for each in probes]
    middle = geometric_mean(seconds) if seconds else 0.001
    return BalancedCandidate(
        settings={_KEYS.get(key, key): value for key, value in settings.items()},
        probes=seconds,
        seconds=Estimate(median=middle, low=0.95 * middle, high=high * middle),
        ratio=Estimate(median=1.0, low=1.0, high=1.0),
        forecast=None,
        nodes=nodes,
        queue_memory=None,
    )


def balance(chosen: BalancedCandidate, *others: BalancedCandidate, today: BalancedCandidate, **more: Any) -> Balance:
    """What was found of the stages `sim` and `mean`, and a stream between them that is of SST in the file."""
    found = {
        "pipeline": "p.yaml", "site": "here", "goal": "time", "counted": "sim", "paced": True, "refused": [],
        "keys": {VIA: ["sst", "shm", "sst-tcp"], RANKS: [1, 2], SHARE: [None, "sim"], "stages.sim.with.size": [8, 16]},
        "candidates": 9, "today": today, "chosen": chosen, "decided": True, "others": list(others), "rivals": [],
        "probes": 7, "spent_s": 1.0, "spent_node_hours": 1.0,
    }  # fmt: skip
    return Balance.model_validate(found | more)


def write_balance(folder: Path, found: Balance) -> Path:
    """Write its files, and return that of the overlay."""
    folder.mkdir(parents=True)
    (folder / BALANCE_FILE).write_text(found.to_json())
    (folder / OVERLAY_FILE).write_text(overlay_text(found, lambda key: key.split(".")))
    return folder / OVERLAY_FILE
