"""A program that opens one end of an SST stream in the place of a stage. It needs ADIOS2, and nothing of this package.

`python sst_end.py stand-in PATH [PARAMETER=VALUE …]` opens the reading end in place of a program that has failed before
it could, and closes it: the writer waits in open until as many readers have come as there should be; it then drops the
steps of this one, as of any reader that has left. In a process of its own, because an open of SST may wait for minutes
and cannot be interrupted.

`python sst_end.py smoke END_FILE` is one end of a smoke stream. END_FILE (JSON) has `side`, `path`, `parameters` of the
engine as planned, `number` of the end, `steps` and `patience_s`. The writer writes so many steps of a few numbers, the
reader compares them. Each prints one JSON object a line: that it runs, that the stream is open, the steps that have
crossed, then the verdict. What ADIOS2 prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

VALUES = 1000
_NAME = "smoke"
_GAP = 300
_KEPT: list[Any] = []  # an io does not keep the ADIOS object alive that it belongs to


def main(what: str, *arguments: str) -> int:
    """Open the end. Returns an exit code: 3 where this Python has no adios2."""
    return smoke(*arguments) if what == "smoke" else stand_in(*arguments)


def stand_in(path: str, *parameters: str) -> int:
    """Open the reading end and close it."""
    import adios2

    io = adios2.Adios().declare_io("stand-in")
    io.set_engine("SST")
    io.set_parameters(dict(each.split("=", 1) for each in parameters))
    adios2.Stream(io, path, "r").close()
    return 0


def smoke(file: str) -> int:
    """Open the end, move the steps."""
    end = json.loads(Path(file).read_bytes())
    _use_up_ids(_GAP * (end["number"] % 8))
    process = os.fork()
    if process == 0:
        _be_end(end)
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _use_up_ids(count: int) -> None:
    """Two processes whose ids are close may get one name in EVPath (docs/decisions/0005); on two nodes they often are
    equal. Threads take ids as well.
    """
    for _ in range(count):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()


def _be_end(end: dict[str, Any]) -> NoReturn:
    """The child: opens the stream and moves the steps."""
    try:
        import adios2
    except ImportError as error:
        _say({"untested": f"{sys.executable} has no adios2: {error}"})
        _leave(3)
    _say({"ready": True})
    try:
        if end["side"] == "write":
            _write(adios2, end)
        else:
            _read(adios2, end)
    except Exception as error:  # whatever ADIOS2 raises is what this is about
        _say({"error": " ".join(str(error).split())[:500]})
        _leave(1)
    _say({"done": True})
    _leave(0)


def _write(adios2: Any, end: dict[str, Any]) -> None:
    import numpy as np

    io, engine = _open(adios2, end, adios2.bindings.Mode.Write)
    variable = io.DefineVariable(_NAME, np.zeros(VALUES), [VALUES], [0], [VALUES], True)
    for step in range(end["steps"]):
        engine.BeginStep()
        engine.Put(variable, _values(np, step), adios2.bindings.Mode.Sync)
        engine.EndStep()
        _say({"step": step})
    engine.Close()


def _read(adios2: Any, end: dict[str, Any]) -> None:
    import numpy as np

    io, engine = _open(adios2, end, adios2.bindings.Mode.Read)
    deadline = time.monotonic() + end["patience_s"]
    for step in range(end["steps"]):
        status = engine.BeginStep(adios2.bindings.StepMode.Read, max(0.1, deadline - time.monotonic()))
        if status != adios2.bindings.StepStatus.OK:
            raise RuntimeError(f"step {step} did not come: {status}")
        _say({"announced": step})
        values = np.zeros(VALUES)
        engine.Get(io.InquireVariable(_NAME), values, adios2.bindings.Mode.Sync)
        engine.EndStep()
        if not (values == _values(np, step)).all():
            raise RuntimeError(f"step {step} has other values than were written")
        _say({"step": step})
    engine.Close()


def _open(adios2: Any, end: dict[str, Any], mode: Any) -> tuple[Any, Any]:
    _KEPT.append(adios2.bindings.ADIOS())
    io = _KEPT[-1].DeclareIO(_NAME)
    io.SetEngine("SST")
    io.SetParameters(end["parameters"])
    engine = io.Open(end["path"], mode)
    _say({"opened": True})
    return io, engine


def _values(np: Any, step: int) -> Any:
    return np.arange(VALUES) + 1000.0 * step


def _say(record: dict[str, Any]) -> None:
    os.write(1, json.dumps(record).encode() + b"\n")


def _leave(code: int) -> NoReturn:
    """Without the destructors of ADIOS2, which may wait for the other end."""
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
