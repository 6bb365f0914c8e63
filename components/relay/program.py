"""Copy a stream to all output streams: every variable with its type, shape and values, and every attribute.

Each step is read as soon as it is available. An output stream with `when_full: discard` never delays the others; one
with `when_full: block` does, and so does a slow file. `wf` inserts this component for pipes and taps.
"""

from __future__ import annotations

from contextlib import ExitStack

from workflow import stage
from workflow.component_program import arguments


def main() -> None:
    """Read each step, and write it to every output stream for which it is due."""
    args = arguments(__file__)
    with ExitStack() as closing:
        stream = closing.enter_context(stage.open_reader("input"))
        outs = [closing.enter_context(out) for out in stage.open_writers("output")]
        every = args.every or [1] * len(outs)
        if len(every) != len(outs):
            raise SystemExit(
                f"relay: `every` needs one number per output stream: expected {len(outs)}, got {len(every)}"
            )
        for step in stream:
            due = [out for out, each in zip(outs, every, strict=True) if step.index % each == 0]
            if due:
                copied = stage.StepCopy.of(step)
                for out in due:
                    step.copy_attributes_to(out)
                    with out.step():
                        copied.write_to(out)


if __name__ == "__main__":
    main()
