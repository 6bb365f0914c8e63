"""What the archives of runs and of campaigns have in common: files, README.md and ro-crate-metadata.json.

Only this module uses rocrate.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow.crate.archive_files import (
    CONFIGS,
    DEFAULT_LARGEST,
    METADATA_FILE,
    README_FILE,
    ArchiveContents,
    ArchivedFile,
    LeftOut,
    SourceFiles,
    add_files,
    add_tree,
)
from workflow.crate.run_entities import (
    CrateRun,
    Entity,
    actions_of,
    agent,
    entity,
    file_id,
    parameters_of,
    reference,
    references,
)
from workflow.errors import RunError, WfError
from workflow.formats.joined_bp import is_joined
from workflow.formats.kept_state import STATE_DIR
from workflow.formatting import size
from workflow.installation import install_command
from workflow.plan.plan_model import Plan
from workflow.provenance.provenance_model import FileRecord, Provenance, read_provenance
from workflow.redaction import SecretMissingError, clean_text, read_secrets, secret_values
from workflow.run.records.run_directory import reused_files, written_data

NO_LICENSE = "No license was stated. Ask whoever made this archive."


@dataclass(frozen=True)
class ArchiveOptions:
    """What an archive is to hold."""

    data: bool = False
    """With what the stages wrote."""
    largest: int = DEFAULT_LARGEST
    """Bytes: larger inputs and records are left out."""
    license: str = NO_LICENSE


def provenance_of(run_dir: Path) -> Provenance:
    """The provenance of a run. Raises RunError where there is none."""
    found = read_provenance(run_dir)
    if found is None or not any(each.role == "pipeline" for each in found.files):
        raise RunError(f"{run_dir} has no provenance.json that can be read", "run it again: `wf run` writes one")
    return found


def add_source(
    contents: ArchiveContents,
    source: SourceFiles,
    records: list[FileRecord],
    secrets: Mapping[str, str],
    largest: int,
) -> None:
    """Take what runs were started from; a warning for what has changed since. Raises RunError for secrets."""
    contents.left_out += source.left_out
    for name, path in source.files.items():
        add_tree(contents, name, path, secrets, largest)
    for name in filter(None, (source.pipeline, source.campaign)):
        if contents.named(name) is None:
            why = next((each.why for each in contents.left_out if each.path == str(source.files[name])), "it is gone")
            raise RunError(f"{source.files[name]} cannot be archived: {why}", "correct that, and archive again")
    names = {str(path): name for name, path in source.files.items()}
    for record in records:
        place = os.path.normpath(record.path)
        kept = contents.named(names.get(place, ""))
        if kept is not None and record.sha256 not in (None, kept.sha256):
            contents.warnings.append(f"`{kept.name}` has changed since the run")
        if place in names and not Path(place).exists():
            contents.left_out.append(LeftOut(place, None, "it is gone"))


def add_records(
    contents: ArchiveContents, run_dir: Path, name: str, secrets: Mapping[str, str], options: ArchiveOptions
) -> None:
    """Take the records and logs of a run, as `name/…`; not the states from which it could go on, and nothing hidden."""
    data = set(written_data(run_dir))
    found = []
    for folder, folders, files in os.walk(run_dir):
        kept = (each for each in folders if each != STATE_DIR and not each.startswith("."))
        folders[:] = sorted(each for each in kept if Path(folder, each) not in data)
        paths = [Path(folder, each) for each in sorted(files) if not each.startswith(".")]
        found += [path for path in paths if path not in data and not path.is_symlink() and path.is_file()]
    add_files(
        contents, ((f"{name}/{each.relative_to(run_dir).as_posix()}", each) for each in found), secrets, options.largest
    )


def add_data(
    contents: ArchiveContents, run_dir: Path, name: str, secrets: Mapping[str, str], options: ArchiveOptions
) -> list[str]:
    """Take what the stages of a run wrote, or list it as left out; returns the names in the archive."""
    before, reused = len(contents.files), reused_files(run_dir)
    for path in sorted(written_data(run_dir)):
        if options.data:
            add_tree(contents, f"{name}/{path.relative_to(run_dir).as_posix()}", path, secrets, None, reused)
        else:
            contents.left_out.append(LeftOut(str(path.relative_to(run_dir)), _total(path), "--data takes it along"))
    return [each.name for each in contents.files[before:]]


def input_names(source: SourceFiles, records: list[FileRecord], contents: ArchiveContents) -> list[str]:
    """Names in the archive of the input files."""
    inputs = {os.path.normpath(each.path) for each in records if each.role == "input"}
    names = [name for name, path in source.files.items() if str(path) in inputs]
    return [name for name in names if contents.named(name) is not None]


def finish(
    contents: ArchiveContents,
    source: SourceFiles,
    facts: ReadmeFacts,
    root: Mapping[str, Any],
    run: CrateRun,
    entities: list[Entity],
    secrets: Mapping[str, str],
    described: int | None = None,
) -> None:
    """Make README.md and the metadata. `described`: how many files have an entity each, by default all."""
    contents.texts[README_FILE] = clean_text(make_readme(facts, source, contents), secrets)
    files = [_file(each, run) for each in contents.files[:described] if file_id(each.name) != run.pipeline]
    files.append(entity(README_FILE, "File", name=README_FILE, encodingFormat="text/markdown", about=reference("./")))
    folders = [each["@id"] for each in entities if each["@type"] == "Dataset"]
    parts = [run.pipeline, *(each["@id"] for each in files), *folders]
    license, said = str(root["license"]), "licence of the archive"
    license_id = license if "://" in license else "#license"
    entities = [*entities, entity(license_id, "CreativeWork", name=license, description=said)]
    root = {**root, "license": reference(license_id), "author": reference(agent(run.provenance)["@id"])}
    text = to_metadata(root, run.pipeline, [*entities, *files], parts, actions_of(entities))
    contents.texts[METADATA_FILE] = _without_secrets(text, secrets)


def secrets_of(plans: Iterable[Plan]) -> dict[str, str]:
    """Value → variable of all that no archive may hold: of this environment, and of the plans where it can be read."""
    found = secret_values(os.environ)
    for stage in (stage for plan in plans for stage in plan.stages):
        for name, source in stage.secrets.items():
            with contextlib.suppress(SecretMissingError):
                if value := read_secrets({name: source})[name]:
                    found[value] = name
    return found


def _without_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """JSON without these secrets; its own URLs are no credentials."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "<removed>")
    return text


