"""A notebook's cell in place of a terminal: what is shown there is HTML, and is replaced in place.

Rich's own live display in notebooks needs ipywidgets, and a saved notebook does not keep it. An output with an
identifier of Jupyter's protocol needs nothing, and the saved notebook has its last state.
"""

from __future__ import annotations

import sys
from typing import Any

from workflow.report.show.rich_terminal import make_recorder, say, take_recorded


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel. Does not import IPython: a kernel has done so."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython is not None else False


class NotebookOutput:
    """One output of the cell that is being executed, below a line that stays."""

    def __init__(self, headline: str) -> None:
        self.console = make_recorder()
        self._headline = headline
        self._handle: Any = None

    def update(self, drawn: Any) -> None:
        """Replace what is shown, by anything that Rich can print."""
        from IPython.display import display

        say(self.console, self._headline)
        self.console.print(drawn)
        text, html = take_recorded(self.console)
        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)
