"""Draw docs/pictures/*.svg from what `make bench` measured (docs/benchmarks.json).

    python tests/bench/pictures.py [--from docs/benchmarks.json] [--to docs/pictures] [--format svg]

A benchmark's row says with `picture`, `curve` and `x` where it belongs; bars of a range are its lowest and highest.
The title of a picture is what its rows show (`FINDINGS`): no figure of it is typed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from workflow.campaign.results.picture_canvas import BLACK, wrapped
from workflow.campaign.results.picture_canvas import COLOURS as VALUES
from workflow.engines import NODE_VIA

ROOT = Path(__file__).parents[2]
WIDTH = 5.0
"""Inches: letters are large enough in a column of 368 pixels, which is what a phone has, too."""
TITLE = 56
"""Letters in a line of the title."""
FAR = 1.5
"""A repetition beyond that many times the largest median is named at the edge: it does not set the scale."""
# Text as outlines, and no date: the same figures give the same file on every machine.
STYLE: Any = {
    "svg.hashsalt": "wf", "figure.dpi": 110, "font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True, "legend.frameon": False, "axes.titlesize": 10,
    "figure.titlesize": 10,
}  # fmt: skip
# A value that studies compare, too, has the colour that it has in their pictures.
COLOURS = {
    "tcp by default": "#999999", "tcp": VALUES[0], "ucx": VALUES[1], "rdma": VALUES[2], "shm": VALUES[5],
    "plain MPI": BLACK,
    "defaults": "#999999", "planned": "#d55e00", "TwoLevelShm": "#999999", "EveryoneWrites": "#0072b2",
    "reader now and then slow, block": "#0072b2", "reader always slower, block": "#d55e00",
    "reader always slower, discard": "#009e73", "stream (sst)": VALUES[0], "file (bp5), reading": VALUES[3],
    "raw": "#999999", "workflow.stage": "#0072b2",
    "off": VALUES[0], "guided": VALUES[1], "naive": VALUES[2], "pipe": VALUES[3],
}  # fmt: skip
# What a curve is called in a legend, where its name in the figures is short.
LEGENDS = {
    "tcp by default": "tcp, ADIOS2's defaults", "tcp": "tcp, as wf plans it", "ucx": "ucx, as wf plans it",
    "rdma": "rdma, as wf plans it", "shm": "shared memory", "defaults": "ADIOS2's defaults",
    "planned": "as wf plans it", "raw": "adios2 alone",
}  # fmt: skip
# Curves that lie on one another are told apart by these.
MARKERS = {
    "tcp": ("s", "-"), "ucx": ("^", "-"), "rdma": ("v", "--"), "shm": ("P", "-"), "plain MPI": ("D", "-"),
    "reader always slower, block": ("s", "--"), "reader always slower, discard": ("^", "-"),
}  # fmt: skip
# A curve that others lie on is seen below them by its wide marks.
BELOW = "reader now and then slow, block"
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
        own = [row for row in rows if row["picture"] == SHOWN_AGAIN.get(name, name)]
        if own:
            with pyplot.rc_context(STYLE):
                figure = draw(own)
                figure.suptitle(_wrapped(FINDINGS[name](own)))
                metadata = {"Date": None} if args.format == "svg" else None
                figure.savefig(args.to / f"{name}.{args.format}", metadata=metadata, bbox_inches="tight")
            pyplot.close(figure)


def _pairs(rows: Rows) -> dict[str, dict[str, dict[str, Any]]]:
    """By transport, and for BP5: as ADIOS2 does it by default, and as planned."""
    found = {(row["group"], row["curve"]): row for row in rows}
    shape = "1→1, 64 MB"
    pairs = {f"sst {each}": ((shape, f"{each} by default"), (shape, each)) for each in ("tcp", "ucx", "rdma")}
    pairs["bp5, writing"] = ("BP5 writing, 64 MB", "by default"), ("BP5 writing, 64 MB", "as planned")
    return {
        name: {"defaults": found[defaults], "planned": found[planned]}
        for name, (defaults, planned) in pairs.items() if defaults in found and planned in found
    }  # fmt: skip


def transports(rows: Rows) -> Any:
    """ADIOS2's defaults and what wf plans, for one writer and one reader and for BP5."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    _grouped(axes, _pairs(rows))
    axes.set(ylabel="GB/s, more is better", xlabel="64 MB steps from one rank to another, or into a file in memory")
    _name(figure, axes)
    return figure


