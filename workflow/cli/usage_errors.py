"""Mistakes on the command line as messages of the same form as all others."""

from __future__ import annotations

import shlex

import click

from workflow.errors import Problem
from workflow.redaction import shown_line
from workflow.spec.shipped import is_path
from workflow.spec.suggest import did_you_mean, shortened

# Verbs that there were → what to use instead.
_REMOVED = {"balance": "write `search:` in a campaign file"}


def unknown_verb(word: str, verbs: list[str]) -> str:
    """What is wrong with a word that is no verb, e.g. ``no command `plna`; did you mean `plan`?``."""
    near = _REMOVED.get(word) or did_you_mean(word, verbs)
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
    help_ = _too_early(error, typed, typed_path) if verb is group else _otherwise(error, verb, path, words)
    return Problem("" if verb is group else path, 0, 0, "", _message(error, verb), help_ or _help(error, verb, path))


def _typed(group: click.Group, words: list[str]) -> tuple[click.Command, str]:
    """The verb that the words name, and all words of its path: `wf campaign status`."""
    verb: click.Command = group
    path = "wf"
    for word in words:
        if isinstance(verb, click.Group) and word in verb.commands:
            verb, path = verb.commands[word], f"{path} {word}"
    return verb, path


def _too_early(error: click.ClickException, typed: click.Command, path: str) -> str:
    """The hint for an option of a verb that stands before the verb; empty for other mistakes."""
    if isinstance(error, click.NoSuchOption) and error.option_name in _options(typed):
        return f"options come after the command: `{path} {error.option_name}`"
    return ""


def _otherwise(error: click.ClickException, verb: click.Command, path: str, words: list[str]) -> str:
    """The command where an option was meant as an argument, or a run as an option; empty for other mistakes."""
    given = words[len(path.split()) - 1 :]
    if isinstance(error, click.NoSuchOption) and (argument := _argument(error, verb)) is not None:
        rest = [word.removeprefix(f"{error.option_name}=") for word in given if word != error.option_name]
        return f"{_name(argument)} is an argument, not an option: `{path} {shown_line(shlex.join(rest))}`"
    if "--run" in _options(verb) and "unexpected extra argument" in error.format_message() and len(given) == 2:
        run = next((word for word in given if is_path(word)), given[1])
        other = given[1] if run == given[0] else given[0]
        return f"the run is an option: `{path} {shown_line(shlex.join([other, '--run', run]))}`"
    return ""


def _argument(error: click.NoSuchOption, verb: click.Command) -> click.Argument | None:
    """The argument that is shown with the name of an option which there is not: `--run` of `wf status RUN`."""
    arguments = (each for each in verb.params if isinstance(each, click.Argument))
    word = error.option_name.lstrip("-")
    found = (each for each in arguments if _name(each).lower().strip("[].").startswith(word))
    return next(found, None) if error.option_name.startswith("--") else None


def _options(verb: click.Command) -> list[str]:
    names = [name for parameter in verb.params for name in (*parameter.opts, *parameter.secondary_opts)]
    return [*(name for name in names if name.startswith("-")), "--help"]


def _message(error: click.ClickException, verb: click.Command) -> str:
    if isinstance(error, click.NoSuchOption):
        near = did_you_mean(error.option_name, _options(verb)) if _argument(error, verb) is None else ""
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
    text = shown_line(text).rstrip(".").replace("'", "`")
    return text[:1].lower() + text[1:]


def _help(error: click.ClickException, verb: click.Command, path: str) -> str:
    if isinstance(verb, click.Group):
        return f"`{path} --help` lists all commands"
    if isinstance(error, click.NoSuchOption):
        return f"`{path} --help` lists the options"
    pieces = " ".join(verb.collect_usage_pieces(click.Context(verb)))
    return f"usage: {path} {pieces}; `{path} --help` describes it"
