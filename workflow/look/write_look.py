"""`wf look`: reads what was archived and writes the page. The libraries that this takes are imported when needed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workflow.engines import BP_SUFFIXES, HDF5_SUFFIXES
from workflow.errors import RunError, WfError, named_if_missing
from workflow.replace_file import replace_file

if TYPE_CHECKING:
    from workflow.look.read_numbers import FileView

DEFAULT_LIMIT = 20_000_000
"""Bytes of numbers that a page carries."""
_ANOTHER_FILE = "name another file: `-o FILE.html`"
_MARK = '<meta name="generator" content="wf look">'
"""In the head of each page: by it a page is known that the next one may replace."""


class WrittenPage(NamedTuple):
    """The page, what it holds in a few words, what was thinned, and what else to consider."""

    path: Path
    summary: str
    thinned: list[str]
    notes: list[str]


def write_look(given: Sequence[Path], page: Path | None = None, limit: int = DEFAULT_LIMIT) -> WrittenPage:
    """Write the page for one run or two, as `find_files` finds them; by default NAME.html in the current directory.

    Raises:
        WfError: not a run and no data, `page` is a directory, or a library is missing.
        RunError: there are no data, or the page cannot be written; a file that is no page of `wf look` has its name and
            was not given as `page`, or is no HTML.
    """
    if page is not None and page.is_dir():
        raise WfError(f"{page}: is a directory", _ANOTHER_FILE)
    with named_if_missing("the page", "look"):
        library = library_text()
        from workflow.look.files_to_look_at import file_titles, find_files, run_titles, spools
        from workflow.look.look_page import make_look_page, summary, thinned_lines
        from workflow.look.read_numbers import read_files

    with ExitStack() as stack:
        runs = [find_files(path, Path(stack.enter_context(tempfile.TemporaryDirectory()))) for path in given]
        notes = [note for run in runs for note in run.notes]
        files, left_out = read_files([run.files for run in runs], limit)
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [str(path) for path in given]
    target = page or _usual_page([run.name for run in runs])
    if page is None or page.suffix.lower() not in (".html", ".htm"):
        _spare(target)  # a page that the user has named is replaced, whoever wrote it
    notes += left_out
    titles = {name: title for run in reversed(runs) for name, title in file_titles(run.plan).items()}
    kept = {name for run in runs for name in spools(run.plan)}
    files = [replace(file, title=titles.get(file.name, ""), is_spool=file.name in kept) for file in files]
    _write(target, make_look_page(run_titles(names, [run.plan for run in runs]), names, files, notes, library))
    return WrittenPage(target, summary(files), thinned_lines(files), notes)


def write_steps(
    title: str, name: str, files: Sequence[FileView], notes: Sequence[str], page: Path | None = None
) -> WrittenPage:
    """Write the page of steps that have been read already: see `write_look`. RunError also where there are none."""
    from workflow.look.files_to_look_at import RunTitles
    from workflow.look.look_page import make_look_page, summary, thinned_lines

    if not files:
        raise RunError(f"{name} has written no step that can be drawn", "what it did: wf report")
    target = page or _usual_page([name])
    if page is None or page.suffix.lower() not in (".html", ".htm"):
        _spare(target)
    _write(target, make_look_page(RunTitles(title, [name]), [name], files, notes, library_text()))
    return WrittenPage(target, summary(files), thinned_lines(files), list(notes))


def library_text() -> str:
    """Plotly's JavaScript, from its Python package."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _usual_page(names: Sequence[str]) -> Path:
    """NAME.html in the current directory."""
    return Path(f"{'-and-'.join(map(_without_suffix, names))}.html")


def _spare(page: Path) -> None:
    """Raises RunError where this is a file of somebody else. A device, and an empty file, are nobody's."""
    try:
        if page.is_file() and page.stat().st_size:
            with page.open("rb") as file:
                if _MARK.encode() not in file.read(2000):
                    raise RunError(f"{page} exists, and is no page of wf look", _ANOTHER_FILE)
    except OSError as error:
        raise RunError(f"cannot write {page}: {error.strerror}", _ANOTHER_FILE) from error


def _without_suffix(name: str) -> str:
    return Path(name).stem if Path(name).suffix in (*BP_SUFFIXES, *HDF5_SUFFIXES) else name


def _write(page: Path, text: str) -> None:
    try:
        replace_file(page, text.encode())
    except OSError as error:
        raise RunError(f"cannot write {page}: {error.strerror}", _ANOTHER_FILE) from error
