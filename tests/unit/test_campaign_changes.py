"""Two campaigns compared: verdicts, what differs, the gate, and what is refused. Values are known, nothing runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

from workflow import compare_campaigns
from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.changes.changes_model import CampaignChanges
from workflow.campaign.changes.compared_campaign import ComparedCampaign
from workflow.campaign.changes.gate import faults
from workflow.campaign.changes.make_changes import make_changes
from workflow.campaign.changes.show_changes import show_changes, unmatched_texts
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.planning.both_versions import VERSION, gate_spec
from workflow.campaign.results.comparisons import NOT_INTERLEAVED
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.results_model import CampaignResults
from workflow.cli.main import main
from workflow.errors import WfError

KEYS = ["streams.d.via", "stages.s.ranks"]
Point = tuple[str, int]
POINTS: dict[Point, float] = {("sst", 1): 10.0, ("sst", 2): 6.0, ("bp5", 1): 20.0}


def spec_of(**changed: object) -> CampaignSpec:
    given: dict[str, object] = {
        "wf": 1, "campaign": "c", "pipeline": "p.yaml", "repetitions": 8, "warmup": 1,
        "metrics": {"time": "run.wall_s", "rate": "streams.d.throughput"}, **changed,
    }  # fmt: skip
    return CampaignSpec.model_validate_json(json.dumps(given))


def parts(
    times: dict[Point, float], repetitions: int = 8, keys: str = "a", **schedule: object
) -> tuple[Schedule, History]:
    """A schedule and the history of trials of these times: repetition n takes 1 + n/1000 as long."""
    trials, history = [], History()
    for number, ((via, ranks), time) in enumerate(times.items()):
        key = f"{keys}{number}"
        trials.append(ScheduledTrial(key=key, parameters=dict(zip(KEYS, (via, ranks), strict=True))))
        for repetition in range(repetitions + 1):
            value = time * (50 if repetition == 0 else 1 + 0.001 * repetition)
            figures = {"run.wall_s": value, "streams.d.throughput": 1e9 / value}
            identity = Repetition(key, max(repetition, 1), warmup=repetition == 0)
            history.end(identity, Attempt("succeeded", 1, "r", 1e9, value, load=1.0, figures=figures))
    facts: dict[str, object] = {
        "wf_version": "1", "site": "local", "host": "h", "versions": {"adios2": "2.11"},
        "checksums": {"pipeline": "ab" * 32},
    }  # fmt: skip
    return Schedule.model_validate({**facts, **schedule, "trials": [each.model_dump() for each in trials]}), history


def results_of(times: dict[Point, float], spec: CampaignSpec | None = None, **more: object) -> CampaignResults:
    repetitions = int(str(more.pop("repetitions", 8)))
    return make_results(spec or spec_of(), *parts(times, repetitions, **more))  # type: ignore[arg-type]


def given(name: str, results: CampaignResults) -> ComparedCampaign:
    return ComparedCampaign(name, results)


def changes_of(new: dict[Point, float], tolerance: float | None = None, **more: object) -> CampaignChanges:
    base = given("old", results_of(POINTS))
    return make_changes(base, given("new", results_of(new, None, keys="other", **more)), tolerance=tolerance)


def test_trials_are_matched_by_their_values_and_not_by_their_keys() -> None:
    changes = changes_of({("bp5", 1): 30.0, ("sst", 1): 10.0, ("sst", 4): 3.0})
    assert [(each.metric, tuple(each.at.values()), each.decision) for each in changes.changes] == [
        ("time", ("bp5", 1), "slower"), ("time", ("sst", 1), "same"),
        ("rate", ("bp5", 1), "slower"), ("rate", ("sst", 1), "same"),
    ]  # fmt: skip
    first = changes.changes[0]
    assert (first.against, first.count_against, first.value, first.count) == ("old", 8, "new", 8)
    assert first.ratio == pytest.approx(1.5)
    assert first.median_against == pytest.approx(20 * 1.0045) and first.median == pytest.approx(30 * 1.0045)
    assert first.low is not None and first.high is not None and first.low < 1.5 < first.high
    # Of 8 values a side that do not overlap, among four ratios.
    assert first.p == pytest.approx(2 / 12870) and first.corrected_p == pytest.approx(4 * 2 / 12870)
    assert [(each.side, tuple(each.parameters.values())) for each in changes.unmatched] == [
        ("base", ("sst", 2)), ("new", ("sst", 4)),
    ]  # fmt: skip


def changes_of_versions(spec: CampaignSpec, factor: float = 1.2, apart: float = 0.0) -> CampaignChanges:
    """A gate of one trial on a machine that slows down by half from block to block; `apart`: seconds in between."""
    trials, history = [], History()
    for version, times, later in (("old", 1.0, 0.0), ("new", factor, apart)):
        trials.append(ScheduledTrial(key=f"a-{version}", parameters={"version": version, "s": 1}))
        for number in range(1, spec.repetitions + 1):
            figures = {"run.wall_s": 1.5**number * times}
            attempt = Attempt("succeeded", 1, "r", 1e9 + 10 * number + later, 1.0, figures=figures)
            history.end(Repetition(f"a-{version}", number), attempt)
    schedule = Schedule(wf_version="1", site="local", host="h", versions={}, trials=trials)
    results = make_results(gate_spec(spec), schedule, history)
    assert {each.vary for each in results.comparisons} == {VERSION}
    return CampaignChanges(
        base="old", new="new", facts=[], metrics=results.metrics, changes=results.comparisons, unmatched=[],
        unmatched_metrics={}, notes=[],
    )  # fmt: skip


def printed(changes: CampaignChanges, capsys: pytest.CaptureFixture[str]) -> str:
    show_changes(changes, wide=True)
    return " ".join(capsys.readouterr().out.split())


def test_a_gate_names_the_test_that_was_made(capsys: pytest.CaptureFixture[str]) -> None:
    spec = spec_of(metrics={"time": "run.wall_s"})
    changes = changes_of_versions(spec)
    (change,) = changes.changes
    assert (change.test, change.decision, change.p) == ("pairs", "slower", 2 / 2**8)
    text = printed(changes, capsys)
    assert "median of the ratios within blocks; p of the sign test over the blocks, corrected for 1 comp" in text
    assert "Mann" not in text
    by_ranks = changes_of_versions(spec_of(metrics=dict.fromkeys("abcdefg", "run.wall_s")))
    assert {each.test for each in by_ranks.changes} == {"ranks"}
    text = printed(by_ranks, capsys)
    assert "ratio of the medians; p of Mann–Whitney" in text and "sign test" not in text


def test_a_gate_says_why_a_ratio_is_undecided() -> None:
    (change,) = changes_of_versions(spec_of(metrics={"time": "run.wall_s"}), apart=86400.0).changes
    assert (change.decision, change.test, change.reason) == ("undecided", None, NOT_INTERLEAVED)


def test_campaigns_are_compared_by_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    changes = changes_of({("bp5", 1): 30.0, ("sst", 1): 10.0})
    assert {each.test for each in changes.changes} == {"ranks"}
    assert "p of Mann–Whitney or, where it is larger, of Welch on logarithms" in printed(changes, capsys)


def test_what_differs_is_said_with_both_values() -> None:
    new = results_of(POINTS, host="k", versions={"adios2": "2.12", "numpy": "2"}, checksums={"pipeline": "cd" * 32})
    changes = make_changes(given("old", results_of(POINTS)), given("new", new))
    differing = {each.fact: (each.base, each.new) for each in changes.facts if each.base != each.new}
    assert differing == {
        "host": ("h", "k"), "adios2": ("2.11", "2.12"), "numpy": ("not installed", "2"),
        "pipeline file": ("ab" * 6, "cd" * 6),
    }  # fmt: skip
    assert changes.notes == ["the trials of both have the same content: plan, programs, inputs and versions"]
    changed = new.model_copy(
        update={"results": [each.model_copy(update={"trial": each.trial.replace("a1", "b1")}) for each in new.results]}
    )
    (note,) = make_changes(given("old", results_of(POINTS)), given("new", changed)).notes
    assert note == "the content of 1 of 3 trials differs: plan, programs, inputs or versions"


@pytest.mark.parametrize(
    ("factor", "tolerance", "strict", "regressed"),
    [(1.5, None, False, 2), (1.5, 0.6, False, 0), (1.08, None, False, 2), (1.08, 0.1, False, 0), (0.5, None, True, 0)],
)
def test_the_gate_fails_what_is_worse_and_beyond_the_tolerance(
    factor: float, tolerance: float | None, strict: bool, regressed: int
) -> None:
    new = {point: time * (factor if point == ("sst", 2) else 1) for point, time in POINTS.items()}
    lines = list(faults(changes_of(new, tolerance), strict))
    assert len(lines) == regressed
    assert all(line.startswith("via=sst ranks=2: ") for line in lines)


def test_a_difference_within_noise_is_undecided_and_fails_the_strict_gate_only() -> None:
    noisy = {point: time * (1.5 if point == ("sst", 2) else 1) for point, time in POINTS.items()}
    changes = changes_of(noisy, repetitions=4)
    assert {each.decision for each in changes.changes} == {"undecided"}
    assert list(faults(changes, strict=False)) == [] and len(list(faults(changes, strict=True))) == 6
    assert "a verdict needs at least 6 repetitions on each side" in changes.notes


def test_what_is_undecided_but_no_worse_passes_the_strict_gate() -> None:
    """The whole interval is within the tolerance, or better."""
    better = changes_of(POINTS)
    first = better.changes[0].model_copy(update={"decision": "undecided", "ratio": 0.7, "low": 0.5, "high": 1.04})
    changes = better.model_copy(update={"changes": [first]})
    assert list(faults(changes, strict=True)) == []
    worse = changes.model_copy(update={"changes": [first.model_copy(update={"high": 1.06})]})
    (line,) = faults(worse, strict=True)
    assert "ratio 0.70 (0.50 … 1.06)" in line
    rate = better.changes[-1].model_copy(update={"decision": "undecided", "ratio": 1.3, "low": 0.96, "high": 1.9})
    assert list(faults(better.model_copy(update={"changes": [rate]}), strict=True)) == []


def test_a_campaign_compared_with_itself_is_told() -> None:
    one = given("old", results_of(POINTS))
    assert "both sides are the same campaign" in make_changes(one, one).notes


def test_a_trial_that_is_missing_fails_the_strict_gate_only() -> None:
    changes = changes_of({("sst", 1): 10.0, ("sst", 2): 6.0, ("sst", 8): 1.0})
    assert list(faults(changes, strict=False)) == []
    assert list(faults(changes, strict=True)) == ["via=bp5 ranks=1: only the base has this trial"]
    assert [*unmatched_texts(changes)] == [
        "only old has the trial via=bp5 ranks=1", "only new has the trial via=sst ranks=8",
    ]  # fmt: skip


def test_a_metric_that_is_missing_fails_the_strict_gate_only() -> None:
    base, new = results_of(POINTS), results_of(POINTS, spec_of(metrics={"time": "run.wall_s", "more": "run.wall_s"}))
    changes = make_changes(given("old", base), given("new", new))
    assert changes.unmatched_metrics == {"rate": "base", "more": "new"}
    assert [*unmatched_texts(changes)] == ["only old has the metric rate", "only new has the metric more"]
    assert list(faults(changes, strict=False)) == []
    assert list(faults(changes, strict=True)) == ["rate: only the base has this metric"]


def test_a_trial_without_values_is_undecided_and_fails_the_gate() -> None:
    schedule, history = parts(POINTS)
    for identity in [each for each in history.ended if each.key == "a1"]:
        del history.ended[identity]
    changes = make_changes(given("old", results_of(POINTS)), given("new", make_results(spec_of(), schedule, history)))
    (time, rate) = [each for each in changes.changes if not each.count]
    assert time.decision == rate.decision == "undecided" and time.p is None
    lines = list(faults(changes, strict=False))
    assert len(lines) == 2 and all("undecided, no value in the new campaign" in line for line in lines)
    back = make_changes(given("old", make_results(spec_of(), schedule, history)), given("new", results_of(POINTS)))
    assert list(faults(back, strict=False)) == []
    old, new = (given(name, make_results(spec_of(), schedule, history)) for name in ("old", "new"))
    assert len(list(faults(make_changes(old, new), strict=False))) == 2, "a gate that has measured nothing passes"


@pytest.mark.parametrize("left", [[], [10.0] * 7])
def test_repetitions_as_fast_as_the_baseline_fail_the_strict_gate_only(left: list[float]) -> None:
    """Something was measured, but not each value is defined."""
    results = results_of(POINTS)
    row = results.results[0].model_copy(update={"values": left, "undefined": 8 - len(left)})
    new = results.model_copy(update={"results": [row, *results.results[1:]]})
    changes = make_changes(given("old", results), given("new", new))
    assert changes.changes[0].decision == "undecided"
    assert list(faults(changes, strict=False)) == []
    (line,) = faults(changes, strict=True)
    assert line.endswith(": undecided, repetitions as fast as the baseline have no value")


def test_repetitions_that_can_decide_nothing_are_told() -> None:
    many = {("sst", ranks): 1.0 for ranks in range(1, 31)}
    base, new = (given(name, results_of(many, repetitions=6)) for name in ("old", "new"))
    changes = make_changes(base, new)
    assert "6 repetitions on each side cannot show a difference among 60 ratios: 7 or more can" in changes.notes[1]


def test_identical_campaigns_seldom_regress() -> None:
    """Five ratios a comparison of identical programs, no tolerance: at most 5 % may say faster or slower."""
    generator = np.random.default_rng(1947)
    points = {("sst", ranks): 1.0 for ranks in range(1, 6)}
    results = results_of(points, spec_of(metrics={"time": "run.wall_s"}))

    def drawn() -> ComparedCampaign:
        rows = [each.model_copy(update={"values": generator.lognormal(0, 0.2, 8).tolist()}) for each in results.results]
        return given("x", results.model_copy(update={"results": rows}))

    comparisons = 40
    false = [
        any(each.decision in ("faster", "slower") for each in make_changes(drawn(), drawn(), tolerance=1e-9).changes)
        for _ in range(comparisons)
    ]
    # Of 40 at 5 % each more than 6 are false in one of 300 simulations; the seed is fixed.
    assert sum(false) <= 6


def test_units_and_directions_must_be_the_same() -> None:
    base = given("old", results_of(POINTS))
    for metrics, expected in (
        ({"time": {"of": "run.wall_s", "better": "more"}}, "`time` has `better:` less in old and more in new"),
        ({"time": "stages.s.cpu_s"}, "`time` measures run.wall_s in old and stages.s.cpu_s in new"),
    ):
        with pytest.raises(WfError, match=re.escape(expected)):
            make_changes(base, given("new", results_of(POINTS, spec_of(metrics=metrics))))


# --- as a user gives them -----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`old.json`, and `new.json`, where one trial has become slower."""
    monkeypatch.chdir(tmp_path)
    new = {**POINTS, ("sst", 2): 9.0}
    (tmp_path / "old.json").write_text(results_of(POINTS).model_dump_json())
    (tmp_path / "new.json").write_text(results_of(new, keys="b").model_dump_json())
    return tmp_path


