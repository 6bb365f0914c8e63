"""What a batch job, or this machine, really has: hosts and what may be used on each. `site.discover` finds it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from workflow.formats.read_json import read_json
from workflow.formats.typed_fields import from_fields

Source = str
"""A scheduler, by its name in `schedulers.schedulers`; hostfile: the user's list of hosts; local: this machine."""
ALLOCATION_VERSION = 1


@dataclass(frozen=True)
class Host:
    """One node of an allocation. None is what is not known.

    `cores` counts as the scheduler does; `Allocation.cores_of` has physical cores. `memory` is in bytes.
    """

    name: str
    cores: int | None = None
    memory: int | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class Allocation:
    """What was received.

    `job` is the scheduler's name of the job, empty without one; `end_time` is in Unix seconds, None where it is not
    known or without a limit. `notes` say what the source gives that could not be understood. `counts_threads`: what
    the hosts have as cores are hardware threads.
    """

    source: Source
    job: str
    hosts: tuple[Host, ...]
    end_time: float | None = None
    notes: tuple[str, ...] = ()
    counts_threads: bool = False

    @property
    def host_names(self) -> tuple[str, ...]:
        """The hosts for launch lines, by the plan's node index. Without a scheduler: none, ranks start here."""
        return () if self.source == "local" else tuple(host.name for host in self.hosts)

    def cores_of(self, host: Host, threads_per_core: int) -> int | None:
        """The physical cores of a host, of so many hardware threads each: what sites and plans count."""
        if host.cores is None or not self.counts_threads:
            return host.cores
        return max(1, host.cores // threads_per_core)

    def to_json(self) -> str:
        """The text of `allocation.json`."""
        return json.dumps({"allocation_version": ALLOCATION_VERSION, **dataclasses.asdict(self)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Allocation:
        """What `to_json` has written. Raises ValueError, KeyError or TypeError for anything else."""
        record = read_json(text)
        hosts = tuple(from_fields(Host, host) for host in record["hosts"])
        return from_fields(cls, {**record, "hosts": hosts, "notes": tuple(record["notes"])})
