"""Opens the reading end of an SST stream in place of a program that has failed before it could, and closes it.

`python stand_in_reader.py PATH [PARAMETER=VALUE …]`: the writer waits in open until as many readers have come as there
should be; it then drops the steps of this one, as of any reader that has left. A program of its own, because an open of
SST may wait for minutes and cannot be interrupted.
"""

from __future__ import annotations

import sys

import adios2


def main(arguments: list[str]) -> None:
    """Open and close the stream."""
    path, *settings = arguments
    io = adios2.Adios().declare_io("stand-in")
    io.set_engine("SST")
    io.set_parameters(dict(setting.split("=", 1) for setting in settings))
    adios2.Stream(io, path, "r").close()


if __name__ == "__main__":
    main(sys.argv[1:])
