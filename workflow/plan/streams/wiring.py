"""Streams → what each end gives to ADIOS2: engine, parameters, path, timeouts.

Every parameter gets its reason. The rules and their sources: docs/explanation, and ADIOS2 2.12.1's
toolkit/sst and engine/bp5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from workflow.plan.making import Making, counted, work_dir
from workflow.plan.plan_model import Coupling, EndPlan, Placement, StreamPlan
from workflow.plan.programs.mpmd_groups import ONE_STEP, SSC
from workflow.plan.programs.openpmd import check_told
from workflow.plan.programs.placeholders import literal
from workflow.plan.streams.compression import decide_operators
from workflow.plan.streams.distribution_strategy import decide_share
from workflow.plan.streams.engine_parameters import ParameterError, check_combination, to_text, user_parameter
from workflow.plan.streams.output_parameters import output_parameters
from workflow.plan.streams.stream_estimates import Amounts
from workflow.plan.streams.transports import PLANES, Choice
from workflow.plan.topology.implicit_stage_notes import steps_between
from workflow.plan.topology.port_matching import HANDED_OVER, Joined
from workflow.plan.topology.ports import StagePort
from workflow.plan.topology.variable_contracts import Contract
from workflow.spec.models.engine import Engine

# select() serves at most 1024 descriptors; one connection per pair of ranks that exchange data
MANY_RANKS = 200
POLL_S = 0.1

Decided = dict[str, tuple[str, str]]  # parameter → (value, reason)


def to_stream_plan(
    name: str, joined: Joined, coupling: Coupling, choice: Choice | None, amounts: Amounts, making: Making
) -> StreamPlan:
    """The stream seen from above."""
    stream, engine = making.loaded.spec.streams[name], making.loaded.engines[name]
    path = making.stream_path(name)
    return StreamPlan(
        name=name,
        writer=joined.writer.stage if joined.writer else "",
        readers=[port.stage for port in joined.readers],
        via=stream.via,
        engine=engine.engine,
        coupling=coupling,
        transport=choice.transport if choice else None,
        fallback=choice is None or not choice.asked,
        queue=ONE_STEP if engine.engine == SSC else stream.queue if engine.kind == "stream" else None,
        step_size=amounts.step_size,
        queue_memory=amounts.queue_memory,
        subfiles=amounts.subfiles,
        path=path,
        on_disk=[] if engine.engine == SSC else [f"{path}.sst" if engine.engine == "SST" else path],
        keep=stream.keep,
    )


def wire(
    name: str,
    joined: Joined,
    coupling: Coupling,
    contract: Contract | None,
    placements: Mapping[str, Placement],
    choice: Choice | None,
    making: Making,
) -> list[tuple[str, EndPlan]]:
    """(stage, end) for every end of one stream, the writer first. Notes what is wrong with the parameters."""
    engine = making.loaded.engines[name]
    _check_queue(name, engine, making)
    _check_handed_over(name, joined, engine, making)
    presets = {side: _preset(name, side, engine, making) for side in ("write", "read")}
    users = _users(name, engine, making)
    ends: list[tuple[str, EndPlan]] = []
    for port in joined.ports:
        decided = _defaults(port, joined, engine, coupling, making) | presets[port.side]
        if choice is not None:
            decided = choice.parameters | decided | choice.at(port.side)
        if port.side == "write":
            decided |= _writer(name, joined, engine, making)
            decided |= output_parameters(port.stage, name, engine, coupling, placements[port.stage], making)
        else:
            decided |= _reader(engine, making)
        decided |= {key: value for key, value in users.items() if engine.parameters[key].side in (port.side, "both")}
        parameters = {key: literal(decided[key][0]) for key in sorted(decided)}
        _note(name, port, decided, making)
        if port.side == "write":
            _check_combination(name, engine, parameters, making)
        check_told(name, port, joined.writer, parameters, users, making)
        end = _to_end(name, port, engine, parameters, contract, choice, making)
        if port.side == "write":
            end = end.model_copy(update={"operators": decide_operators(port, name, engine, contract, making)})
        share = decide_share(name, port, joined, engine, placements, making)
        ends.append((port.stage, end if share is None else end.model_copy(update={"share": share})))
    return ends


def _to_end(
    name: str,
    port: StagePort,
    engine: Engine,
    parameters: dict[str, str],
    contract: Contract | None,
    choice: Choice | None,
    making: Making,
) -> EndPlan:
    deadlines = making.loaded.spec.deadlines
    has_config = port.config is not None and engine.engine != HANDED_OVER
    relied = {} if contract is None else contract.writer if port.side == "write" else contract.readers[port.stage]
    return EndPlan(
        stream=name,
        port=port.name,
        side=port.side,
        engine=engine.engine,
        parameters=parameters,
        path=making.stream_path(name),
        open_timeout_s=deadlines.start,
        step_timeout_s=None if deadlines.step is None else deadlines.step * steps_between(name, making),
        io=literal(port.io),
        config=f"{work_dir(port.stage)}/{literal(port.config or '')}" if has_config else None,
        dialect=port.dialect if engine.engine != HANDED_OVER else None,
        variables=relied,
        transport=PLANES[choice.transport] if choice else None,
    )


def _writer(name: str, joined: Joined, engine: Engine, making: Making) -> Decided:
    if engine.engine != "SST":
        return {}
    queue = making.loaded.spec.streams[name].queue
    readers = ", ".join(port.stage for port in joined.readers)
    full = {
        "block": "the writer waits when the queue is full: no step is lost",
        "discard": "the newest step is dropped when the queue is full",
    }
    written = "queue" in making.loaded.spec.streams[name].model_fields_set
    source = making.loaded.origins.of(f"streams.{name}.queue.limit") if written else "default"
    return {
        "RendezvousReaderCount": (
            str(len(joined.readers)),
            f"read by {counted(len(joined.readers), 'stage')} ({readers}): the writer waits in open for all of them",
        ),
        "QueueLimit": (
            str(queue.limit),
            f"queue.limit {queue.limit} ({source}): the writer holds at most {queue.limit + 1} steps in memory, "
            "the queue and the one it fills",
        ),
        "QueueFullPolicy": (queue.when_full.capitalize(), f"queue.when_full: {full[queue.when_full]}"),
    }


def _reader(engine: Engine, making: Making) -> Decided:
    found: Decided = {}
    start_s = making.loaded.spec.deadlines.start
    if "OpenTimeoutSecs" in engine.parameters and not engine.parameters["OpenTimeoutSecs"].useless:
        whole = engine.parameters["OpenTimeoutSecs"].type == "int"
        value = str(math.ceil(start_s)) if whole else f"{start_s:.12g}"
        found["OpenTimeoutSecs"] = value, f"deadlines.start is {start_s:g} s"
    return found


def _defaults(port: StagePort, joined: Joined, engine: Engine, coupling: Coupling, making: Making) -> Decided:
    """What is good where neither the engine's file nor the pipeline says otherwise."""
    found: Decided = {}
    if port.side == "read" and coupling == "live" and "BeginStepPollingFrequencySecs" in engine.parameters:
        found["BeginStepPollingFrequencySecs"] = (
            f"{POLL_S:g}",
            f"a live reader of a file looks for a new step every {POLL_S:g} s (ADIOS2's default is 1 s)",
        )
    own = making.loaded.spec.streams[joined.name].interface
    if own and "NetworkInterface" in engine.parameters:
        found["NetworkInterface"] = own, f"interface: {making.loaded.origins.of(f'streams.{joined.name}.interface')}"
    elif making.site.interface and "NetworkInterface" in engine.parameters:
        found["NetworkInterface"] = making.site.interface, f"interface of site {making.site.site}"
    ranks = sum(making.loaded.spec.stages[each.stage].ranks for each in joined.ports)
    if ranks > MANY_RANKS and "ControlModule" in engine.parameters:
        found["ControlModule"] = "epoll", f"{ranks} ranks on the two sides: select() serves at most 1024 connections"
    return found


