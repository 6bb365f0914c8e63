"""The page of benchmarks and its pictures, from figures of no run."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.bench import pictures, run, streams

ROOT = Path(__file__).parents[2]
PAGES = ("what-each-setting-does", "how-fast-can-a-stream-be")


def section(*rows: dict[str, Any], quick: bool = False) -> dict[str, Any]:
    about = {"title": "A title.\n\nAnd how.", "when": "2026-01-02", "machine": "one", "python": "3.11", "seconds": 3}
    return {**about, "quick": quick, "rows": list(rows)}


def test_a_part_measured_again_leaves_the_others(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    run.keep(
        {"bench_cli": section(streams.row("old", 1, "s")), "bench_run": section(streams.row("kept", 2, "s"))}, page
    )
    run.keep({"bench_cli": section(streams.row("new", 3, "s"), quick=True)}, page)
    text = page.read_text()
    assert "| new | 3 s |" in text and "| kept | 2 s |" in text and "| old |" not in text
    assert text.count(run.SHORT) == 1


@pytest.mark.parametrize(("variable", "bytecode"), [("", "cached"), ("1", "none")])
def test_the_page_says_whether_starts_compiled(
    variable: str, bytecode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", variable)
    bench = tmp_path / "bench_nothing.py"
    bench.write_text("def measure():\n    return []\n")
    assert f", bytecode {bytecode}\n" in run.page_of({"bench_nothing": run._measure(bench, quick=False)})


def test_a_benchmark_that_is_no_more_leaves_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.with_suffix(".json").write_text(json.dumps({"bench_gone": section(streams.row("gone", 1, "s"))}))
    run.keep({"bench_cli": section(streams.row("here", 1, "s"))}, page)
    assert "gone" not in page.read_text()


def test_ways_take_turns() -> None:
    order: list[str] = []

    def measured(name: str) -> float:
        order.append(name)
        return 1.0

    found = streams.take_turns({name: partial(measured, name) for name in "abc"}, 4)
    assert order == list("abcbcacababc")
    assert found == {name: [1.0] * 4 for name in "abc"}


def test_a_ratio_is_taken_turn_by_turn() -> None:
    row = streams.against("ours ÷ theirs", [2.0, 8.0, 9.0], [1.0, 2.0, 3.0], 3)
    assert (row["value"], row["low"], row["high"]) == (3.0, 2.0, 4.0)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    point: dict[str, Any] = {"low": 1.0, "high": 3.0, "detail": ""}

    def rows(picture: str, curves: list[str], xs: tuple[int, ...] = (0, 1), **more: Any) -> list[dict[str, Any]]:
        return [
            streams.row(f"{curve} {x}", 2.0, "s", picture=picture, curve=curve, x=x, **point, **more)
            for curve in curves for x in xs
        ]  # fmt: skip

    figures = [
        *rows("transports", ["tcp by default", "tcp", "shm", "shm, views"], (0,), group="1→1, 64 MB"),
        *rows("sizes", ["tcp by default", "tcp", "plain MPI"], (10, 1000)),
        *rows("aggregation", ["TwoLevelShm", "EveryoneWrites"], (1, 2), files=1),
        *rows("async", ["off", "guided"], (0,), group="to the disk"),
        *rows("compression", ["none", "zfp 1e-2"], (0,)),
        *rows("queue", ["reader always slower, block", "reader always slower, discard"], (1, 2), lost=4),
        *rows("cut", ["stream (sst)"], (0, 1, 2)),
        *rows("latency", ["workflow.stage"], (0,), group="shm"),
        *rows("latency", ["raw", "workflow.stage"], (0,), group="sst-tcp"),
        *rows("pipe", ["off", "pipe"], (0,), group="64 MB"),
    ]
    (folder / "figures.json").write_text(json.dumps({"bench_x": section(*figures)}))
    pictures.main(["--from", str(folder / "figures.json"), "--to", str(folder)])
    return folder


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_every_picture_is_drawn(name: str, drawn: Path) -> None:
    assert "</svg>" in (drawn / f"{name}.svg").read_text()


def valued(*points: tuple[str, str | float, float], key: str = "group", **more: Any) -> list[dict[str, Any]]:
    """Rows of curve, group (or x) and value."""
    return [{"curve": curve, key: at, "value": value, **more} for curve, at, value in points]


@pytest.mark.parametrize(
    ("name", "rows", "title"),
    [
        (
            "transports",
            valued(
                ("tcp by default", "1→1, 64 MB", 2.0), ("tcp", "1→1, 64 MB", 3.0),
                ("by default", "BP5 writing, 64 MB", 1.0), ("as planned", "BP5 writing, 64 MB", 0.5),
            ),
            "As wf plans it, 64 MB steps are 0.5 to 1.5 × as fast as with ADIOS2's defaults",
        ),
        (
            "copies",
            valued(
                ("tcp", "1→1, 64 MB", 2.0), ("shm", "1→1, 64 MB", 8.0), ("shm, views", "1→1, 64 MB", 12.0),
                ("shm", "1→1, 16 MB", 1.0),
            ),
            "Through shared memory a 64 MB step is 4 × as fast as by tcp, as wf plans it, and 6 × where the reader "
            "takes a view",
        ),
        (
            "sizes",
            valued(
                ("tcp by default", 10_000, 2.0), ("tcp", 10_000, 1.0), ("ucx", 10_000, 3.0), ("plain MPI", 10_000, 9.0),
                ("tcp by default", 4_000_000, 2.0), ("tcp", 4_000_000, 8.0), ("ucx", 4_000_000, 3.0), key="x",
            ),
            "ucx is 1.5 × (10 kB) and tcp is 4 × (4 MB) as fast as tcp with ADIOS2's defaults; tcp as wf plans it is "
            "slower up to 10 kB",
        ),
        (
            "sizes",
            valued(
                ("tcp by default", 10_000, 2.0), ("tcp", 10_000, 2.0), ("ucx", 10_000, 3.0),
                ("tcp by default", 64_000_000, 2.0), ("tcp", 64_000_000, 3.0), ("ucx", 64_000_000, 8.0), key="x",
            ),
            "ucx is 1.5 × (10 kB) and 4 × (64 MB) as fast as tcp with ADIOS2's defaults",
        ),
        (
            "aggregation",
            valued(("A", 1, 8.0), ("B", 1, 6.0), ("A", 4, 2.0), ("B", 4, 3.0), key="x"),
            "A step is written 2 to 4 × as fast by 4 aggregators as by 1",
        ),
        (
            "async",
            valued(
                ("off", "into memory", 10.0), ("guided", "into memory", 11.0), ("naive", "into memory", 12.0),
                ("off", "to the disk", 10.0), ("guided", "to the disk", 8.0), ("naive", "to the disk", 5.0),
            ),
            "A step with async costs the writer 1.1 × as much into memory (guided) and 0.5 × as much to the disk "
            "(naive) as with async: off",
        ),
        (
            "compression",
            valued(("none", 1.0, 4.0), ("blosc", 0.5, 2.0), ("zfp", 0.06, 1.0), key="x"),
            "The fastest operator, blosc, is 0.5 × as fast as none; zfp leaves 6 % of the data",
        ),
        (
            "queue",
            [
                *valued(("slow, block", 1, 4.0), ("slow, block", 8, 1.0), key="x", lost=0.0),
                *valued(("slow, discard", 1, 1.0), ("slow, discard", 8, 1.0), key="x", lost=5.0),
            ],
            "A queue of 8 instead of 1 holds the writer 0.25 × as long (slow); steps are dropped by discard only",
        ),
        (
            "latency",
            valued(
                ("workflow.stage", "shm", 1.0), ("workflow.stage", "sst-tcp", 4.0), ("workflow.stage", "sst-ucx", 2.0)
            ),
            "A small step through shared memory takes 0.5 × the time of the fastest SST",
        ),
        (
            "pipe",
            valued(("off", "16 MB", 4.0), ("pipe", "16 MB", 1.0), ("off", "64 MB", 4.0), ("pipe", "64 MB", 2.0)),
            "With a pipe the simulation sees 0.25 to 0.5 × the time of file writing",
        ),
        (
            "cut",
            valued(("stream (sst)", 0, 2.0), ("stream (sst)", 2, 3.0), key="x"),
            "Cut along axis 2 instead of 0, a step takes 1.5 × as long by stream",
        ),
    ],
)  # fmt: skip
def test_a_title_is_what_the_rows_show(name: str, rows: list[dict[str, Any]], title: str) -> None:
    assert pictures.FINDINGS[name](rows) == title


def test_one_far_repetition_does_not_set_the_scale() -> None:
    rows = [
        {"curve": curve, "group": "to the disk", "value": 50.0, "low": 45.0, "high": high}
        for curve, high in (("off", 200.0), ("guided", 60.0))
    ]
    figure = pictures.asynchronous(rows)
    (axes,) = figure.axes
    assert 60.0 < axes.get_ylim()[1] < 80.0
    assert [text.get_text() for text in axes.texts] == ["200 ms"]


def test_the_pages_show_every_picture() -> None:
    text = "".join((ROOT / f"docs/explanation/{page}.md").read_text() for page in PAGES)
    shown = re.findall(r"\.\./pictures/(\w+)\.svg", text)
    assert sorted(shown) == sorted(pictures.PICTURES)
    assert all((ROOT / f"docs/pictures/{name}.svg").exists() for name in shown)


def test_the_page_shows_what_was_measured() -> None:
    kept = (ROOT / "docs/benchmarks.json").read_text()
    assert (ROOT / "docs/benchmarks.md").read_text() == run.page_of(json.loads(kept)), "type: make bench"
