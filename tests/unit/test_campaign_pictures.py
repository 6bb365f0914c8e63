"""The pictures of a campaign and its page: what is drawn of which results."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from tests.support.measured_campaign import end, history_of, schedule_of, spec_of, three_dimensions
from tests.support.sample_run import make_plan as sample_plan
from workflow.campaign.campaign_directory import ScheduledTrial
from workflow.campaign.file.campaign_spec import Scaling
from workflow.campaign.file.trials import in_words
from workflow.campaign.ledger import History, Repetition
from workflow.campaign.results.campaign_page import make_page, trial_drawing, write_page
from workflow.campaign.results.dimensions import find_dimensions, find_scaling, ideal_factor, meaningful
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.picture_canvas import (
    COLOURS,
    ResultsPicture,
    axis_unit,
    fitting,
    new_canvas,
    set_finding,
    set_scale,
    wrapped,
)
from workflow.campaign.results.results_model import CampaignResults, ComparisonResult, MetricFacts
from workflow.campaign.results.results_pictures import (
    comparison_pictures,
    cut_rows,
    finding,
    gain_of,
    make_layout,
    make_pictures,
    set_ratio_axis,
)
from workflow.campaign.verdicts import Decision

ROOT = Path(__file__).parents[2]


def test_pictures_have_their_data_and_equal_results_give_equal_bytes() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    pictures = make_pictures(results)
    assert [picture.name for picture in pictures] == ["time-values", "time-comparisons"]
    for picture in pictures:
        root = ElementTree.fromstring(picture.svg)
        assert root.tag.endswith("svg")
        assert picture.rows and all(len(row) == len(picture.columns) for row in picture.rows)
        pdf = picture.pdf()
        assert pdf == picture.pdf() and pdf.startswith(b"%PDF-") and b"/FontFile2" in pdf, (
            "for papers: with its letters"
        )
    assert [picture.svg for picture in pictures] == [picture.svg for picture in make_pictures(results)]
    assert "ideal strong scaling" in pictures[0].svg.decode()
    assert pictures[0].columns == ["via", "ranks", "number", "value", "outlier", "median", "low", "high", "ideal"]
    ideal = {(row[0], row[1]): row[-1] for row in pictures[0].rows}
    assert ideal["sst", "1"] == pytest.approx(10.045) and ideal["sst", "2"] == pytest.approx(10.045 / 2)


@pytest.mark.filterwarnings("error")
def test_values_of_any_length_and_with_any_letter_can_be_drawn() -> None:
    """Two `$` begin a formula in matplotlib; a label longer than the picture leaves it no room."""
    values = {"sst": "$SCRATCH/a_{1$", "bp5": f"$SCRATCH/{'very/' * 60}long_{{2$"}
    trials = [
        each.model_copy(update={"parameters": {**each.parameters, "streams.d.via": values[each.key[:3]]}})
        for each in schedule_of().trials
    ]
    schedule = schedule_of().model_copy(update={"trials": trials})
    spec = spec_of(matrix={"streams.d.via": list(values.values()), "stages.s.ranks": [1, 2]})
    pictures = {each.name: each for each in make_pictures(make_results(spec, schedule, history_of()))}
    assert set(pictures) == {"time-values", "time-comparisons"}
    for picture in pictures.values():
        assert max(map(len, texts_of(picture))) <= 100, picture.name
        assert_readable(picture)
    assert b"$SCRATCH/a_{1$" in pictures["time-values"].svg
    assert str(pictures["time-values"].rows[-1][0]).count("very/") == 60


def test_comparisons_have_what_is_better_to_the_right_and_say_what_their_ratios_are() -> None:
    """A time that doubles is as far to the left as a rate that halves; the title is that of the method."""
    results = make_results(spec_of(), schedule_of(), history_of())
    (first, *_), (metric,) = results.comparisons, results.metrics
    doubled = first.model_copy(update={"ratio": 2.0, "low": 1.6, "high": 2.5})
    halved = first.model_copy(update={"ratio": 0.5, "low": 0.4, "high": 0.625})
    assert list(gain_of(doubled, metric)) == pytest.approx([0.5, 0.4, 0.625]) and metric.better == "less"
    assert list(gain_of(halved, STEPS)) == pytest.approx([0.5, 0.4, 0.625])
    for test, text in (("pairs", "median of the ratios within blocks"), ("ranks", "ratio of the medians")):
        compared = [each.model_copy(update={"test": test}) for each in results.comparisons]
        (picture,) = comparison_pictures(metric, compared)
        assert "better →" in picture.svg.decode() and text in picture.title
        assert {"bp5 with sst (1 rank)", "bp5 with sst (2 ranks)", "time: 2 comparisons: 1 slower, 1 the same"} <= set(
            texts_of(picture)
        )


def test_values_have_the_finding_as_title_and_words_as_labels() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    texts = texts_of(make_pictures(results)[0])
    assert {"time: bp5 is 2 × slower than sst (1 rank)", "via sst", "via bp5", "ranks", "1", "2"} <= set(texts), texts


def test_a_key_and_its_value_in_words() -> None:
    words = [in_words("ranks", 1), in_words("ranks", 2), in_words("size", [96, 96])]
    assert words == ["1 rank", "2 ranks", "size 96×96"]
    assert in_words("aggregation", {"ratio": 4}) == "aggregation ratio 4" and in_words("profile", None) == "no profile"


def compared(value: object, ratio: float, decision: Decision, **at: object) -> ComparisonResult:
    """With `off`, of a rate."""
    return ComparisonResult(
        metric="steps", vary="stages.s.output.async", value=value, against="off",
        at={f"stages.s.{key}": given for key, given in at.items()},
        count=8, count_against=8, ratio=ratio, low=None, high=None, test="pairs", p=None, corrected_p=None,
        decision=decision, in_turns=None,
    )  # fmt: skip


STEPS = MetricFacts(name="steps", of="stages.s.step_rate", unit="steps/s", better="more", threshold=0.05)


def test_a_finding_says_where_it_holds_and_that_it_does_not_elsewhere() -> None:
    one, two = {"ranks": 1, "size": [96, 96]}, {"ranks": 2, "size": [192, 96]}
    results = [
        compared("guided", 0.98, "undecided", **one), compared("pipe", 1.14, "faster", **one),
        compared("guided", 0.97, "slower", **two), compared("pipe", 0.888, "slower", **two),
    ]  # fmt: skip
    assert finding(STEPS, [], results) == [
        "steps: pipe is 1.14 × faster than off (1 rank, size 96×96)",
        "but also pipe is 1.13 × slower than off (2 ranks, size 192×96)",
    ]
    assert finding(STEPS, [], results[:2])[0] == "steps: pipe is 1.14 × faster than off", "at one place only"
    (first,) = finding(STEPS, [], [compared({"ratio": 4}, 0.5, "slower")])
    assert first == "steps: ratio 4 is 2 × slower than off"


def test_a_long_finding_is_wrapped_with_its_names_whole() -> None:
    text = "time of transport by messages: file-after is 3.45 × slower than memory (PLANES 100, on two nodes)"
    lines = ["time of transport by messages: file-after is", "3.45 × slower than memory (PLANES 100, on two nodes)"]
    assert wrapped(text, 74, 2) == lines, "about as long as one another"
    assert wrapped(f"a {'b' * 200} c", 58, 2)[0] == "a" and max(map(len, wrapped(f"a {'b' * 200} c", 58, 2))) == 58
    canvas, _ = new_canvas(3.0)
    set_finding(canvas, [text, "of 6 comparisons"])
    assert len(canvas.get_suptitle().splitlines()) == 3 and canvas.get_figheight() > 3.0


def test_a_value_that_means_nothing_for_a_trial_is_not_in_its_label() -> None:
    """A file has no transport; trials that would be the same without it keep it."""
    via, transport = "streams.d.via", "streams.d.transport"
    points = [{via: "sst", transport: "tcp"}, {via: "sst", transport: "ucx"}, {via: "bp5", transport: "tcp"}]
    assert meaningful(points) == [*points[:2], {via: "bp5"}]
    both = [*points, {via: "bp5", transport: "ucx"}]
    assert meaningful(both) == both
    assert meaningful([{via: "my-preset", transport: "tcp"}, {transport: "ucx"}])[0][transport] == "tcp"
    assert meaningful([{via: "bp5", "streams.d.queue.limit": 2}]) == [{via: "bp5"}]
    trials = [
        each.model_copy(update={"parameters": {**each.parameters, transport: "tcp"}}) for each in schedule_of().trials
    ]
    results = make_results(spec_of(), schedule_of().model_copy(update={"trials": trials}), history_of())
    (picture, *_) = make_pictures(results)
    columns = [picture.columns.index(name) for name in ("via", "transport")]
    assert {tuple(row[column] for column in columns) for row in picture.rows} == {("sst", "tcp"), ("bp5", None)}


@pytest.mark.parametrize("which", ["x", "y"])
def test_an_axis_from_zero_does_not_cut_the_mark_of_its_largest_value(
    which: Literal["x", "y"],
) -> None:
    _, axes = new_canvas(3.0)
    set_scale(axes, which, [598.0, 600.0])
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    assert low == 0 and high >= 620


def test_a_caption_names_the_interval_only_where_one_is_drawn() -> None:
    for count in (3, 8):
        results = make_results(spec_of(repetitions=count), schedule_of(), history_of(count))
        (picture, *_) = make_pictures(results)
        assert ("the median and its 95 % interval" in picture.title) == (count == 8)


def test_labels_that_the_cut_makes_equal_get_their_numbers() -> None:
    assert fitting(["a", "b" * 9], 9, 1) == ["a", "b" * 9]
    hidden = fitting([f"x{'a' * 40}{middle}{'b' * 40}" for middle in ("1", "2")] + ["y" * 99], 20, 1)
    assert hidden == ["1: xaaaaaaaaa…bbbbbbbbb", "2: xaaaaaaaaa…bbbbbbbbb", "yyyyyyyyyy…yyyyyyyyy"]
    assert fitting(["strategy hostname:binpacking, via sst"], 30, 2) == ["strategy\nhostname:binpacking, via sst"]


def test_pictures_of_one_key_and_few_values() -> None:
    """The name of the key once, one colour, no boxes, the unit once; a logarithmic axis where values differ much."""
    trials = [each.model_copy(update={"parameters": {"profile": each.key}}) for each in schedule_of().trials]
    history = history_of(4)
    for identity, attempt in list(history.ended.items()):
        rate = (1e9 if identity.key == "sst1" else 2e7) + identity.number
        figures = {**attempt.figures, "streams.d.throughput": rate, "stages.s.compute_s": 1.0 + identity.number}
        history.ended[identity] = replace(attempt, figures=figures)
    names = [each.key for each in trials]
    spec = spec_of(repetitions=4, matrix={"profile": names}, comparisons=[], metrics={"rate": "streams.d.throughput"})
    results = make_results(spec, schedule_of().model_copy(update={"trials": trials}), history)
    pictures = {each.name: each for each in make_pictures(results)}
    values = pictures["rate-values"].svg.decode()
    texts = texts_of(pictures["rate-values"])
    assert [text for text in texts if text.startswith("profile ")] == [f"profile {name}" for name in names]
    assert (
        "rate in GB/s, more is better, logarithmic" in texts and "streams.d.throughput" in pictures["rate-values"].title
    )
    assert {"0.02", "0.05", "0.1", "0.2", "0.5", "1"} <= set(texts)
    assert not any(colour in values for colour in COLOURS[1:-1]) and COLOURS[0] in values
    assert "medians over the repetitions" in pictures["operations-s"].title


@pytest.mark.parametrize("largest", [1.1, 1.6, 9.0, 1000.0])
def test_an_axis_of_ratios_has_room_and_marks_on_both_sides(largest: float) -> None:
    _, axes = new_canvas(3.0)
    set_ratio_axis(axes, largest)
    (low, high), marks = axes.get_xlim(), list(axes.get_xticks())
    assert high > largest * 1.004 and low == pytest.approx(1 / high)
    assert min(marks) < 1 < max(marks) and 1 in marks and 3 <= len(marks) < 12 and low < min(marks)


@pytest.mark.parametrize(
    ("unit", "largest", "shown"),
    [
        ("s", 3e-5, (1e-6, "µs")), ("s", 0.5, (1e-3, "ms")), ("s", 5.0, (1, "s")), ("B/s", 2e9, (1e9, "GB/s")),
        ("B", 0.0, (1, "B")), ("1", 2.0, (1, "")), ("steps/s", 2.0, (1, "steps/s")),
    ],
)  # fmt: skip
def test_the_unit_of_an_axis(unit: str, largest: float, shown: tuple[float, str]) -> None:
    assert axis_unit(unit, largest) == shown


def test_the_page_shows_the_pipeline_of_the_first_trial_while_a_run_of_it_is_there(tmp_path: Path) -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    first = next(trial for trial in results.trials if not trial.is_baseline)
    assert trial_drawing(tmp_path, results) is None
    for name, text in ((f"{first.trial}-r00", "{}"), (f"{first.trial}-r01", sample_plan().to_json())):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "plan.json").write_text(text)
    (page,) = write_page(tmp_path, results)
    text = page.read_text(encoding="utf-8")
    assert "<title>shock-diffraction: 3 stages, 2 streams</title>" in text
    assert "The trial via=sst ranks=1; the others differ in these values." in text


def test_each_picture_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PDF takes a quarter of a second, and each was drawn twice."""
    drawn = list[str]()

    def files(picture: ResultsPicture) -> dict[str, bytes]:
        drawn.append(f"{picture.name}.pdf")
        return {".pdf": b""}

    monkeypatch.setattr(ResultsPicture, "files", files)
    write_page(tmp_path, make_results(spec_of(), schedule_of(), history_of()))
    assert sorted(drawn) == sorted(path.name for path in (tmp_path / "pictures").iterdir())


