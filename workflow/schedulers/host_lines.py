"""Files that list hosts, one a line: `host`, `host slots=4`, `host:4`; a host that comes again adds its slots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from workflow.errors import Problem, SpecError, WfError
from workflow.launch.allocation import Allocation, Host
from workflow.launch.host_list import is_same_host

_LINE = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(?:\s*:\s*(?P<count>\d+)|\s+slots\s*=\s*(?P<slots>\d+)(?:\s.*)?)?$")


def host_file(path: str) -> Allocation:
    """The allocation that a user's host file describes; a host without a number has cores that are not known.

    Raises:
        WfError: it cannot be read, or has no host.
        SpecError: a line is no host.
    """
    text = read_host_file(path, "WF_HOSTFILE")
    slots: dict[str, int] = {}
    counted: set[str] = set()  # hosts whose slots are stated, by a number or by several lines
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].strip()
        match = _LINE.match(words)
        if match is not None:
            name, count = match["name"], match["count"] or match["slots"]
            counted |= {name} if count or name in slots else set()
            slots[name] = slots.get(name, 0) + int(count or 1)
        elif words:
            column = line.index(words) + 1
            hint = "write `HOST`, `HOST slots=4` or `HOST:4`"
            problems.append(Problem(path, number, column, "", f'expected a host, got "{words[:60]}"', hint))
    if problems:
        raise SpecError(problems)
    if not slots:
        raise WfError(f"WF_HOSTFILE={path}: there is no host in it", "write one host a line, or unset the variable")
    return Allocation("hostfile", "", tuple(Host(name, slots[name] if name in counted else None) for name in slots))


def read_host_file(path: str, variable: str) -> str:
    """The text of the file that a variable names. Raises WfError."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        hint = "it lists the hosts of the job: correct the variable, or unset it"
        raise WfError(f"{variable}={path}: {error.strerror}", hint) from error


def count_hosts(names: Iterable[str]) -> dict[str, int]:
    """Each name and how often it comes, in the order of their first."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


def with_own_facts(names: Sequence[str], own: Host) -> tuple[Host, ...]:
    """Hosts of which nothing but the name is known, except the one that this process runs on."""
    return tuple(
        Host(name, own.cores, own.memory, own.gpus) if is_same_host(name, own.name) else Host(name) for name in names
    )
