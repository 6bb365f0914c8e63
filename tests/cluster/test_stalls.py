"""What stands still for a while and goes on, on a real Slurm: the file system of the run directory, the job, the
supervisor, a link. No rank ends, the data are those of an undisturbed run, and the report says what it was.

Two runs of two nodes each go on at a time, and what befalls them does so at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.pipelines import ROOT
from tests.support.pipelines import run as run_here
from tests.support.resumed_runs import ANALYSIS, TIMED, stream_steps
from tests.support.slurm_cluster import ClusterSettings, SlurmCluster, network
from tests.support.waiting import wait_until
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.report.report_model import Report
from workflow.run.records.events_file import read_events
from workflow.run.state.events import NodeLost, NodeSilent

pytestmark = pytest.mark.turns(3)

STEPS, STEP_S = 60, 0.2
HEAD = "wf: 1\nname: calm\nallocation: {walltime: 20 min}\n"
# sim is on the first node of its job, mean on the second.
STAGES = """
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", none, "{steps}", "{step_s}"]
    ranks: 2
    writes: {{field: {{}}}}
    {place}
  mean:
    command: ["${{{{ wf.python }}}}", "{folder}/mean.py", none]
    reads: {{field: {{}}}}
    writes: {{means: {{}}}}
    {place}
  keep: {{component: archive, with: {{path: means.bp}}}}
streams:
  field: {{from: sim, to: mean}}
  means: {{from: mean, to: keep}}
