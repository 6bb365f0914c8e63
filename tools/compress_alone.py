"""Compresses one variable of a file again and again: `compress_alone.py write FILE VARIABLE STEPS`, or `… read`.

The writer prints as one line of JSON the size of the variable in bytes and the seconds that each write into the buffer
of ADIOS2 took, the reader those that each read took. ADIOS2 applies its operators inside these calls.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from workflow import stage
from workflow.engines import engine_of_data

# Of a large variable the beginning is enough.
MOST_BYTES = 64_000_000


def write(file: str, variable: str, steps: int) -> dict[str, object]:
    """Write the variable, as the last step of the file has it."""
    with stage.open_reader(path=file, engine=engine_of_data(Path(file))) as source:
        for step in source:
            values = step.read(variable)
    values = values[: max(1, MOST_BYTES // max(1, values[:1].nbytes))]
    seconds = []
    with stage.open_writer("data") as out:
        for _ in range(steps):
            with out.step():
                begin = time.perf_counter()
                out.write("values", values, shape=values.shape)
                seconds.append(time.perf_counter() - begin)
    return {"bytes": values.nbytes, "seconds": seconds}


def read() -> dict[str, object]:
    """Read it."""
    seconds = []
    with stage.open_reader("data") as stream:
        for step in stream:
            begin = time.perf_counter()
            step.read("values")
            seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds}


def main() -> None:
    """Be the writer or the reader."""
    done = write(sys.argv[2], sys.argv[3], int(sys.argv[4])) if sys.argv[1] == "write" else read()
    print(json.dumps(done))


if __name__ == "__main__":
    main()