def test_operations_have_a_bar_for_each_trial() -> None:
    history = history_of()
    for number, (identity, attempt) in enumerate(history.ended.items()):
        more = {"stages.s.compute_s": float(number % 9), "stages.s.wait_s": 1.0, "stages.t.io_s": 2.0}
        history.ended[identity] = replace(attempt, figures={**attempt.figures, **more})
    results = make_results(spec_of(), schedule_of(), history)
    pictures = {picture.name: picture for picture in make_pictures(results)}
    assert [name for name in pictures if name.startswith("operations")] == ["operations-s", "operations-t"]
    rows = [dict(zip(pictures["operations-s"].columns, row, strict=True)) for row in pictures["operations-s"].rows]
    first = [row for row in rows if row["trial"] == "via=sst ranks=1" and row["operation"] == "compute"]
    # The warm-up has 0; the eight others 1 … 8.
    assert [row["value"] for row in first] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {row["median"] for row in first} == {4.5}
    drawn = {name: texts_of(pictures[f"operations-{name}"]) for name in "st"}
    assert "moving data" in drawn["t"] and "waiting" not in drawn["t"], "the words of the report of a run"
    assert "s, what takes longest: computing in 4 of 4 trials" in drawn["s"]
    assert [text for text in drawn["s"] if "rank" in text] == [
        "via sst, 1 rank", "via sst, 2 ranks", "via bp5, 1 rank", "via bp5, 2 ranks"
    ]  # fmt: skip


