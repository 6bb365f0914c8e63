"""Planning many trials: files that they share are read once, and what is wrong with one trial stays with it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.planner import SITE
from workflow.api.campaigns import plan_campaign
from workflow.api.plans import make_plan
from workflow.campaign.campaign_advice import advise_campaign, data_advice
from workflow.campaign.campaign_directory import to_schedule
from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.planning.planned_trials import PlannedCampaign, plan_notes
from workflow.campaign.planning.planned_trials import plan_campaign as plan_trials
from workflow.campaign.results.campaign_tables import plan_table
from workflow.campaign.results.comparisons import SAME_RUN
from workflow.campaign.results.make_results import make_results
from workflow.errors import Problem
from workflow.formatting import size
from workflow.spec import check
from workflow.spec.component_files import load_component
from workflow.spec.models.component import Component

STUDIES = Path(__file__).parents[2] / "examples/campaigns"
PIPELINE = """
wf: 1
name: many
stages:
  sim: {component: gray_scott, with: {size: [8]}}
  sink: {component: "null"}
streams:
  field: {from: sim, to: sink}
profiles:
  files: {streams: {"*": {via: bp5}}}
"""


def test_the_trials_share_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[str]()

    def counted(name: str, base: Path = Path()) -> Component:
        read[name] += 1
        return load_component(name, base)

    monkeypatch.setattr(check, "load_component", counted)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "campaign.yaml").write_text(
        "wf: 1\ncampaign: c\npipeline: pipeline.yaml\nmatrix:\n"
        "  profile: [null, files]\n  stages.sim.with.steps: [1, 2, 3, 4, 5, 6]\n"
    )
    planned, _, _ = plan_campaign(tmp_path / "campaign.yaml")
    assert read == {"gray_scott": 1, "null": 1}
    steps = [trial.loaded.parameters["sim"]["steps"] for trial in planned.ready]
    engines = [trial.plan.streams[0].engine for trial in planned.ready]
    assert steps == [1, 2, 3, 4, 5, 6] * 2 and engines == ["SHM"] * 6 + ["BP5"] * 6
    assert len({trial.key for trial in planned.ready}) == 12


def test_the_plan_shows_the_engine_of_each_trial(tmp_path: Path) -> None:
    """`sst` of a matrix is SST itself; without it the same file has shared memory."""
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("to: sink}", "to: sink, via: sst}"))
    shown = []
    for varied in ("streams.field.via: [sst, shm]", "profile: [null, files]"):
        (tmp_path / "campaign.yaml").write_text(f"wf: 1\ncampaign: c\npipeline: pipeline.yaml\nmatrix: {{{varied}}}\n")
        table = plan_table(plan_campaign(tmp_path / "campaign.yaml")[0])
        column = [heading.title for heading in table.head].index("engines")
        shown += [row[column].split()[0] for row in table.rows]
    assert shown == ["SST", "SHM", "SHM", "BP5"]


@pytest.mark.parametrize("study", ["coupled-pipeline", "in-situ-transport", "many-to-one"])
def test_a_study_measures_the_engine_that_its_trials_name(study: str) -> None:
    """`via: sst` of a matrix is not replaced by shared memory, also not for the members of an ensemble."""
    planned, _, _ = plan_campaign(STUDIES / study / "campaign.yaml")
    named = {"sst": "SST", "memory": "SST", "shm": "SHM", "bp5": "BP5", "file-live": "BP5", "file-after": "BP5"}
    found = set()
    for trial in planned.ready:
        varied = [str(value) for key, value in trial.trial.parameters.items() if key.endswith(("via", "profile"))]
        engines = {
            each.engine for each in trial.plan.streams if each.name.partition("-")[0] in ("atoms", "data", "field")
        }
        if varied[0] in named:
            assert engines == {named[varied[0]]}, (trial.trial.parameters, engines)
            found |= engines
    assert {"SST", "BP5"} <= found


@pytest.mark.parametrize("when", ["", ', when: {stream: field, step: "> 0"}'])
@pytest.mark.parametrize("collect", ["any", "all", "each", "{groups: 1}", "neighbour"])
def test_the_streams_of_members_are_of_the_engine_that_is_varied(collect: str, when: str, tmp_path: Path) -> None:
    """Only `via` is: how the streams are collected is in the file."""
    members = ", members: 2" if collect == "neighbour" else ""
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: members\noversubscribe: true\n"
        "stages:\n  sim: {component: gray_scott, members: 2, with: {size: [8]}}\n"
        f"  sink: {{component: 'null'{members}{when}}}\n"
        f"streams:\n  field: {{from: sim, to: sink, collect: {collect}}}\n"
    )
    (tmp_path / "campaign.yaml").write_text(
        "wf: 1\ncampaign: c\npipeline: pipeline.yaml\nmatrix: {streams.field.via: [sst, shm, bp5]}\n"
    )
    planned, _, _ = plan_campaign(tmp_path / "campaign.yaml")
    assert [{each.engine for each in trial.plan.streams} for trial in planned.ready] == [{"SST"}, {"SHM"}, {"BP5"}]
    assert any("-when" in each.name for each in planned.ready[0].plan.streams) == bool(when)


def test_a_component_that_is_wrong_spoils_its_own_trial_only(tmp_path: Path) -> None:
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/component.yaml").write_text("component: wrong\n")
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "campaign.yaml").write_text(
        "wf: 1\ncampaign: c\npipeline: pipeline.yaml\n"
        "matrix: {stages.sink.component: ['null', ./wrong], stages.sim.with.steps: [1, 2]}\n"
    )
    planned, _, _ = plan_campaign(tmp_path / "campaign.yaml")
    assert [trial.trial.parameters["stages.sink.component"] for trial in planned.ready] == ["null", "null"]
    assert [trial.trial.parameters["stages.sink.component"] for trial in planned.refused] == ["./wrong", "./wrong"]


def test_a_changed_pipeline_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "campaign.yaml").write_text("wf: 1\ncampaign: c\npipeline: pipeline.yaml\n")
    keys = []
    for text in (PIPELINE, PIPELINE.replace("[8]", "[9]"), PIPELINE):
        (tmp_path / "pipeline.yaml").write_text(text)
        planned, _, _ = plan_campaign(tmp_path / "campaign.yaml")
        keys.append(planned.ready[0].key)
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize(
    ("campaign", "scaling"),
    [
        ("matrix: {stages.make.ranks: [1, 2], stages.make.with.steps: [1, 2]}", "weak"),
        ("scaling: strong\nmatrix: {stages.make.ranks: [1, 2]}", "strong"),
        ("zip: {stages.make.ranks: [1, 2], stages.make.with.bytes: [2 MB, 1 MB]}", None),
        ("zip: {stages.make.ranks: [1, 2], stages.sink.ranks: [1, 2]}", "none"),
        ("matrix: {stages.sink.ranks: [1, 2]}", None),
    ],
)
def test_a_component_with_sizes_per_rank_has_more_work_with_more_ranks(
    campaign: str, scaling: str | None, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: p\noversubscribe: true\nstages: {make: {component: synthetic}, sink: {component: 'null'}}\n"
        "streams: {data: {from: make, to: sink, via: bp5}}\n"
    )
    (tmp_path / "campaign.yaml").write_text(f"wf: 1\ncampaign: c\npipeline: pipeline.yaml\n{campaign}\n")
    planned, _, _ = plan_campaign(tmp_path / "campaign.yaml")
    assert planned.ready and not planned.refused, planned.problems
    schedule = to_schedule(planned, tmp_path, wf_version="0", host="h", cores=2, versions={}, checksums={})
    assert make_results(planned.spec, schedule, History()).scaling == scaling


@pytest.mark.parametrize(
    ("more", "lacking", "said"),
    [
        ("repetitions: 3\ncomparisons: [{vary: profile}]", ["scipy"], "scipy is missing"),
        ("repetitions: 3\ncomparisons: [{vary: profile}]", ["matplotlib", "scipy"], "matplotlib and scipy are missing"),
        ("repetitions: 99\ncomparisons: [{vary: profile}]", ["scipy"], ""),  # the test of pairs needs none
        ("repetitions: 3", ["scipy"], ""),
    ],
)
def test_what_the_report_will_lack_is_said_before_the_campaign_runs(
    more: str, lacking: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    file = tmp_path / "campaign.yaml"
    file.write_text(f"wf: 1\ncampaign: c\npipeline: pipeline.yaml\nmatrix: {{profile: [null, files]}}\n{more}\n")

    def warnings() -> list[Problem]:
        return [each for each in plan_campaign(file)[1] if "report" in each.message]

    assert warnings() == []
    for name in lacking:
        monkeypatch.setitem(sys.modules, name, None)
    found = warnings()
    texts = [f"the report cannot be made here: {said}; the campaign runs all the same"] if said else []
    assert [each.message for each in found] == texts
    assert all(each.level == "warning" and "[campaign]" in each.hint for each in found)


def test_what_becomes_of_the_data_and_how_much_it_is(tmp_path: Path) -> None:
    """By the plan: steps × their size, of the streams that leave a file; then by what was measured."""
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("to: sink}", "to: sink, step_size: 3 MB}"))
    text = (
        "wf: 1\ncampaign: c\npipeline: pipeline.yaml\nrepetitions: 4\nwarmup: 1\nmatrix: {profile: [null, files]}\n"
        "set: {stages.sim.with.steps: 20, stages.sim.with.write_every: 10}\n"
    )
    (tmp_path / "campaign.yaml").write_text(text)
    planned, _, _ = plan_campaign(tmp_path / "campaign.yaml")
    steps = planned.ready[1].plan.stage("sim").end("field", "write").steps
    assert steps == 3
    each, history, place = steps * 3_000_000, History(), tmp_path / "c"

    def said(free: int | None = None) -> tuple[str, str, str]:
        (found,) = data_advice(planned, history, place, free)
        return found.level, found.place.rpartition("/")[2], found.message

    stay = f"the data that the stages write stay in {os.path.relpath(place / 'runs')}: "
    assert said() == ("note", "campaign.yaml", f"{stay}at least {size(5 * each)}")
    assert said(5 * each)[0] == "note"
    free = 5 * each - 1
    more = f", of which {size(5 * each)} are still to be written, and {size(free)} are free there"
    assert said(free) == ("warning", "campaign.yaml", f"{stay}at least {size(5 * each)}{more}")
    memory, files = (trial.key for trial in planned.ready)
    history.end(Repetition(files, 1), Attempt("succeeded", 1, "r", 1.0, 1.0, data_bytes=50_000_000))
    history.end(Repetition(files, 2), Attempt("failed", 1, "r", 1.0, 1.0, data_bytes=7))
    assert said(200_000_000)[2] == f"{stay}at least 250 MB", "the other trial has not run"
    history.end(Repetition(memory, 1), Attempt("succeeded", 1, "r", 1.0, 1.0, data_bytes=1_000_000))
    assert said()[2] == f"{stay}about 255 MB by what has been measured"
    (tmp_path / "campaign.yaml").write_text(f"{text}keep: records\n")
    planned, _, _ = plan_campaign(tmp_path / "campaign.yaml")
    goes = "the data that the stages write are removed after each repetition that succeeds"
    level, source, message = said()
    assert (level, source) == ("note", "") and message.startswith(f"{goes} (about 204 MB by what has been measured); ")
    for each_one in planned.repetitions:
        history.end(each_one, Attempt("succeeded", 1, "r", 1.0, 1.0, data_bytes=0))
    assert data_advice(planned, history, place, None) == [], "nothing is left to run"


def test_trials_that_differ_in_what_this_adios2_cannot_do_are_named(tmp_path: Path) -> None:
    """In the plan, before the first run, in the report, and their comparison has no verdict."""
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: p\nstages:\n  sim: {component: synthetic, ranks: 2, with: {bytes: 8, steps: 2}}\n"
        "  sink: {component: 'null'}\nstreams: {field: {from: sim, to: sink, via: bp5}}\n"
    )
    (tmp_path / "campaign.yaml").write_text(
        "wf: 1\ncampaign: c\npipeline: pipeline.yaml\nrepetitions: 7\nwarmup: 0\n"
        "matrix: {stages.sim.output.aggregation: [{ratio: 1}, {ratio: 2}], stages.sim.with.steps: [2, 3]}\n"
        "comparisons: [{vary: stages.sim.output.aggregation}]\n"
    )

    def decided(parallel: bool) -> PlannedCampaign:
        site = SITE.model_copy(update={"parallel_adios2": parallel})
        return plan_trials(load_campaign(tmp_path / "campaign.yaml"), lambda loaded, _: make_plan(loaded, site))

    able, unable = decided(parallel=True), decided(parallel=False)
    assert not [each for each in advise_campaign(able) if each.level == "warning"]
    (warning,) = [each for each in advise_campaign(unable) if each.level == "warning"]
    assert (warning.line, warning.column) == (6, 54), "the second value"
    both = "`aggregation={ratio: 1} steps=2` and `aggregation={ratio: 2} steps=2` run the same"
    assert warning.message == f"{both}: stages.sim.output.aggregation has no effect with the ADIOS2 that is here"
    noted = [each.message for each in advise_campaign(unable) if each.level == "note"]
    said = "stream field: ADIOS2 without MPI: rank 0 writes for all; aggregation has no effect"
    assert any(text.startswith(said) for text in noted) and not any(text.startswith(said) for text in plan_notes(able))
    for planned, decisions in ((able, ["same", "same"]), (unable, ["undecided", "undecided"])):
        schedule = to_schedule(planned, tmp_path, wf_version="1", host="h", cores=1, versions={}, checksums={})
        history = History(contents={trial.key: trial.content for trial in planned.ready})
        for repetition in planned.repetitions:
            attempt = Attempt("succeeded", 1, "r", 1.0 + repetition.number, 1.0, figures={"run.wall_s": 1.0})
            history.end(repetition, attempt)
        results = make_results(planned.spec, schedule, history)
        assert [each.decision for each in results.comparisons] == decisions
        assert {each.reason for each in results.comparisons} == ({SAME_RUN} if planned is unable else {""})
        assert any(note.startswith(said) for note in results.notes) == (planned is unable)


def test_times_with_and_without_the_work_of_readers_are_noted(tmp_path: Path) -> None:
    starter = Path(__file__).parents[2] / "examples/00-starter/pipeline.yaml"
    (tmp_path / "pipeline.yaml").write_text(starter.read_text())
    text = (
        "wf: 1\ncampaign: c\npipeline: pipeline.yaml\nrepetitions: 6\nmetrics: {step: stages.sim.step_s}\n"
        "matrix: {streams.field.via: [%s]}\n"
    )

    def noted(engines: str) -> list[str]:
        (tmp_path / "campaign.yaml").write_text(text % engines)
        planned, _, _ = plan_campaign(tmp_path / "campaign.yaml")
        return [each.message for each in advise_campaign(planned) if "readers" in each.message]

    (note,) = noted("sst, bp5")
    assert note.startswith("metric step: stages.sim.step_s has the work of the readers of field in it where they read")
    assert noted("sst, shm") == []
