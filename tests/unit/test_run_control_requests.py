"""Requests to a supervisor by a file."""

from __future__ import annotations

from pathlib import Path

from workflow.run.records.control_requests import CONTROL_FILE, ControlRequest, ControlRequests, requester, send_request


def test_requests_are_taken_once_in_their_order(tmp_path: Path) -> None:
    requests = ControlRequests(tmp_path)
    assert requests.take() == []
    send_request(tmp_path, "stop")
    send_request(tmp_path, "kill")
    assert requests.take() == [ControlRequest("stop", requester()), ControlRequest("kill", requester())]
    assert requests.take() == []


def test_requests_from_before_the_start_count(tmp_path: Path) -> None:
    send_request(tmp_path, "stop")
    assert [each.request for each in ControlRequests(tmp_path).take()] == ["stop"]


def test_what_is_no_request_is_left_out(tmp_path: Path) -> None:
    requests = ControlRequests(tmp_path)
    with (tmp_path / CONTROL_FILE).open("a") as file:
        file.write('{"request": "dance"}\nstop\n[]\n{"request": "stop"}\n{"request": "st')
    assert requests.take() == [ControlRequest("stop", "somebody")]
