"""A stage of the tests' chains, written with `workflow.stage`: reads a stream, writes one, or both; and misbehaves."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np

from tests.faults.programs.behaviour import Behaviour, arguments
from workflow import stage


def main() -> None:
    args = arguments()
    behaviour = Behaviour(args)
    stage.communicator()
    behaviour.at("open")
    with contextlib.ExitStack() as stack:
        ends = {end.side: end.port for end in stage.settings.current().ends}
        reader: Any = stack.enter_context(stage.open_reader(ends["read"])) if "read" in ends else range(args.steps)
        writer = stack.enter_context(stage.open_writer(ends["write"])) if "write" in ends else None
        for index, step in enumerate(reader):
            behaviour.at("step", index)
            if "read" in ends:
                step.read("x")
            else:
                time.sleep(args.step_s)
            if writer is not None:
                with writer.step():
                    writer.write("x", np.full(100, float(index)))
        behaviour.at("end")
    behaviour.at("closed")


main()
