"""Streams → what each end gives to ADIOS2: engine, parameters, path, timeouts.

Every parameter gets its reason. The rules and their sources: docs/explanation, and ADIOS2 2.12.1's
toolkit/sst and engine/bp5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from workflow.engines import EngineTraits
from workflow.formats.sides import OnNode, Side
from workflow.formats.step_files import is_numbered
from workflow.formatting import plural
from workflow.plan.placeholders import earlier_file, own_path, work_dir
from workflow.plan.plan_model import Coupling, EndPlan, OperatorPlan, Placement, Plan, SharePlan, StreamPlan
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.streams.compression import decide_operators
from workflow.plan.streams.distribution_strategy import check_strategy, decide_share
from workflow.plan.streams.engine_parameters import EngineSettings, ParameterError, to_text, user_parameter
from workflow.plan.streams.output_parameters import output_parameters
from workflow.plan.streams.queue import check_bound, check_queue, queue_of, queue_parameters
from workflow.plan.streams.stream_estimates import StreamEstimates
from workflow.plan.streams.transports import TransportChoice
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StagePort
from workflow.plan.topology.variable_contracts import Contract
from workflow.site.site_model import Site
from workflow.spec.engine_presets import engines_with
from workflow.spec.models.deadlines import Deadlines
from workflow.spec.models.engine import Engine
from workflow.spec.models.pipeline import Scalar
from workflow.spec.origins import Origins
from workflow.spec.placeholder_syntax import literal
from workflow.spec.references import has_spool, spool_name, spool_place, spool_steps
from workflow.sst_transports import TRANSPORTS

# A writer waits for a reader whose node was lost for as long as TCP does, a quarter of an hour. Where all its readers
# are started again from a spool, nothing is lost when it gives them up. No shorter than a node may be silent by default
# (`deadlines.node`), and longer than a program of MPI over TCP computes without taking a message: the limit is for all
# connections that are made after the opening.
SILENCE_LIMIT_S = 60.0
# select() serves at most 1024 descriptors; one connection per pair of ranks that exchange data
MANY_RANKS = 200
POLL_S = 0.1
# For how many readers a writer waits in open.
_AWAITED = "RendezvousReaderCount"


class StreamDecisions(NamedTuple):
    """What is decided about a stream as a whole before its ends."""

    path: str
    coupling: Coupling
    contract: Contract | None
    transport: TransportChoice | None
    pauses_s: Sequence[tuple[str, float]]
    """The stages that may be away longest because they are started again, and how long; two of them are enough."""
    on_node: OnNode = ""
    """Of a spool: where on its node the file is."""

    def pause_s(self, port: StagePort) -> float:
        """How long a reader may have to wait for others, which wait for one that is started again; 0: none is. How long
        it waits for a step is then left to the supervisor, which knows for whom."""
        others = (pause for stage, pause in self.pauses_s if stage != port.stage and port.side == "read")
        return next(others, 0.0)


def make_ends(
    stream: JoinedStream,
    decided: StreamDecisions,
    stages: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    deadlines: Deadlines,
    site: Site,
    origins: Origins,
    notes: Notes,
) -> list[tuple[str, EndPlan]]:
    """(stage, end) for every end of one stream, the writer first. Notes what is wrong with the parameters."""
    check_queue(stream, notes)
    _check_handed_over(stream, stages, notes.problems)
    presets: dict[Side, EngineSettings] = {
        "write": _preset(stream, stream.engine.write, notes.problems),
        "read": _preset(stream, stream.engine.read, notes.problems),
    }
    users = _users(stream, origins, notes)
    ranks = sum(stages[port.stage].spec.ranks for port in stream.ports)
    ends: list[tuple[str, EndPlan]] = []
    for port in stream.ports:
        stage = stages[port.stage]
        # Each of these is stronger than the ones before it.
        settings = {} if decided.transport is None else decided.transport.weak
        settings = settings | _defaults(port, stream, decided.coupling, ranks, site, origins) | presets[port.side]
        if port.side == "write":
            settings |= {} if decided.transport is None else decided.transport.of_writer
            settings |= _writer(stream, origins)
            settings |= output_parameters(stage, stream, decided.coupling, placements[stage.name], site, notes)
        else:
            settings |= _reader(stream.engine, deadlines, decided.pause_s(port))
        settings |= {
            key: value for key, value in users.items() if stream.engine.parameters[key].side in (port.side, "both")
        }
        parameters = {key: literal(settings[key][0]) for key in sorted(settings)}
        _note_reasons(stream.name, port, settings, notes)
        operators: dict[str, OperatorPlan] = {}
        share: SharePlan | None = None
        if port.side == "write":
            _check_bound(stream, parameters, notes.problems)
            operators = decide_operators(port, stream, stage, decided.contract, site, origins, notes)
            check_strategy(stream, stages, notes)
        else:
            share = decide_share(port, stream, stages, placements, site, origins, notes)
        end = _to_end(port, stream, decided, parameters, operators, share, deadlines)
        declared = _declared(stream, stages, end) if port.side == "read" else {}
        changed: dict[str, Any] = {
            "steps": _declared_steps(stage, port),
            "silence_limit_s": _silence_limit_s(port, stream, stages),
        }
        changed |= {"declared": declared} if declared else {}
        ends.append((stage.name, end.model_copy(update=changed)))
    return ends


def _silence_limit_s(port: StagePort, stream: JoinedStream, stages: Mapping[str, DeclaredStage]) -> float | None:
    """How long a writer waits for the node of a reader: forever where it is not started again from a spool."""
    if port.side == "read" or not has_spool(stream.spec, stream.engine):
        return None
    readers = [stages[each.stage] for each in stream.readers]
    needed = [reader for reader in readers if not reader.is_optional]
    return SILENCE_LIMIT_S if all(reader.spec.on_failure.do == "restart" for reader in needed) else None


def _declared(stream: JoinedStream, stages: Mapping[str, DeclaredStage], end: EndPlan) -> dict[str, str]:
    """Where the file says that a program which checks nothing itself writes the variables that a reader relies on."""
    writer = stream.writer
    if writer is None or stages[writer.stage].spec.uses_stage:
        return {}
    port = stages[writer.stage].spec.writes.get(writer.name)
    of_port = (
        {name: f"stages.{writer.stage}.writes.{writer.name}.variables.{name}" for name in port.variables}
        if port
        else {}
    )
    of_stream = {name: f"streams.{stream.name}.variables.{name}" for name in stream.spec.variables}
    return {name: key for name, key in {**of_stream, **of_port}.items() if name in end.variables}


def _declared_steps(stage: DeclaredStage, port: StagePort) -> int | None:
    """How many steps a component says that it writes at this port, with its parameters."""
    if stage.component is None or port.side == "read":
        return None
    known = stage.component.writes.get(port.name)
    if known is None or known.steps is None or stage.parameters.get(known.steps.of) is None:
        return None
    every: int = stage.parameters[known.steps.every] if known.steps.every else 1
    return known.steps.first + int(stage.parameters[known.steps.of]) // every


def _to_end(
    port: StagePort,
    stream: JoinedStream,
    decided: StreamDecisions,
    parameters: dict[str, str],
    operators: dict[str, OperatorPlan],
    share: SharePlan | None,
    deadlines: Deadlines,
) -> EndPlan:
    contract, handed_over = decided.contract, not stream.engine.traits.has_steps
    # Nobody knows when the next step is one that is passed on.
    is_rare = stream.writer is not None and bool(stream.writer.passes)
    has_config, pause_s = port.config is not None and not handed_over, decided.pause_s(port)
    relied = {} if contract is None else contract.writer if port.side == "write" else contract.readers[port.stage]
    return EndPlan(
        stream=stream.name,
        port=port.name,
        side=port.side,
        engine=stream.engine.engine,
        parameters=parameters,
        path=decided.path,
        open_timeout_s=deadlines.start + pause_s,
        step_timeout_s=None if deadlines.step is None or pause_s or is_rare else deadlines.step * stream.every,
        io=literal(port.io),
        config=f"{work_dir(port.stage)}/{literal(port.config or '')}" if has_config else None,
        dialect=None if handed_over else port.dialect,
        variables=relied,
        units={} if contract is None else contract.units,
        share=share,
        operators=operators,
        transport=TRANSPORTS[decided.transport.transport].plane if decided.transport else None,
        on_node=decided.on_node if port.side == "write" else "",
        opened=own_path(port.stage, port.path, stream.engine.traits) if port.path else "",
        does_without=port.does_without,
        passes=port.passes,
    )


def to_stream_plan(stream: JoinedStream, decided: StreamDecisions, estimates: StreamEstimates) -> StreamPlan:
    """The stream as a whole."""
    engine, transport, path = stream.engine.engine, decided.transport, decided.path
    spooled = has_spool(stream.spec, stream.engine)
    return StreamPlan(
        name=stream.name,
        writer=stream.writer.stage if stream.writer else "",
        readers=[port.stage for port in stream.readers],
        via=stream.spec.via,
        engine=engine,
        coupling=decided.coupling,
        transport=transport.transport if transport else None,
        fallback=transport is None or not transport.asked,
        queue=queue_of(stream),
        step_size=estimates.step_size,
        queue_memory=estimates.queue_memory,
        subfiles=estimates.subfiles,
        path=path,
        on_disk=_on_disk(stream.engine.traits, path),
        keep=stream.spec.keeps_file,
        spool=spool_name(stream.name) if spooled else "",
        spool_steps=spool_steps(stream.spec) if spooled else None,
        spool_where=spool_place(stream.spec) if spooled else "",
        closes_circle=stream.spec.closes_circle,
        no_effect=list(estimates.no_effect),
    )


def _on_disk(engine: EngineTraits, path: str) -> list[str]:
    """The file or directory that the stream leaves or uses."""
    if is_numbered(path):
        return [str(PurePosixPath(path).parent)]
    return [path + engine.contact_suffix]


def _writer(stream: JoinedStream, origins: Origins) -> EngineSettings:
    if not stream.engine.traits.in_memory:
        return {}
    readers = ", ".join(port.stage for port in stream.readers)
    count = len(stream.readers)
    why = f"read by {plural(count, 'stage')} ({readers}): the writer waits in open for all of them"
    return {_AWAITED: (str(count), why), **queue_parameters(stream, origins)}


def _reader(engine: Engine, deadlines: Deadlines, pause_s: float) -> EngineSettings:
    found: EngineSettings = {}
    start_s = deadlines.start + pause_s
    if "OpenTimeoutSecs" in engine.parameters and not engine.parameters["OpenTimeoutSecs"].useless:
        whole = engine.parameters["OpenTimeoutSecs"].type == "int"
        value = str(math.ceil(start_s)) if whole else f"{start_s:.12g}"
        again = f", and stages that it may wait for are started again for up to {pause_s:g} s" if pause_s else ""
        found["OpenTimeoutSecs"] = value, f"deadlines.start is {deadlines.start:g} s{again}"
    return found


def _defaults(
    port: StagePort, stream: JoinedStream, coupling: Coupling, ranks: int, site: Site, origins: Origins
) -> EngineSettings:
    """Defaults where neither the engine's file nor the pipeline sets a value. `ranks`: of all ends together."""
    found: EngineSettings = {}
    known = stream.engine.parameters
    if port.side == "read" and coupling == "live" and "BeginStepPollingFrequencySecs" in known:
        found["BeginStepPollingFrequencySecs"] = (
            f"{POLL_S:g}",
            f"a live reader of a file looks for a new step every {POLL_S:g} s (ADIOS2's default is 1 s)",
        )
    own = stream.spec.interface
    if own and "NetworkInterface" in known:
        found["NetworkInterface"] = own, f"interface: {origins.of(f'streams.{stream.name}.interface')}"
    elif site.interface and "NetworkInterface" in known:
        found["NetworkInterface"] = site.interface, f"interface of site {site.site}"
    if ranks > MANY_RANKS and "ControlModule" in known:
        found["ControlModule"] = "epoll", f"{ranks} ranks on the two sides: select() serves at most 1024 connections"
    return found


