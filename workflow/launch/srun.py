"""Slurm's srun: a step beside others of the same allocation. Options: https://slurm.schedmd.com/srun.html"""

from __future__ import annotations

import signal
from collections.abc import Iterable

from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest
from workflow.launch.rank_ends import end_pattern

_RANKS = r"srun: error: (?P<host>[^ :]+): tasks? (?P<ranks>[\d,-]+): "
_STEP = r"(?:slurmstepd\S*|srun): error: \*\*\* (?:STEP|JOB) \S+ ON (?P<host>\S+) CANCELLED AT \S+"
# As srun and slurmstepd of Slurm 22.05 print them; `Exited` and signals as srun's own summary of ended tasks has them.
ENDS = (
    end_pattern("node_lost", rf"{_STEP} DUE TO NODE FAILURE"),
    end_pattern("time_limit", rf"{_STEP} DUE TO TIME LIMIT"),
    end_pattern("preempted", rf"{_STEP} DUE TO PREEMPTION"),
    end_pattern("cancelled", rf"{_STEP} \*\*\*"),
    end_pattern("node_lost", r"srun: error: Node failure on (?P<host>\S+)"),
    end_pattern("out_of_memory", rf"{_RANKS}Out Of Memory"),
    end_pattern("out_of_memory", r"slurmstepd\S*: error: Detected \d+ oom[-_]kill event\S* in"),
    end_pattern("exited", rf"{_RANKS}Exited with exit code (?P<number>\d+)"),
    end_pattern("killed", rf"{_RANKS}(?!Exited|Out Of Memory)(?P<name>[A-Z].*)"),
    end_pattern("not_started", r"srun: error: Unable to create step for job \d+: "),
)


def _line(request: LaunchRequest) -> LaunchLine:
    """`srun … A`, or `srun … --multi-prog FILE`: Slurm's own `A : B` is for jobs whose parts were requested apart."""
    start = [request.executable, *_options(request), *request.arguments]
    if len(request.programs) == 1:
        return LaunchLine([*start, *request.programs[0].argv])
    file = f"{request.folder}/programs.conf"
    # Without --kill-on-bad-exit the ranks of one program would wait for those of another that has failed.
    return LaunchLine([*start, "--kill-on-bad-exit=1", "--multi-prog", file], {file: _programs(request)})


def _options(request: LaunchRequest) -> list[str]:
    """`--relative` counts within the allocation, so that no host needs a name.

    `--exact` takes only the cores requested; `--overlap` lets stages without cores of their own share them.
    """
    layout = request.layout
    cores = ["--exact", f"--cpus-per-task={layout.cores_per_rank}"] if layout.cores_per_rank else ["--overlap"]
    return [
        f"--ntasks={request.ranks}",
        f"--nodes={layout.nodes}",
        f"--ntasks-per-node={layout.ranks_per_node}",
        f"--relative={layout.first_node}",
        *cores,
        *([f"--gpus-per-task={layout.gpus_per_rank}"] if layout.gpus_per_rank else []),
    ]


def _programs(request: LaunchRequest) -> str:
    """The text of the file for `--multi-prog`: which ranks run which program."""
    lines, first = [], 0
    for program in request.programs:
        last = first + program.ranks - 1
        numbers = str(first) if last == first else f"{first}-{last}"
        lines.append(f"{numbers} {' '.join(_quoted(word) for word in program.argv)}\n")
        first = last + 1
    return "".join(lines)


def _quoted(word: str) -> str:
    """A word as the file takes it: in single quotes, which cannot hold one."""
    plain = all(letter.isalnum() or letter in "/._-+=:,@" for letter in word)
    return word if plain else f"'{word}'"


def _signal_of(code: int, _: Iterable[str]) -> int | None:
    return code - 128 if 128 < code < 128 + signal.NSIG else None


LAUNCHER = Launcher(
    _line,
    executable="srun",
    several_programs=True,
    equal_cores=True,
    binds=True,
    other_machines=True,
    mpi_connects=True,
    signal_of=_signal_of,
    end_patterns=ENDS,
    rank_variable="SLURM_PROCID",
    local_rank_variable="SLURM_LOCALID",
    independent=("--no-kill", "--kill-on-bad-exit=0", "--wait=0"),
)
