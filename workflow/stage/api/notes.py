"""What a program has to say of its run, for those who read the report."""

from __future__ import annotations

from workflow.stage.telemetry import process_metrics


def note(text: str) -> None:
    """Add a sentence to the notes of the run, behind the name of the stage: what was left out, why there is no result.

    `wf run` prints it at its end; `wf status` and the report have it, too. Rank 0 is heard, the other ranks are not.
    Of many notes of a stage the last five are kept. Without a run nothing happens.
    """
    process_metrics().write("note", text=text)
