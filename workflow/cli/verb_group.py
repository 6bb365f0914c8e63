"""A group of verbs, such as `wf` itself and `wf campaign`."""

from __future__ import annotations

import importlib
from collections import UserDict
from collections.abc import Mapping
from typing import Any

import click


class _Verbs(UserDict[str, Any]):
    """Verbs by their names. In place of a verb its module may be named, which is imported when somebody takes it. There
    the function has the name of the verb, with `_` behind it where Python has that name."""

    def __getitem__(self, name: str) -> click.Command:
        verb = self.data[name]
        if isinstance(verb, str):
            found = vars(importlib.import_module(verb))
            verb = self.data[name] = found[name] if name in found else found[f"{name}_"]
        assert isinstance(verb, click.Command)
        return verb


class VerbGroup(click.Group):
    """Lists the verbs in the order of their definitions, which is that of their use, not by name.

    Verbs that were added as a section are listed below its title.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.commands = self._verbs = _Verbs()
        self._sections: dict[str, list[str]] = {}

    def add_section(self, title: str, modules: Mapping[str, str]) -> None:
        """Add verbs that `--help` lists together, each with the module that has it under its name."""
        self._verbs.update(modules)
        self._sections[title] = list(modules)

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
