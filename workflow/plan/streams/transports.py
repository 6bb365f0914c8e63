"""The transport of each SST stream, and why.

ADIOS2 silently replaces a transport that it does not have by another (sst/dp/dp.c, SelectDP), and by default takes any
that it was built with. So the plan always names one; the run compares it with the log
(`workflow.run.verdict.transport_check`). The order of preference on one node follows the measurements of
tests/bench/bench_transports.py (docs/benchmarks.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from workflow.engines import NODE_VIA
from workflow.launch.launchers import LAUNCHERS
from workflow.operators import OPERATORS
from workflow.plan.placement.nodes import share_one_node
from workflow.plan.plan_model import EndPlan, Placement
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.streams.engine_parameters import EngineSettings
from workflow.plan.streams.node_memory import MEASURED, check_shared, closed_memory, preset_over_transport
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StagePort
from workflow.site.site_model import Site
from workflow.spec.origins import Origins
from workflow.spec.suggest import did_you_mean, listing
from workflow.sst_transports import SHM_PROVIDER, TRANSPORTS, Transport, transport_by_word

BUILD = "`make adios2-mpi` builds one with {}, then run `.venv-mpi/bin/wf`"
# What `make adios2-mpi` takes only where it finds it: our word → Debian's package.
_PACKAGES: dict[str, str] = {
    **{each.name: each.package for each in TRANSPORTS.values() if each.package},
    **{each.name: each.package for each in OPERATORS.values() if each.package},
}


class TransportChoice(NamedTuple):
    """The transport of one stream. `asked`: another one is a failure, not a note."""

    transport: Transport
    asked: bool
    why: str
    weak: EngineSettings
    """Of both ends, where neither a preset nor the stream sets them."""

    @property
    def of_writer(self) -> EngineSettings:
        """The transport as an engine parameter: the writer decides, the reader follows it (sst/cp/cp_reader.c)."""
        return {"DataTransport": (TRANSPORTS[self.transport].parameter, f"transport {self.transport}: {self.why}")}


def choose_transport(
    stream: JoinedStream,
    stages: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    unshared: str,
    site: Site,
    origins: Origins,
    notes: Notes,
) -> TransportChoice | None:
    """The transport of one stream; None where there is nothing to choose. Notes a transport that cannot be had.

    `unshared`: why it does not go through common memory, where that was not asked for.
    """
    name, interface = stream.name, stream.spec.interface
    one_node = share_one_node(placements[port.stage] for port in stream.ports)
    if stream.engine.traits.one_node:
        check_shared(stream, stages, placements, site, notes.problems)
    if not stream.engine.traits.over_network:
        _note_elsewhere(stream, notes)
        return None
    _check_interface(stream, site, notes.problems)
    written, where, key = _asked(stream, origins, notes.problems)
    if written is not None:
        known = transport_by_word(written)
        if known is None:
            return None  # a preset with a transport that is not in the list
        transport, why = known.name, f"requested ({where})"
        _check(key, transport, one_node, stream, stages, site, notes.problems)
    elif stream.writer is not None and not _takes_parameters(stream.writer, stages):
        notes.why(f"streams.{name}.transport", f"left to the program of {stream.writer.stage}: no config file")
        return None
    else:
        transport, why = _fastest(one_node, site)
        if one_node and unshared:
            why = f"{why}; `transport: shm` is not taken: {unshared}"
    weak: EngineSettings = {}
    if transport == "ucx" and one_node and interface:
        notes.advise(
            f"streams.{name}.interface affects only the first contact of its two ends: on one node ucx moves the data "
            "through the node's memory"
        )
    if transport == "rdma" and one_node:
        because = "all ranks are on one node: libfabric's provider for that, the RDMA path without a network"
        weak["DataInterface"] = SHM_PROVIDER, because
    notes.why(f"streams.{name}.transport", why)
    return TransportChoice(transport, written is not None, why, weak)


def _takes_parameters(port: StagePort, stages: Mapping[str, DeclaredStage]) -> bool:
    """Whether this end opens its stream with the plan's parameters: a component, a program that opens it through
    `workflow.stage` (its port has no io), or one with a config file."""
    return stages[port.stage].spec.command is None or port.shares is not None or port.config is not None


def _asked(joined: JoinedStream, origins: Origins, problems: Problems) -> tuple[str | None, str, str]:
    """(the transport that the stream or its preset names, where, key of that); None: the plan chooses.

    The stronger layer wins: `--via sst-tcp` over a file's `transport:`. In one layer the two must agree.
    """
    stream, engine = joined.spec, joined.engine
    of_stream, of_preset = f"streams.{joined.name}.transport", f"streams.{joined.name}.via"
    preset = str(engine.write["DataTransport"]) if "DataTransport" in engine.write else None
    by_preset = preset, f"via: {stream.via}", of_preset
    if "transport" not in stream.model_fields_set:
        return by_preset
    where = origins.of(of_stream)
    by_stream = (None if stream.transport == "auto" else stream.transport), where, of_stream
    if preset is None:
        return by_stream
    known = transport_by_word(preset)
    named = preset if known is None else known.name
    stronger = preset_over_transport(joined, origins)
    if stronger > 0:
        over = f", over `transport: {stream.transport}` at {where}" if stream.transport != named else ""
        return preset, f"via: {stream.via}, {origins.layer(of_preset)}{over}", of_preset
    if not stronger and stream.transport not in ("auto", named):
        problems.add(
            of_stream, f"`via: {stream.via}` is transport {named}, not `transport: {stream.transport}`; keep one",
            f"`via: sst` with `transport: {stream.transport}`, or `via: {stream.via}` alone",
        )  # fmt: skip
    return by_stream


def better_adios2(site: Site, missing: Sequence[str], offers: str = "ucx and rdma") -> str:
    """How to get an ADIOS2 with these transports or operators. `offers`: what the one of `make adios2-mpi` has."""
    packages = [_PACKAGES[each] for each in missing if each in _PACKAGES]
    # Random ids are those of a patch of `make adios2-mpi`: it is this one, and was built without the libraries.
    if packages and site.random_sst_ids and site.parallel_adios2:
        return f"install {' '.join(packages)}, then build it again: `rm .venv-mpi/ready; make adios2-mpi`"
    return BUILD.format(offers)


def _fastest(one_node: bool, site: Site) -> tuple[Transport, str]:
    """(what this site can do best there, why)"""
    planes = site.planes
    if not planes:
        seen = site.seen.get("planes", f"site {site.site} does not say `planes:`")
        return "tcp", f"the transports of this machine's ADIOS2 are not known ({seen}), and every ADIOS2 has tcp"
    if one_node:
        here = "all ranks are on one node"
        closed = "" if site.peer_memory or "ucx" not in planes else f"; ucx would hang: {closed_memory(site)}"
        if "ucx" in planes and not closed:
            return "ucx", f"{here}: ucx uses its memory, several times as fast as tcp with big steps ({MEASURED})"
        if "rdma" in planes:
            best = "libfabric's provider for one node is the fastest way of SST"
            return "rdma", f"{here}, and without ucx {best} ({MEASURED}){closed}"
        if closed:
            return "tcp", f"{here}, but this machine's ADIOS2 has no rdma{closed}"
        return (
            "tcp",
            f"{here}, but this machine's ADIOS2 has neither ucx nor rdma; {better_adios2(site, ['ucx', 'rdma'])}",
        )
    if "rdma" in planes and site.fabric is None:
        return "tcp", "the ranks are on several nodes, and whether an RDMA network joins them is not known"
    if "rdma" in planes and site.fabric:
        return "rdma", f"the ranks are on several nodes of an RDMA network ({site.seen.get('fabric', 'site file')})"
    if "rdma" in planes:
        seen = site.seen.get("fabric", "site file")
        return "tcp", f"the ranks are on several nodes, without an RDMA network between them ({seen})"
    return (
        "tcp",
        f"the ranks are on several nodes, and this machine's ADIOS2 has no rdma; {better_adios2(site, ['rdma'])}",
    )


def _check(
    key: str,
    transport: Transport,
    one_node: bool,
    stream: JoinedStream,
    stages: Mapping[str, DeclaredStage],
    site: Site,
    problems: Problems,
) -> None:
    """Refuses what cannot work here."""
    if site.planes and transport not in site.planes:
        has = f"{', '.join(site.planes)} ({site.seen.get('planes', f'site {site.site}')})"
        hint = (
            "`transport: auto`" if transport == "mpi" else f"{better_adios2(site, [transport])}; or `transport: auto`"
        )
        problems.add(
            key,
            f"this machine's ADIOS2 is built without {TRANSPORTS[transport].library}, "
            f"so its SST has no {transport}: it has {has}",
            hint,
        )
    elif transport == "ucx" and one_node and not site.peer_memory:
        problems.add(
            key, f"on one node ucx would hang: {closed_memory(site)}",
            "`transport: auto`, or `peer_memory: true` in the site's file if its compute nodes allow it",
        )  # fmt: skip
    elif TRANSPORTS[transport].needs_fabric and not one_node and site.fabric is False:
        problems.add(
            key,
            f"{transport} between nodes needs an RDMA network: the stages of {stream.name} are on several nodes, and "
            f"site {site.site} has none ({site.seen.get('fabric', '`fabric: false` in its file')})",
            "`transport: tcp`, or `fabric: true` in the site's file when its nodes have one",
        )
    elif transport == "mpi":
        _check_mpi(key, stream.ports, stages, site, problems)


def _check_interface(stream: JoinedStream, site: Site, problems: Problems) -> None:
    """Where the site is this machine, its interfaces are known. EVPath (ip_config.c) takes the beginning of a name."""
    wanted, known = stream.spec.interface, site.interfaces
    if wanted and known and not any(each.startswith(wanted) for each in known):
        problems.add(
            f"streams.{stream.name}.interface", f"this machine has no network interface `{wanted}`",
            did_you_mean(wanted, known) or f"interfaces here: {listing(known)}",
        )  # fmt: skip


def _check_mpi(
    key: str, ports: Iterable[StagePort], stages: Mapping[str, DeclaredStage], site: Site, problems: Problems
) -> None:
    """MPI_Comm_connect between two running programs: not under every launcher do they find each other."""
    launcher = LAUNCHERS[site.launcher]
    if launcher.starts_ranks and not launcher.mpi_connects:
        problems.add(
            key,
            "SST's mpi transport joins two running MPI programs (MPI_Comm_connect), and under plain "
            f"{site.launcher} that hangs",
            "`transport: auto`; mpi needs one MPI over both programs, as on a Cray machine",
        )
        return
    alone = [port.stage for port in ports if stages[port.stage].spec.ranks == 1 and not site.launch_single]
    if alone or not launcher.starts_ranks:
        who = " and ".join(dict.fromkeys(alone)) or "every stage"
        problems.add(
            key,
            f"SST's mpi transport is for programs that a launcher starts, and here that is not so for {who}",
            "`transport: auto`, or `launch_single: true` in the site's file",
        )


def _note_elsewhere(joined: JoinedStream, notes: Notes) -> None:
    """`transport` and `interface` belong to SST. They may stay where `via` names another engine."""
    name, stream, engine = joined.name, joined.spec, joined.engine
    if joined.lends_transport and not engine.traits.in_memory:
        return
    for word in ("transport", "interface"):
        key = f"streams.{name}.{word}"
        # What takes the place of SST, or may, is no other way than the one that is asked for.
        is_meant = word == "transport" and engine.traits.one_node and stream.transport in ("auto", NODE_VIA)
        if word not in stream.model_fields_set or is_meant:
            continue
        kind = engine.engine if engine.traits.in_memory else "a file"
        notes.not_used(key, stream.via, f"{kind} has no {word}")


def stage_environment(stage: DeclaredStage, ends: Sequence[EndPlan], notes: Notes) -> dict[str, str]:
    """Environment variables for a program that does not take the plan's parameters."""
    name = stage.name
    if stage.spec.command is None:
        return {}
    rdma = [end for end in ends if end.transport == TRANSPORTS["rdma"].plane]
    untold = [end.stream for end in rdma if end.config is None and end.parameters.get("DataInterface") == SHM_PROVIDER]
    if not untold:
        return {}
    key = f"stages.{name}.env.FABRIC_IFACE"
    across = [end.stream for end in rdma if end.parameters.get("DataInterface") != SHM_PROVIDER]
    if across:
        notes.problems.add(
            f"streams.{untold[0]}",
            f"this stream uses rdma within one node, and {across[0]} between nodes: the program of {name} cannot tell "
            "them apart",
            f"give both a config file in stage {name}, or use another `transport:` for one of them",
        )
    notes.why(key, f"its program opens {', '.join(untold)} by itself: the same as DataInterface={SHM_PROVIDER}")
    return {"FABRIC_IFACE": SHM_PROVIDER}
