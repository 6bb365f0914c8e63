"""What is to be launched, and the line that a launcher makes of it. A new launcher gets all that it needs from here.

A launcher gives all ranks of a line one environment. Where they need different ones, for GPUs or network adapters, each
rank starts through a script of a few lines, which sets its variables by its number on its node and becomes the program.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from workflow.formats.stage_waits import OPEN_TIMEOUT_S
from workflow.launch.host_lists import is_same_host
from workflow.launch.rank_ends import NOT_STARTED, EndPattern


class RankLayout(NamedTuple):
    """Where the ranks of a program run: rank i on node `first_node + i // ranks_per_node` of the allocation.

    `cores`, `gpus` and `nics` have one entry for each rank of a node; they are empty where ranks are not bound, see all
    GPUs, and may use any network adapter. Cores are numbered as the site does. `cores_per_rank` is 0 where ranks have
    no cores of their own.
    """

    nodes: int
    first_node: int
    ranks_per_node: int
    cores_per_rank: int
    cores: Sequence[Sequence[int]] = ()
    gpus: Sequence[Sequence[int]] = ()
    nics: Sequence[str] = ()


class NodeFacts(NamedTuple):
    """What launchers must know of a node. `gpu_variable` restricts a rank to its GPUs; empty: not known."""

    cores: int
    threads_per_core: int = 1
    gpus: int = 0
    gpu_variable: str = ""


@dataclass(frozen=True)
class LaunchRequest:
    """One line: a program, its ranks, where they run, and what surrounds them.

    `hosts` are those of the allocation, by node index; empty where they are not known or not needed. `folder` is where
    logs go, and files that the launcher reads. `options` are the launcher's, as its version spells them (`option`).
    `whole_nodes` is False where other jobs may use the rest of the nodes; `cpus_per_core` are as many as the scheduler
    counts. `start_s` is how long the start may take.
    """

    name: str
    launcher: str
    executable: str
    arguments: Sequence[str]
    program: Sequence[str]
    ranks: int
    layout: RankLayout
    folder: str
    cwd: str
    node: NodeFacts
    options: Mapping[str, str]
    env: Mapping[str, str] = field(default_factory=dict)
    hosts: Sequence[str] = ()
    whole_nodes: bool = True
    cpus_per_core: int = 1
    start_s: float = OPEN_TIMEOUT_S
    secrets: Mapping[str, str] = field(default_factory=dict)  # as of `workflow.redaction`
    separate_ids: bool = False  # its processes need ids far from those of other stages (`run.processes`)

    @property
    def own_hosts(self) -> Sequence[str]:
        """The hosts of the nodes of this line; empty where hosts are not known."""
        return self.hosts[self.layout.first_node : self.layout.first_node + self.layout.nodes]

    @property
    def is_here(self) -> bool:
        """Whether all ranks run on this machine: not where that is not known."""
        return self.layout.nodes == 1 and all(is_same_host(name, platform.node()) for name in self.own_hosts)

    @property
    def ranks_by_node(self) -> list[range]:
        """The numbers of the ranks of each node: equally many, but for the last node, which may have fewer."""
        per_node = self.layout.ranks_per_node
        return [range(first, min(first + per_node, self.ranks)) for first in range(0, self.ranks, per_node)]

    def option(self, name: str, value: object = "") -> list[str]:
        """The words of an option of the launcher, `value` in the place of `{}`; [] where its version has none."""
        return [word.replace("{}", str(value)) for word in self.options[name].split()]


@dataclass(frozen=True)
class LaunchLine:
    """What is executed; the files that must exist before, absolute path → its text when called; more environment.

    `without` are variables that the launcher must not inherit: exact names, or beginnings that end in `*`.
    """

    argv: list[str]
    files: dict[str, Callable[[], str]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()

    def texts(self) -> dict[str, str]:
        """The files with their texts. Only the run needs them: some have a line for every rank."""
        return {path: text() for path, text in self.files.items()}


class Launcher(NamedTuple):
    """What the plan, the run and the report must know of a launcher. `line` makes its command line."""

    line: Callable[[LaunchRequest], LaunchLine]
    executable: str  # empty: the program is started without a launcher, and has one rank
    options: frozenset[str] = frozenset()  # what its table in configs/launchers must have
    version_words: tuple[str, ...] = ()  # of `mpiexec --version`, which several launchers are called
    comes_with_python: bool = False  # a Python environment may bring its own, which then belongs to its MPI
    binds: bool = False  # binds ranks to cores itself; else they inherit the cores of what starts it
    selects_gpus: bool = False  # restricts ranks to GPUs by itself; else the site's `gpu_variable` does
    other_machines: bool = False  # looks programs up where the ranks run, which may be another machine
    shares_cores: bool = True  # several lines may use the same cores at a time; else each has its own
    passes_input: bool = False  # what is written to its standard input comes to all ranks, on all nodes
    mpi_connects: bool = False  # two programs of two lines find each other by MPI_Comm_connect
    ranks_below: bool = False  # the ranks on this machine are its grandchildren
    outlives_ranks: bool = False  # may wait for ever for ranks that have gone
    # (exit code, last lines of its output) → the signal that ended a rank; None: no signal
    signal_of: Callable[[int, Iterable[str]], int | None] = lambda _code, _lines: None
    end_patterns: Sequence[EndPattern] = ()  # what it prints when ranks end badly
    rank_variable: str = ""  # environment variable in which a process finds its rank
    local_rank_variable: str = ""  # the same among the ranks of its line on its node
    independent: Sequence[str] = ()  # options with which the end of one rank, or node, does not end the others
    interrupt_notice: re.Pattern[str] | None = None  # what it prints when Ctrl-C ends its ranks
    not_started: re.Pattern[str] | None = None  # what it prints when it could not start the ranks

    @property
    def starts_ranks(self) -> bool:
        """Whether this is a program that starts ranks."""
        return bool(self.executable)


# Which nodes a line runs on, for launchers that take host names: on the line, or in a file where there are many.

# A longer line is not readable, and not accepted everywhere.
HOSTS_ON_LINE = 40
Files = dict[str, Callable[[], str]]


def host_options(request: LaunchRequest, hosts: Sequence[str], in_file: str = "{}") -> tuple[list[str], Files]:
    """(options `hosts` or `host_file` of the launcher's table, the file that they need). Without hosts: none.

    `in_file` is what a line of the file has for a host.
    """
    if not hosts:
        return [], {}
    if len(hosts) <= HOSTS_ON_LINE:
        return request.option("hosts", ",".join(hosts)), {}
    path = f"{request.folder}/hosts"
    return request.option("host_file", path), {
        path: lambda: "".join(f"{in_file.format(*host.split(':'))}\n" for host in hosts)
    }


NIC_VARIABLE = "FABRIC_IFACE"  # of SST's RDMA transport (ADIOS2, toolkit/sst/dp/rdma_dp.c)
SCRIPT = "rank_settings.sh"


class RankSettings(NamedTuple):
    """What every rank starts through, [] for nothing; the script that this needs; environment of all ranks."""

    through: list[str]
    files: dict[str, Callable[[], str]]
    env: dict[str, str]


def rank_settings(request: LaunchRequest, local_rank: str, *, selects_gpus: bool = False) -> RankSettings:
    """The settings of the ranks of a line. `local_rank` is the variable with a rank's number on its node.

    `selects_gpus`: the launcher restricts each rank to its GPUs itself.
    """
    layout = request.layout
    variable = "" if selects_gpus else request.node.gpu_variable
    ranks: list[dict[str, str]] = [{} for _ in range(max(len(layout.gpus) if variable else 0, len(layout.nics)))]
    for rank, settings in enumerate(ranks):
        if variable and rank < len(layout.gpus):
            settings[variable] = ",".join(map(str, layout.gpus[rank]))
        if rank < len(layout.nics) and layout.nics[rank]:
            settings[NIC_VARIABLE] = layout.nics[rank]
    if not any(ranks):
        return RankSettings([], {}, {})
    if all(settings == ranks[0] for settings in ranks):
        return RankSettings([], {}, ranks[0])
    path = f"{request.folder}/{SCRIPT}"
    return RankSettings(["/bin/sh", path], {path: lambda: _script(local_rank, ranks)}, {})


def _script(local_rank: str, ranks: Sequence[Mapping[str, str]]) -> str:
    cases = "".join(
        f"{rank}) export {' '.join(f'{name}={shlex.quote(value)}' for name, value in settings.items())} ;;\n"
        for rank, settings in enumerate(ranks)
    )
    return (
        f'#!/bin/sh\n# GPUs and network adapter of each rank of a node\ncase "${local_rank}" in\n{cases}'
        f'*) echo "wf: {local_rank}=${local_rank}: no rank of this node has that number" >&2; exit {NOT_STARTED} ;;\n'
        'esac\nexec "$@"\n'
    )
