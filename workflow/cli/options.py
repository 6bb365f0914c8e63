"""Options that several verbs share, and the longer groups of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from workflow.cli.completion import complete_engine

F = TypeVar("F", bound=Callable[..., Any])


def pipeline_options(function: F) -> F:
    """The argument and options of every verb that reads a pipeline file."""
    for decorate in (
        click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a value: stages.md.ranks=4"),
        click.option(
            "--profile", "profiles", multiple=True, metavar="NAME", help="Apply a profile of the file (repeatable)"
        ),
        click.option(
            "--via",
            metavar="ENGINE",
            shell_complete=complete_engine,
            help="Use this engine for every stream: sst, bp5, …",
        ),
        click.argument("pipeline", type=click.Path(path_type=Path)),
    ):
        function = decorate(function)
    return function


def strategy_options(function: F) -> F:
    """The options of `wf plan` that compare strategies."""
    for decorate in (
        click.option("--shape", metavar="NxMxK", help="With --strategies: shape of the global array, cut as a grid"),
        click.option(
            "--blocks",
            metavar="ROWS|FILE",
            help="With --strategies: rows of each writing rank (1000,400,0), or a JSON file of ADIOS2's BlocksInfo",
        ),
        click.option("--strategies", metavar="STREAM", help="Compare the strategies for distributing a stream"),
    ):
        function = decorate(function)
    return function


def check_strategy_options(strategies: str | None, blocks: str | None, shape: str | None) -> None:
    """Raise UsageError for an option that has no effect without --strategies."""
    if strategies is None and (blocks or shape):
        option = "--blocks" if blocks else "--shape"
        raise click.UsageError(f"{option} has no effect without --strategies: add `--strategies STREAM`")