class Said(NamedTuple):
    """What `wf campaign compare` printed, and its exit code."""

    exit_code: int
    stdout: str
    stderr: str


Compare = Callable[[str], Said]


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Compare:
    """`wf campaign compare WORDS`."""

    def run(words: str) -> Said:
        monkeypatch.setattr("sys.argv", ["wf", "campaign", "compare", *words.split()])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        assert isinstance(code, int)
        return Said(code, *capsys.readouterr())

    return run


@pytest.mark.usefixtures("folder")
def test_a_saved_report_is_enough() -> None:
    changes = compare_campaigns("old.json", "new.json")
    assert [(each.metric, each.count_against, each.decision) for each in changes.changes[:3]] == [
        ("time", 8, "same"), ("time", 8, "slower"), ("time", 8, "same"),
    ]  # fmt: skip
    assert changes.changes[1].ratio == pytest.approx(1.5)
    assert not changes.unmatched


def test_a_folder_that_holds_a_report_alone_is_enough(folder: Path) -> None:
    (folder / "base").mkdir()
    (folder / "old.json").rename(folder / "base/report.json")
    assert len(compare_campaigns("base", "new.json").changes) == 6


def test_the_gate_on_the_command_line(folder: Path, compare: Compare) -> None:
    plain = compare("old.json new.json")
    assert plain.exit_code == 0 and "2 ratios" not in plain.stdout and "slower" in plain.stdout
    failed = compare("old.json new.json --gate --junit gate.xml")
    assert failed.exit_code == 4
    assert "error: via=sst ranks=2: time: 6.03 s → 9.04 s, ratio 1.50" in failed.stderr
    assert "gate failed: 2 of 6 cases" in failed.stderr
    root = ElementTree.parse(folder / "gate.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("6", "2")
    names = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert names == ["via=sst ranks=2: time", "via=sst ranks=2: rate"]
    assert compare("old.json new.json --gate --tolerance 60%").exit_code == 0
    assert compare("old.json old.json --strict").exit_code == 0
    fewer = dict(list(POINTS.items())[1:])
    (folder / "fewer.json").write_text(results_of(fewer).model_dump_json())
    assert compare("old.json fewer.json --gate").exit_code == 0
    undecided = compare("old.json fewer.json --strict")
    assert undecided.exit_code == 5 and "only the base has this trial" in undecided.stderr
    assert compare("old.json new.json --strict").exit_code == 4, "one has regressed, whatever else is undecided"


@pytest.mark.usefixtures("folder")
def test_json_is_the_whole_comparison(compare: Compare) -> None:
    done = compare("old.json new.json --json --gate")
    assert done.exit_code == 4
    changes = CampaignChanges.model_validate_json(done.stdout)
    assert changes == compare_campaigns("old.json", "new.json")


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        ("gone.json new.json", "cannot read gone.json: No such file", "report.json of `wf campaign report`"),
        ("gone new.json", "there is no campaign `gone`", "campaigns here: none"),
        ("text.json new.json", "text.json is not JSON", "report.json of `wf campaign report`"),
        ("run.json new.json", "run.json is the report of a run, not of a campaign", "wf compare RUN_A RUN_B"),
        ("list.json new.json", "list.json is not the report of a campaign", "report.json"),
        ("short.json new.json", "short.json cannot be read by this wf", "wf campaign report"),
        ("text.csv new.json", "text.csv is not a campaign", "report.json of `wf campaign report`"),
        ("text.txt new.json", "text.txt is not a campaign", "give a campaign's directory"),
        ("old.json new.json --metric time", "--metric", "change `metrics:` there, which needs no new run"),
        ("old.json none.json", "no trial is in both campaigns: one has via=sst ranks=1, the other via=x ranks=1",
         "trials are matched by the keys that vary and their values"),
        ("old.json unit.json", "no metric is in both campaigns", "the same names"),
        ("old.json new.json --tolerance 5x", "`--tolerance`: expected a share such as `5%` or `0.05`, got `5x`", ""),
        ("old.json new.json --tolerance 10", "got `10`; did you mean `10%`?", ""),
        ("old.json", "wf campaign compare: NEW is missing", "usage: wf campaign compare"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_said(folder: Path, compare: Compare, arguments: str, said: str, hint: str) -> None:
    for name, text in {
        "text.json": "x", "run.json": '{"report_version": 1}', "list.json": "[1]",
        "short.json": '{"results_version": 1}',
        "text.csv": "a,b\n1,2\n", "text.txt": "x",
        "one.json": results_of(POINTS, spec_of(metrics={"time": "run.wall_s"})).model_dump_json(),
        "none.json": results_of({("x", 1): 1.0}).model_dump_json(),
        "unit.json": results_of(POINTS, spec_of(metrics={"other": "run.wall_s"})).model_dump_json(),
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    done = compare(arguments)
    assert done.exit_code == 2, done
    assert said in done.stderr and hint in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