def test_copies_to_a_device_are_drawn_of_stages_that_make_some() -> None:
    history = history_of()
    for identity, attempt in history.ended.items():
        copies = 3.0 if identity.key == "sst1" else 0.0
        more = {"stages.s.compute_s": 2.0, "stages.s.device_s": copies, "stages.t.io_s": 2.0, "stages.t.device_s": 0.0}
        history.ended[identity] = replace(attempt, figures={**attempt.figures, **more})
    pictures = {each.name: each for each in make_pictures(make_results(spec_of(), schedule_of(), history))}
    copied, other = pictures["operations-s"], pictures["operations-t"]
    rows = [dict(zip(copied.columns, row, strict=True)) for row in copied.rows]
    assert {row["value"] for row in rows if row["operation"] == "device"} == {0.0, 3.0}
    assert "computing, copying to or from a device, moving data and waiting" in copied.title
    assert COLOURS[2] in copied.svg.decode()
    assert "computing, moving data and waiting" in other.title
    assert "device" not in other.svg.decode() and {row[1] for row in other.rows} == {"io"}


def texts_of(picture: ResultsPicture) -> list[str]:
    root = ElementTree.fromstring(picture.svg)
    return ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("}text")]


def test_pictures_speak_in_words_and_each_has_its_finding() -> None:
    """Lists, mappings and whole keys of the file are no labels; labels that the campaign gives are."""
    size = {1: [96, 96], 2: [192, 96]}
    trials = [
        each.model_copy(update={"parameters": {**each.parameters, "stages.s.with.size": size[int(str(each.key)[-1])]}})
        for each in schedule_of().trials
    ]
    labels = {"streams.d.via": "way", "stages.s.with.size": "points"}
    metrics = {"time": {"of": "run.wall_s", "label": "time of the run"}}
    vary = {"streams.d.via": ["sst", "bp5"], "stages.s.ranks": [1, 2], "stages.s.with.size": list(size.values())}
    spec = spec_of(labels=labels, metrics=metrics, matrix=vary)
    results = make_results(spec, schedule_of().model_copy(update={"trials": trials}), history_of())
    pictures = {each.name: texts_of(each) for each in make_pictures(results)}
    assert list(pictures) == ["time-values", "time-comparisons"], "names of files stay"
    drawn = [text for texts in pictures.values() for text in texts]
    assert not [text for text in drawn if re.search(r"\[|stages\.|streams\.|run\.", text)]
    values = pictures["time-values"]
    assert {"points 96×96", "points 192×96", "ranks, points", "way bp5", "ideal weak scaling"} <= set(values)
    first = "time of the run: bp5 is 2 × slower than sst (1 rank, points 96×96)"
    assert first in " ".join(values)
    (page,) = [make_page(results, make_pictures(results))]
    assert "<h2>time of the run</h2>" in page and "<th" in page and ">way<" in page and ">via<" not in page


