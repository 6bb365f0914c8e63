"""An engine or preset from `configs/engines/*.yaml`, as frozen models.

ADIOS2 ignores parameters that it does not know (SST even when only the case differs), so `wf` owns the
list of what each engine takes and refuses the rest.
"""

from typing import Literal

from pydantic import Field

from workflow.engines import EngineTraits, traits_of
from workflow.spec.models.pipeline import Name, Scalar, Spec


class EngineParameter(Spec):
    """One parameter that an engine really reads."""

    type: Literal["int", "float", "bool", "size", "string", "choice"]
    side: Literal["write", "read", "both"]
    choices: list[str] | None = None
    min: float | None = None
    max: float | None = None
    default: Scalar | None = Field(None, description="ADIOS2's own default, for the reader of this list")
    managed: str = Field("", description="why users do not set it: `wf` does, from this key of the pipeline file")
    useless: str = Field("", description="why setting it has no effect or only harm")
    help: str


class Engine(Spec):
    """What a stream's `via:` names: an ADIOS2 engine, or a preset built on one."""

    engine: str = Field(description="ADIOS2's name of the engine, or `file`")
    summary: str
    based_on: Name | None = Field(None, description="take what is not given here from this engine")
    couplings: list[Literal["live", "after"]] = Field(min_length=1, description="the first is the default")
    suffix: str = Field("", description="what the path of a stream ends in; for SST the engine adds .sst itself")
    parameters: dict[str, EngineParameter] = Field({})
    write: dict[str, Scalar] = Field({}, description="values set at the writing end")
    read: dict[str, Scalar] = Field({}, description="values set at the reading end")

    @property
    def traits(self) -> EngineTraits:
        """What the engine is like, whichever preset names it."""
        return traits_of(self.engine)
