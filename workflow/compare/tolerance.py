"""By how much two values may differ that `wf compare` takes as equal: the default, and what may be given instead."""

from __future__ import annotations

from workflow.errors import WfError

DEFAULT_TOLERANCE = 0.0
"""The largest relative difference of two equal values, unless another one is given."""


def check_tolerance(tolerance: float) -> None:
    """Raises WfError unless it is a relative difference."""
    if not 0.0 <= tolerance < 1.0:
        raise WfError(f"tolerance {tolerance:g}: expected a relative difference, from 0 to below 1", "for example 1e-6")