def test_a_label_changes_no_name_of_a_file_and_of_its_columns() -> None:
    spec = spec_of(labels={"stages.s.ranks": "copies of the program", "streams.d.via": "way"})
    (values, _) = make_pictures(make_results(spec, schedule_of(), history_of()))
    assert values.name == "time-values" and values.columns[:2] == ["via", "ranks"]
    assert "copies of the program" in texts_of(values)


WEAK = [{"stages.s.ranks": ranks, "stages.s.with.size": [32 * ranks, 8]} for ranks in (1, 2, 4)]
CUBE = [{"stages.s.ranks": ranks, "stages.s.with.size": [edge]} for ranks, edge in ((1, 32), (2, 40), (4, 51))]
ODD = [{"stages.s.ranks": ranks, "stages.s.with.size": 2 + ranks} for ranks in (1, 2, 4)]
PLACED = [{"stages.s.ranks": ranks, "streams.d.via": via} for ranks in (1, 2) for via in ("sst", "bp5")]


@pytest.mark.parametrize(
    ("points", "stated", "scaling"),
    [
        (WEAK, None, "weak"),
        (CUBE, None, "weak"),
        (ODD, None, "none"),
        (PLACED, None, "strong"),
        (PLACED, "weak", "weak"),
        (WEAK, "none", "none"),
    ],
)
def test_how_work_grows_with_ranks(points: list[dict[str, object]], stated: Scaling | None, scaling: Scaling) -> None:
    first, *others = find_dimensions(points)
    assert first.keys == tuple(key for key in points[0] if key.startswith("stages."))
    assert [each.keys for each in others] == ([("streams.d.via",)] if points is PLACED else [])
    assert find_scaling(first, points, stated) == scaling


