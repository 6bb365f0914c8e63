"""What `make reliability` keeps of a cell of a long table, for docs/reliability.md."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "WF_RELIABILITY"


def note(table: str, **cell: Any) -> None:
    """Append one cell to the file that the variable names; without it, nothing is kept."""
    if name := os.environ.get(VARIABLE):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({"table": table, **cell}) + "\n")
