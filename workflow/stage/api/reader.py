"""The reading end of a stream: a loop over steps that ends when the writer has closed the stream, and else raises."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from workflow.formats.stage_file import StreamEnd
from workflow.stage.adios.open_engine import adios_message
from workflow.stage.api.notes import note
from workflow.stage.api.step import Step
from workflow.stage.api.stopping import end_if_requested
from workflow.stage.api.window import Wanted, Window, Windows
from workflow.stage.rank_times import rank_times
from workflow.stage.ranks import own_communicator, rank
from workflow.stage.stage_errors import BoundExceeded, ContractError, StageError, StreamFailed, UnevenSteps, exit_reason
from workflow.stage.stream_engines import ReadEngine, SharesMemory, StepStatus
from workflow.stage.telemetry import process_metrics
from workflow.stage.timeouts import no_step_error
from workflow.stage.uncaught_errors import leave_together, note_early_exit
from workflow.stage.variables import NUMPY_TYPES, SAMPLES, Array, Selection, check_contract, is_typo, near

if TYPE_CHECKING:
    import xarray

    from workflow.stage.compressed_variables import Comparer
    from workflow.stage.devices.staging import Staging


# A wait that lasts longer is reported while it lasts.
_UNREPORTED_S = 1.0
_COPIED = {*NUMPY_TYPES.values()} - {"string"}


class Reader:
    """Iterate over it to get the steps of a stream. Use it in a `with` statement, so that errors are recorded.

    `name`: of the stream; `steps`: how many steps are finished so far, those of earlier attempts of the stage included;
    `before`: how many of them are not in this run directory, because the run goes on with an earlier one; `skipped`:
    the steps that the loop leaves out, because the stage has failed twice at each (`same_step: skip`): they are counted
    in `steps`. Iterate on all ranks.

    The loop ends when the writer has closed the stream. It raises StreamTimeout when no step comes within
    `step_timeout_s`, StreamFailed when the writer dies or exits without closing the stream, ContractError when the
    first step does not have the variables that the pipeline declares, BoundExceeded when a compressed variable arrived
    with a larger error than its `bound`.
    """

    def __init__(
        self,
        end: StreamEnd,
        engine: ReadEngine,
        stage: str,
        may_skip: Callable[[int], None] | None = None,
        is_left_out: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.name = end.stream
        self.steps, self.before, self.skipped = end.first_step, end.part_step, tuple(end.skipped)
        self._may_skip, self._is_left_out, self._checked = may_skip, is_left_out, False
        self._end, self._engine, self._stage = end, engine, stage
        self._step: Step | None = None
        self._closed = self._ended = False
        self._metrics = process_metrics()
        self._wait_s = self._io_s = self._device_s = 0.0
        self._stagings: list[Staging] = []  # one for each device that something was read to
        self._comparer: Comparer | None = None  # if the stream has samples: then every step has some
        self._sampled = False  # whether the samples of this step have been fetched
        self._in_memory = end.traits.in_memory
        self._awaited: set[str] = set()  # that a step may lack, and none has had so far; of these
        self._must_come: set[str] = set()  # those of which nothing is known, since the first step
        self._there: list[str] = []  # variables of the first step

    def may_lack(self, names: Iterable[str]) -> None:
        """Steps may lack these variables: see `open_reader`. Call it before the first step."""
        self._awaited = {*names} - {""}

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        step = self._take(math.inf if self._end.step_timeout_s is None else self._end.step_timeout_s)
        if step is None:
            raise self._record(no_step_error(self._end, StepStatus.LATE, self.steps))
        return step

    def poll(self) -> Step | None:
        """The next step if it is there, else None. Raises StopIteration at the end of the stream, else as the loop."""
        return self._take(0.0)

    def _take(self, limit_s: float) -> Step | None:
        """The next step; None where it does not come in this time. Raises StopIteration at the end."""
        if self._closed:
            raise StopIteration
        self.release_step()
        end_if_requested(self)
        status = self._wait(limit_s)
        while status is StepStatus.READY and (self.steps in self.skipped or self._is_left_out(self.steps)):
            self._skip_step()
            status = self._wait(limit_s)
        if status is StepStatus.ENDED:
            self._ended = True
            self.close()
            if self._must_come and not self._end.first_step and self.steps:
                raise self._record(self._never_came())
            raise StopIteration
        if status is StepStatus.LATE:
            return None
        if status is not StepStatus.READY:
            raise self._record(no_step_error(self._end, status, self.steps))
        self._step = Step(self._end, self._engine, self._fetch, self._fetch_to, self.steps)
        if not self._checked:
            self._checked = True
            self._prepare_comparison()
            if self._end.variables or self._awaited:
                self._check()
            if self._end.traits.over_network:
                self._note_lost_texts()
        elif self._awaited:
            self._check_awaited()
        return self._step

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave_together(error, self._end.step_timeout_s)
        self.close(exit_reason(error))
        note_early_exit(error)

    @property
    def steps_begun(self) -> int:
        """How many steps are read, the present one included."""
        return self.steps + (self._step is not None)

    def close(self, error: str = "") -> None:
        """Close the stream, at its end or before; `error` records that it was left incomplete. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._step is not None and not error:
            self._finish_step()
        self._metrics.enter()
        nbytes = ranks = None
        if error:
            self._engine.abandon()
        else:
            nbytes = self._engine.bytes_of_all()
            self._engine.close()
            ranks = rank_times(self.name, "read")
        self._metrics.leave()
        self._stagings.clear()
        if not error:
            self._record_accuracy()
        steps = self.steps - self._end.first_step
        self._metrics.close(self.name, "read", steps=steps, error=error, nbytes=nbytes, ranks=ranks, ended=self._ended)

    def release_step(self) -> None:
        """End the current step now, so that the writer need not keep it until the next step is requested."""
        if self._step is not None:
            self._finish_step()

    def window(self, length: int, wanted: Wanted) -> Iterator[Window]:
        """Iterate over the last `length` steps as one array, each time a step has come. Iterate on all ranks.

        >>> for window in field.window(5, "V"):
        ...     with out.step():
        ...         out.write("mean", window.read("V").mean(axis=0))

        `wanted`: a name, or names; or name → (start, count), a function of the variable's shape that returns these, or
        None for the whole variable. At the beginning of the stream the windows are shorter. A variable is read and
        kept once in each step.

        A second attempt of the stage goes on with the windows of an undisturbed run. What is kept is saved by the
        `State` of the program, where it has created one before the loop, or else by itself.

        Raises what the loop over the steps and `Step.read` raise; ValueError for no variable or no step, StageError
        when a variable changes its shape, or is text.
        """
        return Windows(self, length, wanted)

    def to_xarray(self, wanted: str | Iterable[str], steps: int | None = None) -> xarray.Dataset:
        """Read variables of the next `steps` steps, by default of all that come, as a dataset of xarray.

        Its first axis is `step`, with the numbers of the steps; the others are those of `Step.axes`. Units and labels
        are attributes. All is read into memory: `dataset.chunk(step=1)` makes Dask arrays of it, where Dask is
        installed. For notebooks, on one rank.

        >>> stage.open_reader(path="runs/latest/pdf.bp").to_xarray(["pdf", "mean"])["mean"].plot()

        Raises StageError when xarray is not installed, the stream has no step, or a variable changes its shape;
        ValueError for less than one step.
        """
        from workflow.stage.api.labelled_arrays import read_dataset  # only programs that use xarray pay for it

        return read_dataset(self, self.name, [wanted] if isinstance(wanted, str) else wanted, steps)

    def _fetch(self, wanted: list[Selection]) -> list[Array]:
        """What `Step` reads through: counts the time as I/O, and raises StreamFailed when the writer dies."""
        begin = self._metrics.enter()
        try:
            found = self._engine.get(wanted)
            self._compare(wanted, found)
            return found
        except (RuntimeError, ValueError) as error:
            if type(error) is StageError:  # what the engine cannot read
                raise ContractError(f"stream {self.name}: step {self.steps}: {error}") from None
            if isinstance(error, StageError):
                raise
            failed = f"stream {self.name}: step {self.steps} could not be read completely: {adios_message(error)}"
            raise self._record(StreamFailed(failed)) from error
        finally:
            self._io_s += self._metrics.leave() - begin

    def _fetch_to(self, wanted: list[Selection], device: Any) -> list[Any]:
        """The same to a device: while one array is copied, the next one is read. See `_on_host`."""
        staging = self._staging(device)
        found: list[Any] = []
        try:
            for box in wanted:
                info = self._engine.info(box.name)
                if info is None or info.type not in _COPIED:
                    what = "text" if info is not None and info.type == "string" else "of no type that NumPy has"
                    raise StageError(f"stream {self.name}: {box.name} is {what}: it cannot be copied to a device")
                values = self._on_host(box, info.type, staging)
                if not found:
                    staging.device.synchronize_before_copy()
                with self._copying():
                    try:
                        found.append(staging.copy_to_device(values))
                    except TypeError as error:
                        text = f"{staging.device.name} cannot have {box.name}: {error}"
                        raise StageError(
                            f"stream {self.name}: {text}; read it without `device`, and convert it"
                        ) from error
        finally:
            with self._copying():
                staging.synchronize()
        return found

    def _on_host(self, box: Selection, kind: str, staging: Staging) -> Array:
        """A box where a device can copy it from: in memory that the writer shares, or in a buffer of pinned memory."""
        segment = self._engine.segment_of(box) if isinstance(self._engine, SharesMemory) else None
        if segment is not None:
            values = self._fetch([box._replace(shared=True)])[0]
            with self._copying():
                segment.will_copy(values.nbytes, staging.device.pin)
            return values
        with self._copying():
            room = staging.room(box.extent, kind)
        values = self._fetch([box._replace(into=room)])[0]
        if values is not room:  # of an engine that cannot read into memory of others
            with self._copying():
                np.copyto(room, values)
        return room

    def _staging(self, device: Any) -> Staging:
        from workflow.stage.devices.find_device import find_device  # only programs that use a device pay for these
        from workflow.stage.devices.staging import staging_of

        try:
            return staging_of(find_device(device), self._stagings)
        except StageError as error:
            raise StageError(f"stream {self.name}: {error}") from error

    @contextmanager
    def _copying(self) -> Iterator[None]:
        """What happens inside copies to a device, and its time is counted as that."""
        begin = self._metrics.enter()
        try:
            yield
        finally:
            self._device_s += self._metrics.leave() - begin

    def _wait(self, limit_s: float) -> StepStatus:
        begin = self._metrics.enter()
        try:
            if not self._in_memory or limit_s <= _UNREPORTED_S:
                return self._engine.begin(limit_s)
            status = self._engine.begin(_UNREPORTED_S)
            if status is StepStatus.LATE:
                self._metrics.blocks(self.name, "read")
                status = self._engine.begin(limit_s - _UNREPORTED_S)
                self._metrics.returns(self.name, "read")
            return status
        except RuntimeError as error:
            raise self._record(StreamFailed(f"stream {self.name}: {adios_message(error)}")) from error
        finally:
            self._wait_s = self._metrics.leave() - begin

    def _finish_step(self) -> None:
        step, self._step = self._step, None
        assert step is not None
        step.finish()
        begin = self._metrics.enter()
        self._check_bounds()
        nbytes = self._engine.end()
        io_s = self._io_s + self._metrics.leave() - begin
        self._metrics.step(self.name, "read", nbytes, self._wait_s, io_s, self._device_s)
        self.steps, self._io_s, self._device_s = self.steps + 1, 0.0, 0.0

    def _skip_step(self) -> None:
        """Read over a step that is to be left out."""
        if self.steps == self._end.skips_now and self._may_skip is not None:
            try:
                self._may_skip(self.steps)
            except StageError as error:
                raise self._record(error) from None
        begin = self._metrics.enter()
        nbytes = self._engine.end()
        self._metrics.step(self.name, "read", nbytes, self._wait_s, self._metrics.leave() - begin)
        self.steps += 1

    def _prepare_comparison(self) -> None:
        if self._engine.info(SAMPLES) is not None:
            from workflow.stage.compressed_variables import Comparer  # only readers of compressed streams pay for it

            self._comparer = Comparer(own_communicator())

    def _compare(self, wanted: list[Selection], found: list[Any]) -> None:
        """Compare what was read with the writer's samples of it, if there are any."""
        if self._comparer is None:
            return
        if not self._sampled:
            self._comparer.begin(str(self._engine.get([Selection(SAMPLES, (), ())])[0]))
            self._sampled = True
        infos = {box.name: self._engine.info(box.name) for box in wanted}
        self._comparer.compare(wanted, found, {name: info.shape for name, info in infos.items() if info is not None})

    def _check_bounds(self) -> None:
        """At the end of a step, on all ranks: raise BoundExceeded if a compressed variable arrived too inaccurate."""
        if self._comparer is None:
            return
        self._sampled = False
        for name in self._comparer.end():
            each = self._comparer.total[name]
            self._record_accuracy()
            raise self._record(
                BoundExceeded(
                    f"stream {self.name}: {name} arrived in step {self.steps} with an error of {each.largest:.3g}; "
                    f"the bound for {each.operator} is {each.bound:g}; "
                    + ("raise `bound`, or lower `accuracy`" if each.bound else "compare with another operator")
                )
            )

    def _record_accuracy(self) -> None:
        """Write one metrics line for each compressed variable."""
        for name, each in (self._comparer.total if self._comparer else {}).items():
            self._metrics.write(
                "accuracy", stream=self.name, side="read", variable=name, operator=each.operator, bound=each.bound,
                largest=each.largest, compared=each.compared, steps=each.steps,
            )  # fmt: skip

    def _check(self) -> None:
        found = self._engine.variables()
        missing = {name for name in self._awaited if name not in found}
        try:
            may_come = {name for name in missing if not is_typo(name, found)}
            check_contract(self._end, self._stage, found, self._awaited, may_come)
        except StageError as error:
            raise self._record(error) from None
        self._awaited, self._must_come, self._there = missing, set(), sorted(found)
        if missing:
            text = f"step {self.steps} of {self.name} has no {', '.join(sorted(missing))}: it may still come"
            note(text + near(min(missing), found))
            if rank() == 0:
                print(f"note: {text}{near(min(missing), found)}", file=sys.stderr, flush=True)
            # The attributes of one that is still to come, or of a constant one of openPMD, show that it is meant.
            known = self._engine.attributes()
            self._must_come = {name for name in missing if not any(each.startswith(f"{name}/") for each in known)}

    def _note_lost_texts(self) -> None:
        """Say which attributes SST may have lost. Who has written them is unknown, and `workflow.stage` loses none."""
        found = self._engine.attributes()
        texts = {name: value for name, value in found.items() if isinstance(value, np.ndarray) and not value.ndim}
        empty = sorted(name for name, value in texts.items() if value.dtype.kind == "U" and not value.item())
        if empty:
            some = ", ".join(empty[:3]) + (f" and {len(empty) - 3} others" if len(empty) > 3 else "")
            note(
                f"attributes of {self.name} came as empty text: {some}; if they are lists of texts of a program "
                "without `workflow.stage`, SST (ADIOS2 2.11 and 2.12) has lost them, and `via: bp5` keeps them"
            )

    def _check_awaited(self) -> None:
        """Check those that have come now."""
        come = {name: info for name in self._awaited if (info := self._engine.info(name)) is not None}
        if come:
            self._awaited, self._must_come = self._awaited - come.keys(), self._must_come - come.keys()
            end = replace(self._end, variables={k: v for k, v in self._end.variables.items() if k in come})
            try:
                check_contract(end, self._stage, come)
            except StageError as error:
                raise self._record(error) from None

    def _never_came(self) -> ContractError:
        who = f"stage {self._stage}" if self._stage else "this program"
        names = sorted(self._must_come)
        text = f"no step of {self.steps} had a variable {', '.join(names)}{near(names[0], self._there)}"
        return ContractError(f"stream {self.name} does not contain what {who} needs: {text}")

    def _record(self, error: StageError) -> StageError:
        self._metrics.error(self.name, error)
        return error