@pytest.mark.parametrize(
    ("figure", "scaling", "factor"),
    [
        ("run.wall_s", "strong", 0.25), ("run.wall_s", "weak", 1.0), ("stages.s.step_rate", "strong", 4.0),
        ("stages.s.step_rate", "weak", 1.0), ("streams.d.throughput", "weak", 4.0), ("stages.t.wall_s", "strong", None),
        ("stages.s.wait_s", "strong", None), ("streams.d.bytes", "strong", None), ("run.wall_s", "none", None),
    ],
)  # fmt: skip
def test_the_ideal_of_four_times_the_ranks(figure: str, scaling: Scaling, factor: float | None) -> None:
    assert ideal_factor(figure, "stages.s.ranks", scaling, 4.0) == factor


def test_what_is_compared_most_has_the_colours_and_numbers_the_axis() -> None:
    keys = ("stages.s.ranks", "streams.d.via", "params.mode", "params.size")
    points = [dict(zip(keys, each, strict=True)) for each in product((1, 2), "abc", "xy", (1, 2, 3))]
    layout = make_layout(points, ["params.mode"])
    assert layout.number == "stages.s.ranks", "ranks before all other numbers"
    assert layout.colours is not None and layout.colours.keys == ("params.mode",)
    assert [each.keys for each in layout.panels] == [("streams.d.via",), ("params.size",)]
    assert layout.words(points[0], layout.panels) == "via a, size 1"
    many = [{"a": f"v{number}", "b": f"w{other}"} for number in range(9) for other in range(12)]
    assert make_layout(many, []).colours is None, "more values than colours"
    assert make_layout([{"a": 1}], []).across is None


