"""What a stage's processes do about memory, as the user states it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from workflow.spec.models.strict import Spec
from workflow.spec.models.units import Size


class Memory(Spec):
    """What the allocator of a stage's processes does with big buffers. Every step needs some, and frees them."""

    huge_pages: bool | None = Field(
        None,
        description="transparent huge pages for malloc (glibc 2.35 or newer). Default: where the site can",
    )
    keep_freed: bool | Size | None = Field(
        None,
        description="how much freed memory a rank keeps for its next step instead of giving it back to the system; "
        "true: its share of a quarter of the node. Default: where the site can",
    )


def _both(value: Any) -> Any:
    """`true` and `false` stand for both keys."""
    if isinstance(value, str):
        raise ValueError(f'expected true, false or a mapping, got "{value}"; for example `memory: false`')
    return {"huge_pages": value, "keep_freed": value} if isinstance(value, bool) else value


class _OrBool:
    """What editors and the reference learn of the short form."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "boolean"}, handler(schema)]}


MemoryOrBool = Annotated[Memory, BeforeValidator(_both), _OrBool()]
