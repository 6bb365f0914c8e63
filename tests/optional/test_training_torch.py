"""Example 05 with PyTorch. `make demo-train` runs it: no other target installs PyTorch."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.support.training_runs import last_error, reports, train
from workflow.compare.compare_runs import compare_runs

OPTIONS = ("--profile", "torch", "--set", "stages.simulation.with.steps=1500")


def test_the_loss_falls_and_after_a_kill_it_is_the_same_network(tmp_path: Path) -> None:
    whole, again = train(tmp_path / "whole", *OPTIONS), train(tmp_path / "again", *OPTIONS, kills=1)
    seen = reports(whole.folder / "stages/training/stdout.log")
    assert seen[-1][1] < seen[0][1] / 10, seen
    assert last_error(again) == last_error(whole) < 0.2
    found = compare_runs(whole.folder / "training.bp", again.folder / "training.bp")
    assert found.identical, found
    one, other = (
        torch.load(done.folder / "stages/training/work/surrogate.pt", weights_only=True) for done in (whole, again)
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
