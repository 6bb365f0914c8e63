"""Which streams of a run can be read by what is attached to it, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planner import Planner
from workflow.api.attachments import find_kept
from workflow.errors import RunError


def test_a_stream_that_is_not_kept_says_what_would_help(plan_of: Planner, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="keeps no steps of positions") as caught:
        find_kept(tmp_path, plan_of(via="hdf5"), "positions")
    assert caught.value.hint == "others can read only streams by BP5, SHM, SST"
    with pytest.raises(RunError, match="keeps no steps of positions") as caught:
        find_kept(tmp_path, plan_of(), "positions")
    assert caught.value.hint == "start the run with `--set streams.positions.keep=true`"
    file = find_kept(tmp_path, plan_of(via="bp5"), "positions")
    assert file.path.name == "positions.bp"
