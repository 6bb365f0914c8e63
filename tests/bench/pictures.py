"""Draw docs/pictures/*.svg from what `make bench` measured (docs/benchmarks.json).

    python tests/bench/pictures.py [--from docs/benchmarks.json] [--to docs/pictures] [--format svg]

A benchmark's row says with `picture`, `curve` and `x` where it belongs; bars of a range are its lowest and highest.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

ROOT = Path(__file__).parents[2]
WIDTH = 5.0
"""Inches: letters are large enough in a column of 368 pixels, which is what a phone has, too."""
# Text as outlines, and no date: the same figures give the same file on every machine.
STYLE: Any = {
    "svg.hashsalt": "wf", "figure.dpi": 110, "font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True, "legend.frameon": False, "axes.titlesize": 10,
}  # fmt: skip
COLOURS = {
    "tcp by default": "#999999", "tcp": "#0072b2", "ucx": "#d55e00", "rdma": "#009e73", "plain MPI": "#000000",
    "without": "#999999", "with": "#d55e00", "TwoLevelShm": "#999999", "EveryoneWrites": "#0072b2",
    "reader now and then slow, block": "#0072b2", "reader always slower, block": "#d55e00",
    "reader always slower, discard": "#009e73", "stream (sst)": "#d55e00", "file (bp5), reading": "#0072b2",
    "raw": "#999999", "workflow.stage": "#0072b2", "pipe": "#d55e00",
    "off": "#999999", "guided": "#0072b2", "naive": "#56b4e9",
}  # fmt: skip
# What a curve is called in a legend, where its name in the figures is short.
LEGENDS = {
    "tcp by default": "tcp, ADIOS2's defaults", "tcp": "tcp, as wf plans it", "ucx": "ucx, as wf plans it",
    "rdma": "rdma, as wf plans it", "without": "without the memory policy", "with": "with the memory policy",
    "raw": "adios2 alone",
}  # fmt: skip
# Curves that lie on one another are told apart by these.
MARKERS = {
    "tcp": ("s", "-"), "ucx": ("^", "-"), "rdma": ("v", "--"), "plain MPI": ("D", "-"),
    "reader always slower, block": ("s", "--"), "reader always slower, discard": ("^", "-"),
}  # fmt: skip
# Points from the mark to its label, and which part of the label is there.
LABELS = {"zfp 1e-2": ((0, 8), "left"), "zfp 1e-3": ((0, -15), "center"), "none": ((0, 8), "center")}

Rows = list[dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw those pictures whose figures are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=Path, default=ROOT / "docs/benchmarks.json")
    parser.add_argument("--to", type=Path, default=ROOT / "docs/pictures")
    parser.add_argument("--format", default="svg", choices=["svg", "png"])
    args = parser.parse_args(arguments)
    sections = json.loads(args.source.read_text())
    rows = [row for section in sections.values() for row in section["rows"] if "picture" in row]
    args.to.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        own = [row for row in rows if row["picture"] == name]
        if own:
            with pyplot.rc_context(STYLE):
                figure = draw(own)
                metadata = {"Date": None} if args.format == "svg" else None
                figure.savefig(args.to / f"{name}.{args.format}", metadata=metadata, bbox_inches="tight")
            pyplot.close(figure)


def transports(rows: Rows) -> Any:
    """The memory policy: bars with and without, for one writer and one reader and for BP5."""
    found = {(row["group"], row["curve"]): row for row in rows}
    shape = "1→1, 64 MB"
    pairs = {f"sst {each}": ((shape, f"{each} by default"), (shape, each)) for each in ("tcp", "ucx", "rdma")}
    pairs["bp5, writing"] = ("BP5 writing, 64 MB", "by default"), ("BP5 writing, 64 MB", "as planned")
    bars = {
        name: {"without": found[without], "with": found[planned]}
        for name, (without, planned) in pairs.items() if without in found and planned in found
    }  # fmt: skip
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    _grouped(axes, bars)
    axes.set(ylabel="GB/s", title="64 MB steps from one rank to another:\nwhat the memory policy gains")
    _name(figure, axes)
    return figure


def sizes(rows: Rows) -> Any:
    """Throughput by the size of a step."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    _curves(axes, rows)
    axes.set(
        xscale="log", yscale="log", xlabel="size of a step", ylabel="GB/s",
        title="One writer, one reader, one node:\ntransports by size",
    )  # fmt: skip
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} MB" if value >= 1e6 else f"{value / 1e3:g} kB")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _name(figure, axes)
    return figure


