"""Which cores a process is bound to. Only the standard library: one of its users runs once per rank."""

from __future__ import annotations

from collections.abc import Sequence


def choose_cores(wanted: Sequence[int], allowed: Sequence[int]) -> tuple[set[int], str]:
    """(the cores to bind to, what to note where that is not possible).

    `wanted` are indices into `allowed`, the cores that this process may use. All or nothing: ranks that share the
    first few cores are slower than ranks that the system places.
    """
    if missing := [core for core in wanted if core >= len(allowed)]:
        numbers = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
        return set(), f"not bound to cores: the plan has core {numbers}, and {len(allowed)} cores may be used here"
    return {allowed[core] for core in wanted}, ""
