"""Write docs/reliability.md from the cells that `make reliability` has run.

python tools/reliability_page.py build/reliability.jsonl docs/reliability.md
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HEAD = """# What was ended, and what became of it

Written by `make reliability-page`; do not edit. Each cell is a run of its own: sim → work → keep, in which one stage is
ended in one way at one place, with `on_failure: restart` where nothing else is said.

*Equal*: `wf compare` with an undisturbed run finds the same data, each step once: no step is lost, and none is there
twice. Behind a queue that discards steps it is compared with what the spool has. *Replayed*: steps that the failed
stage had finished and did again. *Decided*: from the failure to the decision to start again. *Gap*: from that
decision until the stage had finished its next step; most of it is the start of its Python. What the rules promise:
[when something fails, it goes on](how-to/go-on-after-a-failure.md).

*Streams*: of sim → work, then of work → keep. `sst`, `shm`, `ucx`: in memory; `live`: a BP5 file that is read while it
grows; `after`: a file that is read when it is complete. *Ends*: `exit0` and `exit1`, the program exits; `raise`, an
exception; `kill`, SIGKILL; `segv`, a crash. *Places*: points within a step, a run for each.

"""


def row(cells: Sequence[Any]) -> str:
    """A line of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |\n"


def seconds(values: Sequence[float]) -> str:
    """`0.02 s (0.31 s)`: the median, and the largest."""
    return f"{statistics.median(values):.2f} s ({max(values):.2f} s)" if values else ""


def restarts(cells: list[dict[str, Any]]) -> str:
    """One row for each way of the streams and each end."""
    text = "## One failure\n\n" + row(
        ["streams", "end", "places", "equal", "replayed, most", "decided: median (most)", "gap"]
    )
    text += row(["---"] * 7)
    groups = sorted({(cell["way"], cell["how"]) for cell in cells})
    for way, how in groups:
        here = [cell for cell in cells if (cell["way"], cell["how"]) == (way, how)]
        equal = sum(cell["equal"] for cell in here)
        decided = [cell["decided_s"] for cell in here if cell["decided_s"] is not None]
        gaps = [cell["gap_s"] for cell in here if cell["gap_s"] is not None]
        text += row(
            [way, how, len(here), equal, max(cell["replayed"] for cell in here), seconds(decided), seconds(gaps)]
        )
    return text + f"\n{len(cells)} cells, {sum(cell['equal'] for cell in cells)} equal.\n\n"


def kills(cells: list[dict[str, Any]]) -> str:
    """Random kills, by their number in a run."""
    text = "## kill -9 at random\n\nOf `work` or `keep`, when the simulation has written a random number of steps; "
    text += "streams in memory, with a spool.\n\n"
    text += row(["kills in a run", "runs", "equal", "stopped: the reader had taken its writer along", "other"])
    text += row(["---"] * 5)
    for count in sorted({cell["kills"] for cell in cells}):
        ends = [cell["end"] for cell in cells if cell["kills"] == count]
        known = [ends.count("equal"), ends.count("writer taken along")]
        text += row([count, len(ends), *known, len(ends) - sum(known)])
    return text + "\n"


def attached(cells: list[dict[str, Any]]) -> str:
    """Stages and readers that joined one run and were ended again."""
    text = "## Joining and leaving\n\nStages (`wf attach`) and readers by themselves (`workflow.attach`) join one run, "
    text += "and are detached, killed, or stopped and then\nkilled, each up to 1.2 s after its start.\n\n"
    text += "*Joined*: those that had opened the stream by then.\n\n"
    heads = ["started", "joined", "detached", "killed", "stopped", "steps of the simulation", "read by its analysis"]
    text += row(heads) + row(["---"] * len(heads))
    for cell in cells:
        ways = [cell["counts"].get(how, 0) for how in ("detach", "kill", "stop")]
        text += row([cell["cycles"], cell["joined"], *ways, cell["steps"], cell["read"]])
    return text + "\n"