# Several streams read in lockstep.


def in_step(*readers: Reader) -> Iterator[tuple[Step, ...]]:
    """Iterate over several readers in lockstep: one tuple per step, with the step of each reader in argument order.

    >>> for atoms, field in stage.in_step(atoms_reader, field_reader):
    ...     here = atoms.read("position"), field.read("V")

    Ends when all streams end. Raises UnevenSteps when one stream ends before the others, and whatever the readers
    raise (see `Reader`).
    """
    while True:
        # Release all steps first: a writer that closes one stream waits until its last step is released, and has not
        # closed the other streams yet.
        for reader in readers:
            reader.release_step()
        steps = [next(reader, None) for reader in readers]
        here = tuple(step for step in steps if step is not None)
        if len(here) < len(readers):
            if here:
                raise _uneven(readers, steps)
            return
        yield here


def _uneven(readers: tuple[Reader, ...], steps: list[Step | None]) -> UnevenSteps:
    ended = next(reader for reader, step in zip(readers, steps, strict=True) if step is None)
    other = next(reader for reader, step in zip(readers, steps, strict=True) if step is not None)
    error = UnevenSteps(
        f"stream {ended.name} ended after {ended.steps} steps, but {other.name}, read in lockstep with it, goes on; "
        "let both writers write the same number of steps"
    )
    process_metrics().error(other.name, error)
    return error
