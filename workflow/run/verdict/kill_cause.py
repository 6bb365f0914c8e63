"""Why was a stage killed by SIGKILL? What the evidence allows to say, and no more. Pure."""

from __future__ import annotations

import re

from workflow.formatting import size
from workflow.run.events import StageKilled

_LOG = re.compile(r"process (\d+) \((.*)\).*anon-rss:(\d+)kB")


def kill_cause(facts: StageKilled) -> str:
    """What follows `was killed by signal 9`, with its `:` or `;`.

    `: out of memory: …` if that is certain, `: out of memory? …` if it may be, else what speaks against it. Where
    nothing is known of memory, that is said last and asks nothing.
    """
    if facts.log:
        found = _LOG.search(facts.log[-1])
        named = (
            f"process {found[1]} ({found[2]}), with {size(int(found[3]) * 1024)}" if found else "one of its processes"
        )
        return f": out of memory: by its log the kernel killed {named}" + _limit(facts)
    if facts.cgroup_kills and facts.cgroup_is_own:
        killed = _killed(facts.cgroup_kills)
        return f": out of memory: the kernel killed {killed} of its cgroup {facts.cgroup}" + _limit(facts)
    if not facts.cgroup_kills and (not facts.is_here or facts.node_kills is None):
        return f"; whether memory ran out{'' if facts.is_here else ' there'} is not known{_used(facts)}"
    return f": {_uncertain(facts)}; who sent the signal is not known{_used(facts)}"


def _uncertain(facts: StageKilled) -> str:
    if facts.cgroup_kills:
        killed = f"for lack of it the kernel killed {_killed(facts.cgroup_kills)} of cgroup {facts.cgroup}"
        return f"out of memory? {killed}, in which there may be processes of others"
    if facts.node_kills == 0:
        return "not for lack of memory"
    others = f"for lack of it the kernel killed {facts.node_kills} of the processes of its node"
    return f"out of memory? {others}" + (f", none of cgroup {facts.cgroup}" if facts.cgroup_kills == 0 else "")


def _killed(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"


def _limit(facts: StageKilled) -> str:
    return f"; the limit is {size(facts.limit_bytes)}" if facts.limit_bytes else ""


def _used(facts: StageKilled) -> str:
    if not facts.peak_bytes:
        return ""
    limit = f" of {size(facts.limit_bytes)}" if facts.limit_bytes else ""
    return f"; its largest process had used {size(facts.peak_bytes)}{limit}"