def aggregation(rows: Rows) -> Any:
    """Time of a step by the number of aggregators, with the files that are left."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    counts = sorted({row["x"] for row in rows})
    bars = {}
    for count in counts:
        own = [row for row in rows if row["x"] == count]
        bars[f"aggregators: {count},\ndata files: {own[0]['files']}"] = {row["curve"]: row for row in own}
    _grouped(axes, bars)
    axes.set(ylabel="ms per step (slowest rank)", title="Four ranks write 16 MB each into memory (BP5)")
    _name(figure, axes)
    return figure


def asynchronous(rows: Rows) -> Any:
    """What the writer waits per step."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    groups = list(dict.fromkeys(row["group"] for row in rows))
    kinds = list(dict.fromkeys(row["curve"] for row in rows))
    # The repetitions differ by more than the settings: a point each, not a bar with one far end.
    for row in rows:
        place = groups.index(row["group"]) + (kinds.index(row["curve"]) - (len(kinds) - 1) / 2) * 0.25
        axes.plot([place] * 2, [row["low"], row["high"]], "o", color=COLOURS[row["curve"]], fillstyle="none")
        axes.plot(place, row["value"], "_", markersize=18, markeredgewidth=2.5, color=COLOURS[row["curve"]])
    for kind in kinds:
        axes.plot([], [], "_", markersize=12, markeredgewidth=2.5, color=COLOURS[kind], label=f"async: {kind}")
    axes.plot([], [], "o", color="#000000", fillstyle="none", label="lowest, highest")
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(axis="x", visible=False)
    axes.set(
        ylabel="ms that a step costs the writer", ylim=(0, None), xlim=(-0.6, len(groups) - 0.4),
        title="64 MB a step, 100 ms of computing between (BP5):\nmedian, lowest and highest repetition",
    )  # fmt: skip
    _name(figure, axes, columns=2)
    return figure


def compression(rows: Rows) -> Any:
    """Speed against size."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    for row in rows:
        kind = row["curve"].split()[0]
        colour = {"none": "#666666", "blosc": "#0072b2", "zfp": "#d55e00", "bzip2": "#009e73"}[kind]
        axes.errorbar(row["x"], row["value"], yerr=_error(row), fmt="o", color=colour, capsize=3)
        place, part = LABELS.get(row["curve"], ((8, -3.5), "left"))
        at = (row["x"], row["value"])
        axes.annotate(row["curve"], at, place, textcoords="offset points", color=colour, horizontalalignment=part)
    axes.set(
        yscale="log", xlim=(0, 1.15), xlabel="size on disk ÷ size of the data", ylabel="GB/s of data written",
        title="A smooth float32 field, written by one rank:\nspeed against size",
    )  # fmt: skip
    axes.set_ylim(top=2 * max(row["value"] for row in rows))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


def queue(rows: Rows) -> Any:
    """Holding the writer, and dropping steps, by the limit."""
    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(WIDTH, 5.2), layout="constrained", sharex=True)
    _curves(upper, rows)
    upper.set(ylabel="ms that a step\nholds the writer", title="A longer queue hides pauses, not a slow reader")
    dropped = [{**row, "value": row["lost"], "low": row["lost"], "high": row["lost"]} for row in rows]
    _curves(lower, dropped)
    lower.set(xlabel="queue limit (steps)", ylabel="% of the steps", title="Only discard drops steps", ylim=(0, 60))
    upper.set_ylim(bottom=0)
    lower.set_xticks(sorted({row["x"] for row in rows}))
    _name(figure, upper, columns=1)
    return figure


def latency(rows: Rows) -> Any:
    """Time of a small step by engine and transport."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    _grouped(axes, _by_group(rows))
    axes.set(ylabel="µs per step", title="10 kB steps from one rank to another")
    _name(figure, axes)
    return figure


