"""Lists of hosts: as Slurm and Flux write them, `n[1-3,07],login1`, and files with one host a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from workflow.errors import Problem, SpecError, WfError
from workflow.launch.allocation import Allocation, Host

_NAME = re.compile(r"^[A-Za-z0-9_.-]+$")
_RANGE = re.compile(r"^(\d+)(?:-(\d+))?$")
# Far above any machine; a range with a digit too many must not fill the memory.
MOST_HOSTS = 1_000_000


def expand_hosts(text: str) -> list[str]:
    """`n[1-2,07],login1` → [`n1`, `n2`, `n07`, `login1`], in this order; zeros in front are kept.

    A name may have several pairs of brackets: `rack[0-1]n[0-3]`. Raises ValueError for what is no such list.
    """
    hosts: list[str] = []
    for name in _names(text):
        for host in _expand(name, text):
            hosts.append(host)
            if len(hosts) > MOST_HOSTS:
                raise ValueError(f"more than {MOST_HOSTS} hosts: {_short(text)}")
    return hosts


def _names(text: str) -> list[str]:
    """The list, cut at the commas outside of brackets."""
    names, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise ValueError(f"not a list of hosts: {_short(text)}")
        if letter == "," and not depth:
            names.append(text[start:index])
            start = index + 1
    if depth:
        raise ValueError(f"not a list of hosts: {_short(text)}")
    return [*names, text[start:]]


def _expand(name: str, text: str) -> Iterator[str]:
    """All hosts of one name with brackets."""
    before, bracket, rest = name.partition("[")
    if not bracket:
        if not _NAME.match(name):
            raise ValueError(f"not a list of hosts: {_short(text)}")
        yield name
        return
    inside, _, after = rest.partition("]")
    for part in inside.split(","):
        match = _RANGE.match(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or not first <= last <= first + MOST_HOSTS:
            raise ValueError(f"not a list of hosts: {_short(text)}")
        for number in range(first, last + 1):
            yield from _expand(f"{before}{number:0{len(match[1])}d}{after}", text)


def _short(text: str) -> str:
    return f'"{text}"' if len(text) <= 60 else f'"{text[:60]}…"'


# When two names mean one host: schedulers and the system of a node need not agree on the domain.

_ADDRESS = re.compile(r"[\d.]+")


def short_host(name: str) -> str:
    """A host's name without its domain, in lower case. An IP address is kept."""
    return name if _ADDRESS.fullmatch(name) else name.partition(".")[0].lower()


def is_same_host(name: str, other: str) -> bool:
    """Whether two names mean one host: with a domain or without."""
    return short_host(name) == short_host(other)


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
        hint = "it lists the hosts of the job: correct the variable; where the job is over, start a new shell"
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
