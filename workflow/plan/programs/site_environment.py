"""What a site puts into the environment of a stage: its own variables, and workarounds with their reasons."""

from __future__ import annotations

from collections.abc import Collection

from workflow.plan.plan_notes import Notes
from workflow.plan.problems import Problems
from workflow.redaction import address_password, is_secret_name
from workflow.site.queue_model import Workaround
from workflow.site.site_model import Site
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
            text = f"site {site.site} sets {key}, which {'may be' if may_be else 'holds'} a secret, in clear"
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
