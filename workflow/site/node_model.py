"""What a site file says about one node: sets of cores, GPUs, network adapters."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from workflow.core_set import format_cores, parse_cores
from workflow.spec.models.strict import Spec


def _to_cores(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return value
    return parse_cores(str(value))


Cores = Annotated[
    tuple[int, ...],
    BeforeValidator(_to_cores),
    PlainSerializer(format_cores, return_type=str, when_used="json"),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "title": "cores", "examples": ["0-7,16"]}
    ),
]
"""A set of cores, written `0-7,16`: their numbers on the node, sorted."""


class Gpu(Spec):
    """One GPU, or a part of one that a rank may have for itself (a GCD of AMD, a tile of Intel)."""

    cores: Cores | None = Field(None, description="the cores nearest to it, `48-55`")
    nic: str | None = Field(None, description="the network adapter nearest to it, a name of `nics`")


class Nic(Spec):
    """One network adapter."""

    name: str = Field(description="as the system names it: `cxi0`, `mlx5_0`, `hsn0`")
    cores: Cores | None = Field(None, description="the cores nearest to it")
