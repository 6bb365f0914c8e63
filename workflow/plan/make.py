"""From what the user wrote to the plan. Pure: no file, clock, user or host name is looked at.

>>> plan = make_plan(load_pipeline("pipeline.yaml"), load_site("local"), python=sys.executable, wf_version="0.1")

The order of decisions: ports → joins → couplings → who waits for whom → nodes and cores → contracts →
engine parameters → programs and files. Each notes mistakes and goes on, so that all show at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from workflow.plan.advice import advise
from workflow.plan.making import Making, Notes
from workflow.plan.placement.cores import place_stages
from workflow.plan.plan_model import EndPlan, Placement, Plan
from workflow.plan.problems import Problems
from workflow.plan.programs.config_files import check_configs, check_outputs
from workflow.plan.programs.mpmd_groups import launch_together
from workflow.plan.programs.openpmd import names_by_writer
from workflow.plan.programs.placeholder_expansion import streams_told
from workflow.plan.programs.stage_plans import Kind, kind_of, to_stage_plan
from workflow.plan.streams.output_parameters import check_policy
from workflow.plan.streams.stream_estimates import stream_amounts
from workflow.plan.streams.transports import Choice, choose_transport
from workflow.plan.streams.wiring import to_stream_plan, wire
from workflow.plan.topology.couplings import choose_couplings
from workflow.plan.topology.implicit_stage_notes import explain_implicit_stages, pass_on
from workflow.plan.topology.implicit_stages import complete_pipeline
from workflow.plan.topology.port_matching import HANDED_OVER, Joined, join_streams
from workflow.plan.topology.ports import StagePorts, stage_ports
from workflow.plan.topology.start_dependencies import check_cycles, may_overlap, starts_after
from workflow.plan.topology.variable_contracts import Contract, check_contract, check_types

if TYPE_CHECKING:
    from workflow.site.site_model import Site
    from workflow.spec.load import Loaded


def make_plan(
    loaded: Loaded,
    site: Site,
    *,
    python: str,
    wf_version: str,
    mpiexec: str = "",
    built: Mapping[str, list[str]] | None = None,
) -> Plan:
    """Decides everything about a loaded pipeline.

    Args:
        python: the interpreter that runs components, absolute.
        mpiexec: what starts several ranks on sites that use it; by default the one beside `python`.
        built: stage → the operators of its ADIOS2, where they are known (`site.operator_probe`).

    Raises:
        SpecError: all mistakes found, with their places.
    """
    mpiexec = mpiexec or str(PurePosixPath(python).parent / "mpiexec")
    pipeline = complete_pipeline(loaded)
    making = Making(pipeline, site, python, mpiexec, built or {}, Problems(pipeline.origins), Notes())
    spec = pipeline.spec
    told = {name: streams_told(name, stage, making) for name, stage in spec.stages.items()}
    joined = _join(told, making)
    making.named_by_writer.update(names_by_writer(joined.values(), making))
    explain_implicit_stages(making)
    couplings = choose_couplings(making)
    waits: dict[str, list[str]] = {}
    if check_cycles(joined, couplings, making):
        waits = starts_after(spec.stages, joined, couplings, making.problems)
        _note_waits(waits, joined, making)
    kinds = _kinds(joined, making)
    placements = _place(kinds, joined, waits, making)
    ends: dict[str, list[EndPlan]] = {name: [] for name in spec.stages}
    choices: dict[str, Choice | None] = {}
    contracts: dict[str, Contract | None] = {}
    for name, stream in joined.items():
        contract = contracts[name] = _contract(stream, making)
        choices[name] = choose_transport(stream, pipeline.engines[name], placements, making)
        for stage, end in wire(name, stream, couplings[name], contract, placements, choices[name], making):
            ends[stage].append(end)
    stages = [
        to_stage_plan(name, kinds[name], ends[name], placements[name], waits.get(name, []), making)
        for name in spec.stages
    ]
    amounts = stream_amounts(joined, contracts, stages, making)
    check_outputs(stages, making)
    stages, groups = launch_together(stages, joined, making)
    making.problems.raise_any()
    streams = [
        to_stream_plan(name, stream, couplings[name], choices[name], amounts[name], making)
        for name, stream in joined.items()
    ]
    advise(stages, streams, joined, told, making)
    return Plan(
        wf_version=wf_version,
        pipeline=spec.name,
        pipeline_file=str(pipeline.path),
        site=site.site,
        stages=stages,
        streams=streams,
        groups=groups,
        deadlines=spec.deadlines,
        reasons=making.notes.reasons,
        advice=making.notes.advice,
    )


def _join(told: dict[str, set[str]], making: Making) -> dict[str, Joined]:
    """Ports of all stages, and the streams joined to them."""
    loaded, problems = making.loaded, making.problems
    ports: dict[str, StagePorts] = {}
    for name, stage in loaded.spec.stages.items():
        component = loaded.components[stage.component] if stage.component is not None else None
        ports[name] = stage_ports(name, stage, component, loaded.parameters.get(name, {}), problems)
        check_configs([*ports[name].write.values(), *ports[name].read.values()], making)
        for side, declared in (("writes", stage.writes), ("reads", stage.reads)):
            for port, program_port in declared.items():
                check_types(f"stages.{name}.{side}.{port}.variables", program_port.variables, problems)
        check_policy(name, ports[name], making)
    for name, stream in loaded.spec.streams.items():
        check_types(f"streams.{name}.variables", stream.variables, problems)
    return pass_on(join_streams(ports, told, making), making)


def _note_waits(waits: dict[str, list[str]], joined: dict[str, Joined], making: Making) -> None:
    reads: dict[str, dict[str, str]] = {}  # stage → writer → stream
    for stream in joined.values():
        if stream.writer is not None:
            for port in stream.readers:
                reads.setdefault(port.stage, {})[stream.writer.stage] = stream.name
    for name, awaited in waits.items():
        read = reads.get(name, {})
        own = [f"reads {read[stage]} when {stage} has ended" for stage in awaited if stage in read]
        others = [stage for stage in awaited if stage not in read]
        group = [f"starts together with stages that wait for {' and '.join(others)}"] if others else []
        if awaited:
            making.notes.why(f"stages.{name}.starts_after", "; ".join([*own, *group]))


def _kinds(joined: dict[str, Joined], making: Making) -> dict[str, Kind]:
    reading = {port.stage for stream in joined.values() for port in stream.readers}
    writing = {stream.writer.stage for stream in joined.values() if stream.writer is not None}
    return {
        name: kind_of(stage, making, name in reading, name in writing)
        for name, stage in making.loaded.spec.stages.items()
    }


def _place(
    kinds: dict[str, Kind], joined: dict[str, Joined], waits: dict[str, list[str]], making: Making
) -> dict[str, Placement]:
    default_cores = {name: int(kind != "sink") for name, kind in kinds.items()}
    feeders: dict[str, str] = {}
    for stream in joined.values():
        for port in stream.readers:
            if stream.writer is not None:
                feeders.setdefault(port.stage, stream.writer.stage)
    return place_stages(default_cores, feeders, may_overlap(list(kinds), waits), making)


def _contract(stream: Joined, making: Making) -> Contract | None:
    """What the ends may rely on; None where an end is missing or the stream is no ADIOS2 stream."""
    if stream.writer is None or making.loaded.engines[stream.name].engine == HANDED_OVER:
        return None
    contract = check_contract(
        stream.name, making.loaded.spec.streams[stream.name].variables, stream.writer, stream.readers, making.problems
    )
    for name, why in contract.unsure.items():
        making.notes.why(f"streams.{stream.name}.variables.{name}", why)
    return contract
