"""A group of verbs, such as `wf` itself and `wf campaign`."""

from __future__ import annotations

from typing import Any

import click


class VerbGroup(click.Group):
    """Lists the verbs in the order of their definitions, which is that of their use, not by name."""

    def list_commands(self, _: click.Context) -> list[str]:
        """The verbs in the order of `--help`."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb that the first word names. Raises UsageError when there is none."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            from workflow.cli.usage_errors import unknown_verb

            raise click.UsageError(unknown_verb(args[0], list(self.commands)), ctx)
        return super().resolve_command(ctx, args)
