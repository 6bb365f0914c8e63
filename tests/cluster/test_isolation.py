"""The nodes share the file system and nothing else: what only works on one machine does not work between them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.slurm_cluster import SlurmCluster
from tests.support.slurm_cluster.daemons import daemon_pid

# Serves until its standard input is closed, and says when it is ready.
LISTEN = """
import socket, sys, threading
family, address = {family}, {address!r}
server = socket.socket(family)
server.bind(address)
server.listen()

def serve():
    while True:
        connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 20):
                pass
            connection.sendall(b"done")

threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""
SEND = """
import socket
family, address = {family}, {address!r}
with socket.socket(family) as client:
    client.settimeout(20)
    client.connect(address)
    for _ in range(16):
        client.sendall(bytes(1 << 20))
    client.shutdown(socket.SHUT_WR)
    print(client.recv(4).decode())
"""
SENT_BYTES = 16 << 20
ABSTRACT = {"family": "socket.AF_UNIX", "address": "\0wf-isolation"}


@contextmanager
def running_on(cluster: SlurmCluster, host: str, program: str) -> Iterator[int]:
    """A Python program on a node, from its line `ready` on; gives its process number in the node."""
    argv = cluster.command_on(host, [sys.executable, "-c", program])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "ready\n"
        (found,) = [one.pid_on_node for one in cluster.processes_on(host) if one.command[-1] == program]
        yield found
        process.stdin.close()


def on(cluster: SlurmCluster, host: str, program: str) -> subprocess.CompletedProcess[str]:
    return cluster.run_on(host, [sys.executable, "-c", program])


def first_line(cluster: SlurmCluster, host: str, file: str) -> str:
    return cluster.run_on(host, ["cat", file]).stdout.splitlines()[0]


def test_a_process_of_one_node_is_invisible_on_another(cluster: SlurmCluster) -> None:
    idle = "import sys; print('ready', flush=True); sys.stdin.read()"
    with running_on(cluster, "n1", idle) as pid:
        assert cluster.run_on("n1", ["grep", "-c", "sys.stdin.read", f"/proc/{pid}/cmdline"]).stdout.strip() == "1"
        listed = cluster.run_on("n2", ["sh", "-c", "cat /proc/[0-9]*/cmdline"]).stdout
        assert "slurmd" in listed
        assert idle not in listed
        assert cluster.processes_on("n2") == []
    assert cluster.processes_on("n1") == []


@pytest.mark.parametrize("file", ["/proc/sys/kernel/hostname", "/proc/sys/kernel/random/boot_id"])
def test_each_node_has_its_own(cluster: SlurmCluster, file: str) -> None:
    seen = [first_line(cluster, host, file) for host in cluster.hosts]
    assert len({*seen, Path(file).read_text().strip()}) == len(cluster.hosts) + 1


def test_names_lead_to_addresses_on_every_node(cluster: SlurmCluster) -> None:
    names = [*cluster.hosts, socket.gethostname()]
    ask = f"import socket; print(*[socket.gethostbyname(name) for name in {names!r}])"
    expected = [*[cluster.address(host) for host in cluster.hosts], cluster.login_address]
    for host in cluster.hosts:
        assert on(cluster, host, ask).stdout.split() == expected


def test_a_node_sees_its_own_interface_and_no_other(cluster: SlurmCluster) -> None:
    for host in cluster.hosts:
        assert sorted(cluster.run_on(host, ["ls", "/sys/class/net"]).stdout.split()) == ["e0", "lo"]


def test_shared_memory_is_not_shared_between_nodes(cluster: SlurmCluster) -> None:
    cluster.run_on("n1", ["touch", "/dev/shm/wf-isolation"]).check_returncode()
    listed = {host: cluster.run_on(host, ["ls", "/dev/shm"]).stdout for host in cluster.hosts}
    on_machine = Path("/dev/shm/wf-isolation").exists()
    cluster.run_on("n1", ["rm", "/dev/shm/wf-isolation"]).check_returncode()
    assert listed == {"n1": "wf-isolation\n", "n2": "", "n3": "", "n4": ""}
    assert not on_machine


