"""The two sides of a stream."""

from __future__ import annotations

from typing import Literal

Side = Literal["read", "write"]
EndOfStream = tuple[str, Side]  # of one stage: the stream, and the side at which the stage opens it
# The folder of its node that has the file of a writing end; empty: in the run directory.
OnNode = str
# As such a folder: the one that this variable names there, or /tmp.
TMPDIR = "$TMPDIR"
