"""Which stages are started again together, by the streams between them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.pipelines import ROOT
from tests.support.planner import COMPONENTS, Planner
from workflow.errors import SpecError
from workflow.plan.plan_model import START_OF_SOURCES
from workflow.report.show.plan_tables import failure_table

PIPELINE = """
stages:
  walk: {{component: walker}}
  count:
    component: tally
    with: {{variable: position}}
    on_failure: {{do: restart, times: 2, within: 1 h, backoff: 5 s}}
  keep: {{component: keep, on_failure: {keep}}}
streams:
  positions: {{from: walk, to: count, {first}}}
  counts: {{from: count, to: keep, {second}}}
"""

AGAIN = """
stages:
  walk: {component: walker}
  sum: {component: ./again, on_failure: restart}
  keep: {component: keep}
streams:
  positions: {from: walk, to: sum, keep: {steps: 64}}
  sums: {from: sum, to: keep, via: bp5}
"""


@pytest.mark.parametrize(
    ("first", "second", "unit"),
    [
        ("via: bp5", "via: bp5", ["count"]),
        ("via: bp5, coupling: live", "via: sst", ["count", "keep"]),
        ("via: sst, keep: true", "via: sst", ["count", "keep"]),
        ("via: sst, keep: true, queue: {when_full: discard}", "via: sst", ["count", "keep"]),
        ("via: sst, keep: true", "via: bp5", ["count"]),
        ("via: sst, keep: true", "via: sst, keep: true", ["count", "keep", "counts-spool"]),
    ],
)
def test_a_unit_ends_at_streams_that_are_kept(first: str, second: str, unit: list[str], plan_of: Planner) -> None:
    plan = plan_of(PIPELINE.format(first=first, second=second, keep="stop"))
    restart = plan.stage("count").restart
    assert restart is not None
    assert restart.stages == unit
    assert (restart.times, restart.within_s, restart.backoff_s, restart.from_start) == (2, 3600.0, 5.0, False)
    assert plan.stage("keep").restart is None


def test_a_reader_behind_a_spool_is_alone(plan_of: Planner) -> None:
    plan = plan_of(PIPELINE.format(first="via: sst, keep: true", second="via: sst, keep: true", keep="restart"))
    restart = plan.stage("keep").restart
    assert restart is not None
    assert restart.stages == ["keep"]


SIMULATION = """
stages:
  sim: {simulation}
  pdf: {analysis}
  keep: {{component: archive, with: {{path: pdf.bp}}}}
streams:
  field: {{from: sim, to: pdf{stream}}}
  pdf: {{from: pdf, to: keep, via: bp5}}
