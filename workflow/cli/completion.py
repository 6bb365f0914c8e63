"""What click's shell completion offers besides verbs and options: runs, and the profiles of the pipeline file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_profile(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Profiles of the pipeline file that was typed, or else of the only one here.

    A file that is wrong, or none, offers nothing: the shell must not show an error for a key press.
    """
    from click.shell_completion import CompletionItem

    from workflow.errors import WfError
    from workflow.spec.yaml_tree.parse import read_yaml

    # While the value of an option is typed, click leaves the arguments unread.
    given = context.params.get("pipeline") or next(iter(context.args), None)
    here = [Path(given)] if given else list(Path().glob("*.yaml"))
    try:
        profiles = read_yaml(here[0])[0].child("profiles") if len(here) == 1 else None
    except (WfError, OSError):
        return []
    names = profiles.mapping() if profiles is not None else ()
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def complete_run(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Runs below `runs/`, the newest first; files where none begins so."""
    from click.shell_completion import CompletionItem

    from workflow.run.records.find_runs import known_runs
    from workflow.run.records.run_directory import LATEST

    known = known_runs()
    names = [*([LATEST] if known else []), *reversed(known)]
    return [CompletionItem(name) for name in names if name.startswith(begun)] or [CompletionItem(begun, type="file")]
