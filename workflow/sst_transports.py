"""SST's transports (ADIOS2 calls them data planes): names, libraries, words in parameters and logs. The only list.

Sources: engine/sst/SstParamParser.cpp and toolkit/sst/dp of ADIOS2 2.12.1. For a new transport add an entry here, and
`configs/engines/sst-NAME.yaml` for `via: sst-NAME`. `transport: auto` takes it when `workflow.plan.streams.transports`
has a rule for it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

SHM_PROVIDER = "shm"  # libfabric's provider for one node, and the name of its domain
Transport = Literal["tcp", "rdma", "ucx", "mpi"]
WantedTransport = Literal["auto", "shm", Transport]
"""What `transport:` of a stream may be. shm is none of SST's: the stream then has an engine of `workflow.stage`."""


class SstTransport(NamedTuple):
    """One transport of SST."""

    name: Transport
    parameter: str
    """The value of `DataTransport`."""
    plane: str
    """Its name in ADIOS2's log."""
    library: str
    """What ADIOS2 must be built with, for messages."""
    linked: str = ""
    """The library that ADIOS2's own links when it has the transport; empty: every ADIOS2 has it."""
    package: str = ""
    """Debian's package of it, where `make adios2-mpi` takes it only if it finds that."""
    spellings: tuple[str, ...] = ()
    """Other values of `DataTransport` that stand for it, in lower case."""
    opens_alone: bool = True
    """Whether one process can open a stream with it, so that a probe shows whether it works."""
    needs_fabric: bool = False
    """Whether its readers fetch the data from other nodes' memory, which needs an RDMA network. UCX also does that over
    TCP, but only while the writer calls UCX, which SST's writer does not (sst/dp/ucx_dp.c)."""
    probe_environment: tuple[tuple[str, str], ...] = ()
    """Environment of that probe."""


TRANSPORTS: dict[Transport, SstTransport] = {
    each.name: each
    for each in (
        SstTransport("tcp", "WAN", "evpath", "sockets", spellings=("evpath",)),
        SstTransport(
            "rdma", "RDMA", "rdma", "libfabric", linked="libfabric", package="libfabric-dev",
            spellings=("ib", "fabric"), needs_fabric=True,
            # The shm provider makes the real RDMA path usable on a machine without RDMA hardware.
            probe_environment=(("FABRIC_IFACE", SHM_PROVIDER),),
        ),
        SstTransport("ucx", "UCX", "ucx", "UCX", linked="libucp", package="libucx-dev", needs_fabric=True),
        SstTransport("mpi", "MPI", "mpi", "MPI", linked="libmpi", opens_alone=False),
    )
}  # fmt: skip
_BY_WORD = {word: each for each in TRANSPORTS.values() for word in (each.name, each.parameter.lower(), *each.spellings)}
_BY_PLANE = {each.plane: each.name for each in TRANSPORTS.values()}


def transport_by_word(word: str) -> SstTransport | None:
    """The transport that a value of `DataTransport` stands for, in any case; None for one that is not in the list."""
    return _BY_WORD.get(word.lower())


def transport_of_plane(plane: str) -> str:
    """The transport of a plane in ADIOS2's log; the plane itself where it is not in the list."""
    return _BY_PLANE.get(plane, plane)
