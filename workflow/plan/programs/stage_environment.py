"""The environment of a stage: variables of its site, workarounds, and its memory policy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from workflow.formatting import plural
from workflow.plan.plan_model import EndPlan, Placement, StageMemory
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.redaction import address_password, is_secret_name
from workflow.site.queue_model import Workaround
from workflow.site.site_model import Site
from workflow.site.this_machine import ALLOCATOR_VARIABLES, SET_HERE, TUNABLES_GLIBC, parse_version
from workflow.spec.origins import Origins
from workflow.spec.placeholder_syntax import literal
from workflow.spec.plain_secrets import is_literal


def site_environment(stage: str, ranks: int, has_stream: bool, site: Site, notes: Notes) -> dict[str, str]:
    """Variables of a stage, as texts without placeholders. What the site says itself is stronger than a workaround."""
    found: dict[str, str] = {}
    for workaround in site.workarounds:
        if _applies(workaround, ranks, has_stream):
            for key, value in workaround.env.items():
                found[key] = literal(value)
                source = f" ({workaround.source})" if workaround.source else ""
                notes.why(f"stages.{stage}.env.{key}", f"site {site.site}: {workaround.reason}{source}")
    for key, value in site.env.items():
        found[key] = literal(value)
        notes.why(f"stages.{stage}.env.{key}", f"site {site.site} sets it")
    return found


def check_site_environment(site: Site, not_secret: Collection[str], problems: Problems) -> None:
    """Notes the variables of a site file that are secrets in clear: the plan would hold them."""
    for key, value in site.env.items():
        may_be = is_secret_name(key) and is_literal(value) and key not in not_secret
        if may_be or address_password(value):
            text = f"site {site.site} sets {key}, which {'may be' if may_be else 'holds'} a secret, in plain text"
            known = f"; if it is no secret: `not_secret: [{key}]`" if may_be else ""
            hint = f"remove it there, and write `env: {{{key}: {{secret: FILE}}}}` into the pipeline{known}"
            problems.add("site", text, hint)


def _applies(workaround: Workaround, ranks: int, has_stream: bool) -> bool:
    match workaround.when:
        case "always":
            return True
        case "mpi":
            return ranks > 1
        case "stream":
            return has_stream
        case _:
            return False


# The memory policy of a stage: settings of the allocator of its processes, by environment variables.
#
# A step of a stream takes big buffers and frees them. glibc maps such blocks from the kernel and gives them back each
# time, so that every step pays again for a page fault per 4 KiB. `keep_freed` lets the process keep what it freed, and
# `huge_pages` makes the faults 512 times fewer. No program changes. Variables: mallopt(3) and glibc's manual, "Memory
# Allocation Tunables".

# Of a node's memory, all ranks of all stages together keep at most this share by default; a rank never more than MOST.
_SHARE, _MOST, _LEAST = 4, 8 * 2**30, 64 * 2**20
# Until glibc 2.35 malloc ignores a larger threshold for mapping blocks: HEAP_MAX_SIZE/2 (malloc/malloc.c).
_OLD_LIMIT = 32 * 2**20
_MEASURED = "with big steps SST and BP5 mostly run 1.5 to several times as fast (docs/benchmarks.md)"


class MallocPolicy(NamedTuple):
    """What a stage's processes do about memory, and why; `settings` is None where the allocator is left alone."""

    settings: StageMemory | None
    why: str


