"""Opening the streams of this stage, by port or by path; closing at exit what the program left open."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from workflow.engines import KEPT_ENGINE, engine_of_data, traits_of
from workflow.formats.event_names import EVENTS_FILE
from workflow.formats.kept_state import ORDER_FILE
from workflow.formats.sides import Side
from workflow.formats.stage_file import StreamEnd
from workflow.formats.stage_waits import OPEN_TIMEOUT_S
from workflow.formats.step_files import is_numbered
from workflow.stage import settings
from workflow.stage.adios.open_engine import bindings, is_parallel
from workflow.stage.adios.read_engine import AdiosReadEngine, read_whole
from workflow.stage.adios.serial_gather import GatheredReadEngine, GatheredWriteEngine, together
from workflow.stage.adios.write_engine import AdiosWriteEngine
from workflow.stage.api.members import Members, Order
from workflow.stage.api.opened_ends import end_key, opened_ends
from workflow.stage.api.reader import Reader
from workflow.stage.api.writer import Writer
from workflow.stage.joined_engine import JoinedReadEngine
from workflow.stage.openpmd_iterations import IterationReadEngine
from workflow.stage.ranks import rank, size
from workflow.stage.stage_errors import StageError, exit_reason
from workflow.stage.stream_engines import ReadEngine, WriteEngine
from workflow.stage.telemetry import process_metrics
from workflow.stage.timeouts import wait_for_writer
from workflow.stage.uncaught_errors import abort_if_noted, print_plain_errors

_open: weakref.WeakSet[Reader | Writer] = weakref.WeakSet()
# Streams that were opened before the program asked for them; None: the program has asked.
_ahead: dict[tuple[str, Side], Reader | Writer | None] = {}
_started = _told = False


def open_reader(
    name: str | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    parameters: Mapping[str, str] | None = None,
    open_timeout_s: float | None = None,
    step_timeout_s: float | None = None,
    iterations: bool = False,
    may_lack: Iterable[str] = (),
) -> Reader:
    """Open the stream at port `name` for reading; or, with `path`, any file or stream. Collective over the ranks.

    `name` is that of a port or of a stream; it may be left out where the stage reads one stream. The other arguments
    apply to a `path` only: its engine follows from the suffix (.bp: BP5, .h5: HDF5, otherwise SST) unless `engine`
    names it; `parameters` are the engine's, as ADIOS2 documents them; `open_timeout_s` and `step_timeout_s` are how
    long to wait for the writer and for each step, in seconds: by default 120 and 600 for a stream, 0 for a file. So a
    file must exist, and one that its writer never closed raises StreamFailed after its last complete step.

    `iterations`: each iteration of a group-based openPMD file is a step, `/data/10/meshes/E/x` the variable
    `/data/meshes/E/x` of the step whose attribute `/data/snapshot` is 10; of HDF5 that is always so.

    `may_lack`: variables that a step may lack, because they come late or are not written in every step; ask for them by
    `name in step`. One of them that the first step lacks, and in which a word looks misspelt, raises ContractError
    there; a note names the others, with the most similar name that there is. ContractError is raised at the end of the
    stream where one has come in no step, and no attribute is of it.

    In a run streams in memory are opened in the pipeline's order, whichever the program asks for first: otherwise
    stages with several streams could wait for each other without limit.

    Raises StreamTimeout when no writer opens the stream within `open_timeout_s`, StreamFailed when the writer has died
    or the file does not exist, StageError when there is no such port or ADIOS2 cannot open the stream, or for
    `iterations` without a `path`.
    """
    end = _end("read", name, path, engine, parameters, open_timeout_s=open_timeout_s, step_timeout_s=step_timeout_s)
    if iterations and path is None:
        text = "`iterations` is for a file by its `path`; the streams of a run have the steps that were written"
        raise StageError(f"stream {end.stream}: {text}")
    opened = _open_read(end, _open_iterations) if iterations and not end.traits.in_memory else _in_order(end)
    assert isinstance(opened, Reader)
    opened.may_lack(may_lack)
    return opened


def _in_order(end: StreamEnd) -> Reader | Writer:
    """Open a stream end, after the ends that must be opened before it.

    Opening SST or SHM waits for the other end of the stream; a live file can be opened for reading once its first
    step is written. So every stage opens these streams in the pipeline's order, and files after them: no two
    stages wait for each other.
    """
    planned = settings.current().ends
    if settings.current().by_hand or not any(end is each for each in planned):
        return _open_end(end)
    for each in planned:
        if each is end:
            if _waits_for_other_end(end):
                break
        elif _waits_for_other_end(each) and end_key(each) not in _ahead:
            _ahead[end_key(each)] = _open_end(each)
    opened = _ahead.get(end_key(end)) or _open_end(end)
    _ahead[end_key(end)] = None
    return opened


def _waits_for_other_end(end: StreamEnd) -> bool:
    return end.traits.in_memory


def _open_end(end: StreamEnd) -> Reader | Writer:
    return _open_read(end) if end.side == "read" else _open_write(end)


def _open_read(end: StreamEnd, open_engine: Callable[[StreamEnd], ReadEngine] | None = None) -> Reader:
    begin = _begin(end)
    with _noting_errors(end):
        together(lambda: wait_for_writer(end))
    reader = Reader(end, (open_engine or _open_read_engine)(end), settings.current().stage, _check_skip)
    _opened(end, begin, reader)
    return reader


@contextmanager
def _noting_errors(end: StreamEnd) -> Iterator[None]:
    """While the other end is awaited: the supervisor learns from the metrics why it did not come."""
    try:
        yield
    except StageError as error:
        process_metrics().error(end.stream, error)
        raise


def follow(
    path: str | os.PathLike[str],
    events: str | os.PathLike[str],
    stream: str,
    *,
    first: int | None = None,
    before: int = 0,
    behind_s: float | None = None,
    open_timeout_s: float | None = None,
    step_timeout_s: float | None = None,
    iterations: bool = False,
) -> Reader:
    """Read the steps of a stream that a running run keeps in a file. On one rank.

    The run is not changed by it. The loop ends when the stream or the run has ended, and raises StreamFailed when the
    supervisor of the run has died. Steps that the run has removed are left out; reading one that it removes at that
    moment raises StepRemoved. Of attributes that were set before the first step those of step 0 are known.

    Args:
        path: the BP file of the stream or of its spool; its first step is awaited for `open_timeout_s` seconds (120).
        events: `events.jsonl` in the directory of the run.
        stream: its name in the run.
        first: the number of the first step; by default the newest one that is there.
        before: how many steps of the stream come before the first one in the file.
        behind_s: after so many seconds without having read the newest step the loop goes on with the newest one, and
            leaves out those before it. By default it reads all, however late.
        step_timeout_s: how long to wait for each step; by default as long as the run goes on.
        iterations: see `open_reader`; for a stream with one iteration in a step.

    Raises what `open_reader` raises, and StageError where there are several ranks.
    """
    # Only programs that follow a run pay for these imports.
    from workflow.stage.adios.followed_engine import FollowedReadEngine, FollowedRun, await_file

    if size() > 1:
        raise StageError(f"stream {stream}: a run is followed by one rank, not by {size()}")
    given = {"open_timeout_s": OPEN_TIMEOUT_S if open_timeout_s is None else open_timeout_s, "before": before}
    end = replace(_end("read", None, path, KEPT_ENGINE, None, **given), stream=stream, step_timeout_s=step_timeout_s)
    begin, run = _begin(end), FollowedRun(Path(events), stream)
    with _noting_errors(end):
        newest = await_file(end, run)
    end = replace(end, first_step=max(before, run.kept_from, newest if first is None else first))
    engine = FollowedReadEngine(end, run, behind_s)
    read: ReadEngine = IterationReadEngine(engine) if iterations else engine
    reader = Reader(end, read, settings.current().stage, is_left_out=engine.is_left_out)
    _opened(end, begin, reader)
    return reader


def open_members(name: str | None = None) -> Members:
    """The streams of the members of an ensemble at the port `name`, or all that this stage reads. On one rank.

    Each is opened when its first step is there. The order in which their steps come is recorded, and is the same in
    another attempt of the stage, or part of the run. Raises StageError where there are several ranks, or where the
    order of steps that others have read is not known.
    """
    current = settings.current()
    if size() > 1:
        raise StageError(f"the streams of members are read by one rank, not by {size()}")
    ends = [end for end in current.ends if end.side == "read" and name in (None, end.port)]
    path = None if current.by_hand else Path(current.run_dir) / "stages" / current.stage / ORDER_FILE
    written = [end for end in current.ends if end.side == "write"]
    begin, sent = (max(numbers, default=0) for numbers in (
        [end.first_step - end.repeated for end in written], [end.first_step for end in written],
    ))  # fmt: skip
    order = Order(path, begin)
    if order.known < sent:
        text = f"{sent} steps were sent, and the order of {order.known} is known ({ORDER_FILE}): start the run anew"
        raise StageError(f"stage {current.stage}: {text}")
    return Members(ends, Path(current.run_dir) / EVENTS_FILE, lambda end: open_reader(end.stream), order)


def open_writer(
    name: str | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Writer:
    """Open the stream at port `name` for writing; or, with `path`, any file or stream. Collective over the ranks.

    `name` is that of a port or of a stream; it may be left out where the stage writes one stream. The other arguments
    apply to a `path` only: its engine follows from the suffix (.bp: BP5, .h5: HDF5, otherwise SST) unless `engine`
    names it; `parameters` are the engine's, as ADIOS2 documents them. In a run a stream with live readers waits here
    until they have opened it.

    Raises StageError when there is no such port or ADIOS2 cannot open the stream.
    """
    end = _end("write", name, path, engine, parameters)
    opened = _in_order(end)
    assert isinstance(opened, Writer)
    return opened


def open_writers(name: str | None = None) -> list[Writer]:
    """Open all streams that the port `name` writes, in the pipeline's order: for ports that may have several.

    Without `name`: all streams that this stage writes. Raises what `open_writer` raises.
    """
    ends = [end for end in settings.current().ends if end.side == "write" and name in (None, end.port)]
    if len(ends) < 2:
        return [open_writer(name)]
    print_plain_errors()
    return [writer for end in ends if isinstance(writer := _in_order(end), Writer)]


def _open_write(end: StreamEnd) -> Writer:
    begin = _begin(end)
    writer = Writer(end, _open_write_engine(end), settings.current().stage)
    _opened(end, begin, writer)
    return writer


def _check_skip(step: int) -> None:
    """Raise StageError where a step that is to be skipped is in an output: what is written next would be taken for what
    is there, and be suppressed."""
    for opened in opened_ends.values():
        if isinstance(opened, Writer) and opened.is_suppressing:
            raise StageError(f"step {step} cannot be skipped: stream {opened.name} has its output already")


def _open_read_engine(end: StreamEnd) -> ReadEngine:
    if end.earlier and end.first_step < end.before:
        earlier = replace(end, path=end.earlier, before=0, earlier="")
        return JoinedReadEngine(_open_one(earlier), _open_one(end))
    return _open_one(end)


def _open_one(end: StreamEnd) -> ReadEngine:
    # Only programs that use these engines pay for their imports.
    if end.traits.library == "h5py":
        from workflow.stage.hdf5 import Hdf5ReadEngine

        return Hdf5ReadEngine(end)
    if end.traits.library == "own":
        from workflow.stage.shared_memory.shared_reader import SharedMemoryReadEngine

        return SharedMemoryReadEngine(end)
    return AdiosReadEngine(end) if size() == 1 or is_parallel() else GatheredReadEngine(lambda: AdiosReadEngine(end))


def _open_iterations(end: StreamEnd) -> ReadEngine:
    if end.traits.library != "adios2" or is_numbered(end.path):
        return _open_one(end)
    keeps_last = traits_of(engine_of_data(Path(end.path))).attributes_at_end

    def open_it() -> ReadEngine:
        return IterationReadEngine(AdiosReadEngine(end), lambda: read_whole(end), keeps_last=keeps_last)

    return open_it() if size() == 1 or is_parallel() else GatheredReadEngine(open_it)


def _open_write_engine(end: StreamEnd) -> WriteEngine:
    if end.traits.library == "own":
        from workflow.stage.shared_memory.shared_writer import SharedMemoryWriteEngine

        return SharedMemoryWriteEngine(end)
    try:
        alone = size() == 1 or is_parallel()
        return AdiosWriteEngine(end) if alone else GatheredWriteEngine(lambda: AdiosWriteEngine(end))
    except StageError:
        # An ADIOS2 built without HDF5 refuses at once, and on all ranks.
        if end.traits.library != "h5py":
            raise
    from workflow.stage.hdf5 import Hdf5WriteEngine

    return Hdf5WriteEngine(end) if size() == 1 else GatheredWriteEngine(lambda: Hdf5WriteEngine(end))


def _end(side: Side, name: str | None, path: Any, engine: str | None, parameters: Any, **timeouts: Any) -> StreamEnd:
    print_plain_errors()
    if path is None:
        return settings.find_end(settings.current(), name, side)
    return settings.end_by_path(side, path, engine, name or "", parameters=parameters, **timeouts)


def _begin(end: StreamEnd) -> float:
    """Write the metrics line of a stream that is being opened, and at the first stream the line of the program."""
    global _started, _told
    if not _started:
        _started = True
        adios2 = bindings()
        ranks, parallel = size(), is_parallel()
        # After size(): exit functions run in reverse order, and those of the communicator must run last.
        atexit.register(_at_exit)
        process_metrics().start(
            stage=settings.current().stage, ranks=ranks, adios2=adios2.__version__,
            mpi=bool(adios2.is_built_with_mpi), parallel=parallel,
        )  # fmt: skip
    if not _told and end.traits.library != "own" and size() > 1 and not is_parallel():
        _told = True
        if rank() == 0:
            text = f"this ADIOS2 is built without MPI, so rank 0 reads and writes for all {size()} ranks"
            print(f"note: {text}", file=sys.stderr)
    process_metrics().opening(end.stream, end.side, waits=end.traits.in_memory)
    return process_metrics().enter()


def _opened(end: StreamEnd, begin: float, opened: Reader | Writer) -> None:
    _open.add(opened)
    if any(end is each for each in settings.current().ends):
        opened_ends[end_key(end)] = opened
    seconds = process_metrics().leave() - begin
    process_metrics().write("open", stream=end.stream, side=end.side, engine=end.engine, seconds=round(seconds, 6))
    process_metrics().returns(end.stream, end.side)


def _at_exit() -> None:
    """Close the streams that the program left open: with an end, unless an exception ends the program."""
    error = exit_reason(getattr(sys, "last_value", None))
    metrics = process_metrics()
    metrics.enter()
    abort_if_noted()
    # In the same order on all ranks, because closing is collective.
    for left in sorted(_open, key=lambda each: each.name):
        left.close(error)
    metrics.finish()
