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
PAGE = ROOT / "docs/explanation/what-each-setting-does.md"


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
        *rows("transports", ["tcp by default", "tcp"], (0,), group="1→1, 64 MB"),
        *rows("sizes", ["tcp", "plain MPI"], (10, 1000)),
        *rows("aggregation", ["TwoLevelShm", "EveryoneWrites"], (1, 2), files=1),
        *rows("async", ["off", "guided"], (0,), group="to the disk"),
        *rows("compression", ["none", "zfp 1e-2"], (0,)),
        *rows("queue", ["reader always slower, block", "reader always slower, discard"], (1, 2), lost=4),
        *rows("cut", ["stream (sst)"], (0, 1, 2)),
        *rows("latency", ["raw", "workflow.stage"], (0,), group="ssc"),
        *rows("pipe", ["off", "pipe"], (0,), group="64 MB"),
    ]
    (folder / "figures.json").write_text(json.dumps({"bench_x": section(*figures)}))
    pictures.main(["--from", str(folder / "figures.json"), "--to", str(folder)])
    return folder


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_every_picture_is_drawn(name: str, drawn: Path) -> None:
    assert "</svg>" in (drawn / f"{name}.svg").read_text()


def test_the_page_shows_every_picture() -> None:
    shown = re.findall(r"\.\./pictures/(\w+)\.svg", PAGE.read_text())
    assert sorted(shown) == sorted(pictures.PICTURES)
    assert all((ROOT / f"docs/pictures/{name}.svg").exists() for name in shown)


def test_the_page_shows_what_was_measured() -> None:
    kept = (ROOT / "docs/benchmarks.json").read_text()
    assert (ROOT / "docs/benchmarks.md").read_text() == run.page_of(json.loads(kept)), "type: make bench"
