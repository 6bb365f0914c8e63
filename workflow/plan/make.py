"""From what the user wrote to the plan. Pure: no file, clock, user or host name is looked at.

>>> plan = make_plan(load_pipeline("pipeline.yaml"), load_site("local"), python=sys.executable, wf_version="0.1")

Each pass is a function: its arguments are what goes in, its result is what comes out. Mistakes, reasons and advice are
collected beside, in `Notes`; a pass that finds a mistake goes on, so that all mistakes show at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workflow.plan.advice import advise
from workflow.plan.job_request import plan_allocation
from workflow.plan.placeholders import own_path, stream_path
from workflow.plan.placement.cores import place_stages
from workflow.plan.placement.nodes import node_plan, nodes_needed
from workflow.plan.plan_expectations import plan_expectations
from workflow.plan.plan_model import EndPlan, ParameterPlan, Plan
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.programs.config_files import check_configs, check_outputs
from workflow.plan.programs.launch_plans import plan_launch
from workflow.plan.programs.openpmd import check_ends, name_by_writer
from workflow.plan.programs.placeholder_expansion import pipeline_values, streams_mentioned
from workflow.plan.programs.stage_environment import check_site_environment, kept_by_default
from workflow.plan.programs.stage_plans import to_stage_plan
from workflow.plan.streams.end_plans import StreamDecisions, make_ends, to_stream_plan
from workflow.plan.streams.node_memory import share_memory
from workflow.plan.streams.output_parameters import check_output_policies, check_step_outputs, name_in_directory
from workflow.plan.streams.spool_places import check_spool_places, note_unheeded_keep
from workflow.plan.streams.stream_estimates import estimate_streams
from workflow.plan.streams.transports import choose_transport
from workflow.plan.topology.declared_stages import declared_stages
from workflow.plan.topology.failure_units import longest_pauses_s, plan_restarts, why_from_start
from workflow.plan.topology.implicit_stages import (
    complete_pipeline,
    explain_implicit_stages,
    pass_on,
    place_on_node,
)
from workflow.plan.topology.ports import JoinedStream, join_streams, stage_kinds, stage_ports, streams_by_stage
from workflow.plan.topology.start_dependencies import choose_couplings, start_order
from workflow.plan.topology.variable_contracts import check_declared_types, check_file_contents, stream_contract
from workflow.spec.placeholder_syntax import scalar_text

if TYPE_CHECKING:
    from workflow.site.site_model import Site
    from workflow.spec.load import Loaded


def make_plan(
    loaded: Loaded,
    site: Site,
    *,
    python: str,
    wf_version: str,
    built: Mapping[str, list[str]] | None = None,
) -> Plan:
    """Decides everything about a loaded pipeline.

    Args:
        python: the interpreter that runs components, absolute.
        built: stage → the operators of its ADIOS2, where they are known (`site.adios2_library`).

    Raises:
        SpecError: all mistakes found, with their places.
    """
    pipeline = complete_pipeline(loaded)
    spec, origins = pipeline.spec, pipeline.origins
    problems = Problems(origins)
    notes = Notes(problems)

    # Topology: who is joined to whom, and in which order
    declared = declared_stages(pipeline, built or {})
    ports = {name: stage_ports(stage, problems) for name, stage in declared.items()}
    for name, stage in declared.items():
        check_configs(stage, ports[name], problems)
    check_declared_types(declared, spec.streams, problems)
    check_output_policies(declared, ports, spec.streams.values(), problems)
    mentioned = streams_mentioned(declared.values())
    joined = join_streams(spec.streams, pipeline.engines, declared, ports, mentioned, problems)
    joined = pass_on(joined, pipeline)
    check_file_contents(joined.values(), declared, notes)
    explain_implicit_stages(declared, pipeline.implicit_stages, origins, notes)
    couplings = choose_couplings(joined.values(), origins, notes)
    waits = start_order(declared, joined, couplings, notes)

    # Placement: nodes and cores
    kinds = stage_kinds(declared, joined.values())
    before = problems.count
    placements = place_stages(declared, kinds, joined.values(), waits, site, spec.oversubscribe, notes)
    placed = problems.count == before
    allocation = plan_allocation(spec.allocation, site, placements, notes, placed=placed)

    # Streams: the engine, its parameters and what else each end needs
    joined, unshared = share_memory(joined, loaded.presets, declared, placements, python, site, origins, notes)
    names = {name: name_in_directory(stream, declared) or name_by_writer(stream) for name, stream in joined.items()}
    paths = {name: _path(stream, names[name]) for name, stream in joined.items()}
    live = [name for name, coupling in couplings.items() if coupling == "live"]
    restarts = plan_restarts(declared, joined, paths, live, notes)
    pauses_s = longest_pauses_s(restarts.values(), spec.deadlines.start)
    on_node = {name: place_on_node(name, pipeline) for name in joined}
    decided: dict[str, StreamDecisions] = {}
    ends: dict[str, list[EndPlan]] = {name: [] for name in declared}
    for name, stream in joined.items():
        contract = stream_contract(stream, notes)
        note_unheeded_keep(stream, notes)
        transport = choose_transport(stream, declared, placements, unshared.get(name, ""), site, origins, notes)
        decided[name] = StreamDecisions(paths[name], couplings[name], contract, transport, pauses_s, on_node[name])
        made = make_ends(stream, decided[name], declared, placements, spec.deadlines, site, origins, notes)
        check_ends(stream, made, declared, notes)
        check_step_outputs(stream, couplings[name], declared, notes)
        for stage_name, end in made:
            ends[stage_name].append(end)

    # Programs: what is started, with which files
    params = {name: loaded.param_texts.get(name) or scalar_text(each.value) for name, each in spec.params.items()}
    values = pipeline_values(str(pipeline.path.parent), python, params, joined, paths)
    keep_freed = kept_by_default(declared.values(), site)
    streams_at = streams_by_stage(joined.values())
    started_again = {name for rule in restarts.values() for name in rule.stages}
    stages = [
        to_stage_plan(
            stage, kinds[name], ends[name], placements[name], waits.get(name, []),
            plan_launch(stage, placements[name], python, site, notes), restarts.get(name),
            why_from_start(stage, streams_at.get(name, []), started_again),
            values=values, changes=loaded.changes.get(name, ()), keep_freed=keep_freed, site=site, origins=origins,
            notes=notes,
        )
        for name, stage in declared.items()
    ]  # fmt: skip
    contracts = {name: each.contract for name, each in decided.items()}
    estimates = estimate_streams(joined, contracts, ends, declared, placements, site, notes)
    streams = [to_stream_plan(stream, decided[name], estimates[name]) for name, stream in joined.items()]
    check_outputs(stages, streams, declared, problems)
    check_spool_places(stages, streams, site, notes)
    expectations = plan_expectations(spec, stages, streams, problems)
    check_site_environment(site, spec.not_secret, problems)
    problems.raise_any()
    advise(stages, streams, joined, declared, mentioned, 1 if allocation is None else allocation.parts, site, notes)
    return Plan(
        wf_version=wf_version,
        pipeline=spec.name,
        pipeline_file=str(pipeline.path),
        params={
            name: ParameterPlan(value=each.value, unit=each.unit, text=each.text) for name, each in spec.params.items()
        },
        site=site.site,
        nodes=allocation.nodes if allocation is not None else nodes_needed(placements.values()),
        node=node_plan(site),
        launch_options=site.launcher_options,
        stages=stages,
        streams=streams,
        deadlines=spec.deadlines,
        allocation=allocation,
        proof=spec.proof,
        share=spec.share,
        expectations=expectations,
        reasons=notes.reasons,
        advice=notes.advice,
    )


def _path(stream: JoinedStream, name_inside: str) -> str:
    """Where a stream is: where its program writes it, or where wf has its place for it."""
    writer = stream.writer
    if writer is not None and writer.path:
        return own_path(writer.stage, writer.path, stream.engine.traits)
    return stream_path(stream.name, name_inside, stream.engine.suffix)