def _preset(stream: JoinedStream, values: Mapping[str, Scalar], problems: Problems) -> EngineSettings:
    """The values that the engine's file sets at one end."""
    found: EngineSettings = {}
    via = stream.spec.via
    for key, value in values.items():
        known = stream.engine.parameters[key]  # checked when the engine's file was read
        try:
            found[key] = to_text(key, known, value), f"set by engine preset {via}: {known.help}"
        except ParameterError as error:
            problems.add(f"streams.{stream.name}.via", f"engine preset {via}: {error}", error.hint)
    return found


def _users(stream: JoinedStream, origins: Origins, notes: Notes) -> EngineSettings:
    """The stream's own `parameters:`, checked."""
    found: EngineSettings = {}
    for key, value in stream.spec.parameters.items():
        place = f"streams.{stream.name}.parameters.{key}"
        try:
            known, text = user_parameter(stream.engine, key, value)
            found[known] = text, f"written at {origins.of(place)}"
        except ParameterError as error:
            if error.unknown and not _is_misspelled(key, stream.engine) and (others := engines_with(key)):
                why = f"{stream.engine.engine} has no such parameter; it belongs to {' and '.join(others)}"
                notes.not_used(place, stream.spec.via, why)
            else:
                notes.problems.add(place, str(error), error.hint)
    return found


