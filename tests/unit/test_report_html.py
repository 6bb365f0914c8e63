"""report.html: whole in itself, light for long runs, and right about what it shows."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.sample_run import make_events, make_plan, make_stage, simulate, write_run, write_sample
from workflow.report.html import svg_charts
from workflow.report.html.page import TEMPLATES, bytecode_cache
from workflow.report.html.page_sections import round_marks
from workflow.report.report_files import write_report
from workflow.spec.models.pipeline import TypeAndShape

# The smallest PNG: one transparent pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000"
    "000049454e44ae426082"
)
VOID = {"meta", "img"}


@contextlib.contextmanager
def counted_calls() -> Iterator[list[int]]:
    """How often functions are called, those of C too: the work, whatever else this machine does."""
    calls = [0]

    def count(_frame: object, event: str, _argument: object) -> None:
        calls[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


class Strict(HTMLParser):
    """Fails on tags that do not match; collects what refers to elsewhere, and all titles."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page_of(run_dir: Path) -> str:
    write_report(run_dir)
    page = (run_dir / "report.html").read_text(encoding="utf-8")
    parser = Strict()
    parser.feed(page)
    assert parser.open == []
    assert all(link.startswith("data:image/png;base64,") for link in parser.links)
    assert not re.search(r"https?://|@import|url\(|<script(?!>)|<link", page)
    return page


def test_the_page_shows_every_part(tmp_path: Path) -> None:
    page = page_of(write_sample(tmp_path / "run"))
    for text in ("shock-diffraction", "✓ succeeded", "md → saxs", "98.4 MB", "QueueFullPolicy = Block", "limited by"):
        assert text in page, text
    assert page.count('<rect class="compute"') >= 41
    assert "atoms, step 40: computing" in page
    assert "What went wrong" not in page
    assert "prefers-color-scheme: dark" in page


def test_the_card_of_a_stream_has_its_variables_with_units(tmp_path: Path) -> None:
    plan = make_plan()
    known = {"position": TypeAndShape(type="float64", shape=["N", 3]), "step": TypeAndShape(type="int32", shape=[])}
    ends = [plan.stages[0].ends[0].model_copy(update={"variables": known, "units": {"position": "Å", "q": "1/Å"}})]
    stages = [plan.stages[0].model_copy(update={"ends": ends}), *plan.stages[1:]]
    metrics = simulate(3, 0.05, 0.05, 0.01)
    run_dir = write_run(tmp_path / "run", plan.model_copy(update={"stages": stages}), make_events(metrics), metrics)
    found = re.findall(r"<summary>variables</summary><pre[^>]*>(.*?)</pre>", page_of(run_dir), re.S)
    assert found == ["position  float64  [N, 3]  Å\nstep      int32  scalar\nq         1/Å"]


def test_a_label_stands_right_of_its_mark_and_at_the_end_left_of_it() -> None:
    assert [(round(mark.left), mark.label, mark.css_class) for mark in round_marks(0.83)] == [
        (0, "0", ""), (24, "200 ms", ""), (48, "400 ms", ""), (72, "600 ms", ""), (96, "800 ms", "tight end"),
    ]  # fmt: skip
    assert [mark.css_class for mark in round_marks(31.0)] == ["", "", "", "end"], "room for both labels on a phone"


def test_wide_tables_scroll_by_themselves(tmp_path: Path) -> None:
    page = page_of(write_sample(tmp_path / "run", steps=3))
    assert page.count('<table class="wide"') == page.count('<div class="scroll" tabindex="0"><table class="wide"') == 3


def test_a_long_run_makes_a_light_page_with_work_in_proportion(tmp_path: Path) -> None:
    page_of(write_sample(tmp_path / "first", steps=10))  # it imports modules and compiles templates
    work, pages = [], []
    for steps in (1_000, 8_000):
        run_dir = write_sample(tmp_path / str(steps), steps=steps, md_s=0.01, saxs_s=0.009)
        with counted_calls() as calls:
            pages.append(page_of(run_dir))
        work.append(calls[0])
    assert len(pages[1]) < 150_000
    assert work[1] < 8 * 1.25 * work[0], "calls for eight times the steps"
    assert re.search(r"<title>computing \d+ %, moving data \d+ %", pages[1])


def test_what_a_program_says_cannot_change_the_page(tmp_path: Path) -> None:
    metrics = simulate(3, 0.05, 0.05, 0.01)
    events = make_events(metrics, "failed", "saxs", "it said <script>alert(1)</script>")
    plan = make_plan(component=None, program=["<b>", "&"])
    run_dir = write_run(tmp_path / "run", plan, events, metrics)
    (run_dir / "stages/saxs/stderr.log").write_text("</pre><script>boo</script> & more\n")
    page = page_of(run_dir)
    assert "&lt;/pre&gt;&lt;script&gt;boo&lt;/script&gt; &amp; more" in page
    assert "✗ failed" in page
    assert "signal 9" in page
    assert 'class="fault"' in page


def test_a_long_command_has_one_line_and_the_whole_of_it_behind_that(tmp_path: Path) -> None:
    metrics = simulate(3, 0.05, 0.05, 0.01)
    argv = ["/home/me/project/.venv/bin/python", "/home/me/project/analysis/mean of all.py", "--bins=50"]
    plan = make_plan(component=None, program=argv)
    page = page_of(write_run(tmp_path / "run", plan, make_events(metrics), metrics))
    whole = "/home/me/project/.venv/bin/python &#39;/home/me/project/analysis/mean of all.py&#39; --bins=50"
    assert f"<details><summary>python &#39;mean of all.py&#39; --bins=50</summary>{whole}</details>" in page
    short = page_of(
        write_run(tmp_path / "short", make_plan(component=None, program=["./sim"]), make_events(metrics), metrics)
    )
    assert 'data-label="program">./sim</td>' in short


