"""Which stages of a plan need not run, because an earlier run has what they would write. Pure.

Stages that live streams join are one unit: all of them are re-used, or none. A unit is re-used if nothing that decides
what it writes has changed, and those stages are re-used whose files it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workflow.formatting import plural
from workflow.plan.changed_values import changed_values, leaves
from workflow.plan.plan_model import Plan
from workflow.plan.visible_steps import LOG_LEVEL
from workflow.run.cut import joined_stages
from workflow.site.this_machine import ALLOCATOR_VARIABLES

# Where and how a stage is started, what happens when it fails, and what is drawn of it: not what it writes. Nor do the
# variables of the allocator decide it, which follow from how many ranks share a node.
_LEFT_OUT = {
    "launch", "placement", "memory", "random_sst_ids", "stop_signal", "starts_after", "optional", "restart",
    "checkpoint", "from_start", "file_parameters",
}  # fmt: skip
# The step at which an end begins: of a run that went on in parts the files hold all steps.
_PATIENCE = {"OpenTimeoutSecs", "BeginStepPollingFrequencySecs"}
_LEFT_OUT_OF_ENDS = {
    "open_timeout_s", "step_timeout_s", "transport", "first_step", "repeated", "part_step", "before", "earlier",
}  # fmt: skip
_FOLLOWS = 2
# Keys of the plan as users write them.
_WRITTEN = {"parameters": "with", "program": "command"}
# It may be updated.
_KERNEL = "os"


def why_they_run(now: Plan, before: Plan, known: Mapping[str, str]) -> dict[str, str]:
    """Stage → why it has to run; empty: it is re-used.

    Args:
        now: the plan, and `before` that of the earlier run, both without the texts of the user's `files:`.
        known: stage → why it has to run whatever the plans say; empty, or missing, where nothing is known.
    """
    groups = joined_stages(now, [stage.name for stage in now.stages])
    found: dict[str, str] = {}
    for group in groups:
        own = {name: _change(now, before, name) or known.get(name, "") for name in group}
        found |= _of_group(own)
    group_of = {name: group for group in groups for name in group}
    while late := next(_late_readers(now, found), None):
        reader, why = late
        found |= _of_group({name: why if name == reader else found[name] for name in group_of[reader]})
    return found


def _of_group(own: Mapping[str, str]) -> dict[str, str]:
    """The same of stages that are re-used together."""
    first = next((name for name, why in own.items() if why), None)
    return {name: why or ("" if first is None else f"joined to {first} by a live stream") for name, why in own.items()}


def _late_readers(plan: Plan, found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The stages that are not known to run yet, and depend on one that runs; and why they run."""
    for stream in plan.streams:
        if found[stream.writer]:
            for reader in stream.readers:
                if not found[reader]:
                    yield reader, f"reads {stream.name}, which {stream.writer} writes anew"


def _change(now: Plan, before: Plan, name: str) -> str:
    """What has changed in the plan of a stage: what was written there first, and what follows from it only where
    there is nothing else."""
    if name not in {stage.name for stage in before.stages}:
        return "is new"
    changes = sorted(changed_values(_values(before, name), _values(now, name)), key=_rank)
    count = sum(_rank(each) < _FOLLOWS for each in changes[1:])
    more = f", and {plural(count, 'more change')}" if count else ""
    return f"{changes[0]}{more}" if changes else ""


def _rank(change: str) -> int:
    """0: of the stage itself; 1: another engine of a stream; 2: what mostly follows from others, such as the number of
    steps, the shapes, and the parameters of an engine."""
    key = change.partition(": ")[0]
    if key.startswith("ends."):
        return 1 if key.endswith(".engine") else _FOLLOWS
    return _FOLLOWS if key == f"env.{LOG_LEVEL}" else 0


def _values(plan: Plan, name: str) -> dict[str, Any]:
    """Key → value of what decides what a stage writes."""
    data = plan.stage(name).model_dump(mode="json", exclude=_LEFT_OUT)
    data["env"] = {key: value for key, value in data["env"].items() if key not in ALLOCATOR_VARIABLES}
    for end in data["ends"]:
        end["parameters"] = {key: value for key, value in end["parameters"].items() if key not in _PATIENCE}
    data["ends"] = {
        f"{end['side']} {end['stream']}": {key: value for key, value in end.items() if key not in _LEFT_OUT_OF_ENDS}
        for end in data["ends"]
    }
    return dict(leaves({_WRITTEN.get(key, key): value for key, value in data.items()}))


def version_change(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Which of the programs and packages that all stages use has another version: `numpy: 2.2 → 2.3`."""
    was, now = ({name: each for name, each in side.items() if name != _KERNEL} for side in (old, new))
    return next(changed_values(was, now), "")


def first_reason(reasons: Iterable[str]) -> str:
    """The first one that says something; those after it are not looked for."""
    return next(filter(None, reasons), "")
