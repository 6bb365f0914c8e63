"""When two names mean one host: schedulers and the system of a node need not agree on the domain."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"[\d.]+")


def short_host(name: str) -> str:
    """A host's name without its domain, in lower case. An IP address is kept."""
    return name if _ADDRESS.fullmatch(name) else name.partition(".")[0].lower()


def is_same_host(name: str, other: str) -> bool:
    """Whether two names mean one host: with a domain or without."""
    return short_host(name) == short_host(other)