PLACES = ("array of the writer", "buffer, or common memory", "socket", "buffer of the reader", "array of the reader")
# Way → the places through which a step goes; each but the first one is a copy. ADIOS2 (2.12.1) copies in Put, and
# fetches arrays of several dimensions into a buffer. A view ends where the data are.
COPIES = {
    "tcp": ("SST by tcp", (0, 1, 2, 3, 4)), "ucx by workflow.stage": ("SST by ucx", (0, 1, 3, 4)),
    "shm": ("shm: write, read", (0, 1, 4)), "shm, views": ("shm: write, view", (0, 1)),
    "plain MPI, copied": ("copy, then MPI", (0, 1, 4)), "plain MPI": ("MPI", (0, 4)),
}  # fmt: skip
COPIED = "1→1, 64 MB"


def copies(rows: Rows) -> Any:
    """Through how many places a step goes, and how fast that was."""
    own = _copied(rows)
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(WIDTH, 4), layout="constrained", sharey=True, gridspec_kw={"width_ratios": (2.2, 1)}
    )
    names = [COPIES[way][0] for way in own]
    for number, (way, row) in enumerate(own.items()):
        places = COPIES[way][1]
        for begin, end in pairwise(places):
            # The buffer of the reader is only there for arrays of several dimensions.
            line = "dashed" if PLACES[begin] == "buffer of the reader" else "solid"
            style = {"arrowstyle": "-|>", "color": BLACK, "linestyle": line, "shrinkA": 5, "shrinkB": 5}
            left.annotate("", (end, number), (begin, number), arrowprops=style)
        left.plot(places, [number] * len(places), "o", color=VALUES[0], markersize=7)
        right.barh(number, row["value"], 0.6, xerr=_error(row), color=VALUES[0], capsize=3)
    left.set(yticks=range(len(own)), yticklabels=names, xlim=(-0.4, len(PLACES) - 0.6), ylim=(len(own) - 0.5, -0.5))
    left.set_xticks(range(len(PLACES)), PLACES, rotation=35, ha="right", rotation_mode="anchor")
    right.set_xlabel("GB/s,\nmore is better")
    left.grid(visible=False)
    right.grid(axis="y", visible=False)
    return figure


def _copied(rows: Rows) -> dict[str, dict[str, Any]]:
    """Way → its row, the ways in the order of `COPIES`."""
    found = {row["curve"]: row for row in rows if row["group"] == COPIED}
    return {way: found[way] for way in COPIES if way in found}


def sizes(rows: Rows) -> Any:
    """Throughput by the size of a step."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    _curves(axes, rows)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="size of a step, from one rank to another, logarithmic",
        ylabel="GB/s, more is better, logarithmic",
    )
    axes.xaxis.set_major_formatter(lambda value, _: _bytes(value))
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
    axes.set(
        ylabel="ms per step (slowest rank),\nless is better", xlabel="four ranks write 16 MB each into memory (BP5)"
    )
    _name(figure, axes)
    return figure


def asynchronous(rows: Rows) -> Any:
    """What the writer waits per step."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.7), layout="constrained")
    groups = list(dict.fromkeys(row["group"] for row in rows))
    kinds = list(dict.fromkeys(row["curve"] for row in rows))
    # The repetitions differ by more than the settings: a point each, not a bar with one far end.
    largest = FAR * max(row["value"] for row in rows)
    top = 1.12 * max(end for row in rows for end in (row["value"], row["low"], row["high"]) if end <= largest)
    for row in rows:
        place = groups.index(row["group"]) + (kinds.index(row["curve"]) - (len(kinds) - 1) / 2) * 0.25
        for end in (row["low"], row["high"]):
            if end <= largest:
                axes.plot(place, end, "o", color=COLOURS[row["curve"]], fillstyle="none")
            else:
                axes.plot(place, top, "^", color=COLOURS[row["curve"]], clip_on=False)
                axes.annotate(f"{end:.0f} ms", (place, top), (8, -4), textcoords="offset points")
        axes.plot(place, row["value"], "_", markersize=18, markeredgewidth=2.5, color=COLOURS[row["curve"]])
    for kind in kinds:
        axes.plot([], [], "s", color=COLOURS[kind], label=f"async: {kind}")
    axes.plot([], [], "_", markersize=12, markeredgewidth=2.5, color=BLACK, label="median")
    axes.plot([], [], "o", color=BLACK, fillstyle="none", label="lowest, highest")
    if any(row["high"] > largest for row in rows):
        axes.plot([], [], "^", color="#000000", label="beyond the axis")
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(axis="x", visible=False)
    axes.set(
        ylabel="ms that a step costs\nthe writer, less is better", ylim=(0, top), xlim=(-0.6, len(groups) - 0.4),
        xlabel="64 MB a step, 100 ms of computing between (BP5)",
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
        yscale="log", xlim=(0, 1.15), ylabel="GB/s of data written,\nmore is better, logarithmic",
        xlabel="size on disk ÷ size of the data, less is better\n(a smooth float32 field, written by one rank)",
    )  # fmt: skip
    axes.set_ylim(top=2 * max(row["value"] for row in rows))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