"""
GRAY_SCOTT = "{component: gray_scott}"
PDF = "{component: histogram, with: {variable: V, bins: 10}, on_failure: restart}"
OWN = "{command: [./own], writes: {field: {}}}"
OWN_READER = "{command: [./own], reads: {field: {}}, writes: {pdf: {}}, on_failure: restart}"
FILES = "reads: {field: {io: in, config: adios2.xml}}, writes: {pdf: {io: out, config: adios2.xml}}"
WITHOUT_STAGE = "{command: [./own], FILES, on_failure: restart}".replace("FILES", FILES)


@pytest.mark.parametrize(
    ("simulation", "analysis", "stream", "begins", "types"),
    [
        (GRAY_SCOTT, PDF, "", "state", "keep=true"),
        (OWN, PDF, "", "either", "keep=true"),
        ("{command: [./own], writes: {field: {}}, checkpoint: {every: 60 s}}", PDF, "", "state", "keep=true"),
        (GRAY_SCOTT, OWN_READER, "", "state", "keep=true"),
        (GRAY_SCOTT, WITHOUT_STAGE, "", "first", "via=bp5"),
    ],
)
def test_a_simulation_that_is_started_again_with_its_reader_is_named(
    simulation: str, analysis: str, stream: str, begins: str, types: str, tmp_path: Path
) -> None:
    plan = Planner(tmp_path)(SIMULATION.format(simulation=simulation, analysis=analysis, stream=stream))
    restart = plan.stage("pdf").restart
    assert restart is not None
    assert (restart.stages, restart.sources) == (["sim", "pdf"], {"sim": begins})
    (note,) = (text for text in plan.advice if "is started again too" in text)
    where = {"state": "at its last saved state", "first": "at its first step"}.get(begins, "or at its first step if")
    assert note.startswith("streams.field: when pdf fails, sim is started again too: it begins ") and where in note
    assert f"`--set streams.field.{types}` keeps the steps" in note
    (row,) = (row for row in failure_table(plan).rows if row[0] == "pdf")
    assert where in row[1] and "computed again" in row[2]
    assert f"; sim begins {START_OF_SOURCES[restart.sources['sim']]}" in plan.reasons["stages.pdf.on_failure"]


def test_where_all_steps_are_read_again_the_simulation_begins_anew(tmp_path: Path) -> None:
    text = SIMULATION.format(
        simulation=GRAY_SCOTT, analysis="{component: archive, with: {path: all.h5}, on_failure: restart}", stream=""
    )
    plan = Planner(tmp_path)("\n".join(line for line in text.splitlines() if "keep" not in line))
    restart = plan.stage("pdf").restart
    assert restart is not None
    assert restart.sources == {"sim": "first"}
    (row,) = (row for row in failure_table(plan).rows if row[0] == "pdf")
    assert row[2] == "nothing: all steps are computed again, also by sim"


@pytest.mark.parametrize("stream", [", keep: true", ", via: bp5"])
def test_a_simulation_in_front_of_a_kept_stream_runs_on(stream: str, tmp_path: Path) -> None:
    plan = Planner(tmp_path)(SIMULATION.format(simulation=GRAY_SCOTT, analysis=PDF, stream=stream))
    restart = plan.stage("pdf").restart
    assert restart is not None
    assert (restart.stages, restart.sources) == (["pdf"], {})
    assert not any("is started again too" in text for text in plan.advice)
    (row,) = (row for row in failure_table(plan).rows if row[0] == "pdf")
    assert row[2] == "nothing: it goes on at the step where it was"


def test_a_simulation_that_may_fail_itself_needs_no_advice(tmp_path: Path) -> None:
    simulation = "{component: gray_scott, on_failure: restart}"
    plan = Planner(tmp_path)(
        SIMULATION.format(simulation=simulation, analysis=PDF.replace("restart", "stop"), stream="")
    )
    assert not any("is started again too" in text for text in plan.advice)
    (row,) = (row for row in failure_table(plan).rows if row[0] == "sim")
    assert row[1].endswith("; sim begins at its last saved state")
    assert row[2] == "time: what sim had done since then is computed again"


def test_a_spool_is_a_reader_of_the_stream_and_writes_a_file_without_readers(plan_of: Planner) -> None:
    plan = plan_of(PIPELINE.format(first="via: sst, keep: true", second="via: sst", keep="stop"))
    stream, spool = plan.stream("positions"), plan.stream("positions-spool")
    assert stream.spool == "positions-spool"
    assert stream.readers == ["count", "positions-spool"]
    assert (spool.writer, spool.readers, spool.engine, spool.is_kept) == ("positions-spool", [], "BP5", True)
    stage = plan.stage("positions-spool")
    assert (stage.added, stage.optional, stage.placement.cores) == ("spool", True, [])


@pytest.mark.parametrize(("keep", "steps"), [("{steps: 64}", 64), ("{steps: all}", None), ("true", None)])
def test_a_spool_that_keeps_the_newest_steps_is_removed_after_the_run(
    keep: str, steps: int | None, plan_of: Planner
) -> None:
    first = f"via: sst, keep: {keep}"
    plan = plan_of(PIPELINE.format(first=first, second="via: sst", keep="stop"))
    stream, spool = plan.stream("positions"), plan.stream("positions-spool")
    assert (stream.spool_steps, stream.drops) == (steps, steps is not None)
    assert spool.keep == (steps is None)


def test_what_reads_from_the_first_step_again_needs_a_spool_that_keeps_all(plan_of: Planner) -> None:
    own = plan_of.folder / "again"
    own.mkdir(parents=True)
    text = (COMPONENTS / "gather/component.yaml").read_text()
    own.joinpath("component.yaml").write_text(
        text.replace("component: gather", "component: again\nrestart_from: first")
    )
    shutil.copyfile(COMPONENTS / "gather/program.py", own / "program.py")
    with pytest.raises(SpecError) as caught:
        plan_of(AGAIN)
    assert "sum cannot be started again: sum would need the first step of positions again" in str(caught.value)


SAVING = """
stages:
  sim: {{component: walker}}
  look: {{component: {plot}{look}}}
streams:
  field: {{from: sim, to: look, via: sst, keep: true}}
