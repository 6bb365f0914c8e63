"""A sink that discards its stream: for benchmarks, and to run a simulation without its consumers."""

from __future__ import annotations

from workflow import stage
from workflow.component_program import arguments


def main() -> None:
    """Read this rank's share of every variable, and discard it."""
    args = arguments(__file__)
    steps, dropped = 0, 0
    with stage.open_reader("input") as stream:
        for step in stream:
            steps += 1
            if args.read_data:
                known = step.variables()
                step.shares(known)
                dropped += sum(info.nbytes for info in known.values())
    if stage.rank() == 0:
        print(f"null: {steps} steps, {dropped} bytes read and discarded")


if __name__ == "__main__":
    main()
