"""A group of verbs, such as `wf` itself and `wf campaign`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class VerbGroup(click.Group):
    """Lists the verbs in the order of their definitions, which is that of their use, not by name.

    Verbs that were added as a section are listed below its title. Their modules are imported when they are used.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._sections: dict[str, list[str]] = {}
        self._modules: dict[str, str] = {}

    def add_section(self, title: str, modules: Mapping[str, str]) -> None:
        """Add verbs that `--help` lists together: name → the module beside this one that defines it."""
        self._sections[title] = list(modules)
        self._modules |= modules

    def list_commands(self, _: click.Context) -> list[str]:
        """The verbs in the order of `--help`."""
        return [*self._modules, *(name for name in self.commands if name not in self._modules)]

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """The verb of this name; None if there is none."""
        if name not in self.commands and name in self._modules:
            self.add_command(getattr(import_module(f"workflow.cli.{self._modules[name]}"), name))
        return self.commands.get(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with their summaries, below the titles of their sections."""
        if not self._sections:
            super().format_commands(ctx, formatter)
            return
        summaries = {
            name: verb.get_short_help_str(200)
            for name in self.list_commands(ctx)
            if (verb := self.get_command(ctx, name)) is not None
        }
        widest = max(map(len, summaries))
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), summaries[name]) for name in names])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb that the first word names. Raises UsageError when there is none."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            from workflow.cli.usage_errors import unknown_verb

            raise click.UsageError(unknown_verb(args[0], known), ctx)
        return super().resolve_command(ctx, args)