def cuts(cells: list[dict[str, Any]]) -> str:
    """Power cuts and lost supervisors, by the way of the streams."""
    text = (
        "## Power cuts\n\nAll processes, or the supervisor alone, are killed at a random step, once or twice. Of half "
    )
    text += (
        "of the runs the newest\nfiles then lose their ends: half of the last step, half of a state. `wf resume` goes "
    )
    text += "on from the saved states of the\nsimulation.\n\n"
    text += row(["streams", "runs", "of them with torn files", "equal in the end"]) + row(["---"] * 4)
    for way in sorted({cell["way"] for cell in cells}):
        here = [cell for cell in cells if cell["way"] == way]
        text += row([way, len(here), sum(cell["torn"] for cell in here), sum(cell["equal"] for cell in here)])
    return text + "\n"


def skips(cells: list[dict[str, Any]]) -> str:
    """Steps that were left out, by the way of the streams and the end."""
    text = "## Steps that are left out\n\n`work` fails each time that it gets one of one to three steps: `same_step: "
    text += (
        "skip`. *Right*: these steps are missing in the output,\nand in what a state has added up, and no other.\n\n"
    )
    text += row(["streams", "end", "runs", "of them with a state", "steps left out", "right"]) + row(["---"] * 6)
    for way, how in sorted({(cell["way"], cell["how"]) for cell in cells}):
        here = [cell for cell in cells if (cell["way"], cell["how"]) == (way, how)]
        states, steps = sum(cell["state"] for cell in here), sum(cell["steps"] for cell in here)
        text += row([way, how, len(here), states, steps, sum(cell["equal"] for cell in here)])
    return text + "\n"


def hurt(cells: list[dict[str, Any]]) -> str:
    """Hangs, full disks, full memories and damaged files, by the fault and the stage."""
    text = "## Hangs, full disks, full memories, damaged files\n\n*Named*: from the fault to the decision that "
    text += "follows: a restart, or the stop of the run; of a stage that is stopped the\ndeadline is part of it. "
    text += "*Outcome*: `restarted` in the run, `resumed` by `wf resume`, `run anew` where nothing could be used.\n"
    text += "*Lost*, *doubled*: steps in the output; *replayed*: steps that a restarted stage did twice.\n\n"
    heads = ["fault", "stage", "runs", "outcome", "named: median (most)", "lost", "doubled", "replayed, most", "equal"]
    text += row(heads) + row(["---"] * len(heads))
    for kind, role in sorted({(cell["kind"], cell["role"]) for cell in cells}):
        here = [cell for cell in cells if (cell["kind"], cell["role"]) == (kind, role)]
        named = [cell["named_s"] for cell in here if cell["named_s"] is not None]
        outcomes = ", ".join(sorted({cell["outcome"] for cell in here}))
        sums = [sum(cell[key] for cell in here) for key in ("lost", "doubled")]
        most, equal = max(cell["replayed"] for cell in here), sum(cell["equal"] for cell in here)
        text += row([kind, role, len(here), outcomes, seconds(named), *sums, most, equal])
    return text + "\n"


def programs(cells: list[dict[str, Any]]) -> str:
    """Unchanged programs in C++, by what was killed and how the streams go."""
    text = "## Unchanged programs in C++\n\nA simulation with MPI that writes checkpoints of its own, and a reader; "
    text += "neither knows anything of wf.\n\n"
    text += row(["killed", "streams", "runs", "went on by", "equal"]) + row(["---"] * 5)
    for role, way in sorted({(cell["role"], cell["way"]) for cell in cells}):
        here = [cell for cell in cells if (cell["role"], cell["way"]) == (role, way)]
        by = ", ".join(sorted({cell["by"] for cell in here}))
        text += row([role, way, len(here), by, sum(cell["equal"] for cell in here)])
    return text + "\n"


# The parts of the page, in order: the name of the table in the records, and what makes the text.
TABLES = {
    "restart": restarts, "kills": kills, "cuts": cuts, "hurt": hurt, "skips": skips, "programs": programs,
    "attached": attached,
}  # fmt: skip


def main() -> None:
    """Read the cells, write the page."""
    source, target = map(Path, sys.argv[1:3])
    cells = [json.loads(line) for line in source.read_text().splitlines()]
    found = {name: [cell for cell in cells if cell["table"] == name] for name in TABLES}
    text = HEAD + "".join(make(found[name]) for name, make in TABLES.items() if found[name])
    text += f"Machine: {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}.\n"
    target.write_text(text)


if __name__ == "__main__":
    main()