"""


def stages_of(folder: Path, place: str = "place: {nodes: 1}", step_s: float = STEP_S) -> str:
    (folder / "mean.py").write_text(ANALYSIS)
    (folder / "sim.py").write_text(TIMED)
    return STAGES.format(folder=folder, steps=STEPS, step_s=step_s, place=place)


class Weather(NamedTuple):
    """A cluster whose nodes see two file systems of their own: ext4 on a loop device, and FUSE with its server."""

    cluster: SlurmCluster
    ext4: Path
    fuse: Path
    server: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def weather(
    start_cluster: Callable[[ClusterSettings], SlurmCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Weather]:
    folder = tmp_path_factory.mktemp("weather")
    image, ext4, below, fuse = (folder / name for name in ("image", "ext4", "below", "fuse"))
    for each in (ext4, below, fuse):
        each.mkdir()
    with image.open("wb") as file:
        file.truncate(1 << 28)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, ext4], check=True)
    server = subprocess.Popen(["bindfs", "-f", below, fuse])
    wait_until(lambda: os.path.ismount(fuse), "the FUSE file system")
    # The nodes see what was mounted before them.
    cluster = start_cluster(ClusterSettings(kill_wait_s=15))
    yield Weather(cluster, ext4, fuse, server)
    cluster.stop()
    server.send_signal(signal.SIGCONT)
    for each in (fuse, ext4):
        subprocess.run(["umount", "--lazy", each], check=False)
    server.kill()  # it would wait until the last process that has a file there has ended
    server.wait(20)


class Going:
    """A run that `wf run` has submitted and follows, and that has made some steps."""

    def __init__(
        self, cluster: SlurmCluster, folder: Path, output: Path, deadlines: str = "", step_s: float = STEP_S
    ) -> None:
        folder.mkdir()
        self.cluster, self.run_dir, self.output = cluster, folder / "run", output
        (folder / "p.yaml").write_text(HEAD + deadlines + stages_of(folder, step_s=step_s))
        own = {"COLUMNS": "200", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
        argv = [MPI_PYTHON, "-m", "workflow.cli", "run", "p.yaml", "--site", "test-slurm", "--run-dir", "run"]
        with output.open("wb") as file:
            self.follower = subprocess.Popen(
                argv, cwd=folder, env={**os.environ, **cluster.environment, **own}, stdin=subprocess.DEVNULL,
                stdout=file, stderr=file,
            )  # fmt: skip

    def await_steps(self) -> None:
        self.wait_for(lambda: stream_steps(self.run_dir) > 10, "ten steps in the archive")
        self.hosts = [host["name"] for host in json.loads((self.run_dir / "allocation.json").read_text())["hosts"]]
        self.job = json.loads((self.run_dir / "job.json").read_text())["job"]

    def wait_for(self, happened: Callable[[], bool], what: str, within_s: float = 150) -> None:
        try:
            wait_until(happened, what, within_s, 0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.story()}") from None

    def story(self) -> str:
        logs = [*self.run_dir.glob("stages/*/stderr.log"), self.run_dir / "guards.log", self.run_dir / "supervisor.log"]
        texts = [f"--- {path.name}\n{path.read_text()[-800:]}" for path in (self.output, *logs) if path.exists()]
        events = list(read_events(self.run_dir)) if (self.run_dir / "events.jsonl").exists() else []
        return "\n".join([*texts, *map(str, events[-20:])])

    def ranks(self) -> dict[str, set[int]]:
        """host → the ranks of the two programs there."""
        programs = {str(self.run_dir.parent / name) for name in ("sim.py", "mean.py")}
        return {
            host: {each.pid for each in self.cluster.processes_on(host) if programs & {*each.command[1:2]}}
            for host in self.hosts
        }

    def supervisor(self) -> int:
        (found,) = [
            each.pid for each in self.cluster.processes_on(self.hosts[0])
            if each.command[2:3] == ["workflow.api.run_process"] and each.command[-1] == str(self.run_dir)
        ]  # fmt: skip
        return found

    def status(self) -> dict[str, str]:
        argv = [MPI_PYTHON, "-m", "workflow.cli", "status", str(self.run_dir), "--json"]
        run = json.loads(self.cluster.client(*argv, PYTHONPATH=str(ROOT)))["run"]
        return {"state": run["state"], "reason": run["reason"]}

    def end(self) -> Report:
        """The report, when the run has ended as if nothing had been."""
        self.wait_for(lambda: self.follower.poll() is not None, "the end of the follower", 120)
        report = read_report(self.run_dir)
        assert (report.run.state, self.follower.returncode) == ("succeeded", 0), self.story()
        return report

    def close(self) -> None:
        self.follower.kill()
        self.follower.wait()
        with contextlib.suppress(RuntimeError, AttributeError):
            self.cluster.client("scancel", "--signal=KILL", "--full", str(self.job))


@contextlib.contextmanager
def both(*runs: Going) -> Iterator[list[dict[str, set[int]]]]:
    """The ranks of these runs, when they go on; each has all of them still at the end."""
    try:
        for run in runs:
            run.await_steps()
        before = [run.ranks() for run in runs]
        assert all(all(ranks.values()) for ranks in before), before
        yield before
    finally:
        for run in runs:
            run.close()


def assert_same_data(run_dir: Path, folder: Path) -> None:
    other = folder / "undisturbed"
    if not other.exists():
        other.mkdir()
        done = run_here(other, stages_of(other, "", 0.0))
        assert done.code == 0, done.said
    found = compare_runs(run_dir, other / "run")
    assert found.identical, found


def hold(seconds: float) -> None:
    """Let the time of the fault pass."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, "the end of the stall", seconds + 5, 0.5)


def stall_file_systems(weather: Weather, folder: Path, seconds: float) -> None:
    frozen = Going(weather.cluster, weather.ext4 / folder.name, folder / "frozen.out")
    stopped = Going(weather.cluster, weather.fuse / folder.name, folder / "stopped.out")
    with both(frozen, stopped) as before:
        weather.server.send_signal(signal.SIGSTOP)
        subprocess.run(["fsfreeze", "-f", weather.ext4], check=True)
        try:
            hold(seconds)
            now = [run.ranks() for run in (frozen, stopped)]
        finally:
            subprocess.run(["fsfreeze", "-u", weather.ext4], check=True)
            weather.server.send_signal(signal.SIGCONT)
        assert now == before, "ranks have ended"
        for run in (frozen, stopped):
            report = run.end()
            said = [text for text in report.notes if text.startswith("the supervisor saw nothing for ")]
            assert said and "it waited for a file system" in said[0], report.notes
            assert_same_data(run.run_dir, folder)
        assert "this command waits on" in frozen.output.read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_file_systems_that_stall_for_a_minute_end_nothing(weather: Weather, tmp_path: Path) -> None:
    stall_file_systems(weather, tmp_path, 60)


