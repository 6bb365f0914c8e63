"""Opening the streams of this stage, by the name of a port or by a path."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Mapping
from typing import Any

from workflow.formats.sides import Side
from workflow.formats.stage_file import StreamEnd
from workflow.stage import settings
from workflow.stage.adios.open_engine import bindings, is_parallel, wait_for_writer
from workflow.stage.adios.read_engine import AdiosSource, Source
from workflow.stage.adios.serial_gather import GatheredSource, GatheredTarget, together
from workflow.stage.adios.write_engine import AdiosTarget, Target
from workflow.stage.api.reader import Reader
from workflow.stage.api.writer import Writer
from workflow.stage.hdf5 import Hdf5Source, Hdf5Target
from workflow.stage.ranks.communicator import end_the_others, rank, size, speak_plainly
from workflow.stage.ssc.ssc_reader import SscSource
from workflow.stage.ssc.ssc_writer import SscTarget
from workflow.stage.stage_errors import StageError, left_by
from workflow.stage.telemetry import process_metrics

_open: weakref.WeakSet[Reader | Writer] = weakref.WeakSet()
# Opened before the program asked for it; None: the program has it, or had it.
_ahead: dict[tuple[str, Side], Reader | Writer | None] = {}
_started = False


def open_reader(
    name: str | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    parameters: Mapping[str, str] | None = None,
    open_timeout_s: float | None = None,
    step_timeout_s: float | None = None,
) -> Reader:
    """Open the stream at port `name` for reading; or, with `path`, any file or stream.

    In a run SST and SSC streams are opened in the pipeline's order, whichever the program asks for first: else stages
    with several streams could wait for each other for ever.
    The engine of a path follows from its suffix (.bp, .h5, otherwise SST) unless given. A file given by path is
    not waited for: it must be there, and one that its writer never closed raises StreamFailed after its last whole
    step, unless timeouts are given.
    Collective over the ranks. Raises StreamTimeout when no writer comes within `open_timeout_s`,
    StreamFailed when it vanished, StageError when there is no such port.
    """
    end = _end("read", name, path, engine, parameters, open_timeout_s=open_timeout_s, step_timeout_s=step_timeout_s)
    opened = _in_order(end)
    assert isinstance(opened, Reader)
    return opened


def _in_order(end: StreamEnd) -> Reader | Writer:
    """The end, opened after those that every stage opens before it.

    An open of SST or SSC meets the other ends of the stream; a live file can be opened for reading when its first step
    is written. So all stages open their streams from memory to memory in the pipeline's order, then files: none waits
    for one that waits for it.
    """
    planned = settings.current().ends
    if settings.current().by_hand or not any(end is each for each in planned):
        return _open_end(end)
    for each in planned:
        if each is end:
            if _meets(end):
                break
        elif _meets(each) and _key(each) not in _ahead:
            _ahead[_key(each)] = _open_end(each)
    opened = _ahead.get(_key(end)) or _open_end(end)
    _ahead[_key(end)] = None
    return opened


def _meets(end: StreamEnd) -> bool:
    return end.engine.upper() in ("SST", "SSC")


def _key(end: StreamEnd) -> tuple[str, Side]:
    return end.stream, end.side


def _open_end(end: StreamEnd) -> Reader | Writer:
    return _open_read(end) if end.side == "read" else _open_write(end)


def _open_read(end: StreamEnd) -> Reader:
    begin = _begin(end)
    try:
        together(lambda: wait_for_writer(end))
    except StageError as error:
        process_metrics().error(end.stream, error)
        raise
    reader = Reader(end, _open_source(end), settings.current().stage)
    _opened(end, begin, reader)
    return reader


def open_writer(
    name: str | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Writer:
    """Open the stream at port `name` for writing; or, with `path`, any file or stream.

    Where readers are planned, waits until they have come. Collective over the ranks. Raises StageError when there
    is no such port or ADIOS2 cannot open it.
    """
    end = _end("write", name, path, engine, parameters)
    opened = _in_order(end)
    assert isinstance(opened, Writer)
    return opened


def open_writers(name: str | None = None) -> list[Writer]:
    """All streams that are joined to a port which takes several, in the pipeline's order."""
    ends = [end for end in settings.current().ends if end.side == "write" and name in (None, end.port)]
    if len(ends) < 2:
        return [open_writer(name)]
    speak_plainly()
    return [writer for end in ends if isinstance(writer := _in_order(end), Writer)]


def _open_write(end: StreamEnd) -> Writer:
    begin = _begin(end)
    writer = Writer(end, _open_target(end), settings.current().stage)
    _opened(end, begin, writer)
    return writer


def _open_source(end: StreamEnd) -> Source:
    if end.engine.upper() == "HDF5":
        return Hdf5Source(end)
    if end.engine.upper() == "SSC":
        return SscSource(end)
    return AdiosSource(end) if size() == 1 or is_parallel() else GatheredSource(lambda: AdiosSource(end))


def _open_target(end: StreamEnd) -> Target:
    if end.engine.upper() == "SSC":
        return SscTarget(end)
    try:
        return AdiosTarget(end) if size() == 1 or is_parallel() else GatheredTarget(lambda: AdiosTarget(end))
    except StageError:
        # An ADIOS2 without HDF5 refuses at once, and on all ranks.
        if end.engine.upper() != "HDF5":
            raise
    return Hdf5Target(end) if size() == 1 else GatheredTarget(lambda: Hdf5Target(end))


def _end(side: Side, name: str | None, path: Any, engine: str | None, parameters: Any, **timeouts: Any) -> StreamEnd:
    speak_plainly()
    if path is None:
        return settings.find_end(settings.current(), name, side)
    return settings.end_by_path(side, path, engine, name or "", parameters=parameters, **timeouts)


def _begin(end: StreamEnd) -> float:
    """The line that says what is being opened, since that may last; the first time, the one that says what runs."""
    global _started
    if not _started:
        _started = True
        adios2 = bindings()
        ranks, parallel = size(), is_parallel()
        # After the ranks are known: what they register to leave each other must come last, and the order is reversed.
        atexit.register(_at_exit)
        process_metrics().start(
            stage=settings.current().stage, ranks=ranks, adios2=adios2.__version__,
            mpi=bool(adios2.is_built_with_mpi), parallel=parallel,
        )  # fmt: skip
        if ranks > 1 and not parallel and rank() == 0:
            print(
                f"workflow.stage: this ADIOS2 is built without MPI: rank 0 reads and writes for {ranks} ranks",
                file=sys.stderr,
            )
    process_metrics().opening(end.stream, end.side)
    return process_metrics().enter()


def _opened(end: StreamEnd, begin: float, opened: Reader | Writer) -> None:
    _open.add(opened)
    seconds = process_metrics().leave() - begin
    process_metrics().write("open", stream=end.stream, side=end.side, engine=end.engine, seconds=round(seconds, 6))


def _at_exit() -> None:
    """Close what the program left open: properly, unless an exception ends it."""
    error = left_by(getattr(sys, "last_value", None))
    metrics = process_metrics()
    metrics.enter()
    end_the_others()
    # In the same order on all ranks, for closing is collective.
    for left in sorted(_open, key=lambda each: each.name):
        left.close(error)
    metrics.finish()
