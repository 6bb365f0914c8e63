"""What a site puts into the environment of a stage: its own variables, and workarounds with their reasons."""

from __future__ import annotations

from workflow.plan.placeholders import literal
from workflow.plan.plan_notes import Notes
from workflow.site.queue_model import Workaround
from workflow.site.site_model import Site


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