def test_system_v_shared_memory_is_not_shared_between_nodes(cluster: SlurmCluster) -> None:
    made = cluster.run_on("n1", ["ipcmk", "--shmem", "4096"]).stdout.split()[-1]
    assert f" {made} " in cluster.run_on("n1", ["ipcs", "--shmems"]).stdout
    assert f" {made} " not in cluster.run_on("n2", ["ipcs", "--shmems"]).stdout
    cluster.run_on("n1", ["ipcrm", "--shmem-id", made]).check_returncode()


def test_abstract_sockets_do_not_cross(cluster: SlurmCluster) -> None:
    with running_on(cluster, "n1", LISTEN.format(**ABSTRACT)):
        assert on(cluster, "n1", SEND.format(**ABSTRACT)).stdout == "done\n"
        assert "Connection refused" in on(cluster, "n2", SEND.format(**ABSTRACT)).stderr


def test_files_are_shared(cluster: SlurmCluster, tmp_path: Path) -> None:
    cluster.run_on("n1", ["sh", "-c", f"echo from n1 > {tmp_path}/file"]).check_returncode()
    assert cluster.run_on("n2", ["cat", f"{tmp_path}/file"]).stdout == "from n1\n"


def test_bytes_between_nodes_are_counted_at_their_interfaces(cluster: SlurmCluster) -> None:
    tcp = {"family": "socket.AF_INET", "address": (cluster.address("n1"), 7000)}
    before = {host: cluster.interface_bytes(host) for host in cluster.hosts}
    with running_on(cluster, "n1", LISTEN.format(**tcp)):
        assert on(cluster, "n2", SEND.format(**tcp)).stdout == "done\n"
        # Within a node they do not pass the interface.
        assert on(cluster, "n1", SEND.format(**tcp)).stdout == "done\n"
    after = {host: cluster.interface_bytes(host) for host in cluster.hosts}
    received = {host: after[host].received - before[host].received for host in cluster.hosts}
    sent = {host: after[host].sent - before[host].sent for host in cluster.hosts}
    assert SENT_BYTES < received["n1"] < 1.1 * SENT_BYTES
    assert SENT_BYTES < sent["n2"] < 1.1 * SENT_BYTES
    # Acknowledgements, and Slurm's own messages.
    assert max(sent["n1"], received["n2"], received["n3"], sent["n3"], received["n4"], sent["n4"]) < SENT_BYTES / 20


def test_a_listener_on_a_node_is_reached_from_the_login_node(cluster: SlurmCluster) -> None:
    address = (cluster.address("n3"), 7000)
    with running_on(cluster, "n3", LISTEN.format(family="socket.AF_INET", address=address)):
        program = SEND.format(family="socket.AF_INET", address=address)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.stdout == "done\n", done.stderr


def test_each_node_has_namespaces_of_its_own(cluster: SlurmCluster) -> None:
    machine = {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in cluster.namespaces("n1")}
    for kind in machine:
        seen = [cluster.namespaces(host)[kind] for host in cluster.hosts]
        assert len({*seen, machine[kind]}) == len(cluster.hosts) + 1, kind


def test_daemons_leave_no_core_dump_in_the_checkout(cluster: SlurmCluster) -> None:
    """Slurm's daemons raise their soft limit to the hard one, and dump where they were started."""
    daemons = [pid for name in ("munged", "slurmctld") if (pid := daemon_pid(name, cluster.state))]
    assert len(daemons) == 2
    slurmd = ["sh", "-c", "for p in $(pidof slurmd); do grep 'core file' /proc/$p/limits; readlink /proc/$p/cwd; done"]
    limits, folder = cluster.run_on("n1", slurmd).stdout.splitlines()
    assert limits.split()[-3:] == ["0", "0", "bytes"]
    assert Path(folder) == cluster.state
    for pid in daemons:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
        assert next(line for line in lines if "core file" in line).split()[-3:] == ["0", "0", "bytes"]
        assert not Path(f"/proc/{pid}/cwd").resolve().is_relative_to(Path.cwd())
