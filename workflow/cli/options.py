"""The options that several verbs take, and the longer groups of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from workflow.cli.completion import complete_engine

F = TypeVar("F", bound=Callable[..., Any])


def pipeline_options(function: F) -> F:
    """What every verb that reads a pipeline file takes."""
    for decorate in (
        click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a value: stages.md.ranks=4"),
        click.option("--profile", "profiles", multiple=True, metavar="NAME", help="Apply a profile of the file"),
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
    """What `wf plan` takes to compare strategies."""
    for decorate in (
        click.option("--shape", metavar="NxMxK", help="With --strategies: the global array, cut as a grid"),
        click.option(
            "--blocks",
            metavar="ROWS|FILE",
            help="With --strategies: rows of each writing rank, 1000,400,0, or a JSON file of ADIOS2's BlocksInfo",
        ),
        click.option("--strategies", metavar="STREAM", help="Show what each way to share out a stream would cost"),
    ):
        function = decorate(function)
    return function


def check_strategy_options(strategies: str | None, blocks: str | None, shape: str | None) -> None:
    """Refuses what says something about a table that was not asked for."""
    if strategies is None and (blocks or shape):
        option = "--blocks" if blocks else "--shape"
        raise click.UsageError(f"{option} is about --strategies: add `--strategies STREAM`")
