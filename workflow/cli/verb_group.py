"""A group of verbs, such as `wf` itself and `wf campaign`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class VerbGroup(click.Group):
    """Lists the verbs in the order of their definitions, which is that of their use, not by name.

    Verbs that were added as a section are listed below its title.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._sections: dict[str, list[str]] = {}

    def add_section(self, title: str, verbs: Sequence[click.Command]) -> None:
        """Add verbs that `--help` lists together."""
        for verb in verbs:
            self.add_command(verb)
            self._sections.setdefault(title, []).append(str(verb.name))

    def list_commands(self, _: click.Context) -> list[str]:
        """The verbs in the order of `--help`."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with their summaries, below the titles of their sections."""
        if not self._sections:
            super().format_commands(ctx, formatter)
            return
        widest = max(len(name) for name in self.commands)
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(widest), self.commands[name].get_short_help_str(200)) for name in names]
                )

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb that the first word names. Raises UsageError when there is none."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            from workflow.cli.usage_errors import unknown_verb

            raise click.UsageError(unknown_verb(args[0], list(self.commands)), ctx)
        return super().resolve_command(ctx, args)
