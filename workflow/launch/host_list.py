"""Lists of hosts as Slurm and Flux write them: `n[1-3,07],login1`."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
