"""The analysis of component flow in a stage of its own: the same tracers in the same fields, so the same numbers."""

from __future__ import annotations

import sys
from pathlib import Path

from workflow import stage
from workflow.component_program import arguments

sys.path.insert(0, str(Path(__file__).parents[1]))
from tracing import Tracers


def main() -> None:
    """Follow the tracers from step to step of the field."""
    args = arguments(__file__)
    if stage.size() > 1:
        raise SystemExit("tracers: one rank follows all tracers: `ranks: 1`")
    tracers, before = None, 0.0
    with stage.open_reader("field") as field, stage.open_writer("tracks") as out:
        for step in field:
            psi, theta, time = step.read("psi"), step.read("theta"), float(step.read("time"))
            field.release_step()
            tracers = tracers or Tracers(args.tracers, len(psi))
            tracers.advance(psi, time - before)
            before = time
            with out.step():
                out.write("position", tracers.position)
                out.write("temperature", tracers.sample(theta))


if __name__ == "__main__":
    main()