@pytest.mark.reliability
@pytest.mark.timeout(900)
def test_file_systems_that_stall_for_five_minutes_end_nothing(weather: Weather, tmp_path: Path) -> None:
    stall_file_systems(weather, tmp_path, 310)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_job_that_is_suspended_and_a_supervisor_that_is_stopped_end_nothing(weather: Weather, tmp_path: Path) -> None:
    cluster, place = weather.cluster, weather.ext4 / tmp_path.name
    place.mkdir()
    suspended = Going(cluster, place / "suspended", tmp_path / "suspended.out")
    # It goes on meanwhile.
    stopped = Going(cluster, place / "stopped", tmp_path / "stopped.out", step_s=1.0)
    with both(suspended, stopped) as before:
        supervisor = stopped.supervisor()
        cluster.client("scontrol", "suspend", suspended.job)
        os.kill(supervisor, signal.SIGSTOP)
        begin = time.monotonic()
        try:
            hold(30)
            assert stopped.ranks() == before[1]
        finally:
            os.kill(supervisor, signal.SIGCONT)
        said = suspended.status()
        assert said["state"] == "running" and "is suspended" in said["reason"], said
        assert "SUSPENDED" in said["reason"], said
        wait_until(lambda: time.monotonic() - begin >= 60, "the end of the minute")
        cluster.client("scontrol", "resume", suspended.job)
        assert suspended.ranks() == before[0]
        for run in (suspended, stopped):
            report = run.end()
            assert any(text.startswith("the supervisor was stopped for ") for text in report.notes), report.notes
            assert_same_data(run.run_dir, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_link_that_is_down_ends_nothing_and_a_node_without_a_word_is_reported_then_lost(
    weather: Weather, tmp_path: Path
) -> None:
    """One run loses the link of its second node for half a minute; that of the other one loses its power as well."""
    cluster, place = weather.cluster, weather.ext4 / tmp_path.name
    place.mkdir()
    linked = Going(cluster, place / "linked", tmp_path / "linked.out")
    lost = Going(cluster, place / "lost", tmp_path / "lost.out", "deadlines: {node: 40 s, stop: 5 s}\n")
    with both(linked, lost) as before:
        host = linked.hosts[1]
        cable = cluster.bridge.cable(cluster.hosts.index(host) + 1)
        network.set_link(cable, up=False)
        begin = time.monotonic()
        cluster.unplug_node(lost.hosts[1])
        try:
            for run in (linked, lost):
                said = f"node {run.hosts[1]} is silent since 1"
                run.wait_for(lambda: said in run.output.read_text(), said, 20)  # noqa: B023
            wait_until(lambda: time.monotonic() - begin >= 30, "the end of the half minute")
            assert linked.ranks() == before[0]
        finally:
            network.set_link(cable, up=True)
        lost.wait_for(lambda: lost.follower.poll() is not None, "the verdict", 60)
        reason = read_report(lost.run_dir).run.reason
        assert reason.startswith(f"node {lost.hosts[1]} was lost (no sign of life for 40 s)"), reason
        assert any(isinstance(event, NodeLost) for event in read_events(lost.run_dir))
        report = linked.end()
        assert any(f"node {host} gave no sign of life for " in text for text in report.notes), report.notes
        assert any(isinstance(event, NodeSilent) for event in read_events(linked.run_dir))
        assert_same_data(linked.run_dir, tmp_path)
        wait_until(lambda: not any(map(cluster.processes_on, lost.hosts[:1])), "the end of all processes")
