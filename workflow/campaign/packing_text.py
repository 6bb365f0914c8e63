"""What `wf campaign plan` says of how the repetitions run, their time and cost. Pure."""

from __future__ import annotations

from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.planning.packed_campaign import PackedCampaign
from workflow.formatting import duration, node_hours, plural

_KNOWN = {"expected": "as expected in the file", "measured": "by what has been measured"}


def packing_lines(packed: PackedCampaign, spec: CampaignSpec) -> list[str]:
    """What is left, a line or two on side by side or not, and one on time and cost."""
    if not packed.left:
        return ["all of them are finished: nothing is left to run"]
    done = f"{packed.finished} of them {'is' if packed.finished == 1 else 'are'} finished; for the other {packed.left}:"
    return [*([done] if packed.finished else []), *_of_those_left(packed, spec)]


def _of_those_left(packed: PackedCampaign, spec: CampaignSpec) -> list[str]:
    if packed.pilots.job_each:
        return _job_each(packed, spec)
    at_once = packed.timeline.most_at_once
    lines = [_side_by_side(packed, at_once)] if at_once > 1 else _one_at_a_time(packed)
    if packed.pilots.in_jobs:
        lines.append(_jobs(packed))
    if never := len(packed.timeline.never):
        too_long = "expected to take longer than a job: give `jobs:` a longer `time`"
        fault = too_long if packed.pilots.in_jobs else "too large for the nodes that are here"
        lines.append(f"{never} of them {'is' if never == 1 else 'are'} {fault}")
    return [*lines, *_time(packed, spec, at_once)]


def _job_each(packed: PackedCampaign, spec: CampaignSpec) -> list[str]:
    """The queue decides how many run at once; how long that takes is not known."""
    text = "each runs in a batch job of its own, as many at once as the queue runs"
    if packed.known_by == "deadline":
        return [text, *_time(packed, spec, 1)]
    return [text, f"cost: {node_hours(packed.node_s / 3600)}, {_KNOWN[packed.known_by]}"]


def _side_by_side(packed: PackedCampaign, at_once: int) -> str:
    text = f"they run side by side, up to {at_once} at once, "
    if packed.pilots.share_nodes:
        return text + "each on its own cores: those of one node disturb one another"
    return text + "each on its own nodes"


def _one_at_a_time(packed: PackedCampaign) -> list[str]:
    where = "" if packed.pilots.in_jobs else " on this machine"
    text = f"they run one at a time{where}, so that none disturbs another"
    if packed.most_if_shared < 2 or packed.pilots.share_nodes:
        return [text]
    more = f"`side_by_side: cores` runs up to {packed.most_if_shared} at once"
    return [text, f"{more}; their times then disturb one another"]


def _jobs(packed: PackedCampaign) -> str:
    used, size = packed.timeline.pilots, packed.pilots.size
    count = "" if packed.known_by == "deadline" else f"{used}, "
    same_time = f", {packed.pilots.count} at the same time" if 1 < packed.pilots.count < used else ""
    return f"jobs: {count}{plural(size.nodes, 'node')} for at most {duration(size.time_s)} each{same_time}"


def _time(packed: PackedCampaign, spec: CampaignSpec, at_once: int) -> list[str]:
    if packed.known_by == "deadline":
        return [f"time: not known; at most {duration(spec.deadline)} a run. `expected: 20 s` in the file states it"]
    timeline = packed.timeline
    queue = ", besides the time in the queue" if packed.pilots.in_jobs else ""
    cost = f"cost: {node_hours(packed.node_s / 3600)}, {_KNOWN[packed.known_by]}"
    lines = [f"time: {duration(timeline.makespan_s)}{queue}, {cost}"]
    if at_once > 1:
        percent = f"{100 * timeline.efficiency:.0f} %"
        lines.append(f"ideal, with no node ever idle: {duration(timeline.ideal_s)}; the plan reaches {percent} of it")
    return lines
