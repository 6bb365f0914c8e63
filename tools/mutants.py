"""Change one thing in the code at a time and see whether a test fails: `make mutants`.

mutmut makes and runs the mutants. This script gives it one module at a time with the tests that reach that module
(`[tool.mutants.modules]` in pyproject.toml), in a copy of the tree, and compares the survivors with
tests/mutants/known.md. It exits 1 when a survivor is not in that list, when the list has an entry that no longer
survives, or when less than 95 % of the mutants are killed. Two kinds of survivors are left out of the count: those that
change only the text of a message (a string with a space in it), which tests/specs and tests/golden compare as a whole,
and those that change only `strict=True` of a zip, an assertion that holds.

    python tools/mutants.py                  # all modules
    python tools/mutants.py decomposition    # the modules whose path contains one of these words
    python tools/mutants.py units --write    # and bring the list up to date: only the reasons are to be added by hand
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "tests/mutants/known.md"
BUILD = ROOT / "build/mutants"
LEAST_KILLED = 0.95
COPIED = [
    "components",
    "configs",
    "examples",
    "tests",
    "docs",
    "tools",
    "Makefile",
    "constraints.txt",
    "CHANGELOG.md",
    "README.md",
]
# Exit codes of pytest in mutmut's records: 1 is a failed test, 3 an internal error; 24, 36 and 152 are timeouts, a
# negative code a signal. 0 means that all tests passed, 33 that no test reaches the function.
SURVIVED = (0, 33)
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'")
ROW = re.compile(r"^\| (workflow/\S+) \| (\d+ of \d+) \|\n", re.MULTILINE)
STRICT = re.compile(r", (strict=\w+)?(?=\))")


@dataclass
class Outcome:
    """What became of the mutants of one module."""

    module: str
    seconds: float = 0.0
    killed: int = 0
    left_out: int = 0
    survivors: list[str] = field(default_factory=list)
    error: str = ""


def main() -> int:
    """Run mutmut over the chosen modules, print a table, check the survivors. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only modules whose path contains one of these")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="modules at the same time")
    parser.add_argument("--write", action="store_true", help="write the results into the list of known survivors")
    args = parser.parse_args()
    chosen = {name: tests for name, tests in modules().items() if not args.words or any(w in name for w in args.words)}
    if not chosen:
        parser.error("no module of pyproject.toml has such a name")
    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = list(pool.map(run_module, chosen, chosen.values()))
    if args.write:
        KNOWN.write_text(updated_list(KNOWN.read_text(), outcomes))
    return report(outcomes, known_survivors(KNOWN.read_text(), chosen))


def modules() -> dict[str, list[str]]:
    """Module → the tests that reach it, from pyproject.toml."""
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # pytest brings tomli
    found: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutants"]["modules"]
    return found


def run_module(module: str, tests: list[str]) -> Outcome:
    """Run all mutants of one module in a copy of the tree."""
    outcome, begin = Outcome(module), time.monotonic()
    folder = BUILD / module.removesuffix(".py").replace("/", ".")
    copy_tree(folder)
    settings = {
        "source_paths": ["workflow"], "only_mutate": [module], "also_copy": COPIED,
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
    }  # fmt: skip
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(project + "\n[tool.mutmut]\n" + "\n".join(lines) + "\n")
    done = mutmut(folder, "run", "--max-children", "1")
    records = folder / "mutants" / (module + ".meta")
    if done.returncode or not records.is_file():
        outcome.error = (done.stdout + done.stderr)[-2000:]
    else:
        collect(outcome, folder, json.loads(records.read_text())["exit_code_by_key"])
    outcome.seconds = time.monotonic() - begin
    print(f"{module}: {outcome.killed} killed, {len(outcome.survivors)} survived, {outcome.seconds:.0f} s", flush=True)
    return outcome


