"""The README of an archive: the command that repeats it, what it holds, and what it does not. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from workflow.crate.archive_contents import CONFIGS, METADATA_FILE, ArchiveContents, SourceFiles
from workflow.formatting import size
from workflow.provenance.provenance_model import Provenance


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
        lines += ["These files are named by their absolute paths. Where they are not, change the paths:", ""]
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
