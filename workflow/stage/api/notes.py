"""What a program has to say of its run, for those who read the report."""

from __future__ import annotations

from workflow.stage import settings
from workflow.stage.telemetry import process_metrics


def note(text: str, *, no_steps: str | None = None) -> None:
    """Add a sentence to the notes of the run, behind the name of the stage: what was left out, why there is no result.

    `wf run` prints it at its end; `wf status` and the report have it, too. Rank 0 is heard, the other ranks are not.
    Of many notes of a stage the last five are kept. Without a run nothing happens.

    Args:
        text: the sentence.
        no_steps: a port that the program has written no step to, where the sentence says why: the report then does not
            warn of it.

    Raises:
        StageError: the stage writes to no such port.
    """
    current = settings.current()
    explained: list[str] = []
    if no_steps is not None and not current.by_hand:
        ends = [end for end in current.ends if end.side == "write" and no_steps in (end.port, end.stream)]
        explained = [end.stream for end in ends or [settings.find_end(current, no_steps, "write")]]
    process_metrics().write("note", text=text, **({"no_steps": explained} if explained else {}))
