"""Reading through SSC: what `ssc` says of it holds here too."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from workflow.formats.stage_file import StreamEnd
from workflow.stage import settings
from workflow.stage.adios.read_engine import AdiosSource, Status
from workflow.stage.data.rank_selection import Blocks
from workflow.stage.data.variables import Array, Info, Selection
from workflow.stage.ranks.communicator import own_communicator
from workflow.stage.ranks.mpmd_ranks import Word, readers_of
from workflow.stage.ssc import ssc_multiplexer
from workflow.stage.ssc.ssc_writer import meet


class SscSource(AdiosSource):
    """One engine opened for reading by this process, in a launch line with its writer."""

    def __init__(self, end: StreamEnd) -> None:
        reader = settings.current().stage
        readers_of(end)
        end = replace(end, path=f"{end.path}.{reader}")
        self.partner = meet(end, reader)
        super().__init__(end)
        self._ask(0.0)
        self._engine.EndStep()
        self._held = self._ended = False  # a step that SSC has still open; the writer has closed
        self.left = False  # the program is through with the stream: what comes passes unread
        self._here: Word | None = None  # a step that SSC has begun before the program asked for it
        self._number = ssc_multiplexer.add(self)
        self._values: dict[str, Array] = {}
        self._known: dict[str, Array | list[str]] = {}

    def begin(self, timeout_s: float) -> Status:
        """See `Source`."""
        begin = time.monotonic()
        while self._here is None and not self._ended:
            if not ssc_multiplexer.answer_one(self._number, timeout_s - (time.monotonic() - begin)):
                return Status.LATE
        if self._ended:
            return Status.ENDED
        self._values, word, self._here = {}, self._here, None
        self._take_header(word)
        return Status.READY

    def end(self) -> int | None:
        """See `Source`. SSC's own end waits for the writer's next step, and is left until that comes."""
        self._release()
        return self._tally.end_step()

    def close(self) -> None:
        """See `Source`. SSC has no way out in the middle: what is left of the stream passes unread.

        While this process reads other streams of the launch line as well it does so beside them, at the latest when the
        last is closed: the writer of both may wait until a step of the other is given back.
        """
        self.left = True
        if self._here is not None:
            self._pass()
        if self._ended:
            self.finish()
        ssc_multiplexer.finish_all()

    def abandon(self) -> None:
        """See `Source`. Closing needs the writer: the end of the process, and so of all of the launch, must do."""
        ssc_multiplexer.remove(self._number)

    def variables(self) -> dict[str, Info]:
        """See `Source`."""
        return {**super().variables(), **{name: _info(value) for name, value in self._values.items()}}

    def info(self, name: str) -> Info | None:
        """See `Source`."""
        value = self._values.get(name)
        return super().info(name) if value is None else _info(value)

    def blocks(self, names: Sequence[str]) -> dict[str, Blocks]:
        """See `Source`."""
        alone = {name: Blocks() for name in names if name in self._values}
        return {**alone, **super().blocks([name for name in names if name not in self._values])}

    def attributes(self) -> dict[str, Array | list[str]]:
        """See `Source`."""
        return dict(self._known)

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `Source`."""
        arrays = self._fetch([each for each in wanted if each.name not in self._values])
        found = [self._values[each.name].copy() if each.name in self._values else next(arrays) for each in wanted]
        alone = (self._values[each.name] for each in wanted if each.name in self._values)
        self._tally.add(sum(value.nbytes for value in alone if value.dtype.kind != "U"))
        return found

    def _fetch(self, wanted: Sequence[Selection]) -> Iterator[Array]:
        """The arrays. All ranks are served until the last has its own, for their writers then leave."""
        if not wanted:
            return iter([])
        self.partner.say(Word.FETCH)
        found = super().get(wanted)
        if self._comm is not None:
            self._comm.Barrier()
        self.partner.say(Word.FETCHED)
        return iter(found)

    def answer(self) -> None:
        """See `ssc_multiplexer.Line`. Before the step or the end that has been announced SSC's last step ends."""
        word = self.partner.hear(math.inf)
        if self._held:
            self._engine.EndStep()
            self._held = False
        self._io.RemoveAllVariables()
        self._ended = self._ask(0.0) is Status.ENDED
        if not self._ended:
            self._here = word
            if self.left or word is Word.EMPTY:
                self._pass()

    def _release(self) -> None:
        self.partner.say(Word.RELEASED)
        self._held = True

    def _pass(self) -> None:
        """Be done with a step that the program has not asked for, or does not want."""
        word, self._here = self._here, None
        if word is Word.HEADED and (self._comm is None or self._comm.Get_rank() == 0):
            self.partner.take_header()
        self._release()

    def finish(self) -> None:
        """See `ssc_multiplexer.Line`."""
        while not self._ended:
            ssc_multiplexer.answer_one(self._number, math.inf)
        ssc_multiplexer.remove(self._number)
        self._engine.Close()

    def _take_header(self, word: Word | None) -> None:
        """Single values, strings and changed attributes of this step, on all ranks."""
        header: tuple[dict[str, Array], Mapping[str, Array | list[str]]] | None = None
        comm = own_communicator()
        if word is Word.HEADED and (comm is None or comm.Get_rank() == 0):
            header = self.partner.take_header()
        header = header if comm is None else comm.bcast(header)
        if header is not None:
            self._values = header[0]
            self._known.update(header[1])


def _info(value: Array) -> Info:
    return Info("string" if value.dtype.kind == "U" else value.dtype.name, value.shape)
