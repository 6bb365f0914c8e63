"""GPUs and network adapters of this node, with the cores next to each: from sysfs, and from nvidia-smi."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workflow.core_set import parse_cores
from workflow.schedulers.scheduler_query import Query, QueryError

_SYS = Path("/sys")
_NVIDIA = ["nvidia-smi", "--query-gpu=name,pci.bus_id", "--format=csv,noheader"]


@dataclass(frozen=True)
class Device:
    """A GPU or an adapter. `cores` are the numbers of the physical cores next to it; () is not known."""

    name: str
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gpus:
    """All GPUs in the order of their indices, and the variable that restricts a process to some."""

    devices: tuple[Device, ...] = ()
    variable: str = ""


def find_gpus(cores: Iterable[int], query: Query, sys: Path = _SYS) -> Gpus:
    """NVIDIA's GPUs, else AMD's; none where there is no driver. `cores` are the first threads of the physical cores."""
    own = set(cores)
    try:
        lines = query(_NVIDIA).splitlines()
    except QueryError:
        lines = []
    found = [line.split(", ") for line in lines if ", " in line]
    if found:
        devices = (Device(name, _near(sys / "bus/pci/devices" / _pci(bus), own)) for name, bus in found)
        return Gpus(tuple(devices), "CUDA_VISIBLE_DEVICES")
    amd = tuple(Device("AMD GPU", _near(sys / "bus/pci/devices" / bus, own)) for bus in _amd_gpus(sys))
    return Gpus(amd, "ROCR_VISIBLE_DEVICES") if amd else Gpus()


def find_nics(cores: Iterable[int], sys: Path = _SYS) -> tuple[Device, ...]:
    """Slingshot's adapters, else InfiniBand's (RoCE, Omni-Path), by name."""
    own = set(cores)
    for kind in ("cxi", "infiniband"):
        folders = sorted(_entries(sys / "class" / kind))
        if folders:
            return tuple(Device(folder.name, _near(folder / "device", own)) for folder in folders)
    return ()


def find_interfaces(sys: Path = _SYS) -> list[str]:
    """Network interfaces that are up, sorted: those of hardware, else all but the loopback."""
    up = [each for each in _entries(sys / "class/net") if _text(each / "operstate") in ("up", "unknown")]
    real = [each.name for each in up if (each / "device").exists()]
    return sorted(real or [each.name for each in up if each.name != "lo"])


def _amd_gpus(sys: Path) -> list[str]:
    """PCI addresses of AMD's GPUs in the order of the kernel driver, which is that of ROCR_VISIBLE_DEVICES.

    `location_id` holds bus, device and function as in PCI requester ids (kfd_topology.c of Linux).
    """
    found = []
    nodes = [folder for folder in _entries(sys / "class/kfd/kfd/topology/nodes") if folder.name.isdigit()]
    for folder in sorted(nodes, key=lambda each: int(each.name)):
        words = dict(line.split(None, 1) for line in _text(folder / "properties").splitlines() if " " in line)
        if int(words.get("simd_count", 0)):
            place = int(words.get("location_id", 0))
            domain, bus, device, function = int(words.get("domain", 0)), place >> 8, (place >> 3) & 31, place & 7
            found.append(f"{domain:04x}:{bus & 255:02x}:{device:02x}.{function:x}")
    return found


def _pci(bus: str) -> str:
    """nvidia-smi's `00000000:C1:00.0` as sysfs has it: `0000:c1:00.0`."""
    domain, _, rest = bus.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _near(device: Path, own: set[int]) -> tuple[int, ...]:
    """The physical cores next to a PCI device; () where all are, or it is not told."""
    try:
        near = tuple(cpu for cpu in parse_cores(_text(device / "local_cpulist")) if cpu in own)
    except ValueError:
        return ()
    return near if len(near) < len(own) else ()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
