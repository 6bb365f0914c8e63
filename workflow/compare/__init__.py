"""Do two runs, or two files, hold the same data?"""

DEFAULT_TOLERANCE = 0.0
"""The largest relative difference of values that `wf compare` takes as equal, unless another one is given."""
