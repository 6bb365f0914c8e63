"""Reading a stream that has one file per step: the files one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workflow.formats.stage_file import StreamEnd
from workflow.formats.step_files import read_closed, step_file
from workflow.stage.adios.open_engine import declare_io, make_adios, open_path
from workflow.stage.stream_engines import StepStatus


class NumberedFiles:
    """The files of a stream in the order of its steps. `io` and `engine` are those of the file opened last."""

    def __init__(self, end: StreamEnd, comm: Any | None) -> None:
        self.io: Any = None
        self.engine: Any = None
        self._end, self._comm = end, comm
        self._adios = make_adios(end)
        self._opened = 0

    def open_next(self) -> StepStatus | None:
        """Opens the next file. Returns None when that is done, else how the stream has ended. Collective."""
        status = None
        # One rank looks: on a parallel file system others may see a file later.
        if self._comm is None or self._comm.Get_rank() == 0:
            status = self._look()
        if self._comm is not None:
            status = self._comm.bcast(status)
        if status is StepStatus.READY:
            # An IO of its own: it knows the variables and attributes of one file.
            if self._opened:
                self._adios.RemoveIO(self._name())
            self._opened += 1
            self.io = declare_io(self._adios, self._end, self._name())
            self.engine = open_path(self.io, self._end, step_file(self._end.path, self._opened - 1), "Read")
            return None
        return status

    def _look(self) -> StepStatus:
        index = Path(step_file(self._end.path, self._opened)) / "md.idx"
        # ADIOS2 creates its files before it fills them.
        if index.exists() and index.stat().st_size:
            return StepStatus.READY
        return StepStatus.ENDED if read_closed(self._end.path) == self._opened else StepStatus.FAILED

    def _name(self) -> str:
        return f"{self._end.port}.{self._opened}"
