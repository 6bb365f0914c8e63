"""Damages one recorded file after the other, and lets the verbs read it: a process of its own, which may die of it.

    python -m tests.records.damage WORKSPACE FIRST COUNT

Case N is made by `random.Random(N)`: it comes back. The number of each case is written to `case` in the workspace
before it runs; what went wrong, to stdout, one JSON line each.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from tests.records.mutations import mutate
from workflow.cli.main import wf
from workflow.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REGRESSED,
    EXIT_RUN_FAILED,
    EXIT_STOPPED,
    EXIT_UNDECIDED,
    EXIT_VIOLATED,
    WfError,
)

CODES = {
    EXIT_OK, EXIT_RUN_FAILED, EXIT_BAD_INPUT, EXIT_VIOLATED, EXIT_REGRESSED, EXIT_UNDECIDED, EXIT_STOPPED,
    EXIT_INTERRUPTED,
}  # fmt: skip
# A hang is longer than 10 s. The lease of a host that may be dead is watched for nearly as long, and tests share cores.
DEADLINE_S = 40.0
LARGEST = 400_000
# They draw, pack, or wait for a sign of life.
SLOW = {"watch", "archive"}

OF_RUN = [
    ["status", "{run}"], ["status", "{run}", "--json"], ["report", "{run}"], ["report", "{run}", "--json"], ["runs"],
    ["runs", "--tag", "trial"], ["note", "{run}"], ["note", "{run}", "--json"],
    ["explain", "{run}"], ["watch", "{run}"], ["logs", "--run", "{run}"], ["calibrate", "{run}"],
    ["clean", "{run}", "--dry-run"], ["archive", "{run}", "-o", "out.zip"],
    ["events", "{run}"], ["events", "{run}", "--all", "--follow"], ["events", "{run}", "--json"],
]  # fmt: skip
OF_CAMPAIGN = [
    ["campaign", verb, "campaign.yaml"] for verb in ("status", "report", "plan", "watch", "archive")
] + [["campaign", "list"], ["campaign", "compare", "campaigns/tiny", "campaigns/tiny"]]  # fmt: skip
OF_PIPELINE = [["check", "{file}"], ["plan", "{file}"], ["graph", "{file}"], ["plan", "{file}", "--json"]]
OF_SITE = [["plan", "first/pipeline.yaml", "--site", "{stem}"], ["sites", "{stem}"], ["sites"]]
OF_CALIBRATION = [["plan", "first/pipeline.yaml"], ["calibrate"]]


def verbs_for(name: str) -> list[list[str]]:
    """The command lines that read a file of the workspace; [] where none does."""
    path = Path(name)
    given = {"run": "", "file": name, "stem": path.stem}
    if path.parts[0] == "runs":
        given["run"] = "/".join(path.parts[:2])
        lines = OF_RUN
    elif path.parts[0] == "campaigns" and "runs" in path.parts:
        given["run"] = "/".join(path.parts[: path.parts.index("runs") + 2])
        lines = OF_RUN[:4] + OF_CAMPAIGN[:2]
    elif path.parts[0] == "campaigns" or path.name == "campaign.yaml":
        lines = OF_CAMPAIGN
    elif path.parts[:2] == ("configs", "sites"):
        lines = OF_SITE
    elif path.parts[:2] == ("configs", "calibration"):
        lines = OF_CALIBRATION
    elif path.name == "pipeline.yaml":
        lines = OF_PIPELINE
    else:
        return []
    return [[word.format(**given) for word in line] for line in lines]


def is_record(path: Path) -> bool:
    """Whether this is a file that wf reads: not the data, the pages, the logs and locks of a run."""
    return path.suffix in (".json", ".jsonl", ".yaml") and "work" not in path.parts


def main(workspace: Path, first: int, count: int) -> None:
    """Run these cases."""
    os.chdir(workspace)
    # What is measured again stays here, too.
    os.environ["WF_CONFIGS"] = str(workspace / "configs")
    original = {str(path.relative_to(workspace)): path.read_bytes() for path in _files(workspace)}
    stamps = {name: _stamp(Path(name)) for name in original}
    targets = sorted(name for name in original if is_record(Path(name)) and verbs_for(name))
    slowest = 0.0
    for case in range(first, first + count):
        dice = random.Random(case)
        # By kind of file first: there are many of some.
        name = dice.choice([each for each in targets if Path(each).name == dice_kind(targets, case)])
        Path(name).write_bytes(mutate(original[name], dice))
        lines = verbs_for(name)
        for line in dice.choices(
            lines, [1 if SLOW & set(each) or each[:2] == ["campaign", "report"] else 8 for each in lines]
        ):
            Path("case").write_text(f"case {case}: wf {' '.join(line)} with {name} damaged")
            Path("out.zip").unlink(missing_ok=True)
            begin = time.monotonic()
            faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
            done = CliRunner().invoke(wf, line)
            faulthandler.cancel_dump_traceback_later()
            slowest = max(slowest, time.monotonic() - begin)
            wrong = ""
            # `wf` prints a WfError, and exits with its code.
            if done.exception is not None and not isinstance(done.exception, SystemExit | WfError):
                frames = traceback.extract_tb(done.exception.__traceback__)[-4:]
                places = " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(frames))
                wrong = f"{type(done.exception).__name__}: {str(done.exception)[:150]} at {places}"
            elif done.exit_code not in CODES or "Traceback (most recent" in done.output:
                wrong = f"exit code {done.exit_code}: {done.output[-300:]}"
            if wrong:
                print(json.dumps({"case": case, "line": line, "file": name, "wrong": wrong}), flush=True)
        for each, content in original.items():
            if _stamp(Path(each)) != stamps[each]:
                Path(each).write_bytes(content)
                stamps[each] = _stamp(Path(each))
    print(json.dumps({"slowest_s": round(slowest, 2)}))


def dice_kind(targets: list[str], case: int) -> str:
    """The name of the file that a case damages."""
    return random.Random(f"kind {case}").choice(sorted({Path(each).name for each in targets}))


def _files(workspace: Path) -> Iterator[Path]:
    for path in sorted(workspace.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < LARGEST:
            yield path


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


if __name__ == "__main__":
    faulthandler.enable()
    main(Path(sys.argv[1]).absolute(), int(sys.argv[2]), int(sys.argv[3]))
