"""From the ledger to medians and verdicts, without any run."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.sample_run import make_plan as sample_plan
from tests.support.sample_run import write_sample
from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec, Scaling
from workflow.campaign.junit import JUnitCase, to_junit
from workflow.campaign.ledger import Attempt, History, Ledger, RepetitionId
from workflow.campaign.results.campaign_files import write_results
from workflow.campaign.results.campaign_page import make_page, write_page
from workflow.campaign.results.campaign_tables import comparison_table, metric_table
from workflow.campaign.results.make_results import count_comparisons, keys_together, make_results, make_status
from workflow.campaign.results.operation_pictures import make_box
from workflow.campaign.results.picture_canvas import COLOURS, axis_unit
from workflow.campaign.results.ratio_picture import ratio_axis
from workflow.campaign.results.results_pictures import make_pictures
from workflow.campaign.results.results_table import table_columns, table_rows, write_table
from workflow.campaign.results.samples import measured
from workflow.campaign.results.short_labels import short_labels
from workflow.campaign.results.trial_dimensions import find_dimensions, find_scaling, ideal_factor
from workflow.campaign.results.trial_drawing import trial_drawing
from workflow.campaign.results.value_colours import ValueColours
from workflow.errors import WfError
from workflow.report.build.figure_values import figures_of
from workflow.report.report_files import compute_report
from workflow.report_figures import to_figure_name

TIMES = {("sst", 1): 10.0, ("sst", 2): 6.0, ("bp5", 1): 20.0, ("bp5", 2): 6.1}


def spec_of(**changed: object) -> CampaignSpec:
    given: dict[str, object] = {
        "wf": 1, "campaign": "c", "pipeline": "p.yaml", "repetitions": 8, "warmup": 1,
        "matrix": {"streams.d.via": ["sst", "bp5"], "stages.s.ranks": [1, 2]},
        "comparisons": [{"vary": "streams.d.via"}], **changed,
    }  # fmt: skip
    return CampaignSpec.model_validate_json(json.dumps(given))


def schedule_of() -> Schedule:
    trials = [
        ScheduledTrial(key=f"{via}{ranks}", parameters={"streams.d.via": via, "stages.s.ranks": ranks})
        for via, ranks in TIMES
    ]
    return Schedule(wf_version="1", site="local", host="h", versions={}, trials=trials)


def history_of(repetitions: int = 8, failed: tuple[str, int] | None = None) -> History:
    history = History()
    for (via, ranks), time in TIMES.items():
        key = f"{via}{ranks}"
        history.end(RepetitionId(key, 1, warmup=True), end(time * 9))
        for number in range(1, repetitions + 1):
            state = "failed" if failed == (key, number) else "succeeded"
            history.end(RepetitionId(key, number), end(time * (1 + 0.001 * number), state))
    return history


def end(time: float, state: str = "succeeded") -> Attempt:
    figures = {"run.wall_s": time, "stages.s.wall_s": time / 2, "streams.d.bytes": 1e9}
    return Attempt("succeeded" if state == "succeeded" else "failed", 1, "r", 1e9, time, reason="why", figures=figures)


def test_medians_are_those_of_the_measured_repetitions() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    first = results.results[0]
    assert first.values == pytest.approx([10 * (1 + 0.001 * number) for number in range(1, 9)])
    assert first.median == pytest.approx(10.045)
    assert first.low is not None and first.high is not None and 10.01 < first.low < 10.045 < first.high < 10.08


def test_a_failed_repetition_is_in_no_figure() -> None:
    history = history_of(failed=("sst1", 3))
    results = make_results(spec_of(), schedule_of(), history)
    assert len(results.results[0].values) == 7
    assert any("1 repetition failed" in note for note in results.notes)
    status = make_status(spec_of(), schedule_of(), history)
    assert (status.trials[0].succeeded, status.trials[0].failed, status.trials[0].reason) == (7, 1, "why (runs/r)")
    assert not status.complete


def test_comparisons_are_between_trials_that_differ_in_one_key() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    assert [(each.at, each.value, each.against) for each in results.comparisons] == [
        ({"stages.s.ranks": 1}, "bp5", "sst"), ({"stages.s.ranks": 2}, "bp5", "sst"),
    ]  # fmt: skip
    slower, same = results.comparisons
    assert slower.decision == "slower" and slower.ratio == pytest.approx(2.0) and slower.corrected_p is not None
    assert slower.p == pytest.approx(2 / 12870) and slower.corrected_p == pytest.approx(4 / 12870)
    assert same.decision == "same" and same.ratio == pytest.approx(6.1 / 6)


def test_the_direction_decides_what_is_faster() -> None:
    results = make_results(spec_of(metrics={"t": {"of": "run.wall_s", "better": "more"}}), schedule_of(), history_of())
    assert results.comparisons[0].decision == "faster"


def test_a_smaller_threshold_makes_a_small_difference_matter() -> None:
    results = make_results(spec_of(threshold=0.01), schedule_of(), history_of())
    assert results.comparisons[1].decision == "slower"


def test_against_names_the_reference_and_metrics_are_chosen() -> None:
    spec = spec_of(
        metrics={"a": "run.wall_s", "b": "stages.s.wall_s"},
        comparisons=[{"vary": "streams.d.via", "against": "bp5", "metrics": ["b"]}],
    )
    results = make_results(spec, schedule_of(), history_of())
    assert [(each.metric, each.value) for each in results.comparisons] == [("b", "sst"), ("b", "sst")]
    assert count_comparisons(spec, schedule_of().trials) == 2


def test_repetitions_that_are_missing_are_told() -> None:
    results = make_results(spec_of(repetitions=10), schedule_of(), history_of())
    assert "still to run: 8 of 40 repetitions" in results.notes


def test_too_few_repetitions_have_no_interval_and_no_verdict() -> None:
    results = make_results(spec_of(repetitions=4), schedule_of(), history_of(4))
    assert all(each.low is None for each in results.results)
    assert {each.decision for each in results.comparisons} == {"undecided"}
    assert ["too few" in row for row in metric_table(results, results.metrics[0]).rows] == [True] * 4


def test_a_busy_machine_is_told() -> None:
    history = history_of()
    for identity, attempt in list(history.ended.items()):
        history.ended[identity] = replace(attempt, load=7.25)
    quiet = schedule_of().model_copy(update={"cores": 8})
    busy = schedule_of().model_copy(update={"cores": 2})
    assert make_results(spec_of(), quiet, history).notes == []
    (note,) = make_results(spec_of(), busy, history).notes
    assert "a load of 7.2 on 2 cores" in note


def test_repetitions_that_ran_in_different_ways_are_told() -> None:
    history = history_of()
    for identity, attempt in list(history.ended.items()):
        first = identity.number == 1
        history.ended[identity] = replace(attempt, place="n1 cores 0" if first else "", host="h" if first else "")
    (note,) = make_results(spec_of(), schedule_of(), history).notes
    assert note.startswith("4 of 32 repetitions had a place beside others, and the rest of them ran alone")
    for identity, attempt in list(history.ended.items()):
        history.ended[identity] = replace(attempt, place="", host="h" if identity.number == 1 else "k")
    (note,) = make_results(spec_of(), schedule_of(), history).notes
    assert note.startswith("the repetitions ran on 2 hosts: k (28), h (4)")
    for identity, attempt in list(history.ended.items()):
        history.ended[identity] = replace(attempt, place="n1", host="k")
    assert make_results(spec_of(), schedule_of(), history).notes == []


def test_what_is_as_fast_as_the_baseline_has_no_throughput_and_no_verdict() -> None:
    schedule = schedule_of()
    trials = [each.model_copy(update={"baseline": "bp52"}) for each in schedule.trials]
    schedule = schedule.model_copy(update={"trials": trials})
    history = history_of()
    for identity, attempt in list(history.ended.items()):
        fast = identity == RepetitionId("sst1", 3)
        figures = {**attempt.figures, "stages.s.bytes_out": 1e9, **({"stages.s.wall_s": 1.0} if fast else {})}
        history.ended[identity] = replace(attempt, figures=figures)
    results = make_results(spec_of(metrics={"rate": "stages.s.perceived_throughput"}), schedule, history)
    found = {each.trial: (len(each.values), each.undefined) for each in results.results}
    assert found == {"sst1": (7, 1), "bp51": (8, 0), "sst2": (0, 8), "bp52": (4, 4)}
    assert {each.decision for each in results.comparisons} == {"undecided"} and results.comparisons[0].p is None
    assert any(note.startswith("rate is undefined in 13 of 24 repetitions of 3 trials") for note in results.notes)
    assert "lower bounds" in " ".join(results.notes)


def test_the_table_has_a_row_per_repetition_and_figure() -> None:
    spec, schedule, history = spec_of(), schedule_of(), history_of()
    keys = ["streams.d.via", "stages.s.ranks"]
    rows = list(table_rows(measured(schedule, spec, history), keys, make_results(spec, schedule, history).metrics))
    assert len(rows) == 4 * 9 * 3
    first = dict(zip(table_columns(keys), rows[0], strict=True))
    assert first == {
        "trial": "sst1", "baseline": False, "via": "sst", "ranks": "1", "repetition": 1, "warmup": True,
        "metric": "time", "part": "run", "name": "", "figure": "wall_s", "value": 90.0, "unit": "s",
    }  # fmt: skip


def test_a_key_that_is_called_like_a_column_keeps_its_whole_name() -> None:
    assert "stages.s.env.value" in table_columns(["stages.s.env.value"])


def test_pictures_have_their_data_and_equal_results_give_equal_bytes() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    pictures = make_pictures(results)
    assert [picture.name for picture in pictures] == ["time-values", "time-by-ranks", "time-map", "comparisons"]
    for picture in pictures:
        root = ElementTree.fromstring(picture.svg)
        assert root.tag.endswith("svg")
        assert picture.rows and all(len(row) == len(picture.columns) for row in picture.rows)
    assert [picture.svg for picture in pictures] == [picture.svg for picture in make_pictures(results)]
    assert "ideal strong scaling" in pictures[1].svg.decode()
    ideal = {(row[0], row[1]): row[-1] for row in pictures[1].rows}
    assert ideal["via=sst", 1.0] == pytest.approx(10.045) and ideal["via=sst", 2.0] == pytest.approx(10.045 / 2)


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
    assert {"rate in GB/s, more is better", "streams.d.throughput"} <= set(texts)
    assert {"0.02", "0.05", "0.1", "0.2", "0.5", "1"} <= set(texts)
    assert not any(colour in values for colour in COLOURS[1:-1]) and COLOURS[0] in values
    assert "every repetition" in pictures["operations-s"].title


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
        ("s", 3e-5, (1e-6, "µs")), ("s", 0.05, (1e-3, "ms")), ("s", 5.0, (1, "s")), ("B/s", 2e9, (1e9, "GB/s")),
        ("B", 0.0, (1, "B")), ("1", 2.0, (1, "")), ("steps/s", 2.0, (1, "steps/s")),
    ],
)  # fmt: skip
def test_the_unit_of_an_axis(unit: str, largest: float, shown: tuple[float, str]) -> None:
    assert axis_unit(unit, largest) == shown


def test_keys_that_change_together_are_compared_as_one() -> None:
    trials = [
        ScheduledTrial(key=f"{via}{ranks}", parameters={"streams.d.via": via, "stages.s.ranks": ranks, "size": [size]})
        for via, ranks in TIMES
        for size in [32 if ranks == 1 else 40]
    ]
    schedule = schedule_of().model_copy(update={"trials": trials})
    zipped = {"stages.s.ranks": [1, 2], "size": [[32], [40]]}
    spec = spec_of(matrix={"streams.d.via": ["sst", "bp5"]}, zip=zipped, comparisons=[{"vary": "stages.s.ranks"}])
    found = make_results(spec, schedule, history_of()).comparisons
    assert [(each.at, each.value, each.against) for each in found] == [
        ({"streams.d.via": "sst"}, 2, 1), ({"streams.d.via": "bp5"}, 2, 1),
    ]  # fmt: skip
    assert [each.ratio for each in found] == pytest.approx([0.6, 6.1 / 20])
    # Of one value of `size` there are two of the ranks: these are not one with it.
    mixed = spec_of(matrix={}, zip={"ranks": [1, 2, 4], "size": [8, 8, 9]})
    assert keys_together(mixed, "ranks") == {"ranks", "size"} and keys_together(mixed, "size") == {"size"}


def test_only_the_tests_that_were_made_are_counted() -> None:
    spec = spec_of(metrics={"time": "run.wall_s", "rate": "streams.d.throughput"})
    results = make_results(spec, schedule_of(), history_of())
    assert len(results.comparisons) == 4 and results.tests == 2
    page = make_page(results, make_pictures(results))
    assert "correction for\n2 comparisons" in page
    assert page.index("pictures/comparisons.svg") < page.index("<h2>Pictures") < page.index("pictures/time-values.svg")


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
    assert "I/O" in pictures["operations-t"].svg.decode() and "wait" not in pictures["operations-t"].svg.decode()


def test_a_box_leaves_out_what_is_far_away() -> None:
    assert make_box([1, 2, 3, 4, 5, 6, 7, 30]) == (1, 2.75, 4.5, 6.25, 7)
    assert make_box([2.0]) == (2, 2, 2, 2, 2)


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
    ranks, via = find_dimensions(points)
    assert [colours.colour(each) for each in points[:3]] == list(COLOURS[:3])
    assert [colours.line_style(each, ranks).colour for each in points] == [colours.colour(each) for each in points]
    assert [colours.line_label(each, via) for each in points[::3]] == ["ranks=1", "ranks=2"]


def test_verdicts_in_words() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    assert [row[-1] for row in comparison_table(results).rows] == ["slower", "same within 5 %"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("run.wall_s", ("run", "", "wall_s")), ("streams.a.bytes", ("streams", "a", "bytes")), ("run.x.wall_s", None),
        ("stages.wall_s", None), ("wall_s", None), ("jobs.a.b", None),
    ],
)  # fmt: skip
def test_names_of_figures(text: str, parts: tuple[str, str, str] | None) -> None:
    assert to_figure_name(text) == parts


def test_all_figures_of_a_report_have_a_name_a_unit_and_a_direction(tmp_path: Path) -> None:
    report = compute_report(write_sample(tmp_path))
    figures = figures_of(report)
    assert figures["run.wall_s"] == report.run.wall_s
    stream = report.streams[0]
    assert figures[f"streams.{stream.name}.throughput"] == stream.throughput
    (writer,) = (stage for stage in report.stages if stage.name == stream.writer)
    assert None not in (writer.compute_s, writer.io_s, writer.wait_s, writer.steps_out)
    parts_s = (writer.compute_s or 0) + (writer.io_s or 0) + (writer.wait_s or 0)
    assert figures[f"stages.{writer.name}.step_s"] == pytest.approx(parts_s / (writer.steps_out or 0))
    loads = [each.io_s for each in stream.readers if each.io_s is not None]
    assert figures[f"streams.{stream.name}.load_s"] == max(loads)
    for name in figures:
        parts = to_figure_name(name)
        assert parts is not None and str(parts) == name and parts.figure.unit


def test_junit_counts_its_cases() -> None:
    cases = [JUnitCase("a=1", 1.5), JUnitCase("a=2", fault="line 1\nline 2"), JUnitCase("a=3", skipped="later")]
    root = ElementTree.fromstring(to_junit("c", cases))
    assert [root.get(name) for name in ("tests", "failures", "skipped", "time")] == ["3", "1", "1", "1.500"]
    (failure,) = root.iter("failure")
    assert failure.get("message") == "line 1" and failure.text == "line 1\nline 2"


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = history_of()
    with Ledger(tmp_path) as ledger:
        for identity, attempt in history.ended.items():
            ledger.end(identity, attempt)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(WfError, match=r"the report of a campaign needs scipy\n.*pip install.*campaign"):
        write_results(tmp_path, spec_of(), schedule_of())
    assert not (tmp_path / "report.json").exists()


def test_without_pyarrow_the_table_is_csv_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert [path.name for path in write_table(tmp_path, ["a", "b"], [["x", 1.5]])] == ["table.csv"]
    assert (tmp_path / "table.csv").read_text() == "a,b\nx,1.5\n"


def test_the_status_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    assert make_status(spec_of(), schedule_of(), history_of()).complete
