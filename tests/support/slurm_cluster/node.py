"""One node: a set of namespaces with a slurmd in them. All of it ends when its first process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.slurm_cluster.daemons import without_core
from tests.support.slurm_cluster.requirements import path_with_daemons
from tests.support.waiting import wait_until

SCRIPT = Path(__file__).with_name("node.sh")
NAMESPACES = ("net", "uts", "mnt", "ipc", "pid", "cgroup")
KINDS = ["--net", "--uts", "--mount", "--ipc", "--pid", "--cgroup"]  # the same as options of unshare and nsenter
KEEPER = ["sleep", "infinity", "0"]  # of node.sh
DEADLINE_S = 20


@dataclass(frozen=True)
class NodeProcess:
    """A process of a node: its id on the machine, its id in the node, its command line."""

    pid: int
    pid_on_node: int
    command: list[str]


def start_node(host: str, address: str, state: Path, groups: list[Path]) -> int:
    """Start the first process of a node in these cgroups; returns its id. It waits for its interface `e0`."""
    pid_file = _pid_file(host, state)
    pid_file.unlink(missing_ok=True)
    # The process leaves this one's session and parents, so that it lives as long as the cluster.
    enter = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
    script = f'set -e; {enter} echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec "$@"'
    unshare = ["unshare", *KINDS, "--fork", "--kill-child", "--mount-proc"]
    controllers = " ".join(group.parent.name for group in groups)
    argv = ["sh", "-c", script, "sh", *unshare, "sh", str(SCRIPT), host, address, str(state), controllers]
    with (state / "log" / f"node-{host}.log").open("a") as log:
        environment = {**os.environ, "PATH": path_with_daemons()}
        subprocess.run(
            without_core(["setsid", "--fork", *argv]), cwd=state, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=environment,
        )  # fmt: skip
    wait_until(pid_file.exists, f"the first process of {host}", DEADLINE_S)
    pid = int(pid_file.read_text())
    wait_until(lambda: _namespace(pid, "net") != _namespace(os.getpid(), "net"), f"the network of {host}", DEADLINE_S)
    return pid


def outer_pid(host: str, state: Path) -> int | None:
    """The id of the process that holds the node's namespaces; None when the node is off."""
    try:
        pid = int(_pid_file(host, state).read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Another process may have got the id since; a process that has ended has no command line.
    return pid if os.fsencode(state) in command else None


def init_pid(host: str, state: Path) -> int:
    """The id, on the machine, of the node's process 1."""
    outer = outer_pid(host, state)
    children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split() if outer else []
    if not children:
        raise RuntimeError(f"{host} is off")
    return int(children[0])


def cut_power(host: str, state: Path) -> None:
    """Kill the node with all of its processes; returns when none is left."""
    outer = outer_pid(host, state)
    if outer is None:
        return
    namespace = _namespace(init_pid(host, state), "pid")
    os.kill(outer, signal.SIGKILL)
    wait_until(lambda: not _members(namespace), f"the end of the processes of {host}", DEADLINE_S)
    _pid_file(host, state).unlink(missing_ok=True)


def processes_on(host: str, state: Path) -> list[NodeProcess]:
    """What runs on the node besides Slurm's daemons and the node's own two processes, as seen from outside."""
    if outer_pid(host, state) is None:
        return []
    found = [_node_process(pid) for pid in _members(_namespace(init_pid(host, state), "pid"))]
    return [process for process in found if process and not _belongs_to_node(process)]


def namespaces_of(pid: int) -> dict[str, str]:
    """kind of namespace → its identity, as `net:[4026532281]`."""
    return {kind: _namespace(pid, kind) for kind in NAMESPACES}


def processes_in(namespaces: set[str]) -> list[int]:
    """Processes of this machine that are in one of these namespaces."""
    return [pid for pid in _all_pids() if any(_namespace(pid, kind) in namespaces for kind in NAMESPACES)]


def command_on(host: str, state: Path, argv: list[str]) -> list[str]:
    """The command line that runs `argv` inside the node."""
    return ["nsenter", "--target", str(init_pid(host, state)), *KINDS, "--", *argv]


def _pid_file(host: str, state: Path) -> Path:
    return state / f"node-{host}.pid"


def _namespace(pid: int, kind: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:  # the process has ended
        return ""


def _all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _members(pid_namespace: str) -> list[int]:
    return [pid for pid in _all_pids() if _namespace(pid, "pid") == pid_namespace]


def _node_process(pid: int) -> NodeProcess | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    words = [os.fsdecode(word) for word in command.rstrip(b"\0").split(b"\0")]
    return NodeProcess(pid, int(fields["NSpid"].split()[-1]), words if command else [fields["Name"].strip()])


def _belongs_to_node(process: NodeProcess) -> bool:
    name = Path(process.command[0]).name
    return process.pid_on_node == 1 or process.command == KEEPER or name == "slurmd" or name.startswith("slurmstepd")