def copy_tree(folder: Path) -> None:
    """Copy what the tests need."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = shutil.ignore_patterns("__pycache__", "*.sst")
    made_by_examples = shutil.ignore_patterns("__pycache__", "runs", "build", "*.sst")
    for name in ["workflow", *COPIED]:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=made_by_examples if name == "examples" else made)
        else:
            shutil.copy(source, folder / name)


def mutmut(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mutmut in a folder."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "WF_CONFIGS")}
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def collect(outcome: Outcome, folder: Path, exit_codes: dict[str, int | None]) -> None:
    """Sort the mutants of one module by what the tests made of them."""
    left = [name for name, code in exit_codes.items() if code in SURVIVED]
    outcome.killed = len(exit_codes) - len(left)
    for name, diff in zip(left, diffs(folder, outcome.module, left), strict=True):
        before, after = changed_lines(diff)
        if is_text(before, after) or is_strict(before, after):
            outcome.left_out += 1
        else:
            outcome.survivors.append(f"{function_of(name)}: `{before}` → `{after}`")


def function_of(mutant: str) -> str:
    """The function or method in the name of a mutant, as in `workflow.spec.overlay.x__named__mutmut_47`."""
    return mutant.rsplit(".", 1)[-1].partition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")


def diffs(folder: Path, module: str, mutants: list[str]) -> list[str]:
    """The change that each of these mutants makes, from one process: `mutmut show` takes half a second for each."""
    code = (
        "import json, sys\n"
        "from mutmut.mutation.diff_apply import get_diff_for_mutant\n"
        "names = json.load(sys.stdin)\n"
        "json.dump([get_diff_for_mutant(name, path=sys.argv[1]) for name in names], sys.stdout)"
    )
    command = [sys.executable, "-c", code, module]
    done = subprocess.run(command, cwd=folder, input=json.dumps(mutants), capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def changed_lines(diff: str) -> tuple[str, str]:
    """(the lines before, the lines after) of a diff, each as one line."""
    lines = diff.splitlines()
    before = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
    after = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
    return " ".join(before), " ".join(after)


def is_text(before: str, after: str) -> bool:
    """Whether only a string with a space in it was changed."""
    first, second = TEXT.findall(before), TEXT.findall(after)
    if TEXT.sub("", before) != TEXT.sub("", after) or len(first) != len(second):
        return False
    return all(" " in one.strip("\"'").strip() for one, other in zip(first, second, strict=True) if one != other)


def is_strict(before: str, after: str) -> bool:
    """Whether only `strict=True` of a zip was changed."""
    return STRICT.sub("", before) == STRICT.sub("", after)


def known_survivors(text: str, chosen: Iterable[str]) -> dict[str, set[str]]:
    """Module → its survivors that are listed, each with a reason: `## path`, then `- function: change | reason`."""
    found: dict[str, set[str]] = {module: set() for module in chosen}
    unexplained = []
    module = ""
    for line in text.splitlines():
        if line.startswith("## "):
            module = line.removeprefix("## ").strip()
        elif line.startswith("- ") and module in found:
            change, _, reason = line.removeprefix("- ").rpartition(" | ")
            if not reason.strip() or not change:
                unexplained.append(f"{KNOWN}: no reason in: {line}")
            found[module].add(change)
    if unexplained:
        raise SystemExit("\n".join(unexplained))
    return found


def updated_list(text: str, outcomes: list[Outcome]) -> str:
    """The list with these results: figures in its table, new survivors with no reason yet, killed ones left out."""
    head, *parts = text.split("\n## ")
    sections = {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}
    rows = dict(ROW.findall(head))
    for outcome in (each for each in outcomes if not each.error):
        rows[outcome.module] = f"{outcome.killed} of {outcome.killed + len(outcome.survivors)}"
        before = sections.get(outcome.module, "").split("\n")
        listed = {line.removeprefix("- ").rpartition(" | ")[0]: line for line in before}
        lines = [listed.get(survivor, f"- {survivor} | ") for survivor in dict.fromkeys(outcome.survivors)]
        sections[outcome.module] = "\n".join(lines)
    figures = [[int(number) for number in row.split(" of ")] for row in rows.values()]
    killed, total = sum(row[0] for row in figures), sum(row[1] for row in figures)
    table = "".join(f"| {module} | {row} |\n" for module, row in rows.items())
    head = ROW.sub("", head)
    head = re.sub(r"(?<=\|---\|---\|\n)", lambda _: table, head)
    head = re.sub(r"Together .* killed\.", f"Together {killed} of {total}: {killed / total:.1%} killed.", head)
    kept = "".join(f"\n## {title}\n\n{body}\n" for title, body in sections.items() if body)
    return head.rstrip("\n") + "\n" + kept


def report(outcomes: list[Outcome], known: dict[str, set[str]]) -> int:
    """Print the table, and what is not as listed."""
    wrong = 0
    print(f"{'module':45} {'mutants':>8} {'killed':>7} {'left out':>8} {'seconds':>8}")
    for outcome in outcomes:
        total = outcome.killed + len(outcome.survivors)
        share = f"{outcome.killed / total:.1%}" if total else "-"
        print(f"{outcome.module:45} {total:8} {share:>7} {outcome.left_out:8} {outcome.seconds:8.0f}")
    for outcome in outcomes:
        survivors, listed = set(outcome.survivors), known[outcome.module]
        gone = set() if outcome.error else listed - survivors
        messages = [
            *([outcome.error] if outcome.error else []),
            *(f"survives and is not listed: {each}" for each in sorted(survivors - listed)),
            *(f"is listed and does not survive: {each}" for each in sorted(gone)),
        ]
        for message in messages:
            print(f"{outcome.module}: {message}")
        wrong += len(messages)
    killed = sum(outcome.killed for outcome in outcomes)
    total = killed + sum(len(outcome.survivors) for outcome in outcomes)
    print(f"{killed} of {total} mutants killed ({killed / max(total, 1):.1%}), {wrong} differences from {KNOWN.name}")
    return int(wrong > 0 or killed < LEAST_KILLED * total)


if __name__ == "__main__":
    sys.exit(main())
