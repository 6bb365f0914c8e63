"""What is to be launched, and the line that a launcher makes of it. A new launcher gets all that it needs from here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workflow.launch.rank_ends import EndPattern


@dataclass(frozen=True)
class RankedProgram:
    """A program and the number of its ranks. Several in one request share MPI_COMM_WORLD, in this order."""

    ranks: int
    argv: Sequence[str]


@dataclass(frozen=True)
class RankLayout:
    """Where the ranks of a launch line run. `first_node` counts from 0 within the allocation.

    `cores_per_rank` is 0 where ranks have no cores of their own. All programs of one line have the same layout.
    """

    nodes: int
    first_node: int
    ranks_per_node: int
    cores_per_rank: int
    gpus_per_rank: int = 0


@dataclass(frozen=True)
class LaunchRequest:
    """One line: the programs, their layout, and what surrounds them.

    `hosts` are those of the allocation, by node index; empty where they are not known or not needed. `folder` is
    where logs go, and files that the launcher reads. `cores` are core indices on each node; [] is no binding.
    """

    name: str
    launcher: str
    executable: str
    arguments: Sequence[str]
    programs: Sequence[RankedProgram]
    layout: RankLayout
    folder: str
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    cores: Sequence[int] = ()
    hosts: Sequence[str] = ()
    separate_ids: bool = False  # its processes need ids far from those of other stages (`run.processes`)

    @property
    def ranks(self) -> int:
        """Of all programs."""
        return sum(program.ranks for program in self.programs)

    @property
    def own_hosts(self) -> Sequence[str]:
        """The hosts of the nodes of this line; empty where hosts are not known."""
        first = self.layout.first_node
        return self.hosts[first : first + self.layout.nodes]


@dataclass(frozen=True)
class LaunchLine:
    """What is executed, and the files that must exist before: absolute path → text."""

    argv: list[str]
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Launcher:
    """What the plan, the run and the report must know of a launcher. `line` makes its command line."""

    line: Callable[[LaunchRequest], LaunchLine]
    executable: str  # empty: the program is started without a launcher, and has one rank
    comes_with_python: bool = False  # a Python environment may bring its own, which then belongs to its MPI
    several_programs: bool = False  # one line can start several programs
    equal_cores: bool = False  # all ranks of one line have equally many cores
    binds: bool = False  # binds ranks to cores itself; else they inherit the cores of what starts it
    other_machines: bool = False  # looks programs up where the ranks run, which may be another machine
    needs_hosts: bool = False  # names the nodes of a line by `hosts`; without them it starts on the first nodes
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

    @property
    def starts_ranks(self) -> bool:
        """Whether this is a program that starts ranks."""
        return bool(self.executable)