def test_the_culprit_of_a_hang_has_its_diagnosis_though_it_was_only_stopped(tmp_path: Path) -> None:
    metrics = simulate(3, 0.05, 0.05, 0.01)
    events = make_events(metrics)
    for event in events:
        if event["event"] == "run_finished":
            event |= {"state": "failed", "stage": "saxs", "reason": "no step for 5 s: saxs has been computing"}
        if event["event"] == "stage_succeeded":
            event["event"] = "stage_stopped"
    page = page_of(write_run(tmp_path / "run", make_plan(), events, metrics))
    assert re.search(r"<h3>saxs</h3>\s*<p>no step for 5 s: saxs has been computing</p>", page)


def test_at_most_six_pictures_are_embedded(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run", steps=3)
    (run_dir / "pictures/deep").mkdir(parents=True)
    for letter in "abcdefghijklmnopqrst":
        (run_dir / f"pictures/deep/pattern-{letter}.png").write_bytes(PIXEL)
    (run_dir / "pictures/summary.png").write_bytes(PIXEL)
    (run_dir / "pictures/deep/pattern-a.png").write_bytes(PIXEL + bytes(2_000_000))
    page = page_of(run_dir)
    shown = re.findall(r"<figcaption>(pictures/[^<]+)", page)
    assert shown[0] == "pictures/summary.png"
    assert [shown[1], shown[-1], len(shown)] == ["pictures/deep/pattern-a.png", "pictures/deep/pattern-t.png", 6]
    assert page.count("data:image/png") == 5
    assert "too large for this page" in page
    assert "6 of 21 pictures" in page
    assert "<script" not in page, "only pictures of steps need one"


def test_pictures_of_steps_are_a_series_of_their_own(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run", steps=3)
    (run_dir / "pictures/frames").mkdir(parents=True)
    for number in range(130):
        (run_dir / f"pictures/frames/step{number:05d}.png").write_bytes(PIXEL)
    (run_dir / "pictures/summary.png").write_bytes(PIXEL)
    page = page_of(run_dir)
    single, _, series = page.partition('<div class="series"')
    assert re.findall(r"<figcaption>(pictures/[^<]+)", single) == ["pictures/summary.png"]
    shown = re.findall(r"<figcaption>(pictures/[^<]+)", series)
    assert [shown[0], shown[-1], len(shown)] == ["pictures/frames/step00000.png", "pictures/frames/step00129.png", 60]
    assert "60 of 130 pictures, evenly spread" in page


def test_a_series_of_large_pictures_is_bounded(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run", steps=3)
    (run_dir / "pictures/frames").mkdir(parents=True)
    for number in range(10):
        (run_dir / f"pictures/frames/{number}.png").write_bytes(PIXEL + bytes(1_400_000))
    assert 2 <= page_of(run_dir).count("data:image/png") <= 4


def test_a_run_without_steps_or_streams_has_a_page(tmp_path: Path) -> None:
    plan = make_plan().model_copy(update={"streams": [], "stages": [make_stage("alone", "simulation", [])]})
    page = page_of(write_run(tmp_path / "run", plan, [], {}))
    assert "This pipeline has no streams." in page
    assert "Nothing ran yet." in page


def test_compiled_templates_are_kept_where_that_is_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = tmp_path / "new"
    for _ in range(2):
        cache = bytecode_cache(folder)
        assert cache is not None
        environment = TEMPLATES.overlay(bytecode_cache=cache)
        environment.get_template("page.html.j2")
        assert [file.suffix for file in folder.iterdir()] == [".cache"]
    (tmp_path / "file").touch()
    assert bytecode_cache(tmp_path / "file") is None
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert bytecode_cache(folder) is None


def test_a_queue_is_drawn_only_as_far_as_it_is_known() -> None:
    moments = [(10.0, 1.0), (20.0, 2.0)]
    known, part = (str(svg_charts.stairs(moments, 0.0, 100.0, 2.0, "queue", until)) for until in (math.inf, 25.0))
    assert [float(x) for x in re.findall(r"H([0-9.]+)", known)][-1] == svg_charts.WIDTH
    assert [float(x) for x in re.findall(r"H([0-9.]+)", part)][-1] == svg_charts.WIDTH / 4


PROOF = """{"stages": {"md": [{"rank": 0, "host": "n1", "cores": "0-3"}, {"rank": 1, "host": "n1", "cores": "4-7"}]},
"streams": [{"stream": "atoms", "transport": "tcp", "writer": "n1", "readers": ["n2"], "seconds": 0.25, "text": ""}],
"untried": {"pattern": "its ends share a launch line"}}"""


def test_the_page_shows_the_proved_placement(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "run")
    assert "Placement, as it was proved" not in page_of(run_dir)
    (run_dir / "proof.json").write_text(PROOF)
    page = page_of(run_dir)
    for text in ("0-3; 4-7", "n1 → n2 by tcp", "3 steps in 0.25 s", "not tried: its ends share a launch line"):
        assert text in page, text
    (run_dir / "proof.json").write_text("{")
    assert "Placement, as it was proved" not in page_of(run_dir)
