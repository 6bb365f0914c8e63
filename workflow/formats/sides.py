"""The two sides of a stream."""

from __future__ import annotations

from typing import Literal

Side = Literal["read", "write"]
EndOfStream = tuple[str, Side]  # of one stage: the stream, and the side at which the stage opens it
# Where on its node the file of a writing end is; empty: in the run directory.
OnNode = Literal["", "memory", "node"]