def queue(rows: Rows) -> Any:
    """Holding the writer, and dropping steps, by the limit."""
    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(WIDTH, 5.2), layout="constrained", sharex=True)
    _curves(upper, rows)
    upper.set(ylabel="ms that a step holds\nthe writer, less is better")
    dropped = [{**row, "value": row["lost"], "low": row["lost"], "high": row["lost"]} for row in rows]
    _curves(lower, dropped)
    most = max(row["lost"] for row in rows)
    lower.set(
        xlabel="queue limit (steps)", ylabel="% of the steps dropped,\nless is better", ylim=(-0.08 * most, 1.15 * most)
    )
    upper.set_ylim(bottom=0)
    lower.set_xticks(sorted({row["x"] for row in rows}))
    _name(figure, upper, columns=1)
    return figure


def latency(rows: Rows) -> Any:
    """Time of a small step by engine and transport."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    _grouped(axes, {name.replace("-", " "): own for name, own in _by_group(rows).items()})
    axes.set(ylabel="µs per step, less is better", xlabel="10 kB steps from one rank to another")
    _name(figure, axes)
    return figure


def pipe(rows: Rows) -> Any:
    """What is left of the file writing for the simulation."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    _grouped(axes, {f"dumps of {name}": own for name, own in _by_group(rows).items()})
    axes.set(ylabel="s of file writing that the simulation\nsees in 12 dumps, less is better")
    _name(figure, axes, key="async")
    return figure


