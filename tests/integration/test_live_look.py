"""`wf look --live` without a browser: who gets an answer, what it is, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support.hurt_runs import descendants
from tests.support.live_runs import LAST, STREAMS, LiveRun, live_run, wf
from tests.support.pipelines import TIMEOUT_S
from tests.support.waiting import wait_until
from workflow.api.live_looks import live_look
from workflow.errors import RunError, WfError
from workflow.look import live_look as live_look_module
from workflow.look.live_server import NO_TOKEN, NOT_OWN
from workflow.look.live_steps import LiveSteps
from workflow.report.read.run_states import list_runs


@pytest.fixture
def live(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveRun]:
    with live_run(tmp_path, STREAMS[getattr(request, "param", "newest")]) as run:
        run.let_write(3)
        yield run


class Looking:
    """`wf look --live`, started: what it printed first, and how to ask its server."""

    def __init__(self, live: LiveRun, *argv: str) -> None:
        self.process = wf("look", str(live.folder), "--live", *argv, cwd=live.folder.parent)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{32})", self.url)
        if found is None:
            self.process.kill()
            raise AssertionError(self.url + self.end())
        self.port, self.token = int(found[1]), found[2]
        self.head = [self.process.stdout.readline() for _ in range(3)]

    def get(self, path: str, host: str | None = None) -> tuple[int, str]:
        """Status and text of an answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)) as connection:
            connection.request("GET", path, headers={} if host is None else {"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def news(self, after: str = "") -> dict[str, Any]:
        status, text = self.get(f"/news?token={self.token}&page=test&after={after}")
        assert status == 200
        found: dict[str, Any] = json.loads(text)
        return found

    def end(self) -> str:
        """What it said to its end."""
        return self.process.communicate(timeout=TIMEOUT_S)[0]


@contextmanager
def looking_at(live: LiveRun, *argv: str) -> Iterator[Looking]:
    looking = Looking(live, *argv)
    try:
        yield looking
    finally:
        looking.process.kill()
        looking.process.communicate(timeout=TIMEOUT_S)


def last_news(looking: Looking) -> dict[str, Any]:
    """Ask, as a page does, until the run has ended."""
    news = looking.news()
    while not news["ended"]:
        news = looking.news(news["version"])
    return news


def shown(looking: Looking) -> list[int]:
    """The steps that a page gets which has none."""
    model = looking.news().get("model")
    return model["files"][0]["steps"] if model else []


@pytest.mark.parametrize("live", list(STREAMS), indirect=True)
def test_it_follows_the_run_and_writes_the_page_at_its_end(live: LiveRun, tmp_path: Path) -> None:
    with looking_at(live, "-o", "page.html") as looking:
        wait_until(lambda: 3 in shown(looking), "the newest step is shown")
        version = looking.news()["version"]
        live.let_write(4)
        (file,) = looking.news(version)["files"]
        assert file["steps"] == [4]
        (column,) = file["views"][0]["columns"]
        assert (column["low"], column["high"]) == (min(shown(looking)), 4.0)
        with ThreadPoolExecutor(1) as asking:
            last = asking.submit(last_news, looking)
            live.end()
            assert last.result(TIMEOUT_S)["ended"] == "run has ended: succeeded"
        said = looking.end()
        assert looking.process.returncode == 0, said
    assert looking.head[0] == "  run: the newest steps of data\n"
    assert f"ssh -N -L {looking.port}:127.0.0.1:{looking.port} " in looking.head[1]
    assert "page.html: 1 file, 1 variable" in said
    page = (tmp_path / "page.html").read_text()
    assert '<meta name="generator" content="wf look">' in page
    assert "connect-src" not in page
    # The token stands in the address alone.
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert not [path for path in written if looking.token.encode() in path.read_bytes()]


def test_only_who_has_the_token_gets_an_answer(live: LiveRun) -> None:
    with looking_at(live) as looking:
        for path in ("/", "/news"):
            for token in ("", "wrong", looking.token[:-1], f"{looking.token}x", "%C3%A4"):
                assert looking.get(f"{path}?token={token}") == (403, NO_TOKEN)
            assert looking.get(path) == (403, NO_TOKEN)
            assert looking.get(f"{path}?token={looking.token}", "evil.example") == (403, NOT_OWN)
            assert looking.get(f"{path}?token={looking.token}", f"evil.example:{looking.port}")[0] == 403
            for host in ("localhost:9999", "127.0.0.1", "[::1]:1"):
                assert looking.get(f"{path}?token={looking.token}", host)[0] == 200
        assert looking.get(f"/../../etc/passwd?token={looking.token}")[0] == 404


def test_other_hosts_cannot_connect(live: LiveRun) -> None:
    with looking_at(live) as looking:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_way:
            any_way.connect(("192.0.2.1", 9))  # sends nothing; says by which address this machine would
            address = any_way.getsockname()[0]
        for other in {address, "127.0.0.2"}:
            assert other != "127.0.0.1"
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((other, looking.port), timeout=10)
        assert listening(looking.port) == {"0100007F"}  # 127.0.0.1, little-endian


def listening(port: int) -> set[str]:
    """The addresses at which something listens on a port, of IPv4 and IPv6, as the kernel writes them."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    local = [line[1].split(":") for line in lines if line[3] == "0A"]
    return {address for address, number in local if int(number, 16) == port}


def test_ctrl_c_ends_it_and_the_run_goes_on(live: LiveRun) -> None:
    with looking_at(live) as looking:
        wait_until(lambda: shown(looking), "it reads")
        below = descendants(looking.process.pid)
        assert below
        looking.process.send_signal(signal.SIGINT)
        said = looking.end()
        assert looking.process.returncode == 130, said
        assert "Traceback" not in said
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "its readers are gone")
    assert live.process.poll() is None
    live.end()
    assert live.process.returncode == 0


def test_readers_end_with_a_command_that_is_killed(live: LiveRun) -> None:
    with looking_at(live) as looking:
        wait_until(lambda: shown(looking), "it reads")
        below = descendants(looking.process.pid)
        looking.process.kill()
        wait_until(lambda: not any(is_running(pid) for pid in below), "its readers are gone")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_reader_that_dies_is_said(live: LiveRun) -> None:
    with looking_at(live) as looking:
        wait_until(lambda: shown(looking), "it reads")
        (reader,) = descendants(looking.process.pid)
        os.kill(reader, signal.SIGKILL)
        said = looking.end()
        assert looking.process.returncode == 2, said
        assert "stream data: the process that read it was ended by SIGKILL" in said
    assert live.process.poll() is None


def said_by(live: LiveRun, *argv: str) -> tuple[int, str]:
    process = wf("look", *argv, cwd=live.folder.parent)
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert "Traceback" not in said
    return process.returncode, said


def test_mistakes(live: LiveRun) -> None:
    run = str(live.folder)
    with looking_at(live) as looking:
        code, said = said_by(live, run, "--live", "--port", str(looking.port))
        assert code == 2
        assert f"port {looking.port} cannot be used: Address already in use" in said
    assert said_by(live, run, "--live", "--stream", "dat")[1].count("did you mean `data`?") == 1
    assert "--live shows one run" in said_by(live, run, run, "--live")[1]
    assert "belong to --live" in said_by(live, run, "--port", "80")[1]
    live.end()
    code, said = said_by(live, run, "--live")
    assert code == 2
    assert "run is not running: it has succeeded" in said
    assert f"look at what it has archived: wf look {run}" in said


def test_a_run_that_keeps_nothing(tmp_path: Path) -> None:
    with live_run(tmp_path, "via: sst") as live:
        wait_until(lambda: (live.folder / "stages/look/metrics.jsonl").exists(), "it runs")
        with pytest.raises(RunError, match="keeps no steps of data, so nothing can be attached to it"):
            live_look(live.folder)
        with pytest.raises(WfError, match=r"streams\.data\.keep=true"):
            live_look(live.folder, ["data"])
        live.end()


def test_where_nothing_is_archived_the_page_has_the_steps_that_were_shown(live: LiveRun, tmp_path: Path) -> None:
    with live_look(live.folder) as page:
        wait_until(lambda: has_model(page.url), "it reads")
        live.end()
        assert page.wait() == "run has ended: succeeded"
    written = page.write_page(tmp_path / "last.html")
    assert "1 variable" in written.summary
    text = (tmp_path / "last.html").read_text()
    model = json.loads(text.partition('id="model">')[2].partition("</script>")[0])
    assert model["files"][0]["steps"][-1] == LAST - 1


def test_a_step_that_cannot_be_taken_is_said(live: LiveRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("of another kind")

    monkeypatch.setattr(LiveSteps, "add", fail)
    message = "stream data cannot be shown any more: ValueError: of another kind"
    with live_look(live.folder) as page:
        with pytest.raises(RunError, match=message):
            page.wait()
        with urlopen(page.url.replace("?", "news?")) as answer:
            assert json.loads(answer.read())["notes"] == [message]


def test_the_whole_run_is_looked_at_rarely(live: LiveRun, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[float] = []

    def list_them(*given: Any) -> Any:
        looked.append(time.monotonic())
        return list_runs(*given)

    monkeypatch.setattr(live_look_module, "list_runs", list_them)
    with live_look(live.folder) as page, ThreadPoolExecutor(1) as waiting:
        end = waiting.submit(page.wait)
        wait_until(lambda: len(looked) >= 3, "it looks again")
        live.end()
        assert end.result(TIMEOUT_S) == "run has ended: succeeded"
    assert looked[2] - looked[0] >= 2 * live_look_module._LOOK_WELL_S


def has_model(url: str) -> bool:
    with urlopen(url.replace("?", "news?")) as answer:
        return b'"model"' in answer.read()


def test_the_run_is_the_same_with_and_without(live: LiveRun) -> None:
    """Nothing of it is recorded."""
    before = {path for path in live.folder.rglob("*") if path.is_dir()}
    with looking_at(live) as looking:
        wait_until(lambda: shown(looking), "it reads")
        assert {path for path in live.folder.rglob("*") if path.is_dir()} == before
    assert subprocess.run(["grep", "-rl", "look --live", str(live.folder)], check=False).returncode == 1