def pipe(rows: Rows) -> Any:
    """What is left of the file writing for the simulation."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    _grouped(axes, {f"dumps of {name}": own for name, own in _by_group(rows).items()})
    axes.set(ylabel="s in a run of 12 dumps", title="Time of file writing that the simulation sees")
    _name(figure, axes, key="async")
    return figure


def cut(rows: Rows) -> Any:
    """Time of a step by the axis along which readers cut."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    names = {0: "axis 0, slowest\n(as the writers)", 1: "axis 1", 2: "axis 2, fastest"}
    _grouped(axes, {name: {row["curve"]: row for row in rows if row["x"] == axis} for axis, name in names.items()})
    axes.set(ylabel="ms per step", title="Two readers of a 200³ grid (64 MB):\nalong which axis they cut it")
    _name(figure, axes)
    return figure


PICTURES: dict[str, Callable[[Rows], Any]] = {
    "transports": transports, "sizes": sizes, "aggregation": aggregation, "async": asynchronous,
    "compression": compression, "queue": queue, "cut": cut,
    "latency": latency, "pipe": pipe,
}  # fmt: skip


def _name(figure: Any, axes: Axes, key: str = "", columns: int = 0) -> None:
    """What is drawn, below the picture: over the curves there is not always room. `key`: whose values they show."""
    handles, names = axes.get_legend_handles_labels()
    labels = [f"{key}: {name}" if key else name for name in names]
    figure.legend(handles, labels, loc="outside lower center", ncols=columns or min(3, len(labels)))


def _curves(axes: Axes, rows: Rows) -> None:
    for name in dict.fromkeys(row["curve"] for row in rows):
        own = sorted((row for row in rows if row["curve"] == name), key=lambda row: float(row["x"]))
        low, high = ([abs(row["value"] - row[end]) for row in own] for end in ("low", "high"))
        marker, line = MARKERS.get(name, ("o", "-"))
        axes.errorbar(
            [row["x"] for row in own], [row["value"] for row in own], yerr=[low, high], marker=marker, linestyle=line,
            markersize=4, capsize=2.5, label=LEGENDS.get(name, name), color=COLOURS[name], clip_on=False, zorder=3,
        )  # fmt: skip


def _by_group(rows: Rows) -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["group"], {})[row["curve"]] = row
    return found


def _grouped(axes: Axes, bars: dict[str, dict[str, dict[str, Any]]]) -> None:
    kinds = list(dict.fromkeys(kind for each in bars.values() for kind in each))
    width = 0.8 / len(kinds)
    for number, kind in enumerate(kinds):
        own = [(place, each[kind]) for place, each in enumerate(bars.values()) if kind in each]
        places = [place + (number - (len(kinds) - 1) / 2) * width for place, _ in own]
        values = [row["value"] for _, row in own]
        errors = [[abs(row["value"] - row[end]) for _, row in own] for end in ("low", "high")]
        label = LEGENDS.get(kind, kind)
        axes.bar(places, values, width * 0.92, yerr=errors, label=label, color=COLOURS[kind], capsize=3)
    axes.set_xticks(range(len(bars)), list(bars))
    axes.grid(axis="x", visible=False)


def _error(row: dict[str, Any]) -> list[list[float]]:
    return [[row["value"] - row["low"]], [row["high"] - row["value"]]]


if __name__ == "__main__":
    main()
