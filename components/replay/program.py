"""Write the steps of a recorded stream again: every variable with its type, shape and values, and every attribute.

Each iteration of an openPMD series is a step, whatever its encoding.

`wf replay` inserts this component for the stages whose streams were recorded. A pipeline can name it, too.
"""

from __future__ import annotations

import time
from pathlib import Path

from workflow import stage
from workflow.component_program import arguments
from workflow.formats.json_lines import read_json_lines
from workflow.formats.metrics_lines import end_of


def recorded_times(metrics: Path, stream: str) -> list[float]:
    """When each step of a stream was written (Unix s), by the records of its writer; the lines of several steps count
    for all of them. Raises SystemExit where there are none."""
    times: list[float] = []
    for record in read_json_lines(metrics).records:
        if record.get("kind") in ("step", "steps") and end_of(record) == (stream, "write"):
            times += [float(record["t"])] * int(record.get("count", 1))
    if not times:
        raise SystemExit(f"replay: {metrics} has no times of stream {stream}; use `pace: max`")
    return times


def main() -> None:
    """Copy the steps that are asked for."""
    args = arguments(__file__)
    times = recorded_times(Path(args.metrics), args.stream) if args.pace == "recorded" else []
    begin, written = time.monotonic(), 0
    with stage.open_reader(path=args.path, iterations=True) as recorded, stage.open_writer("output") as out:
        for step in recorded:
            if step.index < args.first:
                continue
            if args.last and step.index >= args.last:
                break
            if times:
                due = times[min(step.index, len(times) - 1)] - times[min(args.first, len(times) - 1)]
                time.sleep(max(0.0, begin + due - time.monotonic()))
            step.copy_attributes_to(out)
            copied = stage.StepCopy.of(step)
            with out.step():
                copied.write_to(out)
            written += 1
    if stage.rank() == 0:
        print(f"replay: {written} steps of {args.path}")


if __name__ == "__main__":
    main()