"""


@pytest.mark.parametrize("look", ["", ", checkpoint: {}", ", on_failure: restart"])
def test_what_saves_nothing_begins_at_the_first_step_in_the_next_part(look: str, plan_of: Planner) -> None:
    why = plan_of(SAVING.format(plot=ROOT / "components/plot", look=look)).stage("look").from_start
    assert ("saves its state only with `checkpoint` or `on_failure: restart`" in why) == (look == "")


@pytest.mark.parametrize(
    ("sim", "look", "via", "noted"),
    [
        (", checkpoint: {}", "", "sst", True),
        (", checkpoint: {}", ", checkpoint: {}", "sst", False),
        (", checkpoint: {}", "", "bp5", False),
        (", checkpoint: {}", "", "sst, keep: true", False),
        ("", "", "sst", False),
    ],
)
def test_one_that_begins_anew_makes_what_others_save_useless(
    sim: str, look: str, via: str, noted: bool, plan_of: Planner
) -> None:
    text = SAVING.format(plot=ROOT / "components/plot", look=look).replace("sst, keep: true", via)
    plan = plan_of(text.replace("component: walker", f"component: {ROOT / 'components/gray_scott'}{sim}"))
    said = [each for each in plan.advice if each.startswith("stages.look: look runs component `plot`")]
    assert len(said) == noted
    assert all("begins with the first step, of sim too, whatever sim has saved" in each for each in said)


def test_a_file_needs_no_spool(plan_of: Planner) -> None:
    plan = plan_of(PIPELINE.format(first="via: bp5, keep: true", second="via: sst", keep="stop"))
    assert plan.stream("positions").spool == ""
    assert [stage.name for stage in plan.stages] == ["walk", "count", "keep"]


def test_readers_of_what_is_started_again_wait_as_long_as_that_takes(plan_of: Planner) -> None:
    text = PIPELINE.format(first="via: bp5", second="via: bp5, coupling: live", keep="stop")
    plan = plan_of(text + "deadlines: {step: 3 s}\n")
    ends = {
        (stage.name, end.stream): end.step_timeout_s
        for stage in plan.stages
        for end in stage.ends
        if end.side == "read"
    }
    assert ends == {("count", "positions"): 3.0, ("keep", "counts"): None}


def test_readers_wait_in_open_as_long_as_their_writer_may_be_started_again(plan_of: Planner) -> None:
    text = PIPELINE.format(first="via: bp5", second="via: bp5, coupling: live", keep="stop")
    plan = plan_of(text + "deadlines: {start: 10 s}\n")
    ends = {
        (stage.name, end.stream): (end.open_timeout_s, end.parameters.get("OpenTimeoutSecs"))
        for stage in plan.stages
        for end in stage.ends
        if end.side == "read"
    }
    # Two restarts, each with a pause of 5 s.
    assert ends == {("count", "positions"): (10.0, "10"), ("keep", "counts"): (40.0, "40")}


def test_a_spool_waits_while_another_reader_of_the_stream_is_started_again(plan_of: Planner) -> None:
    """A reader that hangs holds up the writer, and so all its readers."""
    text = PIPELINE.format(first="via: sst, keep: true", second="via: sst", keep="stop")
    plan = plan_of(text + "deadlines: {start: 10 s, step: 3 s}\n")
    (end,) = (end for end in plan.stage("positions-spool").ends if end.side == "read")
    assert (end.open_timeout_s, end.step_timeout_s) == (40.0, None)


SKIPPING = """
stages:
  sim: {component: gray_scott}
  keep: {component: archive, with: {path: kept.bp, every: EVERY}, on_failure: {do: restart, same_step: skip}}
streams:
  field: {from: sim, to: keep, via: bp5}
"""


def test_a_file_of_every_second_step_lacks_none(tmp_path: Path) -> None:
    planner = Planner(tmp_path)
    restart = planner(SKIPPING.replace("EVERY", "1")).stage("keep").restart
    assert restart is not None
    assert restart.same_step == "skip"
    with pytest.raises(SpecError, match="keep cannot skip a step: it writes one of 2 steps"):
        planner(SKIPPING.replace("EVERY", "2"))


def test_without_a_rule_the_plan_is_what_it_was(plan_of: Planner) -> None:
    text = plan_of().to_json()
    for word in ("restart", "spool", "first_step", "skipped", "skips_now"):
        assert f'"{word}"' not in text


def test_a_simulation_with_checkpoints_of_its_own_goes_on_by_resume_and_is_told_so(tmp_path: Path) -> None:
    port = "writes: {field: {io: out, config: adios2.xml}}, on_failure: restart"
    saved = "checkpoint: {files: state.*, outputs: {every: 10}, command: [./own, '${{ checkpoint.path }}']}"
    for more, said in (
        ("", "reads no stream, so that wf does not know where it was"),
        (f", {saved}", "goes on from its checkpoints in the next part of a run, not within this one"),
    ):
        with pytest.raises(SpecError) as caught:
            simulation = f"{{command: [./own], {port}{more}}}"
            Planner(tmp_path)(SIMULATION.format(simulation=simulation, analysis=PDF, stream=", keep: true"))
        (problem,) = (each for each in caught.value.problems if each.key == "stages.sim.on_failure")
        assert said in problem.message
        assert "`wf resume` begins at its newest checkpoint when the run has ended" in problem.hint