def cut(rows: Rows) -> Any:
    """Time of a step by the axis along which readers cut."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2), layout="constrained")
    names = {0: "axis 0, slowest\n(as the writers)", 1: "axis 1", 2: "axis 2, fastest"}
    _grouped(axes, {name: {row["curve"]: row for row in rows if row["x"] == axis} for axis, name in names.items()})
    axes.set(ylabel="ms per step, less is better", xlabel="axis along which two readers cut a 200³ grid (64 MB)")
    _name(figure, axes)
    return figure


PICTURES: dict[str, Callable[[Rows], Any]] = {
    "transports": transports, "sizes": sizes, "aggregation": aggregation, "async": asynchronous,
    "compression": compression, "queue": queue, "cut": cut,
    "latency": latency, "pipe": pipe, "copies": copies,
}  # fmt: skip
SHOWN_AGAIN = {"copies": "transports"}
"""Pictures of rows that belong to another one, too."""


def transports_finding(rows: Rows) -> str:
    """How much more goes through as planned."""
    gains = [_ratio(pair["planned"], pair["defaults"]) for pair in _pairs(rows).values()]
    return f"As wf plans it, 64 MB steps are {_span(gains)} × as fast as with ADIOS2's defaults"


def copies_finding(rows: Rows) -> str:
    """What the copies cost that shared memory saves."""
    own = _copied(rows)
    times = {way: _ratio(own[way], own["tcp"]) for way in ("shm", "shm, views")}
    return (
        f"Through shared memory a 64 MB step is {times['shm']:.2g} × as fast as by tcp, as wf plans it, and "
        f"{times['shm, views']:.2g} × where the reader takes a view"
    )


def sizes_finding(rows: Rows) -> str:
    """The fastest transport of the smallest and of the largest steps, and where tcp as planned loses."""
    by_size = _by(rows, "x")
    told: dict[str, list[str]] = {}
    for size in (min(by_size), max(by_size)):
        own = by_size[size]
        fastest = max(
            (each for each in ("tcp", "ucx", "rdma", "shm") if each in own), key=lambda each: own[each]["value"]
        )
        gain = f"{_ratio(own[fastest], own['tcp by default']):.2g} × ({_bytes(size)})"
        told.setdefault(fastest, []).append(gain)
    slower = [size for size, own in by_size.items() if own["tcp"]["value"] < own["tcp by default"]["value"]]
    loss = f"; tcp as wf plans it is slower up to {_bytes(max(slower))}" if slower else ""
    gains = " and ".join(f"{name} is {' and '.join(its)}" for name, its in told.items())
    return f"{gains} as fast as tcp with ADIOS2's defaults{loss}"


def aggregation_finding(rows: Rows) -> str:
    """How much faster the most aggregators are than the fewest."""
    counts = _by(rows, "x")
    fewest, most = min(counts), max(counts)
    gains = [_ratio(counts[fewest][curve], counts[most][curve]) for curve in counts[most]]
    return f"A step is written {_span(gains)} × as fast by {most} aggregators as by {fewest}"


def async_finding(rows: Rows) -> str:
    """What the fastest of the asynchronous ways costs, in each group."""
    told = []
    for group, own in _by_group(rows).items():
        best = min((kind for kind in own if kind != "off"), key=lambda kind: own[kind]["value"])
        told.append(f"{_ratio(own[best], own['off']):.2g} × as much {group} ({best})")
    return f"A step with async costs the writer {' and '.join(told)} as with async: off"


def compression_finding(rows: Rows) -> str:
    """The fastest operator and the one that leaves least, against none."""
    own = {row["curve"]: row for row in rows}
    plain = own.pop("none")
    fastest = max(own.values(), key=lambda row: float(row["value"]))
    smallest = min(own.values(), key=lambda row: float(row["x"]))
    return (
        f"The fastest operator, {fastest['curve']}, is {_ratio(fastest, plain):.2g} × as fast as none; "
        f"{smallest['curve']} leaves {100 * smallest['x']:.2g} % of the data"
    )


def queue_finding(rows: Rows) -> str:
    """What a longer queue does to each reader, and who drops steps."""
    limits = _by(rows, "x")
    short, long = min(limits), max(limits)
    times = {curve: _ratio(limits[long][curve], limits[short][curve]) for curve in limits[short]}
    told = [
        f"{time:.2g} × as long ({curve.removesuffix(', block')})" for curve, time in times.items() if "block" in curve
    ]
    dropping = dict.fromkeys(row["curve"].rpartition(", ")[2] for row in rows if row["lost"])
    drops = f"; steps are dropped by {' and '.join(dropping)} only" if dropping else ""
    return f"A queue of {long} instead of {short} holds the writer {', '.join(told)}{drops}"


def latency_finding(rows: Rows) -> str:
    """Shared memory against the fastest SST, both by workflow.stage."""
    groups = {via: own["workflow.stage"] for via, own in _by_group(rows).items()}
    shared = groups.pop(NODE_VIA)
    fastest = min(groups.values(), key=lambda row: float(row["value"]))
    return f"A small step through shared memory takes {_ratio(shared, fastest):.2g} × the time of the fastest SST"


def pipe_finding(rows: Rows) -> str:
    """What is left for the simulation."""
    left = [_ratio(own["pipe"], own["off"]) for own in _by_group(rows).values()]
    return f"With a pipe the simulation sees {_span(left)} × the time of file writing"


def cut_finding(rows: Rows) -> str:
    """The last axis against the first."""
    axes = _by(rows, "x")
    first, last = min(axes), max(axes)
    told = [
        f"{_ratio(axes[last][curve], axes[first][curve]):.2g} × as long by {curve.partition(' (')[0]}"
        for curve in axes[last]
    ]
    return f"Cut along axis {last} instead of {first}, a step takes {' and '.join(told)}"


FINDINGS: dict[str, Callable[[Rows], str]] = {
    "transports": transports_finding, "sizes": sizes_finding, "aggregation": aggregation_finding,
    "async": async_finding, "compression": compression_finding, "queue": queue_finding, "cut": cut_finding,
    "latency": latency_finding, "pipe": pipe_finding, "copies": copies_finding,
}  # fmt: skip
"""The title of each picture, from its rows."""


def _ratio(one: dict[str, Any], other: dict[str, Any]) -> float:
    return float(one["value"]) / float(other["value"])


def _span(ratios: Sequence[float]) -> str:
    """`1.6 to 3.8`."""
    return " to ".join(dict.fromkeys(f"{each:.2g}" for each in (min(ratios), max(ratios))))


def _wrapped(title: str) -> str:
    """In lines; a number stays with its unit."""
    whole = re.sub(r"(?<=\d) (?=[×%kM])", "\u00a0", title)
    return "\n".join(wrapped(whole, TITLE, 4))


def _bytes(size: float) -> str:
    return f"{size / 1e6:g} MB" if size >= 1e6 else f"{size / 1e3:g} kB"


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
        wide, zorder = (10, 2.5) if name == BELOW else (4, 3)
        axes.errorbar(
            [row["x"] for row in own], [row["value"] for row in own], yerr=[low, high], marker=marker, linestyle=line,
            markersize=wide, capsize=2.5, label=LEGENDS.get(name, name), color=COLOURS[name], clip_on=False,
            fillstyle="none" if name == BELOW else "full", linewidth=3.5 if name == BELOW else 1.5, zorder=zorder,
        )  # fmt: skip


def _by_group(rows: Rows) -> dict[str, dict[str, dict[str, Any]]]:
    return _by(rows, "group")


def _by(rows: Rows, key: str) -> dict[Any, dict[str, dict[str, Any]]]:
    """A value of this key → curve → its row."""
    found: dict[Any, dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[key], {})[row["curve"]] = row
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
