"""Plain lines into pipes whose reader may have gone."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO

from workflow.report.show.ascii_text import fit


def print_plain(stream: TextIO, line: str) -> bool:
    """Print one line without Rich. Returns False when nobody reads any more (`wf run … | head`): that must not
    end a run, nor change its exit code when Python flushes the stream at the end."""
    try:
        print(fit(stream.encoding or "ascii", line), file=stream, flush=True)
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)
        return False
    return True
