"""Options that several verbs share, and the longer groups of one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from workflow.cli.completion import complete_profile, complete_run

if TYPE_CHECKING:
    from workflow.spec.load import Loaded

F = TypeVar("F", bound=Callable[..., Any])


class GivenPipeline(NamedTuple):
    """The pipeline file that the user named, with the layers over it."""

    path: Path
    profiles: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    via: str | None = None
    site: str | None = None

    def load(self) -> Loaded:
        """Read and check the file with its layers. Raises SpecError."""
        from workflow.spec.load import load_pipeline

        return load_pipeline(self.path, profiles=self.profiles, sets=self.sets, via=self.via, site=self.site)


def pipeline_options(function: Callable[..., None]) -> Callable[..., None]:
    """The argument and options of every verb that reads a pipeline file: its first argument is a `GivenPipeline`."""

    @functools.wraps(function)
    def verb(
        pipeline: Path,
        profiles: tuple[str, ...],
        sets: tuple[str, ...],
        via: str | None,
        site: str | None,
        **others: Any,
    ) -> None:
        function(GivenPipeline(pipeline, profiles, sets, via, site), **others)

    decorated: Callable[..., None] = verb
    for decorate in (
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override a value: stages.md.ranks=4",
        ),
        click.option(
            "--profile",
            "profiles",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_profile,
            help="Apply a profile of the file (repeatable)",
        ),
        click.option(
            "--via",
            metavar="ENGINE",
            help="Use this engine for every stream: sst (SST itself), shm, bp5, …",
        ),
        click.option(
            "--site",
            metavar="NAME",
            help="Plan for this machine: a name from configs/sites, or the path of a file",
        ),
        click.argument("pipeline", type=click.Path(path_type=Path)),
    ):
        decorated = decorate(decorated)
    return decorated


def run_argument(function: F) -> F:
    """The run that a verb is about: as `find_run` finds it."""
    return click.argument("run", required=False, type=click.Path(path_type=Path), shell_complete=complete_run)(function)


def json_option(about: str) -> Callable[[F], F]:
    """`--json`. docs/reference/json.md describes what each verb prints."""
    return click.option("--json", "as_json", is_flag=True, help=about)


def read_size(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Bytes of a size with its unit: `2 GiB`."""
    from workflow.spec.models.units import to_bytes

    try:
        return None if text is None else int(text) if text.isdecimal() else int(to_bytes(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def wide_option(function: F) -> F:
    """`--wide`, of the verbs that print tables."""
    about = "Show all columns of the tables, even on a narrow terminal"
    return click.option("--wide", is_flag=True, help=about)(function)


def strategy_options(function: F) -> F:
    """The options of `wf plan` that compare strategies."""
    for decorate in (
        click.option("--shape", metavar="NxMxK", help="With --strategies: shape of the global array, cut as a grid"),
        click.option(
            "--blocks",
            metavar="ROWS|FILE",
            help="With --strategies: rows of each writing rank (1000,400,0), or a JSON file of ADIOS2's BlocksInfo",
        ),
        click.option(
            "--strategies",
            metavar="STREAM",
            help="Compare the strategies for distributing a stream",
        ),
    ):
        function = decorate(function)
    return function


def check_strategy_options(strategies: str | None, blocks: str | None, shape: str | None) -> None:
    """Raise UsageError for an option that has no effect without --strategies."""
    if strategies is None and (blocks or shape):
        option = "--blocks" if blocks else "--shape"
        raise click.UsageError(f"{option} has no effect without --strategies: add `--strategies STREAM`")


def reuse_option(function: F) -> F:
    """`--reuse [RUN]`: the verb gets `reuse`, "" without a name."""

    def checked(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
        if given and Path(given).is_file():
            raise click.UsageError(f"--reuse takes the name of a run: write it last, `{given} --reuse`")
        return given

    about = (
        "Do not run stages that have not changed: link their files from this run (default: the newest run of the "
        "pipeline that has succeeded)"
    )
    return click.option(
        "--reuse", is_flag=False, flag_value="", metavar="[RUN]", callback=checked, shell_complete=complete_run,
        help=about,
    )(function)  # fmt: skip


def tag_option(text: str) -> Callable[[F], F]:
    """`--tag T`, which may be repeated: the verb gets `tags`."""

    def checked(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
        if not given:
            return ()
        from workflow.run.records.run_notes import check_tags

        return tuple(check_tags(given))

    return click.option("--tag", "tags", multiple=True, metavar="TAG", callback=checked, help=text)


def say_wait(text: str, as_json: bool = False) -> None:
    """What takes some seconds now, to a person who waits at a terminal, but for `--json`."""
    if sys.stderr.isatty() and not as_json:
        click.echo(text, err=True)


def to_share(_context: click.Context, option: click.Parameter, given: str | None) -> float | None:
    """A relative difference, `5%` or `0.05`, as a share of one; 0 for an option whose default is 0."""
    from workflow.spec.models.units import to_share as read_share

    if given is None:
        return None
    try:
        share = float(read_share(given))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    with_zero = option.default == "0"
    if not (0 < share < 10 or (with_zero and share == 0)):
        number = given.strip().removesuffix("%").strip()
        meant = f"; did you mean `{number}%`?" if 10 <= share < 1000 else ""
        least = "at least" if with_zero else "more than"
        raise click.BadParameter(f"expected {least} 0 and less than 1000 %, got `{given}`{meant}")
    return share
