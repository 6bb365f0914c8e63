"""From the ledger to medians and verdicts, without any run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.measured_campaign import TIMES, end, history_of, schedule_of, spec_of
from tests.support.sample_run import write_sample
from workflow.campaign.campaign_directory import ScheduledTrial
from workflow.campaign.execution.repetition import StartedAttempt, to_attempt
from workflow.campaign.junit import JUnitCase, to_junit
from workflow.campaign.ledger import History, Ledger, Repetition
from workflow.campaign.results.campaign_page import make_page, write_results
from workflow.campaign.results.campaign_tables import (
    comparison_table,
    decision_text,
    latex_tables,
    method_text,
    metric_table,
    table_columns,
    table_rows,
    write_table,
)
from workflow.campaign.results.comparisons import NO_VALUES, NOT_INTERLEAVED, UNLIKE, count_comparisons, keys_together
from workflow.campaign.results.make_results import make_results, make_status
from workflow.campaign.results.results_pictures import make_pictures
from workflow.campaign.results.results_summary import results_summary
from workflow.campaign.results.samples import measured
from workflow.campaign.show_campaign import trial_names
from workflow.campaign.verdicts import FEW_PAIRS, NO_RATIO
from workflow.errors import WfError
from workflow.report.build.met_expectations import figures_of
from workflow.report.report_files import compute_report
from workflow.report_figures import to_figure_name


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


def test_values_that_have_no_ratio_and_values_with_a_new_line_are_shown() -> None:
    """The reason stands in the table; a trial is one row of it, of LaTeX and of the status."""
    history = history_of()
    for repetition, attempt in list(history.ended.items()):
        times = {"run.wall_s": attempt.figures["run.wall_s"] - 15.0}
        if repetition.key == "bp52":
            times = {}
        history.ended[repetition] = replace(attempt, figures=times)
    schedule = schedule_of()
    trials = [
        each.model_copy(update={"parameters": {**each.parameters, "stages.s.ranks": "a\nb"}})
        if each.key.endswith("1")
        else each
        for each in schedule.trials
    ]
    spec = spec_of(matrix={"streams.d.via": ["sst", "bp5"], "stages.s.ranks": ["a\nb", 2]})
    results = make_results(spec, schedule.model_copy(update={"trials": trials}), history)
    assert [each.reason for each in results.comparisons] == [NO_RATIO, NO_VALUES]
    table = comparison_table(results)
    assert [row[-1] for row in table.rows] == [f"undecided: {NO_RATIO}", f"undecided: {NO_VALUES}"]
    assert table.rows[0][2] == r"a\nb"
    rows = [
        line for line in latex_tables(results, lambda unit, _: (1.0, unit)).splitlines() if "a" in line and "&" in line
    ]
    assert all(line.endswith(r" \\") for line in rows) and any(r"a\textbackslash{}nb" in line for line in rows)
    names = trial_names(make_status(spec, schedule.model_copy(update={"trials": trials}), history))
    assert names["sst1"] == r"via=sst ranks=a\nb"


def test_a_repetition_that_lost_a_part_is_named(tmp_path: Path) -> None:
    history, lost = history_of(), Repetition("sst1", 2)
    run_dir = write_sample(tmp_path / "sst1-r02")
    events = run_dir / "events.jsonl"
    events.write_text(
        events.read_text().replace('"state": "succeeded"', '"lacks": "5 of 6 members", "state": "succeeded"')
    )
    attempt = to_attempt(StartedAttempt(run_dir, 1, 1, 1e9), 2.0)
    assert (attempt.state, attempt.reason) == ("succeeded", "5 of 6 members")
    history.ended[lost] = replace(history.ended[lost], reason=attempt.reason, run=attempt.run)
    (note,) = (each for each in make_results(spec_of(), schedule_of(), history).notes if "part" in each)
    assert note == "1 repetition lost a part, and is in all figures: 5 of 6 members (runs/sst1-r02)"


def test_comparisons_are_between_trials_that_differ_in_one_key() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    assert [(each.at, each.value, each.against) for each in results.comparisons] == [
        ({"stages.s.ranks": 1}, "bp5", "sst"), ({"stages.s.ranks": 2}, "bp5", "sst"),
    ]  # fmt: skip
    slower, same = results.comparisons
    assert slower.decision == "slower" and slower.ratio == pytest.approx(2.0) and slower.corrected_p is not None
    assert (slower.test, slower.p, slower.corrected_p) == ("pairs", 2 / 2**8, 4 / 2**8)
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
        fast = identity == Repetition("sst1", 3)
        figures = {
            **attempt.figures,
            "stages.s.bytes_out": 0 if identity.key == "bp52" else 1e9,
            **({"stages.s.wall_s": 1.0} if fast else {}),
        }
        history.ended[identity] = replace(attempt, figures=figures)
    results = make_results(spec_of(metrics={"rate": "stages.s.perceived_throughput"}), schedule, history)
    found = {each.trial: (len(each.values), each.undefined) for each in results.results}
    assert found == {"sst1": (7, 1), "bp51": (8, 0), "sst2": (0, 8), "bp52": (0, 0)}
    assert {each.decision for each in results.comparisons} == {"undecided"} and results.comparisons[0].p is None
    assert any(note.startswith("rate is undefined in 9 of 16 repetitions of 2 trials") for note in results.notes)
    assert "lower bounds" in " ".join(results.notes)


def test_what_the_baseline_writes_is_in_no_difference() -> None:
    """Eleven states in 3 s, and two of them in 1 s without I/O: 9 states were written in the 2 s between."""
    trial = ScheduledTrial(key="sst1", parameters={}, baseline="quiet")
    schedule = schedule_of().model_copy(update={"trials": [trial]})
    history = History()
    for key, states, time in (("sst1", 11, 3.0), ("quiet", 2, 1.0)):
        for number in range(1, 9):
            figures = {"stages.s.bytes_out": states * 8e6, "stages.s.wall_s": time}
            history.end(Repetition(key, number), replace(end(time), figures=figures))
    results = make_results(spec_of(metrics={"rate": "stages.s.perceived_throughput"}), schedule, history)
    assert results.results[0].median == pytest.approx(9 * 8e6 / 2)


def test_the_summary_names_what_ran_what_was_decided_and_the_winner() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    assert results_summary(results) == (
        "32 of 32 repetitions succeeded; 2 comparisons decided; sst is the fastest in 1 of 2 cases; in the first of "
        "them bp5 has 2.00 times the time of sst [2.00, 2.00]."
    )
    only = results.model_copy(update={"comparisons": results.comparisons[:1], "load": 0.4, "cores": 2})
    assert results_summary(only) == (
        "32 of 32 repetitions succeeded; 1 comparison decided; median load 0.4 on 2 cores; "
        "sst is the fastest: bp5 has 2.00 times the time of sst [2.00, 2.00]."
    )
    busy = only.model_copy(update={"load": 7.25, "comparisons": results.comparisons[1:]})
    assert results_summary(busy).endswith(
        "the machine was busy: median load 7.2 on 2 cores; it is not decided which is the fastest."
    )
    undecided = [each.model_copy(update={"decision": "undecided"}) for each in results.comparisons]
    assert results_summary(results.model_copy(update={"comparisons": undecided})) == (
        "32 of 32 repetitions succeeded; 2 comparisons undecided."
    ), "once"


def test_the_summary_names_all_values_that_may_be_the_best() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    first = results.comparisons[0].model_copy(
        update={"against": "none", "value": "zstd", "ratio": 0.71, "low": 0.69, "high": 0.74, "decision": "faster"}
    )
    other = first.model_copy(update={"value": "blosc", "ratio": 0.9, "low": 0.88, "high": 0.92})
    one = results.model_copy(update={"comparisons": [other, first]})
    name = results.metrics[0].name
    assert results_summary(one).endswith(f"zstd is the fastest: 0.71 of the {name} of none [0.69, 0.74].")
    near = other.model_copy(update={"ratio": 0.73, "low": 0.71, "high": 0.75})
    two = results.model_copy(update={"comparisons": [near, first]})
    assert "zstd or blosc is the fastest: " in results_summary(two)
    third = near.model_copy(update={"at": {"stages.s.ranks": 2}})
    assert results_summary(results.model_copy(update={"comparisons": [first, third]})).endswith(
        "which is the fastest depends on ranks."
    )


def test_the_summary_tells_the_largest_certain_difference() -> None:
    """Not the comparison that is written first; one that is not certain tells nothing, however large it is."""
    metrics = {"time": "run.wall_s", "half": {"of": "stages.s.wall_s", "label": "half of the time"}}
    results = make_results(spec_of(metrics=metrics), schedule_of(), history_of())
    first, *_, last = results.comparisons
    assert (first.metric, last.metric) == ("time", "half")
    small = first.model_copy(update={"ratio": 1.1, "decision": "slower"})
    large = last.model_copy(update={"ratio": 3.0, "low": None, "decision": "slower"})
    chosen = results_summary(results.model_copy(update={"comparisons": [small, large]}))
    assert chosen.endswith("sst is the fastest: bp5 has 3.00 times the half of the time of sst.")
    unsure = large.model_copy(update={"decision": "undecided"})
    assert "times the time of sst" in results_summary(results.model_copy(update={"comparisons": [small, unsure]}))


def test_the_summary_counts_what_failed_and_what_is_left() -> None:
    failed = make_results(spec_of(repetitions=10), schedule_of(), history_of(failed=("sst1", 3)))
    assert results_summary(failed).startswith("31 of 40 repetitions succeeded, 1 failed, 8 still to run; ")
    alone = make_results(spec_of(comparisons=[]), schedule_of(), history_of())
    assert results_summary(alone) == "32 of 32 repetitions succeeded."


def test_blocks_are_compared_with_themselves() -> None:
    """The machine slows down by half from block to block; a repetition that failed leaves its block out."""
    history = history_of()
    for identity, attempt in list(history.ended.items()):
        slower = 1.5**identity.number * (1.2 if identity.key == "bp51" else 1.0)
        history.ended[identity] = replace(attempt, figures={"run.wall_s": slower})
    first = make_results(spec_of(), schedule_of(), history).comparisons[0]
    assert (first.test, first.decision) == ("pairs", "slower") and first.ratio == pytest.approx(1.2)
    assert first.low == pytest.approx(1.2) and first.high == pytest.approx(1.2)
    history.ended[Repetition("sst1", 3)] = end(1.0, "failed")
    first = make_results(spec_of(), schedule_of(), history).comparisons[0]
    assert (first.p, first.decision) == (2 / 2**7, "slower") and first.ratio == pytest.approx(1.2)
    history.ended[Repetition("bp51", 5)] = end(1.0, "failed")
    first = make_results(spec_of(), schedule_of(), history).comparisons[0]
    assert (first.decision, first.reason) == ("undecided", FEW_PAIRS) and first.ratio == pytest.approx(1.2)


def test_too_many_comparisons_for_pairs_are_made_by_ranks() -> None:
    spec = spec_of(metrics=dict.fromkeys("abcd", "run.wall_s"))
    results = make_results(spec, schedule_of(), history_of())
    assert {each.test for each in results.comparisons} == {"ranks"}
    assert results.comparisons[0].decision == "slower" and "p of Mann–Whitney" in method_text(results.comparisons)


def test_rates_of_a_file_and_of_a_stream_are_shown_and_get_no_verdict() -> None:
    engines = {"sst1": "SST", "sst2": "SST", "bp51": "BP5", "bp52": "BP5"}
    schedule = schedule_of()
    trials = [each.model_copy(update={"engines": {"d": engines[each.key]}}) for each in schedule.trials]
    schedule = schedule.model_copy(update={"trials": trials})
    history = history_of()
    for identity, attempt in list(history.ended.items()):
        time = attempt.figures["run.wall_s"]
        history.ended[identity] = replace(attempt, figures={"streams.d.throughput": 1e9 / time, "run.wall_s": time})
    spec = spec_of(metrics={"rate": "streams.d.throughput", "time": "run.wall_s"})
    results = make_results(spec, schedule, history)
    rate, _, whole, _ = results.comparisons
    assert (rate.decision, rate.p, rate.reason) == ("undecided", None, UNLIKE) and rate.ratio == pytest.approx(0.5)
    assert whole.decision == "slower" and count_comparisons(spec, trials) == 2
    assert comparison_table(results).rows[0][-1] == "undecided: a file and a stream"
    ranks = spec_of(metrics={"rate": "streams.d.throughput"}, comparisons=[{"vary": "stages.s.ranks"}])
    assert [each.decision for each in make_results(ranks, schedule, history).comparisons] == ["faster", "faster"]


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
    assert len(results.comparisons) == 4
    page = make_page(results, make_pictures(results))
    assert "Median of the ratios within blocks; p of the sign test over the blocks, corrected for 2 comparisons" in page
    order = ["<h2>time<", "pictures/time-values.svg", "pictures/time-comparisons.svg", "<h2>rate<"]
    places = [page.index(each) for each in order]
    assert places == sorted(places), "the pictures of a metric are under its heading"


def test_what_was_not_measured_in_turns_is_not_counted_as_a_test() -> None:
    """The trials of one comparison ran one after the other: it is shown, and does not make the other one stricter."""
    history, schedule = history_of(), schedule_of()
    for identity, attempt in list(history.ended.items()):
        # One after another, so that no two start together; those of bp5 with 2 ranks a day later.
        start = 1e9 + 10 * identity.number + (86400 if identity.key == "bp52" else 0)
        history.ended[identity] = replace(attempt, started=start)
    results = make_results(spec_of(), schedule, history)
    beside, apart = results.comparisons
    assert (apart.decision, apart.reason, apart.in_turns) == ("undecided", NOT_INTERLEAVED, False)
    assert (apart.test, apart.p, apart.corrected_p) == (None, None, None) and apart.ratio is not None
    assert beside.decision == "slower" and beside.corrected_p == beside.p == 2 / 2**8
    assert "corrected for 1 comparison (" in method_text(results.comparisons)
    assert count_comparisons(spec_of(), schedule.trials) == 2, "the plan must not depend on what was measured"


def test_verdicts_in_words() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    assert [row[-1] for row in comparison_table(results).rows] == ["slower", "same within 5 %"]
    # Of times and rates; what is neither is better or worse.
    units = {"s": "faster", "B/s": "faster", "steps/s": "faster", "B": "better", "1": "better"}
    for unit, verdict in units.items():
        assert decision_text("faster", results.metrics[0].model_copy(update={"unit": unit})) == verdict


@pytest.mark.parametrize("threshold", ["5 %", "5%", 0.05, "0.05"])
def test_a_threshold_is_a_share_or_percent(threshold: object) -> None:
    assert spec_of(threshold=threshold).threshold == 0.05
    spec = spec_of(metrics={"t": {"of": "run.wall_s", "threshold": threshold}})
    assert spec.metrics["t"].threshold == 0.05


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
        write_results(tmp_path, spec_of(repetitions=5), schedule_of())
    assert not (tmp_path / "report.json").exists()


def test_without_pyarrow_the_table_is_csv_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert [path.name for path in write_table(tmp_path, ["a", "b"], [["x", 1.5]])] == ["table.csv"]
    assert (tmp_path / "table.csv").read_text() == "a,b\nx,1.5\n"


def test_the_status_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    assert make_status(spec_of(), schedule_of(), history_of()).complete