def assert_readable(picture: ResultsPicture) -> None:
    """No text is below 7 points or cut, samples of the legend differ in colour and mark, each panel has its axis and
    data, and no tick has a prefix."""
    canvas = picture.canvas
    assert picture.svg and picture.rows and canvas.get_figheight() <= 7, picture.name
    texts = [each for each in canvas.findobj(Text) if each.get_text().strip() and each.get_visible()]
    assert min(float(each.get_fontsize()) for each in texts) >= 7
    frame = canvas.bbox
    # An axis keeps ticks outside of its limits, and those whose labels other panels have: they are not drawn.
    ticks = {id(each) for axes in canvas.axes for each in ticks_of(axes)}
    drawn = [each for each in texts if id(each) not in ticks]
    for each in [*drawn, *(tick for axes in canvas.axes for tick in shown_ticks(axes))]:
        box = each.get_window_extent()
        assert box.x0 >= frame.x0 - 1 and box.x1 <= frame.x1 + 1, f"{picture.name}: {each.get_text()}"
        assert box.y0 >= frame.y0 - 1 and box.y1 <= frame.y1 + 1, f"{picture.name}: {each.get_text()}"
    for axes in canvas.axes:
        assert axes.has_data() and axes.xaxis.get_visible() and axes.yaxis.get_visible()
        labels = [each.get_text() for each in shown_ticks(axes)]
        assert not [label for label in labels if re.fullmatch(r"[−-]?[\d.]+ ?[kMGTPmµun]", label)], labels
    samples = [sample_of(handle) for legend in canvas.legends for handle in legend.legend_handles]
    assert len({colour for colour, _ in samples}) == len({mark for _, mark in samples}) == len(samples), picture.name


def ticks_of(axes: Axes) -> list[Text]:
    return [each for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_major_ticks()
            for each in (tick.label1, tick.label2)]  # fmt: skip


def shown_ticks(axes: Axes) -> list[Text]:
    """Within the limits."""
    found = []
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        low, high = sorted(limits)
        ticks = [each for each in axis.get_major_ticks() if low <= each.get_loc() <= high and each.label1.get_visible()]
        found += [each.label1 for each in ticks if each.label1.get_text()]
    return found


def sample_of(handle: Any) -> tuple[str, str]:
    """(colour, mark) of a sample of a legend."""
    if isinstance(handle, Line2D):
        return to_hex(handle.get_color()), f"{handle.get_marker()} {handle.get_linestyle()}"
    assert isinstance(handle, Rectangle)
    return to_hex(handle.get_facecolor()), f"hatch {handle.get_hatch()}"


def test_pictures_of_three_dimensions_can_be_read() -> None:
    pictures = make_pictures(three_dimensions())
    assert [each.name for each in pictures] == [
        "time-values", "time-comparisons", "time-comparisons-2", "rate-values", "rate-comparisons",
        "rate-comparisons-2", "operations-s", "operations-s-2",
    ]  # fmt: skip
    for picture in pictures:
        assert_readable(picture)
    assert len(pictures[0].canvas.axes) == 2 and len(pictures[0].rows) == 3 * 2 * 4 * 8
    assert sum(len(each.rows) for each in pictures[1:3]) == 2 * 2 * 4 + 3 * 4


@pytest.mark.parametrize("study", ["coupled-pipeline", "async-io"])
def test_pictures_of_studies_can_be_read(study: str) -> None:
    results = (ROOT / f"examples/campaigns/{study}/results.json").read_bytes()
    for picture in make_pictures(CampaignResults.model_validate_json(results)):
        assert_readable(picture)


def test_rows_that_do_not_fit_go_into_further_pictures() -> None:
    assert cut_rows(range(5), 2) == [range(2), range(2, 4), range(4, 5)] and cut_rows([], 2) == []
    matrix = {"params.a": [f"a{number}" for number in range(40)]}
    trials = [ScheduledTrial(key=name, parameters={"params.a": name}) for name in matrix["params.a"]]
    history = History()
    for number, trial in enumerate(trials):
        history.end(Repetition(trial.key, 1), end(5.0 + number))
    spec = spec_of(repetitions=1, comparisons=[], matrix=matrix)
    pictures = make_pictures(make_results(spec, schedule_of().model_copy(update={"trials": trials}), history))
    assert [each.name for each in pictures] == ["time-values", "time-values-2", "time-values-3"]
    assert pictures[2].title.endswith("(3 of 3)") and sum(len(each.rows) for each in pictures) == 40
    assert len({each.canvas.axes[0].get_xlim() for each in pictures}) == 1, "one scale"
    for picture in pictures:
        assert_readable(picture)
