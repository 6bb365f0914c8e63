"""What axe-core finds wrong with a page for people who do not see it, or see it badly."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

GRAVE = ("serious", "critical")


def grave_violations(page: Page) -> list[str]:
    """One line for each rule that is violated with the impact serious or critical, with the first places."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response
    assert found["passes"], "axe looked at nothing"
    return [
        f"{each['id']} ({each['impact']}): {each['help']}, {len(each['nodes'])} times, e.g. "
        + "; ".join(f"{node['html'][:160]}: {node['failureSummary']}" for node in each["nodes"][:3])
        for each in found["violations"]
        if each["impact"] in GRAVE
    ]
