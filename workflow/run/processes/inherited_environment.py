"""The environment that processes of a run inherit."""

from __future__ import annotations

import os
from collections.abc import Iterable

# Set where a launcher has started wf itself: a stage started directly is not a rank of that launch.
_FOREIGN = ("PMI_", "PMIX_", "PALS_RANKID", "OMPI_COMM_WORLD_", "SLURM_PROCID", "SLURM_LOCALID")
_OWN = ("PYDANTIC_DISABLE_PLUGINS", "__all__")  # what `wf` sets for itself


def inherited_environment(without: Iterable[str] = ()) -> dict[str, str]:
    """What a process of a run gets of the environment of wf: nothing that others have set for wf, and not `without`.

    These are names, or beginnings that end in `*`.
    """
    names = {name for name in without if not name.endswith("*")}
    beginnings = (*_FOREIGN, *(name[:-1] for name in without if name.endswith("*")))
    mine = (item for item in os.environ.items() if item != _OWN)
    return {key: value for key, value in mine if not key.startswith(beginnings) and key not in names}
