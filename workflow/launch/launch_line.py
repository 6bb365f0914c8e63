"""From numbers to the argument list that starts a stage's ranks. Nothing is looked up or started here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """What a launcher needs to know of a stage. `first_node` counts within the allocation."""

    ranks: int
    nodes: int
    first_node: int
    ranks_per_node: int
    cores_per_rank: int


def none(_: Launch) -> list[str]:
    """The program is started as it is."""
    return []


def mpiexec(launch: Launch) -> list[str]:
    """MPICH's hydra. One rank per node is said with `-ppn`; hosts are bound when the nodes are known."""
    argv = ["mpiexec", "-n", str(launch.ranks)]
    return argv if launch.nodes == 1 else [*argv, "-ppn", str(launch.ranks_per_node)]


def srun(launch: Launch) -> list[str]:
    """A Slurm step beside others of the same allocation.

    `--exact` takes only the cores asked for and `--overlap` lets stages without cores of their own share
    them (https://slurm.schedmd.com/srun.html).
    """
    cores = ["--exact", f"--cpus-per-task={launch.cores_per_rank}"] if launch.cores_per_rank else ["--overlap"]
    return [
        "srun",
        f"--ntasks={launch.ranks}",
        f"--nodes={launch.nodes}",
        f"--ntasks-per-node={launch.ranks_per_node}",
        f"--relative={launch.first_node}",
        *cores,
    ]


LAUNCHERS: dict[str, Callable[[Launch], list[str]]] = {"none": none, "mpiexec": mpiexec, "srun": srun}


def launch_argv(launcher: str, launch: Launch, extra: list[str], program: list[str], mpiexec_path: str) -> list[str]:
    """What is executed: launcher, its arguments, the site's additions, the program."""
    prefix = LAUNCHERS[launcher](launch)
    if launcher == "mpiexec":
        prefix[0] = mpiexec_path
    return [*prefix, *(extra if prefix else []), *program]


@dataclass(frozen=True)
class Segment:
    """One program of a launch line of several."""

    ranks: int
    argv: list[str]


def multi_mpiexec(launch: Launch, segments: list[Segment], extra: list[str], mpiexec_path: str) -> list[str]:
    """Hydra's `mpiexec -n 2 A : -n 1 B`: ranks are numbered in this order."""
    argv = [mpiexec_path, *extra]
    if launch.nodes > 1:
        argv += ["-ppn", str(launch.ranks_per_node)]
    for index, segment in enumerate(segments):
        argv += [*([":"] if index else []), "-n", str(segment.ranks), *segment.argv]
    return argv


def multi_srun(launch: Launch, segments: list[Segment], extra: list[str], file: str) -> tuple[list[str], str]:
    """(Slurm's line, the text of `file`: which ranks run which program).

    Slurm's own `A : B` is for jobs whose parts were asked for apart. Without --kill-on-bad-exit the ranks of one
    program would wait for those of another that has failed (https://slurm.schedmd.com/srun.html).
    """
    lines, first = [], 0
    for segment in segments:
        last = first + segment.ranks - 1
        numbers = str(first) if last == first else f"{first}-{last}"
        lines.append(f"{numbers} {' '.join(_quoted(word) for word in segment.argv)}\n")
        first = last + 1
    argv = [*srun(launch), *extra, "--kill-on-bad-exit=1", "--multi-prog", file]
    return argv, "".join(lines)


def _quoted(word: str) -> str:
    """A word as srun's file takes it: in single quotes, which cannot hold one."""
    plain = all(letter.isalnum() or letter in "/._-+=:,@" for letter in word)
    return word if plain else f"'{word}'"
