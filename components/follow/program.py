"""Send the steps of a stream that a running run keeps: every variable with its type, shape and values, every attribute.

`wf attach` inserts this component for the streams of the run. Whoever reads from it may be slow, crash or stop: the
run has nothing to do with it.
"""

from __future__ import annotations

from workflow import stage
from workflow.component_program import arguments
from workflow.formatting import plural


def main() -> None:
    """Copy each step that is still there when it is read."""
    args = arguments(__file__)
    sent = first = last = 0
    # Opening it waits for the reader: which step is the newest is asked after that.
    with stage.open_writer("output") as out:
        begin = None if args.first < 0 else args.first
        with stage.follow(args.path, args.events, args.stream, first=begin, before=args.before) as steps:
            print(f"follow: {args.stream} from step {steps.steps} on", flush=True)
            try:
                for step in steps:
                    if (copied := _read(step, out)) is not None:
                        with out.step():
                            copied.write_to(out)
                        first = first if sent else step.index
                        sent, last = sent + 1, step.index
            finally:
                print(_summary(args.stream, sent, first, last), flush=True)


def _read(step: stage.Step, out: stage.Writer) -> stage.StepCopy | None:
    """The data of a step, after its attributes; None where the run has removed it meanwhile."""
    try:
        copied = stage.StepCopy.of(step)
    except stage.StepRemoved:
        return None
    step.copy_attributes_to(out)
    return copied


def _summary(stream: str, sent: int, first: int, last: int) -> str:
    text = f"follow: {plural(sent, 'step')} of {stream}"
    if sent:
        text += f", from step {first} to {last}"
        if missed := last - first + 1 - sent:
            text += f"; {plural(missed, 'step')} between them were removed before they could be read"
    return text


if __name__ == "__main__":
    main()
