"""`calibration/SITE.json`: where it is, and what is said of one that cannot be used."""

from __future__ import annotations

import json
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
from workflow.forecast.calibration_model import Calibration, MeasuringConditions
from workflow.forecast.quartiles import exactly


def test_it_is_beside_the_users_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert find_calibration("mine") is None and load_calibration("mine") is None
    file = calibration_path("mine")
    assert file == tmp_path / "config/wf/calibration/mine.json"
    write_calibration(Calibration(site="mine", memory=exactly(8e9)), file)
    loaded = load_calibration("mine")
    assert loaded is not None and loaded.memory == exactly(8e9)
    (own := tmp_path / "own").mkdir()
    monkeypatch.setenv("WF_CONFIGS", str(own))
    assert calibration_path("mine") == file and calibration_path("other") == own / "calibration/other.json"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('{"calibration_version": 2}', "calibration_version is 2, and this wf reads version 1", "--new"),
        ("{", "it is not JSON", "wf calibrate --site mine"),
        ("[]", "it is not a calibration", "wf calibrate --site mine"),
        (
            '{"calibration_version": 1, "site": "mine", "memry": 3}',
            "memry: Extra inputs are not permitted",
            "wf calibrate --site mine",
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


def test_another_machine_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = MeasuringConditions(
        date="2026-11-22T10:00:00+00:00", host="node1", cores=4, wf_version="0.1.0", python="3.11", adios2="",
        parallel_adios2=None, quick=False,
    )  # fmt: skip
    calibration = Calibration(site="local", measured={"memory": measured})
    monkeypatch.setattr("socket.gethostname", lambda: "node2")
    (note,) = host_note(calibration, "local")
    assert note == "the forecast is from 1 other machine (node1), and this is node2: `wf calibrate`"
    # The nodes of a cluster are alike.
    assert host_note(calibration, "frontier") == []
    monkeypatch.setattr("socket.gethostname", lambda: "node1")
    assert host_note(calibration, "local") == []
    assert json.loads(calibration.to_json())["measured"]["memory"]["host"] == "node1"
