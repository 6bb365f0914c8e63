"""A stage of the tests' chains in plain adios2: it knows nothing of wf, and ends quietly when its writer dies."""

from __future__ import annotations

import time

import adios2
import numpy as np

from tests.faults.programs.behaviour import Behaviour, arguments


def open_stream(end: str, mode: str) -> adios2.Stream:
    path, _, engine = end.rpartition(":")
    io = adios2.Adios().declare_io(mode)
    io.set_engine(engine)
    if engine == "SST" and mode == "w":
        io.set_parameters({"RendezvousReaderCount": "1", "QueueLimit": "2"})
    return adios2.Stream(io, path, mode)


def main() -> None:
    args = arguments()
    behaviour = Behaviour(args)
    behaviour.at("open")
    source = open_stream(args.read, "r") if args.read else None
    target = open_stream(args.write, "w") if args.write else None
    for index, step in enumerate(source.steps() if source else range(args.steps)):
        behaviour.at("step", index)
        if source:
            step.read("x")
        else:
            time.sleep(args.step_s)
        if target:
            target.begin_step()
            target.write("x", np.full(100, float(index)), [100], [0], [100])
            target.end_step()
    behaviour.at("end")
    for stream in (target, source):
        if stream:
            stream.close()
    behaviour.at("closed")


main()
