"""What `wf explain` says of runs in each of their states."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.sample_run import START, make_events, make_plan, simulate, write_run, write_sample
from workflow.data_files.read_steps import find_data, has_steps
from workflow.report.build.make_report import make_report
from workflow.report.html.page import make_html
from workflow.report.read.run_records import read_records
from workflow.report.report_files import compute_report
from workflow.report.show.run_in_words import ON_SPEED, ON_WAITS, explanation
from workflow.stage import open_writer


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs are those of this folder: their names are enough."""
    monkeypatch.chdir(tmp_path)


def explained(run_dir: Path, **run: object) -> str:
    """The paragraph; `run`: what was found out about the run besides its records."""
    report = compute_report(run_dir)
    report = report.model_copy(update={"run": report.run.model_copy(update=run)})
    has_data = any(map(has_steps, find_data(run_dir).values()))
    return " ".join(explanation(report, read_records(run_dir), has_data=has_data))


def going_on(run_dir: Path, at: float) -> Path:
    """A run of the sample as it is this many seconds after its start."""
    whole = simulate(41, 0.05, 0.12, 0.002)
    until = START + at
    events = [each for each in make_events(whole) if each["t"] <= until]
    for stage, lines in whole.items():
        for line in lines:
            if line["t"] <= until and line["kind"] in ("open", "step"):
                events.append(_seen(stage, line))
    metrics = {stage: [line for line in lines if line["t"] <= until] for stage, lines in whole.items()}
    return write_run(run_dir, make_plan(), sorted(events, key=lambda each: float(each["t"])), metrics)


def _seen(stage: str, line: dict[str, object]) -> dict[str, object]:
    """The supervisor's event of a line of metrics."""
    common = {"t": line["t"], "stream": line["stream"], "stage": stage, "side": line["side"]}
    if line["kind"] == "open":
        return {"event": "stream_opened", **common}
    return {"event": "stream_progress", **common, "steps": int(str(line["step"])) + 1, "bytes": 0}


def test_a_run_that_succeeded(tmp_path: Path) -> None:
    text = explained(write_sample(tmp_path / "runs/good"))
    assert text.startswith("good succeeded on node1 after ")
    assert "md ran for 5.80 s (waited for other stages 47 %, computed 35 %" in text, text
    assert "wrote 41 steps." in text
    assert "It was limited by saxs: while data moved it waited for " in text
    assert text.endswith(f'to make saxs faster, see "{ON_SPEED}" in the documentation of wf.')
    pages = (Path(__file__).parents[2] / "docs/how-to").glob("*.md")
    assert {f"# {ON_SPEED}", f"# {ON_WAITS}"} <= {page.read_text().partition("\n")[0] for page in pages}


def test_the_data_are_looked_at_only_where_there_are_some(tmp_path: Path) -> None:
    """`wf look` of a run that left no data is an error."""
    run_dir = write_sample(tmp_path / "runs/good")
    assert "Next: `wf report good` has all figures; to make saxs faster, " in explained(run_dir)
    for count in (0, 1, 2):
        shutil.rmtree(run_dir / "saxs.bp", ignore_errors=True)
        with open_writer(path=run_dir / "saxs.bp") as out:
            for _ in range(count):
                with out.step():
                    out.write("pattern", np.ones(8), shape=(8,), start=(0,))
        assert ("all figures, `wf look good` draws the data; to make " in explained(run_dir)) == (count > 0), count


def test_a_run_elsewhere_is_called_by_its_path(tmp_path: Path) -> None:
    run_dir = write_sample(tmp_path / "else where")
    assert f"Next: `wf report '{run_dir}'` has all figures" in explained(run_dir)


def test_a_run_that_failed(tmp_path: Path) -> None:
    metrics = simulate(5, 0.05, 0.05, 0.01)
    run_dir = write_run(tmp_path / "runs/bad", make_plan(), make_events(metrics, "failed", "saxs", "killed"), metrics)
    (run_dir / "stages/saxs/stderr.log").write_text("Traceback …\nValueError: negative mass\n")
    text = explained(run_dir)
    assert text.startswith("bad failed after ") and ": stage saxs: killed. " in text
    assert "The last line of its errors is `ValueError: negative mass`." in text
    # Nobody has kept what md sent to saxs: `wf resume` would begin with the first step, too.
    assert "`wf logs saxs --run bad` shows what it printed; correct the error and start a new run: `wf run " in text


def test_of_a_supervisor_that_was_killed_no_error_is_to_be_corrected(tmp_path: Path) -> None:
    metrics = simulate(5, 0.05, 0.05, 0.01)
    events = make_events(metrics, "failed", "", "the supervisor was killed")
    events[-1]["cause"] = "supervisor_killed"
    text = explained(write_run(tmp_path / "runs/bad", make_plan(), events, metrics))
    assert text.endswith("Next: `wf resume bad` goes on (with `--dry-run`: from which steps)."), text
    assert "correct" not in text


def test_why_the_data_of_a_stream_move_as_they_do(tmp_path: Path) -> None:
    """Also on the page of the report; as `wf plan --explain` has said it."""
    run_dir = write_sample(tmp_path / "runs/good")
    assert "as planned" not in explained(run_dir)  # nothing was to be chosen
    why = "auto: shared memory, all ends are on node 0"
    plan = make_plan()
    reasons = {f"streams.{each.name}.transport": why for each in plan.streams}
    streams = [each.model_copy(update={"transport": "tcp"}) for each in plan.streams]
    plan = plan.model_copy(update={"reasons": reasons, "streams": streams})
    (run_dir / "plan.json").write_text(plan.to_json())
    assert f"The transport of atoms and pattern as planned: tcp, {why}." in explained(run_dir)
    page = make_html(read_records(run_dir), compute_report(run_dir))
    (row,) = (line for line in page.split("<tr") if why in line)
    assert "atoms, pattern" in row


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    run_dir = going_on(tmp_path / "runs/now", at=4.0)
    records = read_records(run_dir).at(START + 4.05)
    report = make_report(records)
    running = report.model_copy(update={"run": report.run.model_copy(update={"state": "running"})})
    sentences = explanation(running, records, has_data=False)
    assert sentences[0].startswith("now is running on node1 since ") and sentences[0].endswith("for 4.05 s so far.")
    assert sentences[1].startswith("md waits for saxs to take step "), sentences
    assert sentences[2].startswith("saxs has been computing for "), sentences
    assert sentences[3].startswith("keep waits for step "), sentences
    assert sentences[4].startswith("So far it is limited by saxs: "), sentences
    assert sentences[-1].startswith("Next: `wf watch now` follows it")


@pytest.mark.parametrize(
    ("state", "reason", "parts"),
    [
        (
            "submitted",
            "slurm job 12 has not started",
            ["now waits for its batch job: slurm job 12", "`wf cancel now` cancels the job"],
        ),
        ("lost", "no heartbeat", ["now is lost: ", "no heartbeat.", "`wf cancel now` ends what is left of it"]),
        ("interrupted", "Ctrl-C", ["now was interrupted after ", ": Ctrl-C.", "starts a new run."]),
        ("stopped", "the job ends", ["now was stopped cleanly after ", ": the job ends.", "starts a new run."]),
        ("unfinished", "", ["now was created, but never started.", "starts a new run."]),
    ],
)
def test_other_states(tmp_path: Path, state: str, reason: str, parts: list[str]) -> None:
    text = explained(going_on(tmp_path / "runs/now", at=1.5), state=state, reason=reason)
    assert all(part in text for part in parts), text
