"""A run as entities of a Workflow Run RO-Crate: the pipeline, its stages and streams, and what was executed. Pure.

Profiles: https://w3id.org/ro/wfrun/workflow/0.5 and https://w3id.org/ro/wfrun/provenance/0.5. A stream is a
ParameterConnection from what its writer puts out to what a reader takes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from workflow.plan.plan_model import Plan, StagePlan, StreamPlan
from workflow.provenance.provenance_model import FileRecord, Provenance
from workflow.report.report_model import ReaderPart, Report, StagePart, StreamPart

Entity = dict[str, Any]
COMPLETED = "http://schema.org/CompletedActionStatus"
FAILED = "http://schema.org/FailedActionStatus"
LANGUAGE, ENGINE, RUN, ORGANIZE_RUN = "#wf-pipeline", "#wf", "#run", "#wf-run"


@dataclass(frozen=True)
class CrateRun:
    """A run with all that its entities tell."""

    plan: Plan
    report: Report
    provenance: Provenance
    pipeline: str
    """Id of the pipeline file."""
    inputs: tuple[str, ...]
    """Ids of the input files."""
    results: tuple[str, ...]
    """Ids of the files that the run has led to."""
    logs: Mapping[str, str]
    """Stage → id of its log: what a stage leaves that writes no stream."""


def file_id(name: str) -> str:
    """The id of a file of the archive: its name, as a URI."""
    return quote(name)


def reference(identity: str) -> Entity:
    """A reference to an entity."""
    return {"@id": identity}


def references(identities: Iterable[str]) -> list[Entity] | Entity:
    """References to several, each once; a single one stands without a list, as RO-Crate asks for."""
    found = [reference(each) for each in dict.fromkeys(identities)]
    return found[0] if len(found) == 1 else found


def iso_time(t: float | None) -> str | None:
    """Unix seconds as ISO 8601 in UTC, with milliseconds."""
    return None if t is None else datetime.fromtimestamp(t, timezone.utc).isoformat(timespec="milliseconds")


def entity(identity: str, kind: str | Sequence[str], **properties: Any) -> Entity:
    """An entity without the properties that are None or empty."""
    given = {name: value for name, value in properties.items() if value not in (None, "", [], {})}
    return {"@id": identity, "@type": kind if isinstance(kind, str) else list(kind), **given}


def agent(provenance: Provenance) -> Entity:
    """Who ran it."""
    return entity(f"#user-{provenance.user}", "Person", name=provenance.user)


def definition_entities(run: CrateRun, more_inputs: Sequence[str] = ()) -> list[Entity]:
    """The pipeline: its file, stages as steps and programs, and streams between their parameters."""
    plan = run.plan
    inputs = [_input_parameter(name) for name in run.inputs]
    connections = [_connection(stream, reader, run.report) for stream in plan.streams for reader in stream.readers]
    records = {each.path: each for each in run.provenance.files}
    pipeline = entity(
        run.pipeline,
        ("File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"),
        name=plan.pipeline,
        programmingLanguage=reference(LANGUAGE),
        hasPart=references(_program(stage.name) for stage in plan.stages),
        step=references(_step(stage.name) for stage in plan.stages),
        input=references([*(each["@id"] for each in inputs), *more_inputs]),
        output=references(_result_parameter(name)["@id"] for name in run.results),
        encodingFormat="application/yaml",
        version=_pipeline_version(run.provenance),
        conformsTo=reference("https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"),
    )
    found = [pipeline, *inputs, *(_result_parameter(name) for name in run.results)]
    found += [
        entity(LANGUAGE, "ComputerLanguage", name="wf pipeline", version=plan.wf_version),
        entity(ENGINE, "SoftwareApplication", name="wf", softwareVersion=plan.wf_version),
    ]
    for position, stage in enumerate(plan.stages, start=1):
        incoming = [_connection_id(stream.name, stage.name) for stream in plan.streams if stage.name in stream.readers]
        found.append(
            entity(
                _step(stage.name), "HowToStep", name=stage.name, position=str(position),
                workExample=reference(_program(stage.name)), connection=references(incoming),
            )
        )  # fmt: skip
        found.append(_program_entity(stage, plan, run.provenance, records))
    found += [parameter for stream in plan.streams for parameter in _stream_parameters(stream)]
    found += [_stream_value(stream, run.report) for stream in plan.streams]
    found += [each for connection, values in connections for each in (connection, *values)]
    return found


def execution_entities(run: CrateRun) -> list[Entity]:
    """What was executed: the run, each stage, and wf that has started them."""
    part, who = run.report.run, reference(agent(run.provenance)["@id"])
    done = action(
        RUN, f"run of {run.plan.pipeline}", part.state == "succeeded", part.started, part.ended, who,
        instrument=reference(run.pipeline),
        description=part.reason or f"a run of {len(run.plan.stages)} stages on {part.host or run.provenance.host}",
        object=references(run.inputs), result=references(run.results), error=part.reason,
    )  # fmt: skip
    stages = [(stage, run.report.stage(stage.name)) for stage in run.plan.stages]
    found = [agent(run.provenance), done]
    for stage, its in stages:
        usage = _usage(its)
        written = [_stream(each.name) for each in run.plan.streams if each.writer == stage.name]
        read = [_stream(each.name) for each in run.plan.streams if stage.name in each.readers]
        found.append(
            action(
                _stage_run(stage.name), f"stage {stage.name}", its.state == "succeeded", its.started,
                its.ended or part.ended, who, instrument=reference(_program(stage.name)),
                description=f"{its.program} with {its.ranks} ranks", object=references(read),
                result=references(written or [run.logs[stage.name]]), error=its.reason or its.state,
                resourceUsage=references(each["@id"] for each in usage),
            )
        )  # fmt: skip
        control = action(
            _control(stage.name), f"wf started {stage.name}", its.state == "succeeded", its.started, its.ended, None,
            instrument=reference(_step(stage.name)), object=reference(_stage_run(stage.name)),
            error=its.reason or its.state, kind="ControlAction",
        )  # fmt: skip
        found += [*usage, control]
    found.append(
        action(
            ORGANIZE_RUN, "wf run", part.state == "succeeded", part.started, part.ended, who,
            instrument=reference(ENGINE), object=references(_control(stage.name) for stage, _ in stages),
            result=reference(RUN), error=part.reason, kind="OrganizeAction",
        )
    )  # fmt: skip
    return found


def action(
    identity: str,
    name: str,
    succeeded: bool,
    started: float | None,
    ended: float | None,
    who: Entity | None,
    *,
    error: str = "",
    kind: str = "CreateAction",
    **properties: Any,
) -> Entity:
    """Something that was executed. `error` counts only where it has not succeeded."""
    return entity(
        identity, kind, name=name, startTime=iso_time(started), endTime=iso_time(ended),
        actionStatus=COMPLETED if succeeded else FAILED, error="" if succeeded else error, agent=who, **properties,
    )  # fmt: skip


def actions_of(entities: Iterable[Entity]) -> list[str]:
    """Ids of what was executed, which the root mentions."""
    return [each["@id"] for each in entities if str(each["@type"]).endswith("Action")]


def value(identity: str, name: str, content: Any, **properties: Any) -> Entity:
    """A named value."""
    return entity(identity, "PropertyValue", name=name, value=content, **properties)


def _program_entity(stage: StagePlan, plan: Plan, provenance: Provenance, records: Mapping[str, FileRecord]) -> Entity:
    program = next((records[word] for word in stage.program if word in records), None)
    version = plan.wf_version if stage.component and "/" not in stage.component else None
    summed = f"sha256 {program.sha256}" if program is not None and program.sha256 is not None else None
    return entity(
        _program(stage.name), "SoftwareApplication",
        name=stage.component or stage.program[0].rpartition("/")[2],
        description=f"what stage {stage.name} starts: {stage.kind}, {stage.ranks} ranks",
        softwareVersion=version or summed or "not known",
        softwareRequirements=", ".join(f"{name} {each}" for name, each in _versions(stage, provenance).items()),
        input=references(_read(each.name, stage.name) for each in plan.streams if stage.name in each.readers),
        output=references(_written(each.name) for each in plan.streams if each.writer == stage.name),
    )  # fmt: skip


def _pipeline_version(provenance: Provenance) -> str:
    """The commit, where nothing has changed since; else the file's checksum."""
    if provenance.git is not None and provenance.git.dirty is False:
        return provenance.git.commit
    summed = next((each.sha256 for each in provenance.files if each.role == "pipeline"), None)
    return f"sha256 {summed}" if summed else "not known"


