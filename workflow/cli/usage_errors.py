"""Mistakes on the command line as messages of the same form as all others."""

from __future__ import annotations

import click

from workflow.errors import Problem, did_you_mean, shortened


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
