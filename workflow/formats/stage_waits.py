"""How long the end of a stream waits, unless the pipeline has other deadlines. Of stages and of plans."""

from __future__ import annotations

# How long the start of a stage may take, until its streams are open.
OPEN_TIMEOUT_S = 120.0
STEP_TIMEOUT_S = 600.0
