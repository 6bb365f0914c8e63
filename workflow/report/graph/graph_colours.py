"""The colours of a drawing, on light and on dark pages: those of report.html, by Okabe and Ito's palette."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """Colours of the paper, the text, the arrows, and by role the inside and the edge of an outline."""

    paper: str
    text: str
    line: str
    roles: Mapping[str, tuple[str, str]]


LIGHT = Palette(
    "#ffffff",
    "#1c2430",
    "#5b6675",
    {
        "simulation": ("#e1effa", "#0072b2"),
        "analysis": ("#fdf0d5", "#b37a00"),
        "sink": ("#def3ea", "#007a5a"),
        "file": ("#f5f7f9", "#8f9aa8"),
        "stream": ("#ffffff", "none"),
    },
)
DARK = Palette(
    "#14181d",
    "#e6eaef",
    "#9aa6b4",
    {
        "simulation": ("#12314a", "#3a9bdc"),
        "analysis": ("#3a2c0c", "#e69f00"),
        "sink": ("#0f352b", "#4cc9a0"),
        "file": ("#1c2229", "#76828f"),
        "stream": ("#14181d", "none"),
    },
)
