"""One machine's description, from `configs/sites/*.yaml`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from workflow.launch.launchers import DEFAULT, known_launcher
from workflow.spec.models.pipeline import Name, Spec
from workflow.spec.models.units import Size
from workflow.sst_transports import Transport

MemoryPolicy = Literal["huge_pages", "keep_freed"]
Operator = Literal["blosc", "bzip2", "zfp"]


class SiteFile(Spec):
    """A site as written. `auto` is filled from the machine at hand when the file is loaded."""

    site: Name
    summary: str
    nodes: Annotated[int, Field(ge=1)] = 1
    cores_per_node: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    memory_per_node: Size | Literal["auto"] = "auto"
    gpus_per_node: int = Field(0, ge=0)
    nics_per_node: int = Field(0, ge=0, description="network adapters; 0: not known")
    launcher: Annotated[str, AfterValidator(known_launcher)] = Field(
        DEFAULT, description="starts stages of more than one rank"
    )
    launcher_path: str = Field(
        "auto",
        description="its executable; auto: the one of wf's Python environment, else the one on PATH",
    )
    launcher_args: list[str] = Field(default_factory=list, description="added to every launch")
    launch_single: bool = Field(False, description="use the launcher for one-rank stages too")
    interface: str | None = Field(None, description="network interface that SST listens on")
    planes: list[Transport] | Literal["auto"] = Field(
        "auto",
        description="SST transports of this machine's ADIOS2; auto: from what its library links",
    )
    fabric: bool | Literal["auto"] = Field(
        "auto", description="whether an RDMA network (InfiniBand, Slingshot, …) joins the nodes"
    )
    parallel_adios2: bool | Literal["auto"] | None = Field(
        "auto", description="whether this machine's ADIOS2 is built with MPI; auto: from the files beside its library"
    )
    operators: list[Operator] | None = Field(
        None,
        description="operators of its ADIOS2; default: read from its library when a pipeline compresses",
    )
    peer_memory: bool | Literal["auto"] = Field(
        "auto",
        description="whether processes of one node may read each other's memory (process_vm_readv), as UCX must there",
    )
    memory_policy: list[MemoryPolicy] | Literal["auto"] = Field(
        "auto", description="what stages with streams do about memory by default; [] is nothing"
    )
    glibc: str = Field("auto", description="version of the C library, which decides how its allocator is configured")
    env: dict[str, str] = Field(default_factory=dict, description="environment of every stage")


class Site(SiteFile):
    """A site with every number known: what the plan is made from."""

    cores_per_node: int
    memory_per_node: int
    launcher_path: str = Field("", description="executable of the launcher; empty: not known")
    planes: list[Transport] = Field(default_factory=list, description="[]: not known")
    fabric: bool = False
    peer_memory: bool = True
    parallel_adios2: bool | None = Field(None, description="None: not known")
    memory_policy: list[MemoryPolicy] = Field(default_factory=list)
    glibc: str = ""
    interfaces: list[str] = Field(default_factory=list, description="network interfaces of this machine; []: not known")
    seen: dict[str, str] = Field(default_factory=dict, description="key filled from this machine → what was seen")
