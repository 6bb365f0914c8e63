"""A cluster as tests and developers use it: start, stop, cut a node's power, look at what runs there."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.support.slurm_cluster import cgroups, network, node
from tests.support.slurm_cluster.daemons import daemon_pid, start_munged, start_slurmctld, stop_daemon
from tests.support.slurm_cluster.network import Bridge, InterfaceBytes
from tests.support.slurm_cluster.node import NodeProcess
from tests.support.slurm_cluster.requirements import missing_for_cluster
from tests.support.slurm_cluster.settings import Addresses, ClusterSettings, cgroup_conf, hosts_file, slurm_conf
from tests.support.slurm_cluster.site_file import NAME as SITE_NAME
from tests.support.slurm_cluster.site_file import site_file
from tests.support.waiting import wait_until

# Everything about a cluster is in STATES/NAME, so that any process can use it or remove it.
STATES = Path("/run/wf-slurm")
START_DEADLINE_S = 30


ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE")


@dataclasses.dataclass(frozen=True)
class JobDone:
    """A job that has ended: its number, its state in Slurm's words, what it printed."""

    number: int
    state: str
    printed: str


class SlurmCluster:
    """A Slurm of its own: several of them, with different names, can run on one machine."""

    def __init__(self, name: str, settings: ClusterSettings | None = None) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
            raise ValueError(f"a cluster's name is of small letters, digits and `-`, not {name!r}")
        self.name = name
        self.state = STATES / name
        self.settings = settings or self._stored_settings() or ClusterSettings()
        self.hosts = self.settings.hosts

    @staticmethod
    def running() -> list[str]:
        """Names of the clusters of this machine that were started and not stopped."""
        return sorted(path.name for path in STATES.glob("*"))

    # --- start and stop

    def start(self) -> None:
        """Start all daemons; returns when every node is idle. Removes what it has started when that fails."""
        if missing := missing_for_cluster():
            raise RuntimeError("; ".join(missing))
        self._make_state()
        try:
            bridge = network.make_bridge()
            self._store(bridge)
            self._write_configuration(bridge)
            start_munged(self.state)
            start_slurmctld(self.state)
            with ThreadPoolExecutor() as pool:
                list(pool.map(self._start_node, self.hosts))
            self.wait_for_state("idle", *self.hosts)
        except BaseException as error:
            logs = self.logs()
            self.stop()
            if isinstance(error, Exception):
                raise RuntimeError(f"cluster {self.name} did not start: {error}\n{logs}") from error
            raise

    def stop(self) -> None:
        """Kill all nodes and daemons, and remove the bridge and the state. Does nothing where there is no cluster."""
        if not self.state.exists():
            return
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda host: node.cut_power(host, self.state), self.hosts))
        # Nobody needs the state that they would save.
        stop_daemon("slurmctld", self.state, signal.SIGKILL)
        stop_daemon("munged", self.state, signal.SIGKILL)
        if self.is_recorded():
            bridge = self.bridge.name
            for cable in network.cables(bridge):
                network.disconnect(cable)
            wait_until(lambda: not network.cables(bridge), "the end of the nodes' interfaces", START_DEADLINE_S)
            network.remove_bridge(bridge)
            for host in self.hosts:
                cgroups.remove_groups(self._group(host))
        shutil.rmtree(self.state)

    def is_running(self) -> bool:
        """Whether it has been started, and not stopped."""
        return self.state.exists()

    def is_recorded(self) -> bool:
        """Whether the network and the settings of the cluster are known: not at the beginning of `start`."""
        return (self.state / "cluster.json").exists()

    # --- what clients need

    @property
    def environment(self) -> dict[str, str]:
        """Variables for `sbatch`, `squeue` and `wf run --site test-slurm` on this machine, which is the login node."""
        return {"SLURM_CONF": str(self.state / "etc" / "slurm.conf"), "WF_CONFIGS": str(self.state / "configs")}

    @property
    def bridge(self) -> Bridge:
        stored = json.loads((self.state / "cluster.json").read_text())
        return Bridge(stored["bridge"], Addresses(stored["network"]))

    def address(self, host: str) -> str:
        return self.bridge.addresses.node(self._number(host))

    @property
    def login_address(self) -> str:
        """The address under which the nodes reach this machine."""
        return self.bridge.addresses.controller

    def client(self, *argv: str, deadline_s: float = 60, **variables: str) -> str:
        """What a command on the login node prints, as `client("sinfo", "-h")`. Raises RuntimeError with its errors."""
        environment = {**os.environ, **self.environment, **variables}
        done = subprocess.run(list(argv), capture_output=True, text=True, env=environment, timeout=deadline_s)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    # --- jobs

    def submit(self, *options: str) -> int:
        """`sbatch OPTIONS`, for example `submit("--nodes=2", "--wrap=srun hostname")`; returns the job's number."""
        return int(self.client("sbatch", "--parsable", *options))

    def job_state(self, job: int) -> str:
        """What Slurm says: PENDING, RUNNING, COMPLETED, FAILED, NODE_FAIL, CANCELLED, TIMEOUT, …"""
        shown = self.client("scontrol", "--oneliner", "show", "job", str(job))
        return next(word for word in shown.split() if word.startswith("JobState=")).removeprefix("JobState=")

    def wait_for_job(self, job: int, *states: str, deadline_s: float = 60) -> None:
        """Wait until a job is in one of these states."""
        try:
            wait_until(lambda: self.job_state(job) in states, f"job {job} to be {' or '.join(states)}", deadline_s, 0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{error}, it is {self.job_state(job)}\n{self.logs()}") from None

    def run_job(
        self, argv: list[str], output: Path, *options: str, deadline_s: float = 120, **variables: str
    ) -> JobDone:
        """Run a command as a job, on the first of the nodes that `options` ask for; waits for its end."""
        job = self.start_job(argv, output, *options, **variables)
        self.wait_for_job(job, *ENDED, deadline_s=deadline_s)
        return self.job_done(job, output)

    def start_job(self, argv: list[str], output: Path, *options: str, **variables: str) -> int:
        """Submit a command as `run_job` does; returns the job's number."""
        script = output.with_name(f"{output.name}.sh")
        script.write_text(f"#!/bin/sh\nexec {shlex.join(argv)}\n")
        given = {**self.environment, **variables}
        export = f"--export=ALL,{','.join(f'{name}={value}' for name, value in given.items())}"
        return self.submit(*options, export, f"--output={output}", str(script))

    def job_done(self, job: int, output: Path) -> JobDone:
        """A job of `start_job` as it is now."""
        return JobDone(job, self.job_state(job), output.read_text() if output.exists() else "")

    # --- nodes

    def run_on(self, host: str, argv: list[str], deadline_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command inside a node, outside of Slurm, as a guest of its namespaces."""
        return subprocess.run(self.command_on(host, argv), capture_output=True, text=True, timeout=deadline_s)

    def command_on(self, host: str, argv: list[str]) -> list[str]:
        """The command line that runs `argv` inside a node; killing it leaves `argv` to the caller."""
        return node.command_on(host, self.state, argv)

    def processes_on(self, host: str) -> list[NodeProcess]:
        """What runs on a node besides Slurm's daemons; nothing when the node is off."""
        return node.processes_on(host, self.state)

    def namespaces(self, host: str) -> dict[str, str]:
        """kind of namespace → its identity."""
        return node.namespaces_of(node.init_pid(host, self.state))

    def interface_bytes(self, host: str) -> InterfaceBytes:
        """What the node's `e0` has received and sent, traffic of Slurm included."""
        return network.interface_bytes(self.bridge, self._number(host))

    def kill_node(self, host: str) -> None:
        """Cut the power: all processes of the node end at once. slurmctld learns it after `node_timeout_s`."""
        node.cut_power(host, self.state)

    def unplug_node(self, host: str) -> None:
        """Cut the cable, then the power: nothing says to those who are connected to the node that it is gone."""
        network.disconnect(self.bridge.cable(self._number(host)))
        node.cut_power(host, self.state)

    def restart_node(self, host: str) -> None:
        """Boot the node again; returns when it accepts jobs."""
        self.unplug_node(host)
        cable = self.bridge.cable(self._number(host))
        wait_until(lambda: cable not in network.cables(self.bridge.name), f"the end of {cable}", START_DEADLINE_S)
        self._start_node(host)
        self.wait_for_state("idle", host)

    def is_on(self, host: str) -> bool:
        return node.outer_pid(host, self.state) is not None

    def make_whole(self, patience_s: float = 20) -> None:
        """Cancel all jobs, and boot the nodes that are not idle within `patience_s` then: they are off, or a step that
        Slurm has lost keeps them. Returns when all are idle."""
        if not self.controller_runs():
            self.start_controller()
        if self.client("squeue", "--noheader").strip():
            self.client("scancel", "--user=root")
        with suppress(TimeoutError):
            self.wait_for_state("idle", *self.hosts, deadline_s=patience_s)
        states = self._node_states()
        # Slurm learns late that a node is off.
        lost = [host for host in self.hosts if states.get(host) != "idle" or not self.is_on(host)]
        if lost:
            # It gives up what it waits for there; a node that registers is up again.
            self.client("scontrol", "update", f"NodeName={','.join(lost)}", "State=DOWN", "Reason=left so by a test")
        for host in lost:
            self.restart_node(host)

    # --- controller

    def stop_controller(self) -> None:
        """End slurmctld as its administrator would. Jobs go on; clients cannot connect."""
        stop_daemon("slurmctld", self.state, signal.SIGTERM)

    def start_controller(self) -> None:
        """Start slurmctld with the jobs that it knew; returns when it answers."""
        start_slurmctld(self.state)
        wait_until(lambda: bool(self._node_states()), "an answer of slurmctld", START_DEADLINE_S)

    def controller_runs(self) -> bool:
        return daemon_pid("slurmctld", self.state) is not None

    def wait_for_state(self, state: str, *hosts: str, deadline_s: float = START_DEADLINE_S) -> None:
        """Wait until Slurm says that each of these nodes is `idle`, `alloc`, `down`, …"""
        seen: dict[str, str] = {}

        def reached() -> bool:
            seen.update(self._node_states())
            return all(seen.get(host) == state for host in hosts)

        try:
            wait_until(reached, f"nodes in state {state}", deadline_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}, Slurm says {seen}") from None

    def logs(self, lines: int = 6) -> str:
        """The last lines of every log, for a message."""
        files = sorted((self.state / "log").glob("*"))
        return "\n".join(f"--- {file.name}\n{_tail(file, lines)}" for file in files)

    # --- inside

    def _number(self, host: str) -> int:
        return self.hosts.index(host) + 1

    def _group(self, host: str) -> str:
        return f"{self.bridge.name}-{host}"

    def _make_state(self) -> None:
        STATES.mkdir(mode=0o755, exist_ok=True)
        try:
            self.state.mkdir()
        except FileExistsError:
            down = f"python -m tests.support.slurm_cluster down --name {self.name}"
            raise RuntimeError(f"there is a cluster {self.name}: stop it by `{down}`") from None
        for folder in ("etc", "log", "controller", "cgroup", *(f"spool-{host}" for host in self.hosts)):
            (self.state / folder).mkdir()

    def _store(self, bridge: Bridge) -> None:
        settings = dataclasses.asdict(self.settings)
        record = {"bridge": bridge.name, "network": bridge.addresses.network, "settings": settings}
        (self.state / "cluster.json").write_text(json.dumps(record))

    def _stored_settings(self) -> ClusterSettings | None:
        try:
            stored = json.loads((self.state / "cluster.json").read_text())
        except FileNotFoundError:
            return None
        return ClusterSettings(**stored["settings"])

    def _write_configuration(self, bridge: Bridge) -> None:
        controller = socket.gethostname().split(".")[0]
        (self.state / "hosts").write_text(hosts_file(self.settings, bridge.addresses, controller))
        etc = self.state / "etc"
        (etc / "slurm.conf").write_text(slurm_conf(self.settings, bridge.addresses, controller, self.state))
        (etc / "cgroup.conf").write_text(cgroup_conf(self.settings))
        sites = self.state / "configs" / "sites"
        sites.mkdir(parents=True)
        version = self.client("sinfo", "--version").split()[-1]
        (sites / f"{SITE_NAME}.yaml").write_text(site_file(self.settings, version))

    def _start_node(self, host: str) -> None:
        use = self.settings.process_tracking == "cgroup"
        groups = cgroups.make_groups(self._group(host)) if use else []
        pid = node.start_node(host, self.address(host), self.state, groups)
        network.connect(self.bridge, self._number(host), pid)

    def _node_states(self) -> dict[str, str]:
        try:
            printed = self.client("sinfo", "--noheader", "--Node", "--format=%N %T", "--partition=debug")
        except RuntimeError:  # slurmctld does not answer yet
            return {}
        return dict(line.split() for line in printed.splitlines())


def _tail(file: Path, lines: int) -> str:
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
