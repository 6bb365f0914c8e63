"""Run every benchmark and write one Markdown page: `make bench`.

A benchmark is a file `bench_*.py` beside this one with `measure() -> list[Row]`; each compares two things
in one run, so that the machine's speed divides out.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import platform
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEADER = """# Benchmarks

Written by `make bench`; do not edit. Ratios are taken within one run on one machine, against the alternative that
is named; medians of repetitions, with the range where it is wide. Nothing here is asserted by a test.

| | |
|---|---|
| when | {when} |
| machine | {machine} |
| Python | {python} |
"""


def main() -> None:
    """Measure all, or those named, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="part of a file's name; default: all")
    parser.add_argument("--write", type=Path, help="write the page here")
    args = parser.parse_args()
    sections = []
    for path in sorted(HERE.glob("bench_*.py")):
        if args.names and not any(name in path.name for name in args.names):
            continue
        print(f"{path.name} …", file=sys.stderr, flush=True)
        start = time.monotonic()
        module = _load(path)
        rows = module.measure()
        print(f"{path.name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        sections.append(_section(path, (module.__doc__ or path.stem).strip(), rows))
    page = HEADER.format(
        when=datetime.date.today().isoformat(), machine=_machine(), python=platform.python_version()
    ) + "".join(sections)
    if args.write:
        args.write.write_text(page)
    print(page)


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _section(path: Path, title: str, rows: list[dict[str, Any]]) -> str:
    headline, _, explanation = title.partition("\n")
    lines = (
        [f"\n## {headline.rstrip('.')}\n", explanation.strip(), ""] if explanation.strip() else [f"\n## {headline}\n"]
    )
    lines += ["| what | value | target | met | detail |", "|---|---:|---:|:-:|---|"]
    lines += [_row(row) for row in rows]
    lines += ["", f"`python tests/bench/run.py {path.stem}`", ""]
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