def _file(file: ArchivedFile, run: CrateRun) -> Entity:
    identity = file_id(file.name)
    return entity(
        identity,
        "File",
        name=file.name,
        contentSize=str(file.size),
        sha256=file.sha256,
        encodingFormat=_FORMATS.get(Path(file.name).suffix, "application/octet-stream"),
        exampleOfWork=references(parameters_of(identity, run)),
    )


_FORMATS = {
    ".json": "application/json", ".jsonl": "application/jsonl", ".yaml": "application/yaml", ".html": "text/html",
    ".log": "text/plain", ".csv": "text/csv", ".svg": "image/svg+xml", ".pdf": "application/pdf",
    ".py": "text/x-python", ".md": "text/markdown", ".parquet": "application/vnd.apache.parquet",
}  # fmt: skip


def _total(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    return sum(
        each.stat().st_size if is_joined(each.parent) else each.lstat().st_size for each in files if each.is_file()
    )


@dataclass(frozen=True)
class ReadmeFacts:
    """What the README says besides the lists of files."""

    title: str
    repeat: Sequence[str]
    """The command line that repeats it, from the top of the archive."""
    compare: str
    """What to do with the result."""
    provenance: Provenance
    folders: Sequence[tuple[str, str]]
    """(file or folder of the archive, what it is)."""


def make_readme(facts: ReadmeFacts, source: SourceFiles, contents: ArchiveContents) -> str:
    """The text of README.md."""
    made, commands = facts.provenance, []
    if any(name.startswith(f"{CONFIGS}/") for name in source.files):
        commands.append(f'export WF_CONFIGS="$PWD/{CONFIGS}"')
    commands.append(shlex.join(facts.repeat))
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    lines = [f"# {facts.title}", "", "## Repeat it", "", "In this folder:", "", "```sh", *commands, "```", ""]
    lines += [f"{facts.compare} It was made with {versions}, on {made.host}.", ""]
    if made.git is not None:
        state = {True: ", with changes that were not committed", False: "", None: ""}[made.git.dirty]
        place = f" of {made.git.remote}" if made.git.remote else ""
        lines += [f"The pipeline was in commit {made.git.commit}{place}{state}.", ""]
    if source.absolute:
        lines += ["These files are named by their absolute paths. Where they do not exist, change the paths:", ""]
        lines += [f"- `{path}`: `{name}` here" for path, name in source.absolute] + [""]
    lines += ["## What is here", "", "| file or folder | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {what} |" for name, what in facts.folders]
    lines += [f"| `{METADATA_FILE}` | all of it as a Workflow Run RO-Crate |", ""]
    if contents.warnings:
        lines += ["## Note", "", *(f"- {each}" for each in contents.warnings), ""]
    if contents.left_out:
        lines += ["## What is not here", "", "| file | size | why |", "|---|---|---|"]
        for each in contents.left_out:
            lines.append(f"| `{each.path}` | {'' if each.size is None else size(each.size)} | {each.why} |")
        lines.append("")
    return "\n".join(lines)


# The profiles of the workflow run family build upon RO-Crate 1.1.
_VERSION = "1.1"
_WORKFLOW_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    _WORKFLOW_CRATE: "Workflow RO-Crate",
}
# A term that RO-Crate's own context lacks. Written out, so that no second context has to be fetched.
_TERMS = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}


def to_metadata(
    root: Mapping[str, Any], pipeline: str, entities: Iterable[Entity], parts: Sequence[str], mentions: Sequence[str]
) -> str:
    """The text of ro-crate-metadata.json.

    Args:
        root: properties of the root: name, description, datePublished, license.
        pipeline: id of the main entity.
        parts: ids of the files and directories that are described.
        mentions: ids of what was executed.

    Raises:
        WfError: rocrate is not installed.
    """
    try:
        from rocrate.model import ContextEntity
        from rocrate.rocrate import ROCrate
    except ModuleNotFoundError as error:
        raise WfError("an archive needs rocrate", install_command("archive")) from error
    crate = ROCrate(version=_VERSION)
    crate.metadata.extra_terms.update(_TERMS)
    profiles: list[Entity] = [
        {"@id": url, "@type": "CreativeWork", "name": name, "version": url.rpartition("/")[2]}
        for url, name in _PROFILES.items()
    ]
    # `add_jsonld` would search all entities for each one.
    crate.add(*(ContextEntity(crate, each["@id"], properties=each) for each in (*entities, *profiles)))
    links = {
        "conformsTo": references(_PROFILES), "mainEntity": reference(pipeline),
        "hasPart": references(parts), "mentions": references(mentions),
    }  # fmt: skip
    for name, content in {**root, **links}.items():
        crate.root_dataset[name] = content
    crate.metadata["conformsTo"] = references([crate.metadata["conformsTo"], _WORKFLOW_CRATE])
    return json.dumps(crate.metadata.generate(), indent=2, ensure_ascii=False) + "\n"
