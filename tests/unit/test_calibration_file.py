"""`calibration/SITE.json`: where it is, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.calibration.calibration_file import (
    calibration_path,
    find_calibration,
    host_note,
    load_calibration,
    read_calibration,
    write_calibration,
)
from workflow.errors import WfError
from workflow.forecast.calibration_model import Calibration, PortRecord, StageRecord
from workflow.forecast.quartiles import exactly

MEASURED = Calibration(
    site="mine",
    stages=[
        StageRecord(program="md", parameters={}, ranks=1, seconds=exactly(0.1, 9), ports=[], run="a", host="node1")
    ],
)


def test_it_is_beside_the_users_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert find_calibration("mine") is None and load_calibration("mine") is None
    file = calibration_path("mine")
    assert file == tmp_path / "config/wf/calibration/mine.json"
    write_calibration(MEASURED, file)
    assert load_calibration("mine") == MEASURED
    (own := tmp_path / "own").mkdir()
    monkeypatch.setenv("WF_CONFIGS", str(own))
    assert calibration_path("mine") == file and calibration_path("other") == own / "calibration/other.json"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('{"calibration_version": 3}', "calibration_version is 3, and this wf reads version 2", "wf calibrate RUN"),
        ("{", "it is not JSON", "wf calibrate RUN"),
        ("[]", "it is not a calibration", "wf calibrate RUN"),
        (
            '{"calibration_version": 2, "site": "mine", "memory": 3}',
            "memory: Extra inputs are not permitted",
            "wf calibrate RUN",
        ),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, message: str, hint: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text)
    with pytest.raises(WfError) as caught:
        read_calibration(file)
    assert str(file) in caught.value.message and message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("value", ["0", "1e999", "NaN"])
def test_a_share_that_is_none(tmp_path: Path, value: str) -> None:
    port = PortRecord(port="in", side="read", bytes_per_step=8.0, share=0.25, per_step=1.0)
    stage = MEASURED.stages[0].model_copy(update={"ports": [port]})
    file = tmp_path / "mine.json"
    file.write_text(MEASURED.model_copy(update={"stages": [stage]}).to_json().replace("0.25", value))
    with pytest.raises(WfError):
        read_calibration(file)


def test_another_machine_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node2")
    (note,) = host_note(MEASURED, "local")
    assert note == (
        "the figures are from 1 other machine (node1), and this is node2: `wf calibrate RUN` with a run of this one"
    )
    # The nodes of a cluster are alike.
    assert host_note(MEASURED, "frontier") == []
    monkeypatch.setattr("socket.gethostname", lambda: "node1")
    assert host_note(MEASURED, "local") == []