def _versions(stage: StagePlan, provenance: Provenance) -> Mapping[str, str]:
    """What its Python has; that of wf for components."""
    other = next((each.versions for each in provenance.stage_pythons if stage.name in each.stages), None)
    return other if other is not None else provenance.versions if stage.observed == "metrics" else {}


def _stream_parameters(stream: StreamPlan) -> list[Entity]:
    example = reference(_stream(stream.name))
    names = [_written(stream.name), *(_read(stream.name, reader) for reader in stream.readers)]
    return [
        entity(each, "FormalParameter", name=stream.name, additionalType="PropertyValue", workExample=example)
        for each in names
    ]


def _stream_value(stream: StreamPlan, report: Report) -> Entity:
    """What went through a stream."""
    ends = [_written(stream.name), *(_read(stream.name, reader) for reader in stream.readers)]
    part = report.stream(stream.name)
    steps = "an unknown number of" if part.steps is None else part.steps
    return value(_stream(stream.name), stream.name, f"{steps} steps by {stream.engine}", exampleOfWork=references(ends))


def _connection(stream: StreamPlan, reader: str, report: Report) -> tuple[Entity, list[Entity]]:
    """A stream to one of its readers, and its properties."""
    identity, part = _connection_id(stream.name, reader), report.stream(stream.name)
    its = next((each for each in part.readers if each.stage == reader), None)
    facts = _facts(stream, part, its)
    values = [
        value(f"{identity}-{name}", name, content) for name, content in facts.items() if content not in (None, "")
    ]
    connection = entity(
        identity, "ParameterConnection", name=f"{stream.name}: {stream.writer} to {reader}",
        sourceParameter=reference(_written(stream.name)), targetParameter=reference(_read(stream.name, reader)),
        additionalProperty=references(each["@id"] for each in values),
    )  # fmt: skip
    return connection, values


