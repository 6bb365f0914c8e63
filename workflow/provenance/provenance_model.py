"""`provenance.json`: what a run was started from and with, besides its plan. Nothing in it is a secret."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from workflow.formats.read_json import read_json

FileRole = Literal["pipeline", "site", "preset", "component", "program", "input", "module"]
PROVENANCE_FILE = "provenance.json"


class ProvenancePart(BaseModel):
    """Settings of all parts of provenance.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GitState(ProvenancePart):
    """The git repository that holds the pipeline's folder."""

    commit: str
    branch: str = Field("", description="empty for a detached HEAD")
    remote: str = Field("", description="URL, without user name, password and query")
    folder: str = Field(description="the pipeline's folder inside the repository; `.` is its top")
    dirty: bool | None = Field(
        None, description="whether tracked files of that folder differ from the commit; null: not known"
    )
    diff_sha256: str = Field("", description="SHA-256 of `git diff HEAD -- FOLDER`; empty where nothing differs")


class FileRecord(ProvenancePart):
    """A file that the plan names, as it was when the run was made."""

    role: FileRole = Field(
        description="preset: an engine's file; program: what a stage starts; input: any other file that the plan names"
        "; module: Python that programs import from beside them or the pipeline"
    )
    path: str
    size: int = Field(description="bytes; of a directory of ADIOS2, those of all its files")
    modified: float = Field(description="Unix seconds")
    sha256: str | None = Field(
        None, description="of a directory, of the names and sums of its files; null: too large to read at the start"
    )


class StagePython(ProvenancePart):
    """A Python other than that of wf, and the stages that it executes."""

    python: str
    stages: list[str]
    versions: dict[str, str] = Field(description="versions found in the folders of its packages, without starting it")


class HostContext(ProvenancePart):
    """What a process that makes runs finds on its host.

    A run that waits for a batch job of its own is made where it was submitted, on a login node: when it has ended, the
    process that supervised it puts its own in their place. The repetitions of a campaign in a pilot are made on its
    first node.
    """

    host: str = Field(
        description="host of the supervisor; if the run's batch job was killed or has not ended, the host where it "
        "was submitted"
    )
    user: str
    python: str
    versions: dict[str, str] = Field(
        description="wf, python, os, adios2, numpy, mpi4py and mpi, as far as they are known on `host`"
    )
    modules: list[str] = Field([], description="environment modules that were loaded on `host`")
    environment: dict[str, str] = Field(
        {},
        description="variables on `host` that may change what a run does; `<removed>` in place of what may be a secret",
    )


class StartContext(HostContext):
    """What all runs that one process makes from a pipeline's folder have in common."""

    command: list[str] = Field(description="the command line of wf, or of the script that uses it")
    directory: str = Field(description="working directory of that command")
    git: GitState | None = Field(None, description="null: the pipeline is in no repository")


class Provenance(StartContext):
    """What a run was started from and with.

    `allocation.json` has the hosts that it received, `job.json` its batch job, and the `stage_started` events of
    `events.jsonl` the command line of each stage.
    """

    provenance_version: Literal[1] = 1
    created: float = Field(description="Unix seconds")
    options: list[str] = Field([], description="options that changed the pipeline: `--set`, …")
    stage_pythons: list[StagePython] = Field([])
    files: list[FileRecord] = Field([])

    def to_json(self) -> str:
        """The text of `provenance.json`."""
        return self.model_dump_json(indent=2) + "\n"


def read_provenance(run_dir: Path) -> Provenance | None:
    """The provenance of a run; None where there is none, or it cannot be read."""
    try:
        return Provenance.model_validate(read_json((run_dir / PROVENANCE_FILE).read_bytes()))
    except (OSError, ValueError):
        return None