def _is_misspelled(parameter: str, engine: Engine) -> bool:
    return parameter.lower() in (known.lower() for known in engine.parameters)


def _check_handed_over(stream: JoinedStream, stages: Mapping[str, DeclaredStage], problems: Problems) -> None:
    """A file that wf only hands over has no steps, and components read and write nothing but steps."""
    if stream.engine.traits.has_steps:
        return
    components = [port.stage for port in stream.ports if stages[port.stage].component is not None]
    if components:
        problems.add(
            f"streams.{stream.name}.via",
            f"`via: {stream.spec.via}` only hands over a file, but the components of {' and '.join(components)} "
            "exchange steps",
            "use `via: bp5`",
        )


def _check_bound(stream: JoinedStream, parameters: Mapping[str, str], problems: Problems) -> None:
    try:
        check_bound(stream.engine.engine, parameters)
    except ParameterError as error:
        key = "parameters" if stream.spec.parameters else "via"
        problems.add(f"streams.{stream.name}.{key}", str(error), error.hint)


def _note_reasons(name: str, port: StagePort, settings: EngineSettings, notes: Notes) -> None:
    end = "write" if port.side == "write" else f"read.{port.stage}"
    for key in sorted(settings):
        notes.why(f"streams.{name}.{end}.{key}", settings[key][1])


def end_awaiting(end: EndPlan, readers: int) -> EndPlan:
    """The writing end of a live stream, as it waits in open for so many readers only."""
    if _AWAITED not in end.parameters:
        return end
    return end.model_copy(update={"parameters": {**end.parameters, _AWAITED: str(readers)}})


def end_of_spool(plan: Plan, end: EndPlan) -> EndPlan:
    """The end as it reads the spool of its stream."""
    spool = plan.stream(plan.stream(end.stream).spool)
    written = plan.stage(spool.writer).end(spool.name, "write")
    parameters = {"OpenTimeoutSecs": f"{end.open_timeout_s:g}", "BeginStepPollingFrequencySecs": f"{POLL_S:g}"}
    kept: dict[str, Any] = {
        "engine": spool.engine, "path": spool.path, "parameters": parameters, "transport": None,
        "before": written.before, "earlier": earlier_file(spool.path) if written.before else "",
    }  # fmt: skip
    return end.model_copy(update=kept)
