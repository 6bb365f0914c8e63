"""The pictures of a campaign and its page: what is drawn of which results."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest

from tests.support.measured_campaign import end, history_of, schedule_of, spec_of
from tests.support.sample_run import make_plan as sample_plan
from workflow.campaign.campaign_directory import ScheduledTrial
from workflow.campaign.file.campaign_spec import Scaling
from workflow.campaign.file.trials import in_words
from workflow.campaign.ledger import History, Repetition
from workflow.campaign.results.campaign_page import make_page, trial_drawing, write_page
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.picture_canvas import (
    COLOURS,
    ResultsPicture,
    axis_unit,
    begin_at_zero,
    line_length,
    new_canvas,
    set_finding,
    short_labels,
    wrapped,
)
from workflow.campaign.results.results_model import ComparisonResult, MetricFacts
from workflow.campaign.results.results_pictures import (
    RatioRow,
    finding,
    make_box,
    make_pictures,
    ratio_axis,
    ratio_picture,
)
from workflow.campaign.results.scaling_picture import (
    ValueColours,
    find_dimensions,
    find_scaling,
    ideal_factor,
    meaningful,
)
from workflow.campaign.verdicts import Decision


def test_pictures_have_their_data_and_equal_results_give_equal_bytes() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    pictures = make_pictures(results)
    assert [picture.name for picture in pictures] == ["time-values", "time-by-ranks", "time-map", "comparisons"]
    for picture in pictures:
        root = ElementTree.fromstring(picture.svg)
        assert root.tag.endswith("svg")
        assert picture.rows and all(len(row) == len(picture.columns) for row in picture.rows)
        pdf = picture.pdf()
        assert pdf == picture.pdf() and pdf.startswith(b"%PDF-") and b"/FontFile2" in pdf, (
            "for papers: with its letters"
        )
    assert [picture.svg for picture in pictures] == [picture.svg for picture in make_pictures(results)]
    assert "ideal strong scaling" in pictures[1].svg.decode()
    ideal = {(row[0], row[1]): row[-1] for row in pictures[1].rows}
    assert ideal["via sst", 1.0] == pytest.approx(10.045) and ideal["via sst", 2.0] == pytest.approx(10.045 / 2)


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
    assert set(pictures) == {"time-values", "time-by-ranks", "time-map", "comparisons"}
    for picture in pictures.values():
        texts = ["".join(each.itertext()) for each in ElementTree.fromstring(picture.svg).iter() if "text" in each.tag]
        assert max(map(len, texts)) <= 100, picture.name
    assert all(b"$SCRATCH/a_{1$" in pictures[name].svg for name in ("time-values", "time-by-ranks", "time-map"))
    assert str(pictures["time-values"].rows[-1][0]).count("very/") == 60


def test_comparisons_have_what_is_better_to_the_right_and_say_what_their_ratios_are() -> None:
    """A time that doubles is as far to the left as a rate that halves; the title is that of the method."""
    less = RatioRow("time", 2.0, 1.6, 2.5, 0.01, "slower", 0.05, "less")
    more = RatioRow("rate", 0.5, 0.4, 0.625, 0.01, "slower", 0.05, "more")
    assert list(less.gain) == pytest.approx([0.5, 0.4, 0.625])
    assert list(more.gain) == pytest.approx([0.5, 0.4, 0.625])
    picture = ratio_picture("a", "a", ["found"], [less, more])
    assert "better →" in picture.svg.decode()
    assert [row[picture.columns.index("gain")] for row in picture.rows] == [0.5, 0.5]
    results = make_results(spec_of(), schedule_of(), history_of())
    for test, text in (("pairs", "median of the ratios within blocks"), ("ranks", "ratio of the medians")):
        compared = [each.model_copy(update={"test": test}) for each in results.comparisons]
        *_, last = make_pictures(results.model_copy(update={"comparisons": compared}))
        assert last.name == "comparisons" and text in last.title


def test_values_have_the_finding_as_title_words_as_labels_and_compared_rows_adjacent() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    picture = make_pictures(results)[0]
    root = ElementTree.fromstring(picture.svg)
    texts = ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("}text")]
    assert "time: bp5 is 2 × slower than sst (1 rank)" in texts, texts
    assert "via sst, 1 rank" in texts, texts
    assert {each.vary for each in results.comparisons} == {"streams.d.via"}
    ranks = [trial.split("ranks=")[1] for trial in dict.fromkeys(str(row[0]) for row in picture.rows)]
    assert ranks == sorted(ranks), "those of equal ranks one below the other"


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
        "steps: pipe is 1.14 × faster than off (1 rank)",
        "but also pipe is 1.13 × slower than off (2 ranks)",
        "largest differences of 4 comparisons: 1 faster, 2 slower, 1 undecided",
    ]
    assert finding(STEPS, [], results[:2])[0] == "steps: pipe is 1.14 × faster than off", "at one place only"
    (first, _) = finding(STEPS, [], [compared({"ratio": 4}, 0.5, "slower")])
    assert first == "steps: ratio 4 is 2 × slower than off"


def test_a_long_finding_is_wrapped_with_its_names_whole() -> None:
    text = "time of transport by messages: file-after is 3.45 × slower than memory (PLANES 100, on two nodes)"
    lines = ["time of transport by messages: file-after is", "3.45 × slower than memory (PLANES 100, on two nodes)"]
    assert wrapped(text, 74, 2) == lines, "about as long as one another"
    assert wrapped(f"a {'b' * 200} c", 58, 2)[0] == "a" and max(map(len, wrapped(f"a {'b' * 200} c", 58, 2))) == 58
    canvas, axes = new_canvas(3.0)
    set_finding(axes, [text, "of 6 comparisons"])
    assert canvas.get_suptitle().splitlines() == [*lines, "of 6 comparisons"] and canvas.get_figheight() > 3.0


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
    drawn = make_pictures(results)[0].svg.decode()
    assert "via sst, 1 rank, transport tcp" in drawn and ">via bp5, 1 rank<" in drawn


@pytest.mark.parametrize("which", ["x", "y"])
def test_an_axis_from_zero_does_not_cut_the_mark_of_its_largest_value(
    which: Literal["x", "y"],
) -> None:
    _, axes = new_canvas(3.0)
    axes.plot([598.0, 600.0], [598.0, 600.0], "o")
    begin_at_zero(axes, which)
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    assert low == 0 and high >= 620


def test_a_caption_names_the_interval_only_where_one_is_drawn() -> None:
    titles = {}
    for count in (3, 8):
        results = make_results(spec_of(repetitions=count), schedule_of(), history_of(count))
        titles[count] = [each.title for each in make_pictures(results)]
    assert any("the median and its 95 % interval" in each for each in titles[8])
    assert any("medians and their 95 % intervals" in each for each in titles[8])
    assert not any("every repetition" in each and "interval" in each for each in titles[3])
    assert not any("medians and" in each for each in titles[3])


def test_long_labels_lose_what_they_share_and_stay_different() -> None:
    assert short_labels(["a", "b" * 9], 9) == ["a", "b" * 9]
    lists = [f"a=[{'1, ' * 30}{end}] b=2" for end in (3, 4)]
    assert short_labels(lists, 24) == ["a=[1, 1,…, 1, 1, 3] b=2", "a=[1, 1,…, 1, 1, 4] b=2"]
    ends = short_labels([f"x{'a' * 40}1{'b' * 40}z", f"y{'a' * 40}2{'b' * 40}w"], 20)
    assert ends == ["xaaaaaaaaa…bbbbbbbbz", "yaaaaaaaaa…bbbbbbbbw"]
    hidden = short_labels([f"x{'a' * 40}{middle}{'b' * 40}" for middle in ("1", "2")] + ["y" * 99], 20)
    assert hidden[:2] == ["1: xaaaaaaaaa…bbbbbbbbb", "2: xaaaaaaaaa…bbbbbbbbb"]


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
    texts = ["".join(each.itertext()) for each in ElementTree.fromstring(values).iter() if each.tag.endswith("}text")]
    assert [text for text in texts if text in names] == names and texts.count("profile") == 1
    assert (
        "rate in GB/s, more is better, logarithmic" in texts and "streams.d.throughput" in pictures["rate-values"].title
    )
    assert {"0.02", "0.05", "0.1", "0.2", "0.5", "1"} <= set(texts)
    assert not any(colour in values for colour in COLOURS[1:-1]) and COLOURS[0] in values
    assert "every repetition" in pictures["operations-s"].title


@pytest.mark.filterwarnings("error")
def test_a_map_of_many_columns_can_be_read() -> None:
    """Every k-th column is labelled; numbers that nobody could read give way to a scale of the colours."""
    pairs = [(ranks, size) for size in range(100, 160) for ranks in range(1, 61) if (ranks - size) % 60 < 2]
    trials = [
        ScheduledTrial(key=f"{ranks}-{size}", parameters={"stages.s.ranks": ranks, "stages.s.with.size": size})
        for ranks, size in pairs
    ]
    history = History()
    for number, trial in enumerate(trials):
        history.end(Repetition(trial.key, 1), end(5.0 + number / 10))
    spec = spec_of(repetitions=1, comparisons=[], matrix={"stages.s.ranks": [1, 2], "stages.s.with.size": [1, 2]})
    results = make_results(spec, schedule_of().model_copy(update={"trials": trials}), history)
    (picture,) = (each for each in make_pictures(results) if each.name == "time-map")
    root = ElementTree.fromstring(picture.svg)
    texts = ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("}text")]
    columns = [text for text in texts if re.fullmatch("1[0-5][0-9]", text)]
    assert columns == [str(size) for size in range(100, 160, 6)] and "time in s" in texts and "…" not in texts
    assert len(texts) < 90 and len(picture.rows) == 120, "60 labels of rows, ten of columns, and the scale"


@pytest.mark.parametrize(
    ("low", "high", "some"),
    [
        (0.98, 1.02, {0.95, 1, 1.05}),
        (0.85, 1.6, {0.9, 1, 1.5}),
        (0.56, 9.0, {0.5, 1, 2, 8}),
        (1e-3, 1.1, {1e-2, 1, 10}),
    ],
)
def test_an_axis_of_ratios_has_room_and_marks_on_both_sides(low: float, high: float, some: set[float]) -> None:
    low, high = min(low, 1 / 1.1), max(high, 1.1)
    begin, end, marks = ratio_axis(low, high)
    assert begin < low * 0.995 and end > high * 1.005 and some <= set(marks)
    assert min(marks) < 1 < max(marks) and len(marks) < 12


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


def test_operations_have_box_plots_with_quartiles_per_stage() -> None:
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
    assert {(row["first_quartile"], row["median"], row["third_quartile"]) for row in first} == {(2.75, 4.5, 6.25)}
    drawn = {name: pictures[f"operations-{name}"].svg.decode() for name in "st"}
    assert "moving data" in drawn["t"] and "waiting" not in drawn["t"], "the words of the report of a run"
    assert ">s, what takes longest: computing in 4 of 4 trials<" in drawn["s"]


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


def test_a_box_leaves_out_what_is_far_away() -> None:
    assert make_box([1, 2, 3, 4, 5, 6, 7, 30]) == (1, 2.75, 4.5, 6.25, 7)
    assert make_box([2.0]) == (2, 2, 2, 2, 2)


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
    assert list(pictures) == ["time-values", "time-by-ranks", "time-map", "comparisons"], "names of files stay"
    drawn = [text for texts in pictures.values() for text in texts]
    assert not [text for text in drawn if re.search(r"\[|stages\.|streams\.|run\.", text)]
    by_ranks = pictures["time-by-ranks"]
    assert {"96×96", "192×96", "ranks, points", "way bp5", "time of the run in s, less is better"} <= set(by_ranks)
    assert "time of the run, 2 ranks ÷ 1 rank: 0.31 (way bp5) to 0.60 (way sst)" in by_ranks
    assert "ideal weak scaling: 1" in by_ranks
    assert {"1, 96×96", "way"} <= set(pictures["time-map"])
    (first,) = (text for text in pictures["time-map"] if "faster" in text or "slower than" in text)
    assert first == "time of the run: bp5 is 2 × slower than sst (1 rank)"
    assert first in pictures["comparisons"] and first in pictures["time-values"]
    assert "largest difference of 2 comparisons: 1 worse, 1 the same" in pictures["comparisons"]
    (page,) = [make_page(results, make_pictures(results))]
    assert "<h2>time of the run</h2>" in page and "<th" in page and ">way<" in page and ">via<" not in page


def test_a_label_changes_no_name_of_a_file_and_of_its_columns() -> None:
    spec = spec_of(labels={"stages.s.ranks": "copies of the program", "streams.d.via": "way"})
    pictures = {each.name: each for each in make_pictures(make_results(spec, schedule_of(), history_of()))}
    assert list(pictures) == ["time-values", "time-by-ranks", "time-map", "comparisons"]
    assert pictures["time-by-ranks"].columns == ["line", "ranks", "trial", "median", "low", "high", "ideal"]
    assert sorted(pictures["time-map"].columns) == ["median", "ranks", "via"]
    assert "copies of the program" in texts_of(pictures["time-by-ranks"])


def test_a_label_of_a_comparison_that_is_too_long_leaves_out_what_is_always_the_same() -> None:
    """Before anything of it is cut; what tells it from the others stays."""
    long = {"streams.d.via": "sst-with-a-preset-of-our-own", "streams.d.strategy": "hostname:binpacking"}
    results = make_results(spec_of(), schedule_of(), history_of())
    one, other = (each.model_copy(update={"at": {**each.at, **long}}) for each in results.comparisons)
    (*_, picture) = make_pictures(results.model_copy(update={"comparisons": [one, other]}))
    assert {"time: bp5 with sst (1 rank)", "time: bp5 with sst (2 ranks)"} <= set(texts_of(picture))
    (*_, picture) = make_pictures(results)
    assert "time: bp5 with sst (1 rank)" in texts_of(picture)


def test_labels_use_the_whole_width_of_the_picture() -> None:
    """As many letters as fit: narrow ones more, wide ones less."""
    assert line_length(["il" * 30]) > 1.5 * line_length(["load rate of the stream"]) > 2 * line_length(["WM" * 30])
    label = "load_rate: hostname:binpacking against hyperslab (via sst, transport rdma)"
    assert len(label) > 70 and short_labels([label, label], line_length([label])) == [label] * 2


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


def test_a_value_has_one_colour_in_all_pictures() -> None:
    points = [dict(zip(("stages.s.ranks", "streams.d.via"), each, strict=True)) for each in product((1, 2), "abc")]
    colours = ValueColours(points)
    by_ranks = ValueColours(points, ["streams.d.via", *["stages.s.ranks"] * 2])
    assert [by_ranks.colour(each) for each in points[::3]] == list(COLOURS[:2]), "most comparisons vary the ranks"
    ranks, via = find_dimensions(points)
    assert [colours.colour(each) for each in points[:3]] == list(COLOURS[:3])
    assert [colours.line_style(each, ranks).colour for each in points] == [colours.colour(each) for each in points]
    assert [colours.line_label(each, via) for each in points[::3]] == ["1 rank", "2 ranks"]


def test_a_marker_means_one_thing() -> None:
    """The marker says the same as the colour; dashes and fill say the rest, also of a single point."""
    keys = ("stages.s.ranks", "streams.d.via", "stages.s.env.STEPS")
    points = [dict(zip(keys, each, strict=True)) for each in product((1, 2), "ab", (4, 8))]
    ranks, *_ = find_dimensions(points)
    styles = [ValueColours(points).line_style(each, ranks) for each in points[:4]]
    assert [(each.colour, each.marker) for each in styles] == [(COLOURS[0], "o")] * 2 + [(COLOURS[1], "s")] * 2
    assert [(each.dashes, each.fill) for each in styles] == [("-", "full"), ("--", "none")] * 2