def _preset(name: str, side: str, engine: Engine, making: Making) -> Decided:
    """The values that the engine's file sets at one end."""
    found: Decided = {}
    via = making.loaded.spec.streams[name].via
    for key, value in (engine.write if side == "write" else engine.read).items():
        known = engine.parameters[key]  # checked when the engine's file was read
        try:
            found[key] = to_text(key, known, value), f"set by engine preset {via}: {known.help}"
        except ParameterError as error:
            making.problems.add(f"streams.{name}.via", f"engine preset {via}: {error}", error.hint)
    return found


def _users(name: str, engine: Engine, making: Making) -> Decided:
    """The stream's own `parameters:`, checked."""
    found: Decided = {}
    stream = making.loaded.spec.streams[name]
    for key, value in stream.parameters.items():
        place = f"streams.{name}.parameters.{key}"
        try:
            known, text = user_parameter(engine, key, value)
            found[known] = text, f"written at {making.loaded.origins.of(place)}"
        except ParameterError as error:
            if error.unknown and _for_another_engine(name, place, making):
                making.notes.advise(f"{place} is not used: {engine.engine} has no such parameter")
            else:
                making.problems.add(place, str(error), error.hint)
    return found


def _for_another_engine(name: str, place: str, making: Making) -> bool:
    """Whether `--via`, `--set` or a profile chose the engine over the file's head that says `place`."""
    return making.layer(f"streams.{name}.via") not in ("", making.layer(place))


def _check_queue(name: str, engine: Engine, making: Making) -> None:
    stream, key = making.loaded.spec.streams[name], f"streams.{name}.queue"
    if (engine.kind == "stream" and engine.engine != SSC) or "queue" not in stream.model_fields_set:
        return
    holds = "SSC has none and holds one step" if engine.engine == SSC else "a file holds all steps"
    if _for_another_engine(name, key, making):
        if stream.queue.when_full == "discard":
            holds += ", and none is dropped"
        making.notes.why(key, f"not used with `via: {stream.via}`: {holds}")
        making.notes.advise(f"{key} is not used with `via: {stream.via}`: {holds}")
        return
    making.problems.add(key, f"a queue is of no use with `via: {stream.via}`: {holds}", "remove it, or use `via: sst`")


def _check_handed_over(name: str, joined: Joined, engine: Engine, making: Making) -> None:
    """A file that wf only hands over has no steps, and components read and write nothing but steps."""
    if engine.engine != HANDED_OVER:
        return
    via, stages = making.loaded.spec.streams[name].via, making.loaded.spec.stages
    components = [port.stage for port in joined.ports if stages[port.stage].component is not None]
    if components:
        making.problems.add(
            f"streams.{name}.via",
            f"`via: {via}` only hands over a file, but the components of {' and '.join(components)} exchange steps",
            "use `via: bp5`",
        )


def _check_combination(name: str, engine: Engine, parameters: Mapping[str, str], making: Making) -> None:
    stream = making.loaded.spec.streams[name]
    try:
        check_combination(engine, parameters)
    except ParameterError as error:
        making.problems.add(f"streams.{name}.{'parameters' if stream.parameters else 'via'}", str(error), error.hint)


def _note(name: str, port: StagePort, decided: Decided, making: Making) -> None:
    end = "write" if port.side == "write" else f"read.{port.stage}"
    for key in sorted(decided):
        making.notes.why(f"streams.{name}.{end}.{key}", decided[key][1])
