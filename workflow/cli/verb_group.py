"""A group of verbs, such as `wf` itself and `wf campaign`; mistakes on the command line as messages of `wf`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from workflow.errors import Problem, did_you_mean, shortened


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
            raise click.UsageError(unknown_verb(args[0], known), ctx)
        return super().resolve_command(ctx, args)


def unknown_verb(word: str, verbs: list[str]) -> str:
    """What is wrong with a word that is no verb, e.g. ``no command `plna`; did you mean `plan`?``."""
    near = did_you_mean(word, verbs)
    return f"no command `{shortened(word)}`" + (f"; {near}" if near else "")


def usage_problem(error: click.ClickException, group: click.Group, words: list[str]) -> Problem:
    """An error of click as a message: what is wrong after the verb, and how to get help.

    Args:
        group: all verbs; words: the command line, for the errors that do not name their verb.
    """
    typed, typed_path = _typed(group, words)
    context = error.ctx if isinstance(error, click.UsageError) else None
    verb = context.command if context is not None else typed
    path = "wf" if verb is group else context.command_path if context is not None else typed_path
    help_ = _too_early(error, typed, typed_path) if verb is group else ""
    return Problem("" if verb is group else path, 0, 0, "", _message(error, verb), help_ or _help(error, verb, path))


def _typed(group: click.Group, words: list[str]) -> tuple[click.Command, str]:
    """The verb that the words name, and all words of its path: `wf campaign status`."""
    verb: click.Command = group
    path = "wf"
    for word in words:
        named = verb.get_command(click.Context(verb), word) if isinstance(verb, click.Group) else None
        if named is not None:
            verb, path = named, f"{path} {word}"
    return verb, path


def _too_early(error: click.ClickException, typed: click.Command, path: str) -> str:
    """The hint for an option of a verb that stands before the verb; empty for other mistakes."""
    if isinstance(error, click.NoSuchOption) and error.option_name in _options(typed):
        return f"options come after the command: `{path} {error.option_name}`"
    return ""


def _options(verb: click.Command) -> list[str]:
    names = [name for parameter in verb.params for name in (*parameter.opts, *parameter.secondary_opts)]
    return [*(name for name in names if name.startswith("-")), "--help"]


def _message(error: click.ClickException, verb: click.Command) -> str:
    if isinstance(error, click.NoSuchOption):
        near = did_you_mean(error.option_name, _options(verb))
        return f"no option `{shortened(error.option_name)}`" + (f"; {near}" if near else "")
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{_name(error.param)} is missing"
    if isinstance(error, click.BadOptionUsage):
        return f"`{error.option_name}` needs a value"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_name(error.param)}: {_lower(error.message)}"
    if isinstance(error, click.UsageError):
        return _lower(error.message)
    return _lower(error.format_message())


def _name(parameter: click.Parameter) -> str:
    """`--lines`, `PIPELINE`: as the user types it, or as the usage line calls it."""
    if isinstance(parameter, click.Option):
        return f"`{max(parameter.opts, key=len)}`"
    return (
        parameter.make_metavar(click.Context(click.Command(""))) if parameter.metavar else str(parameter.name).upper()
    )


def _lower(text: str) -> str:
    """A sentence of click as part of a message."""
    text = text.rstrip(".").replace("'", "`")
    return text[:1].lower() + text[1:]


def _help(error: click.ClickException, verb: click.Command, path: str) -> str:
    if isinstance(verb, click.Group):
        return f"`{path} --help` lists all commands"
    if isinstance(error, click.NoSuchOption):
        return f"`{path} --help` lists the options"
    pieces = " ".join(verb.collect_usage_pieces(click.Context(verb)))
    return f"usage: {path} {pieces}; `{path} --help` describes it"
