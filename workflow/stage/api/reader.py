"""The reading end of a stream: a loop over steps that ends at the end of the stream, and raises otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from workflow.formats.stage_file import StreamEnd
from workflow.stage.adios.open_engine import plain
from workflow.stage.adios.read_engine import Source, Status
from workflow.stage.api.step import Step
from workflow.stage.data.contract_check import check_contract
from workflow.stage.data.sample_check import NAME as SAMPLES
from workflow.stage.data.sample_check import BoundBroken, Comparer
from workflow.stage.data.variables import Selection
from workflow.stage.ranks.communicator import leave_stream, own_communicator
from workflow.stage.stage_errors import StageError, StreamFailed, StreamTimeout, left_by
from workflow.stage.telemetry import process_metrics


class Reader:
    """Iterate over it to get the steps; use it in a `with` statement so that errors are accounted for.

    The loop ends when the writer has closed the stream. It raises StreamTimeout when no step comes in
    time, StreamFailed when the writer died, ContractError when the first step is not as agreed.
    """

    def __init__(self, end: StreamEnd, source: Source, stage: str) -> None:
        self.name = end.stream
        self.steps = 0
        self._end, self._source, self._stage = end, source, stage
        self._step: Step | None = None
        self._closed = self._ended = False
        self._metrics = process_metrics()
        self._wait_s = self._io_s = 0.0
        self._comparer: Comparer | None = None
        self._has_samples = False  # then every step of the stream has some
        self._sampled = False  # whether those of this step have been fetched

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        if self._closed:
            raise StopIteration
        self.give_back()
        status = self._wait()
        if status is Status.ENDED:
            self._ended = True
            self.close()
            raise StopIteration
        if status is not Status.READY:
            raise self._failed(status)
        self._step = Step(self, self._source, self.steps)
        if self.steps == 0:
            self._has_samples = self._source.info(SAMPLES) is not None
            if self._end.variables:
                self._check()
        return self._step

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(left_by(error))
        leave_stream(error)

    def close(self, error: str = "") -> None:
        """Let the stream go, in the middle or at its end; `error` marks it as left incomplete. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._step is not None and not error:
            self._finish_step()
        self._metrics.enter()
        nbytes = None
        if error:
            self._source.abandon()
        else:
            nbytes = self._source.bytes_of_all()
            self._source.close()
        self._metrics.leave()
        if not error:
            self._tell_accuracy()
        self._metrics.close(self.name, "read", steps=self.steps, error=error, nbytes=nbytes, ended=self._ended)

    def give_back(self) -> None:
        """Be done with the step that the loop is at: its writer need not keep it until the next one is asked for."""
        if self._step is not None:
            self._finish_step()

    @property
    def end(self) -> StreamEnd:
        """How this end was opened."""
        return self._end

    def fetch(self, wanted: list[Any]) -> list[Any]:
        """What `Step` reads through: the time is I/O, and a writer that dies meanwhile is a StreamFailed."""
        begin = self._metrics.enter()
        try:
            found = self._source.get(wanted)
            self._compare(wanted, found)
            return found
        except (RuntimeError, ValueError) as error:
            if isinstance(error, StageError):
                raise
            raise self._record(
                StreamFailed(f"stream {self.name}: step {self.steps} broke off: {plain(error)}")
            ) from error
        finally:
            self._io_s += self._metrics.leave() - begin

    def _wait(self) -> Status:
        begin = self._metrics.enter()
        try:
            return self._source.begin(self._end.step_timeout_s)
        except RuntimeError as error:
            raise self._record(StreamFailed(f"stream {self.name}: {plain(error)}")) from error
        finally:
            self._wait_s = self._metrics.leave() - begin

    def _finish_step(self) -> None:
        step, self._step = self._step, None
        assert step is not None
        step.finish()
        begin = self._metrics.enter()
        self._check_bounds()
        nbytes = self._source.end()
        io_s = self._io_s + self._metrics.leave() - begin
        self._metrics.step(self.name, "read", nbytes, self._wait_s, io_s)
        self.steps, self._io_s = self.steps + 1, 0.0

    def _compare(self, wanted: list[Selection], found: list[Any]) -> None:
        """What was read with the samples that the writer took of it, where it took some."""
        if not self._has_samples:
            return
        self._comparer = self._comparer or Comparer(own_communicator())
        if not self._sampled:
            self._comparer.begin(str(self._source.get([Selection(SAMPLES, (), ())])[0]))
            self._sampled = True
        infos = {box.name: self._source.info(box.name) for box in wanted}
        self._comparer.compare(wanted, found, {name: info.shape for name, info in infos.items() if info is not None})

    def _check_bounds(self) -> None:
        """At the end of a step, on all ranks: did more change on the way than the pipeline allows?"""
        if not self._has_samples:
            return
        self._sampled = False
        self._comparer = self._comparer or Comparer(own_communicator())
        for name in self._comparer.end():
            each = self._comparer.total[name]
            self._tell_accuracy()
            raise self._record(
                BoundBroken(
                    f"stream {self.name}: step {self.steps} of {name} arrived with an error of {each.largest:.3g}, "
                    f"{each.operator} was to keep it within {each.bound:g}; "
                    + ("raise `bound`, or lower `accuracy`" if each.bound else "compare with another operator")
                )
            )

    def _tell_accuracy(self) -> None:
        """A line for each compressed variable."""
        for name, each in (self._comparer.total if self._comparer else {}).items():
            self._metrics.write(
                "accuracy", stream=self.name, side="read", variable=name, operator=each.operator, bound=each.bound,
                largest=each.largest, compared=each.compared, steps=each.steps,
            )  # fmt: skip

    def _check(self) -> None:
        try:
            check_contract(self._end, self._stage, self._source.variables())
        except StageError as error:
            raise self._record(error) from None

    def _failed(self, status: Status) -> StageError:
        seen = f"after {self.steps} steps" if self.steps else "before the first step"
        limit = self._end.step_timeout_s
        if status is Status.FAILED:
            text = f"its writer died, or left without closing it, {seen}"
            return self._record(StreamFailed(f"stream {self.name}: {text}"))
        if limit == 0:
            text = f"{self._end.path} was never closed, its writer died or still runs: it breaks off {seen}"
            return self._record(StreamFailed(f"stream {self.name}: {text}; to wait for more, give a step_timeout_s"))
        return self._record(StreamTimeout(f"stream {self.name}: no new step within {limit:g} s, {seen}"))

    def _record(self, error: StageError) -> StageError:
        self._metrics.error(self.name, error)
        return error
