"""The network of a cluster: a bridge of its own, and for each node a cable from there to the node's interface `e0`."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.slurm_cluster.settings import Addresses

# The second byte is one that home and office networks, containers and virtual machines seldom use.
NETWORKS = [f"10.213.{number}" for number in range(256)]


@dataclass(frozen=True)
class Bridge:
    """One cluster's bridge: its name, which is also the prefix of the cables' names, and its addresses."""

    name: str
    addresses: Addresses

    def cable(self, number: int) -> str:
        """The machine's end of the cable to node `number`."""
        return f"{self.name}-{number}"


@dataclass(frozen=True)
class InterfaceBytes:
    """Bytes that a node's interface has received and sent since the node was started."""

    received: int
    sent: int


def make_bridge() -> Bridge:
    """A bridge with an address in a network that this machine does not use yet.

    The kernel creates an interface of one name once: this is what keeps two clusters apart that start together.
    """
    for number, network in enumerate(NETWORKS):
        name = f"wfslurm{number}"
        if _in_use(network) or not _created(name):
            continue
        bridge = Bridge(name, Addresses(network))
        # A bridge without an address of its own has the lowest of its cables: when that node's power is cut, the others
        # would not find this machine for half a minute.
        _ip("link", "set", name, "address", f"02:00:00:77:66:{number:02x}")
        _ip("address", "add", f"{bridge.addresses.controller}/24", "dev", name)
        _ip("link", "set", name, "up")
        return bridge
    raise RuntimeError("no free network: `ip link show type bridge` lists the bridges of other clusters, wfslurm*")


def remove_bridge(name: str) -> None:
    """Remove the bridge, if it is there. The cables go when the network namespaces of their nodes do."""
    subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)


def connect(bridge: Bridge, number: int, pid: int) -> None:
    """A cable between the bridge and a new interface `e0` in the network namespace of process `pid`."""
    cable = bridge.cable(number)
    _ip("link", "add", cable, "type", "veth", "peer", "name", "e0", "netns", str(pid))
    _ip("link", "set", cable, "master", bridge.name, "up")


def disconnect(cable: str) -> None:
    """Remove a cable, with the node's end of it, if it is there. A node that was killed may keep its network for a
    minute: its connections have not been closed yet."""
    subprocess.run(["ip", "link", "delete", cable], capture_output=True, check=False)


def set_link(cable: str, *, up: bool) -> None:
    """Let nothing through a cable any more, or let it through again; what is connected to it is not told."""
    _ip("link", "set", cable, "up" if up else "down")


def cables(bridge: str) -> list[str]:
    """The machine's ends of the cables that are there now."""
    return sorted(path.name for path in Path("/sys/class/net").glob(f"{bridge}-*"))


def interface_bytes(bridge: Bridge, number: int) -> InterfaceBytes:
    """The counters of the node's `e0`, read at the other end of its cable."""
    counters = Path("/sys/class/net", bridge.cable(number), "statistics")
    return InterfaceBytes(
        received=int((counters / "tx_bytes").read_text()), sent=int((counters / "rx_bytes").read_text())
    )


def _in_use(network: str) -> bool:
    ours = ipaddress.ip_network(f"{network}.0/24")
    routes = json.loads(_ip("-json", "-4", "route", "show", "table", "all"))
    others = [ipaddress.ip_network(route["dst"], strict=False) for route in routes if route["dst"] != "default"]
    return any(isinstance(other, ipaddress.IPv4Network) and other.overlaps(ours) for other in others)


def _created(name: str) -> bool:
    return subprocess.run(["ip", "link", "add", name, "type", "bridge"], capture_output=True).returncode == 0


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
