"""The memory policy of a stage: what the allocator of its processes is told, by environment variables.

A step of a stream takes big buffers and frees them. glibc maps such blocks from the kernel and gives them back each
time, so that every step pays again for a page fault per 4 KiB. `keep_freed` lets the process keep what it freed, and
`huge_pages` makes the faults 512 times fewer. No program changes. Variables: mallopt(3) and glibc's manual, "Memory
Allocation Tunables".
"""

from __future__ import annotations

from collections.abc import Sequence

from workflow.plan.making import Making, counted
from workflow.plan.plan_model import EndPlan, Placement, StageMemory
from workflow.site.machine import ALLOCATOR_VARIABLES, SET_HERE, TUNABLES_GLIBC, parse_version

# The engines whose speed was seen to hang on it (tests/bench/bench_transports.py).
_ENGINES = ("SST", "SSC", "BP5", "BP4")
# Of a node's memory, all ranks of all stages together keep at most this share by default; a rank never more than MOST.
_SHARE, _MOST, _LEAST = 4, 8 * 2**30, 64 * 2**20
# Until glibc 2.35 malloc ignores a larger threshold for mapping blocks: HEAP_MAX_SIZE/2 (malloc/malloc.c).
_OLD_LIMIT = 32 * 2**20
_MEASURED = "with big steps SST and BP5 mostly run 1.5 to several times as fast (docs/benchmarks.md)"


def decide_memory(name: str, ends: Sequence[EndPlan], placement: Placement, making: Making) -> StageMemory | None:
    """What a stage's processes do about memory; None where the allocator is left alone. Notes what cannot be had."""
    stage, site, key = making.loaded.spec.stages[name], making.site, f"stages.{name}.memory"
    wanted = stage.memory
    own = [each for each in ALLOCATOR_VARIABLES if each in stage.env]
    if own:
        asked = [word for word in ("huge_pages", "keep_freed") if getattr(wanted, word) not in (None, False)]
        if asked:
            making.problems.add(
                f"{key}.{asked[0]}",
                f"env.{own[0]} tells the allocator already, and only one of the two can",
                f"remove `env: {{{own[0]}: …}}`, or `memory:`",
            )
        making.notes.why(key, f"left alone: env.{own[0]} is yours")
        return None
    if wanted.huge_pages and not _has_huge_pages(making):
        making.problems.add(f"{key}.huge_pages", _lack(making), "remove it")
    streams = [end.stream for end in ends if end.engine in _ENGINES]
    by_default = site.memory_policy if streams else []
    huge = wanted.huge_pages if wanted.huge_pages is not None else "huge_pages" in by_default
    keep = wanted.keep_freed if wanted.keep_freed is not None else "keep_freed" in by_default
    kept = _share(making) if keep is True else int(keep)
    if keep is not True:
        _check_kept(f"{key}.keep_freed", kept, placement.ranks_per_node, making)
    if not huge and not kept:
        if streams and not wanted.model_fields_set and SET_HERE in (seen := site.seen.get("memory_policy", "")):
            making.notes.advise(f"the memory policy of stages is left alone: {seen}")
        making.notes.why(key, _why_not(name, bool(streams), making))
        return None
    making.notes.why(key, _why(name, streams, huge, kept, making))
    return StageMemory(huge_pages=huge, keep_freed=kept)


def _check_kept(key: str, kept: int, ranks: int, making: Making) -> None:
    """A size that was written. `ranks` are those of the stage on one node."""
    site, room = making.site, making.site.memory_per_node
    most = room // ranks
    if kept > most:
        making.problems.add(
            key,
            f"each rank would keep up to {_size(kept)}; a node of site {site.site} has {_size(room)} for "
            f"{counted(ranks, 'rank')}",
            f"at most `{key.rpartition('.')[2]}: {most // 2**20} MiB`, or `true`",
        )
    elif 0 < kept < 2**20:
        making.notes.advise(f"{key}: {_size(kept)} is little: larger buffers go back to the system after each step")


def memory_environment(name: str, memory: StageMemory | None, making: Making) -> dict[str, str]:
    """The variables that say so to glibc's malloc."""
    if memory is None:
        return {}
    kept, why = memory.keep_freed, making.notes.reasons[f"stages.{name}.memory"]
    if _has_tunables(making):
        tunables = ["glibc.malloc.hugetlb=1"] if memory.huge_pages else []
        if kept:
            tunables += [f"glibc.malloc.mmap_threshold={kept}", f"glibc.malloc.trim_threshold={kept}"]
        found = {"GLIBC_TUNABLES": ":".join(tunables)}
    elif not kept:
        return {}  # huge pages without tunables: refused above
    else:
        found = {"MALLOC_MMAP_THRESHOLD_": str(min(kept, _OLD_LIMIT)), "MALLOC_TRIM_THRESHOLD_": str(kept)}
    for variable in found:
        making.notes.why(f"stages.{name}.env.{variable}", why)
    return found


def _share(making: Making) -> int:
    """A rank's part of what all may keep, in whole MiB. Stages on different nodes are counted as if they shared one."""
    ranks = min(making.ranks_on_one_node, max(making.site.cores_per_node, len(making.loaded.spec.stages)))
    share = making.site.memory_per_node // _SHARE // ranks
    return max(_LEAST, min(_MOST, share)) // 2**20 * 2**20


def _has_tunables(making: Making) -> bool:
    return parse_version(making.site.glibc) >= TUNABLES_GLIBC


def _has_huge_pages(making: Making) -> bool:
    site = making.site
    return "huge_pages" in site.memory_policy or (_has_tunables(making) and "memory_policy" not in site.seen)


def _lack(making: Making) -> str:
    site = making.site
    version = f"its glibc is {site.glibc}" if site.glibc else "its glibc is not known"
    return (
        f"site {site.site} has no huge pages for malloc ({site.seen.get('memory_policy') or version}, 2.35 is needed)"
    )


def _why_not(name: str, has_streams: bool, making: Making) -> str:
    site, key = making.site, f"stages.{name}.memory"
    if making.loaded.spec.stages[name].memory.model_fields_set:
        return f"left alone: written at {making.loaded.origins.of(key)}"
    if not has_streams:
        return "left alone: it has no ADIOS2 stream, whose big buffers this is for"
    return f"left alone: {site.seen.get('memory_policy') or f'site {site.site} has no `memory_policy`'}"


def _why(name: str, streams: Sequence[str], huge: bool, kept: int, making: Making) -> str:
    ranks = making.loaded.spec.stages[name].ranks
    what = [*(["huge pages"] if huge else []), *(["freed memory is kept"] if kept else [])]
    about = f"big buffers of streams are reused ({' and '.join(what)})" if streams else ""
    keeps = f"each of its {ranks} ranks keeps" if ranks > 1 else "it keeps"
    price = f"{keeps} what it freed for the next step, up to {_size(kept)} at the end of its heap" if kept else ""
    limit = ""
    if kept > _OLD_LIMIT and not _has_tunables(making):
        limit = f"; blocks above {_size(_OLD_LIMIT)} go back all the same, glibc {making.site.glibc or '?'} is too old"
    seen = making.site.seen.get("memory_policy")
    return ": ".join(each for each in (about or " and ".join(what), _MEASURED) if each) + "".join(
        f"; {each}" for each in (price, seen) if each
    ) + limit  # fmt: skip


def _size(count: int) -> str:
    if count >= 2**30:
        return f"{count / 2**30:.3g} GiB"
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 2**10:.3g} KiB"