def kept_by_default(stages: Collection[DeclaredStage], site: Site) -> int:
    """Bytes that a rank may keep where no size is written: its part of what all may keep, in whole MiB.

    Stages on different nodes are counted as if they shared one.
    """
    on_one_node = sum(-(-stage.spec.ranks // (stage.spec.place.nodes or 1)) for stage in stages)
    ranks = min(on_one_node, max(site.cores_per_node, len(stages)))
    share = site.memory_per_node // _SHARE // ranks
    return max(_LEAST, min(_MOST, share)) // 2**20 * 2**20


def decide_memory(
    stage: DeclaredStage,
    ends: Sequence[EndPlan],
    placement: Placement,
    by_default: int,
    site: Site,
    origins: Origins,
    notes: Notes,
) -> MallocPolicy:
    """The memory policy of a stage. `by_default`: see `kept_by_default`. Notes what cannot be had."""
    wanted, key = stage.spec.memory, f"stages.{stage.name}.memory"
    own = [each for each in ALLOCATOR_VARIABLES if each in stage.spec.env]
    if own:
        asked = [word for word in ("huge_pages", "keep_freed") if getattr(wanted, word) not in (None, False)]
        if asked:
            notes.problems.add(
                f"{key}.{asked[0]}",
                f"env.{own[0]} configures the allocator already, and only one of the two can",
                f"remove `env: {{{own[0]}: …}}`, or `memory:`",
            )
        return MallocPolicy(None, f"left alone: env.{own[0]} is set already")
    if wanted.huge_pages and not _has_huge_pages(site):
        notes.problems.add(f"{key}.huge_pages", _lack(site), "remove it")
    # ADIOS2 takes a buffer for each step: its speed was seen to hang on this (tests/bench/bench_transports.py).
    streams = [end.stream for end in ends if end.traits.library in ("adios2", "own")]
    of_site = site.memory_policy if streams else []
    huge = wanted.huge_pages if wanted.huge_pages is not None else "huge_pages" in of_site
    keep = wanted.keep_freed if wanted.keep_freed is not None else "keep_freed" in of_site
    kept = by_default if keep is True else int(keep)
    if keep is not True:
        _check_kept(f"{key}.keep_freed", kept, placement.ranks_per_node, site, notes)
    if huge or kept:
        why = _why(stage.spec.ranks, streams, huge, kept, site)
        return MallocPolicy(StageMemory(huge_pages=huge, keep_freed=kept), why)
    if streams and not wanted.model_fields_set and SET_HERE in (seen := site.seen.get("memory_policy", "")):
        notes.advise(f"the memory policy of stages is left alone: {seen}")
    return MallocPolicy(None, _why_not(stage, bool(streams), site, origins))


def _check_kept(key: str, kept: int, ranks: int, site: Site, notes: Notes) -> None:
    """A size that was written. `ranks` are those of the stage on one node."""
    room = site.memory_per_node
    most = room // ranks
    if kept > most:
        notes.problems.add(
            key,
            f"each rank would keep up to {_size(kept)}; a node of site {site.site} has {_size(room)} for "
            f"{plural(ranks, 'rank')}",
            f"at most `{key.rpartition('.')[2]}: {most // 2**20} MiB`, or `true`",
        )
    elif 0 < kept < 2**20:
        notes.advise(f"{key}: {_size(kept)} is little: larger buffers go back to the system after each step")


def memory_environment(stage: str, policy: MallocPolicy, site: Site, notes: Notes) -> dict[str, str]:
    """The environment variables by which glibc's malloc follows the policy."""
    memory = policy.settings
    if memory is None:
        return {}
    kept = memory.keep_freed
    if _has_tunables(site):
        tunables = ["glibc.malloc.hugetlb=1"] if memory.huge_pages else []
        if kept:
            tunables += [f"glibc.malloc.mmap_threshold={kept}", f"glibc.malloc.trim_threshold={kept}"]
        found = {"GLIBC_TUNABLES": ":".join(tunables)}
    elif not kept:
        return {}  # huge pages without tunables: refused above
    else:
        found = {"MALLOC_MMAP_THRESHOLD_": str(min(kept, _OLD_LIMIT)), "MALLOC_TRIM_THRESHOLD_": str(kept)}
    for variable in found:
        notes.why(f"stages.{stage}.env.{variable}", policy.why)
    return found


def _has_tunables(site: Site) -> bool:
    return parse_version(site.glibc) >= TUNABLES_GLIBC


def _has_huge_pages(site: Site) -> bool:
    return "huge_pages" in site.memory_policy or (_has_tunables(site) and "memory_policy" not in site.seen)


def _lack(site: Site) -> str:
    version = f"its glibc is {site.glibc}" if site.glibc else "its glibc is not known"
    return (
        f"site {site.site} has no huge pages for malloc ({site.seen.get('memory_policy') or version}, 2.35 is needed)"
    )


def _why_not(stage: DeclaredStage, has_streams: bool, site: Site, origins: Origins) -> str:
    if stage.spec.memory.model_fields_set:
        return f"left alone: written at {origins.of(f'stages.{stage.name}.memory')}"
    if not has_streams:
        return "left alone: it has no ADIOS2 stream, whose big buffers this is for"
    return f"left alone: {site.seen.get('memory_policy') or f'site {site.site} has no `memory_policy`'}"


def _why(ranks: int, streams: Sequence[str], huge: bool, kept: int, site: Site) -> str:
    what = [*(["huge pages"] if huge else []), *(["freed memory is kept"] if kept else [])]
    about = f"big buffers of streams are reused ({' and '.join(what)})" if streams else ""
    keeps = f"each of its {ranks} ranks keeps" if ranks > 1 else "it keeps"
    price = f"{keeps} what it freed for the next step, up to {_size(kept)} at the end of its heap" if kept else ""
    limit = ""
    if kept > _OLD_LIMIT and not _has_tunables(site):
        limit = f"; blocks above {_size(_OLD_LIMIT)} are not kept: glibc {site.glibc or '?'} is too old"
    seen = site.seen.get("memory_policy")
    return ": ".join(each for each in (about or " and ".join(what), _MEASURED) if each) + "".join(
        f"; {each}" for each in (price, seen) if each
    ) + limit  # fmt: skip


def _size(count: int) -> str:
    if count >= 2**30:
        return f"{count / 2**30:.3g} GiB"
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 2**10:.3g} KiB"
