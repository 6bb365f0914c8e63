"""A run as entities of a Workflow Run RO-Crate: the pipeline, the programs of its stages, and the run. Pure.

Profile: https://w3id.org/ro/wfrun/workflow/0.5. What each stage and stream did is in report.json of the crate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from workflow.plan.plan_model import Plan, StagePlan
from workflow.provenance.provenance_model import FileRecord, Provenance
from workflow.report.report_model import Report

Entity = dict[str, Any]
COMPLETED = "http://schema.org/CompletedActionStatus"
FAILED = "http://schema.org/FailedActionStatus"
LANGUAGE, RUN = "#wf-pipeline", "#run"


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
    """The pipeline: its file, its inputs and results, and the programs of its stages."""
    plan = run.plan
    inputs = [_input_parameter(name) for name in run.inputs]
    results = [_result_parameter(name) for name in run.results]
    records = {each.path: each for each in run.provenance.files}
    pipeline = entity(
        run.pipeline,
        ("File", "SoftwareSourceCode", "ComputationalWorkflow"),
        name=plan.pipeline,
        programmingLanguage=reference(LANGUAGE),
        hasPart=references(_program(stage.name) for stage in plan.stages),
        input=references([*(each["@id"] for each in inputs), *more_inputs]),
        output=references(each["@id"] for each in results),
        encodingFormat="application/yaml",
        version=_pipeline_version(run.provenance),
        conformsTo=reference("https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"),
    )
    language = entity(LANGUAGE, "ComputerLanguage", name="wf pipeline", version=plan.wf_version)
    programs = [_program_entity(stage, plan, run.provenance, records) for stage in plan.stages]
    return [pipeline, *inputs, *results, language, *programs]


def execution_entities(run: CrateRun) -> list[Entity]:
    """Who ran it, and the run."""
    part, who = run.report.run, agent(run.provenance)
    stages = f"a run of {len(run.plan.stages)} stages on {part.host or run.provenance.host}"
    done = action(
        RUN, f"run of {run.plan.pipeline}", part.state == "succeeded", part.started, part.ended,
        reference(who["@id"]), instrument=reference(run.pipeline), description=part.reason or stages,
        object=references(run.inputs), result=references(run.results), error=part.reason,
    )  # fmt: skip
    return [who, done]


def action(
    identity: str,
    name: str,
    succeeded: bool,
    started: float | None,
    ended: float | None,
    who: Entity,
    *,
    error: str = "",
    **properties: Any,
) -> Entity:
    """Something that was executed. `error` counts only where it has not succeeded."""
    return entity(
        identity, "CreateAction", name=name, startTime=iso_time(started), endTime=iso_time(ended),
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


def _program(stage: str) -> str:
    return f"#program-{stage}"
