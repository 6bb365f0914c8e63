"""A sink that discards its stream: for benchmarks, and to run a simulation without its consumers."""

from __future__ import annotations

from workflow import stage
from workflow.component_program import arguments


def main() -> None:
    """Read this rank's share of every variable, and discard it."""
    args = arguments(__file__)
    with stage.open_reader("input") as stream:
        state = stage.State(dropped=0)
        for step in stream:
            if args.read_data:
                known = step.variables()
                step.shares(known)
                state["dropped"] += sum(info.nbytes for info in known.values())
            state.save()
    if stage.rank() == 0:
        print(f"null: {stream.steps} steps, {state['dropped']} bytes read and discarded")


if __name__ == "__main__":
    main()
