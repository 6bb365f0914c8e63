"""Text for terminals that know no Unicode."""

from __future__ import annotations

PLAIN = str.maketrans({"→": "->", "…": "...", "·": "-", "÷": "/", "×": "x", "–": "-", "✓": "+", "✗": "x", "Å": "A"})


def fit(encoding: str, line: str) -> str:
    """The line in characters that this encoding has."""
    try:
        line.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return line.translate(PLAIN).encode("ascii", "replace").decode("ascii")
    return line
