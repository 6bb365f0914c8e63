"""The figures that a stage's program measured itself: `figures.json` in its working directory."""

from __future__ import annotations

import math
from pathlib import Path

from workflow.formats.read_json import read_json
from workflow.run.records.run_directory import OWN_FIGURES_FILE

_LIMIT_BYTES = 1 << 20


def read_own_figures(work: Path) -> tuple[dict[str, float], str]:
    """The figures by name, and what is wrong with the file: `{"name": number, …}`.

    A program may write anything there: what is not a finite number is left out. Without a file there are none.
    """
    path = work / OWN_FIGURES_FILE
    try:
        with path.open("rb") as file:
            text = file.read(_LIMIT_BYTES)
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"{OWN_FIGURES_FILE} cannot be read: {error.strerror}"
    try:
        written = read_json(text, infinity=True)
    except ValueError:
        return {}, f"{OWN_FIGURES_FILE} is not JSON"
    if not isinstance(written, dict):
        return {}, f'{OWN_FIGURES_FILE} is not of the form {{"name": number}}'
    figures = {name: float(value) for name, value in written.items() if _is_number(value)}
    others = [name for name in written if name not in figures]
    return figures, f"{OWN_FIGURES_FILE}: no number: {', '.join(others[:5])}" if others else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
