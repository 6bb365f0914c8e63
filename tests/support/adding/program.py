"""Adds up what it reads. Ends itself after some steps, one in each attempt."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from workflow import stage
from workflow.component_program import arguments
from workflow.stage import settings


def fail(args: SimpleNamespace, index: int) -> None:
    """End this process, if it is the step of this attempt."""
    tokens = Path(args.tokens)
    tokens.mkdir(parents=True, exist_ok=True)
    done = len(list(tokens.iterdir()))
    if done >= len(args.at) or index != args.at[done]:
        return
    (tokens / str(done)).touch()
    folder = Path(settings.current().run_dir) / "stages" / settings.current().stage / "state"
    damage(args.damage, folder)
    os.kill(os.getpid(), signal.SIGKILL)


def damage(how: str, folder: Path) -> None:
    """Damage the newest state."""
    if how == "none":
        return
    newest = max(folder.glob("*.npz" if how != "record" else "*.json"))
    content = newest.read_bytes()
    if how == "flip":
        newest.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    else:
        newest.write_bytes(content[: len(content) // 2])


def main() -> None:
    """Read `grid`, write the sum of all its steps, and the list of their numbers."""
    args = arguments(__file__)
    with stage.open_reader("input") as stream, stage.open_writer("output") as out:
        total = stage.State(sum=np.zeros(0), seen=[], largest=0.0)
        for step in stream:
            (piece,) = step.share("grid")
            mine = piece.values.astype(float)
            total["sum"] = mine if not total["seen"] else total["sum"] + mine
            total["seen"].append(step.index)
            total["largest"] = max(total["largest"], float(mine.max()))
            if (step.index + 1) % args.write_every == 0:
                with out.step():
                    out.write("sum", total["sum"], shape=step.shape("grid"), start=piece.start)
                    out.write("seen", np.array(total["seen"]))
            if args.save_every and (step.index + 1) % args.save_every == 0:
                total.save()
            if stage.rank() == 0:
                fail(args, step.index)


if __name__ == "__main__":
    main()
