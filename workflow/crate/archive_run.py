"""A run → its archive."""

from __future__ import annotations

import time
from pathlib import Path

from workflow.crate.archive_files import RECORDS, ArchiveContents, source_files, write_archive
from workflow.crate.fill_archive import (
    ArchiveOptions,
    ReadmeFacts,
    add_data,
    add_records,
    add_source,
    finish,
    input_names,
    provenance_of,
    secrets_of,
)
from workflow.crate.run_entities import (
    CrateRun,
    definition_entities,
    execution_entities,
    file_id,
    iso_time,
)
from workflow.errors import RunError
from workflow.formatting import plural
from workflow.report.report_files import write_report
from workflow.run.records.run_directory import read_filled_plan

_NOT_ENDED = ("running", "submitted", "unfinished")
# Without `workflow.stage` a stage may write hundreds of files: the crate describes the larger structure then.
_MOST_RESULTS = 200


def archive_run(run_dir: Path, target: Path, options: ArchiveOptions) -> ArchiveContents:
    """Write the archive of a run that has ended; returns what it holds.

    Raises:
        RunError: the run goes on, has no provenance, or its pipeline file holds a secret; `target` exists.
        WfError: rocrate is not installed.
    """
    report = write_report(run_dir)
    if report.run.state in _NOT_ENDED:
        raise RunError(f"{run_dir.name} is {report.run.state}", "archive it when it has ended: wf status")
    provenance = provenance_of(run_dir)
    plan = read_filled_plan(run_dir)
    secrets = secrets_of([plan])
    contents = ArchiveContents()
    source = source_files(
        provenance.files, provenance.stage_pythons, (run_dir / "pipeline.yaml").read_text("utf-8", "replace")
    )
    # Since the run the file may have changed, the copy has not.
    source.files[source.pipeline] = run_dir / "pipeline.yaml"
    add_source(contents, source, provenance.files, secrets, options.largest)
    add_records(contents, run_dir, RECORDS, secrets, options)
    outputs = add_data(contents, run_dir, RECORDS, secrets, options)
    results = [f"{RECORDS}/{name}" for name in ("report.json", "report.html")] + outputs[:_MOST_RESULTS]
    run = CrateRun(
        plan, report, provenance, file_id(source.pipeline),
        tuple(file_id(name) for name in input_names(source, provenance.files, contents)),
        tuple(file_id(name) for name in results if contents.named(name) is not None),
    )  # fmt: skip
    facts = ReadmeFacts(
        title=f"Run of {plan.pipeline}",
        repeat=("wf", "run", source.pipeline, *source.moved(provenance.options)),
        compare=f"With an archive made with `--data`, `wf compare {RECORDS} latest` then compares the data.",
        provenance=provenance,
        folders=(
            ("source/", "the pipeline, and what it is made from"),
            (f"{RECORDS}/", "the run directory: plan, provenance, events, report, logs"),
        ),
    )
    entities = [*definition_entities(run), *execution_entities(run)]
    root = {
        "name": f"Run of {plan.pipeline}", "license": options.license, "datePublished": iso_time(time.time()),
        "description": f"{plural(len(plan.stages), 'stage')} coupled by {plural(len(plan.streams), 'stream')}: "
        f"{report.run.state}. {report.run.reason}".strip(),
    }  # fmt: skip
    finish(contents, source, facts, root, run, entities, secrets)
    write_archive(contents, target)
    return contents
