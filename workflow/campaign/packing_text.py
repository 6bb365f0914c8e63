"""What `wf campaign plan` says of how the repetitions run, their time and cost. Pure."""

from __future__ import annotations

from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.planning.packed_campaign import PackedCampaign
from workflow.formatting import duration, plural


def packing_lines(packed: PackedCampaign, spec: CampaignSpec) -> list[str]:
    """A line or two on side by side or not, and one on time and cost."""
    at_once = packed.timeline.most_at_once
    lines = [_side_by_side(packed, at_once)] if at_once > 1 else _one_at_a_time(packed)
    if packed.pilots.in_jobs:
        used, size = packed.timeline.pilots, packed.pilots.size
        same_time = f", {packed.pilots.count} at the same time" if 1 < packed.pilots.count < used else ""
        lines.append(f"jobs: {used}, {plural(size.nodes, 'node')} for at most {duration(size.time_s)} each{same_time}")
    if never := len(packed.timeline.never):
        long = "estimates are longer than a job" if packed.pilots.in_jobs else "they do not fit here"
        lines.append(f"{plural(never, 'run')} could not start: {long}")
    return [*lines, *_time(packed, spec, at_once)]


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


def _time(packed: PackedCampaign, spec: CampaignSpec, at_once: int) -> list[str]:
    if packed.known_by == "deadline":
        return [f"time: not known; at most {duration(spec.deadline)} a run. `expected: 20 s` in the file states it"]
    timeline = packed.timeline
    known = "as expected in the file" if packed.known_by == "expected" else "by what has been measured"
    queue = ", besides the time in the queue" if packed.pilots.in_jobs else ""
    lines = [f"time: {duration(timeline.makespan_s)}{queue}, cost: {packed.node_s / 3600:.3g} node-hours, {known}"]
    if at_once > 1:
        percent = f"{100 * timeline.efficiency:.0f} %"
        lines.append(f"ideal, with no node ever idle: {duration(timeline.ideal_s)}; the plan reaches {percent} of it")
    return lines