def _facts(stream: StreamPlan, part: StreamPart, reader: ReaderPart | None) -> dict[str, Any]:
    return {
        "engine": stream.engine,
        "coupling": stream.coupling,
        "transport": part.transport or stream.transport_word,
        "steps": part.steps if reader is None or reader.steps is None else reader.steps,
        "bytes": part.bytes,
        "lag": part.longest_queue,
        "dropped": None if reader is None else reader.dropped,
    }


def _usage(stage: StagePart) -> list[Entity]:
    """What a stage used. UN/CEFACT's code of the second is SEC."""
    if stage.cpu_s is None:
        return []
    identity = f"#cpu-time-{stage.name}"
    return [value(identity, "CPU time", stage.cpu_s, propertyID="cpu_s", unitCode="SEC", unitText="s")]


def _input_parameter(name: str) -> Entity:
    return entity(
        f"#input-{name}", "FormalParameter", name=name.rpartition("/")[2], additionalType="File",
        workExample=reference(name),
    )  # fmt: skip


def _result_parameter(name: str) -> Entity:
    return entity(
        f"#output-{name}", "FormalParameter", name=name.rstrip("/").rpartition("/")[2],
        additionalType="Dataset" if name.endswith("/") else "File", workExample=reference(name),
    )  # fmt: skip


def parameters_of(file: str, run: CrateRun) -> list[str]:
    """Ids of the pipeline's parameters of which a file of the archive, by its id, is an example."""
    return [f"#{kind}-{file}" for kind, files in (("input", run.inputs), ("output", run.results)) if file in files]


def _step(stage: str) -> str:
    return f"#step-{stage}"


def _program(stage: str) -> str:
    return f"#program-{stage}"


def _stage_run(stage: str) -> str:
    return f"#run-{stage}"


def _control(stage: str) -> str:
    return f"#control-{stage}"


def _stream(stream: str) -> str:
    return f"#stream-{stream}"


def _written(stream: str) -> str:
    return f"#{stream}-written"


def _read(stream: str, reader: str) -> str:
    return f"#{stream}-read-by-{reader}"


def _connection_id(stream: str, reader: str) -> str:
    return f"#connection-{stream}-{reader}"
