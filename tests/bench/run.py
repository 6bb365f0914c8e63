"""Run every benchmark and write one Markdown page: `make bench`.

A benchmark is a file `bench_*.py` beside this one with `measure() -> list[Row]`; each compares two things
in one run, so that the machine's speed divides out. What was measured is kept beside the page as JSON: a run of some
benchmarks renews their sections alone, and `pictures.py` draws from it.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEADER = """# Benchmarks

Written by `make bench`; do not edit. Ratios are taken within one run on one machine, against the alternative that
is named; medians of repetitions, with the range where it is wide. Nothing here is asserted by a test.
What some of it looks like: [what each setting does to your run](explanation/what-each-setting-does.md).

| | |
|---|---|
| when | {when} |
| machine | {machine} |
| Python | {python} |
"""
SHORT = "One run of the short form (`--quick`): each thing measured once."


def main() -> None:
    """Measure all, or those named, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="part of a file's name; default: all")
    parser.add_argument("--quick", action="store_true", help="everything once, and less of it: to see that it works")
    parser.add_argument("--write", type=Path, help="write the page here, and what was measured beside it as JSON")
    args = parser.parse_args()
    if args.quick:
        os.environ["WF_BENCH_QUICK"] = "1"
    # An installed wf has its bytecode. Where this variable is set, each start would compile the modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # The benchmarks import each other, and start programs that do.
    sys.path.insert(0, str(HERE.parents[1]))
    from tests.bench.streams import NotMeasured

    sections = {}
    for path in sorted(HERE.glob("bench_*.py")):
        if args.names and not any(name in path.name for name in args.names):
            continue
        print(f"{path.name} …", file=sys.stderr, flush=True)
        try:
            sections[path.stem] = _measure(path, quick=args.quick)
        except NotMeasured as missing:
            print(f"{path.name}: not measured: {missing}", file=sys.stderr, flush=True)
            continue
        print(f"{path.name}: {sections[path.stem]['seconds']} s", file=sys.stderr, flush=True)
        if args.write:
            keep(sections, args.write)  # after each: what was measured is not lost with the next one
    if not args.write:
        print(page_of(sections))


def keep(sections: dict[str, Any], page: Path) -> None:
    """Write the page, with the sections measured before of those that are not among these."""
    store = page.with_suffix(".json")
    before = json.loads(store.read_text()) if store.exists() else {}
    kept = {stem: section for stem, section in before.items() if (HERE / f"{stem}.py").exists()}
    every = dict(sorted({**kept, **sections}.items()))
    store.write_text(json.dumps(every, indent=1, ensure_ascii=False) + "\n")
    page.write_text(page_of(every))


def page_of(sections: dict[str, Any]) -> str:
    """The page as Markdown."""
    about = {key: " and ".join(sorted({each[key] for each in sections.values()})) for key in ("machine", "python")}
    days = sorted({each["when"] for each in sections.values()})
    when = " to ".join(days[:1] + days[-1:] if len(days) > 1 else days)
    return HEADER.format(when=when, **about) + "".join(_section(stem, each) for stem, each in sections.items())


def _measure(path: Path, *, quick: bool) -> dict[str, Any]:
    start = time.monotonic()
    module = _load(path)
    rows = module.measure()
    return {
        "title": (module.__doc__ or path.stem).strip(), "when": datetime.date.today().isoformat(),
        "machine": _machine(), "python": platform.python_version(), "seconds": round(time.monotonic() - start),
        "bytecode": "none" if os.environ.get("PYTHONDONTWRITEBYTECODE") else "cached", "quick": quick, "rows": rows,
    }  # fmt: skip


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _section(stem: str, section: dict[str, Any]) -> str:
    headline, _, explanation = section["title"].partition("\n")
    lines = [f"\n## {headline.rstrip('.')}\n"]
    lines += [text + "\n" for text in (explanation.strip(), SHORT if section["quick"] else "") if text]
    lines += ["| what | value | target | met | detail |", "|---|---:|---:|:-:|---|"]
    lines += [_row(row) for row in section["rows"]]
    # Without cached bytecode every start compiles: PYTHONDONTWRITEBYTECODE. Older records do not say.
    bytecode = f", bytecode {section['bytecode']}" if "bytecode" in section else ""
    lines += ["", f"`python tests/bench/run.py {stem}`: {section['seconds']} s on {section['when']}{bytecode}", ""]
    return "\n".join(lines)


def _row(row: dict[str, Any]) -> str:
    value, target, unit = row["value"], row.get("target"), row.get("unit", "")
    met = ""
    if target is not None:
        met = "yes" if (value <= target if row.get("better", "lower") == "lower" else value >= target) else "**no**"
    bound = "" if target is None else f"{'≤' if row.get('better', 'lower') == 'lower' else '≥'} {target:g} {unit}"
    return f"| {row['name']} | {value:.4g} {unit} | {bound} | {met} | {row.get('detail', '')} |"


def _machine() -> str:
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = f"{len(names)} × {names[0]}" if names else model
    return f"{model}, {platform.system()} {platform.release().split('-')[0]}"


if __name__ == "__main__":
    main()
