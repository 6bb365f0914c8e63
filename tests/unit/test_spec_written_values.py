"""Numbers, true and false where a program gets a text: as they were written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.file.trials import make_trials
from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.plan.plan_model import Plan
from workflow.site.load_site import load_site
from workflow.spec.load import load_pipeline

WRITTEN = ["1.10", "007", "1e3", "False", "True", "0x1F", "+5", "012", "1e400", "0o17", ".5", "1.", "-0"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_of(text: str, *sets: str) -> Plan:
    Path("p.yaml").write_text(f"wf: 1\nname: p\noversubscribe: true\n{text}")
    loaded = load_pipeline("p.yaml", sets=sets)
    return make_plan(loaded, load_site("local"), python=sys.executable, wf_version="0.1")


@pytest.mark.parametrize("written", WRITTEN)
def test_commands_and_variables(written: str) -> None:
    text = f"stages: {{a: {{command: [echo, {written}, 'x={written}'], env: {{V: {written}}}}}}}\n"
    (stage,) = plan_of(text).stages
    assert (stage.program[1:], stage.env["V"]) == ([written, f"x={written}"], written)


@pytest.mark.parametrize("written", [each for each in WRITTEN if each != "1e400"])
def test_parameters(written: str) -> None:
    """Whole, within a text, and in a template."""
    Path("in.txt").write_text("v = ${{ params.v }}\n")
    uses = (
        "command: [echo, '${{ params.v }}', 'x=${{ params.v }}'], env: {V: '${{ params.v }}'}, files: {in.txt: in.txt}"
    )
    for params, sets in ((written, []), (f"{{value: {written}, unit: m}}", []), ("@", [f"params.v={written}"])):
        kind = {"F": "true", "T": "true"}.get(written[0], "1.0" if set(written) & set(".e") - {"x"} else "1")
        given = params if params != "@" else kind
        (stage,) = plan_of(f"params: {{v: {given}}}\nstages: {{a: {{{uses}}}}}\n", *sets).stages
        assert stage.program[1:] == [written, f"x={written}"]
        assert (stage.env["V"], *stage.files.values()) == (written, f"v = {written}\n")


def test_members_of_ensembles() -> None:
    Path("in.txt").write_text("v = ${{ member.v }}\n")
    for members in ("[{v: 1.10}, {v: 007}]", "{matrix: {v: [1.10, 007]}}"):
        uses = "command: [echo, '${{ member.v }}', 'x=${{ member.v }}'], files: {in.txt: in.txt}"
        plan = plan_of(f"stages: {{a: {{members: {members}, {uses}}}}}\n")
        assert [stage.program[1:] for stage in plan.stages] == [["1.10", "x=1.10"], ["007", "x=007"]]
        assert [text for stage in plan.stages for text in stage.files.values()] == ["v = 1.10\n", "v = 007\n"]


def test_equal_values_of_members_are_each_as_they_were_written() -> None:
    for members in ("[{v: 1.10}, {v: 1.1}]", "{values: [{v: 1.10}, {v: 1.1}]}", "{matrix: {v: [1.10, 1.1]}}"):
        uses = "command: [echo, '${{ member.v }}']"
        text = (
            f"stages:\n  a: {{members: {members}, {uses}, writes: {{o: {{}}}}}}\n  b: {{{uses}, reads: {{i: {{}}}}}}\n"
        )
        plan = plan_of(text + "streams: {s: {from: a, to: b, collect: each, via: bp5}}\n")
        found = {stage.name: stage.program[1] for stage in plan.stages}
        assert found == {"a-0": "1.10", "a-1": "1.1", "b-0": "1.10", "b-1": "1.1"}, members


def test_numbers_stay_numbers() -> None:
    """Where a number is meant."""
    text = """params: {n: 2, steps: 1e1}
stages:
  sim: {component: gray_scott, ranks: "${{ params.n }}", with: {steps: 0x28, size: [16], F: 3e-2}}
  sink: {component: "null"}
streams: {field: {from: sim, to: sink}}
"""
    plan = plan_of(text)
    assert (plan.stages[0].ranks, plan.stages[0].parameters["steps"], plan.stages[0].parameters["F"]) == (2, 40, 0.03)
    assert (plan.params["n"].value, plan.params["steps"].value) == (2, 10.0)


def test_trials_of_campaigns(folder: Path) -> None:
    Path("p.yaml").write_text(
        "wf: 1\nname: p\nparams: {v: 1.0}\nstages: {a: {command: [echo, '${{ params.v }}'], env: {W: x}}}\n"
    )
    Path("c.yaml").write_text(
        "wf: 1\ncampaign: c\npipeline: p.yaml\nmatrix: {params.v: [1.9, 1.10], stages.a.env.W: [007, 1]}\n"
        "metrics: {time: run.wall_s}\n"
    )
    trials = make_trials(load_campaign(folder / "c.yaml"))
    found = []
    for trial in trials:
        loaded = load_pipeline("p.yaml", settings=trial.settings)
        (stage,) = make_plan(loaded, load_site("local"), python=sys.executable, wf_version="0.1").stages
        found.append((stage.program[1], stage.env["W"]))
        # What repeats the command elsewhere says the same.
        sets = [each for each in loaded.options if each != "--set"]
        again = make_plan(
            load_pipeline("p.yaml", sets=sets), load_site("local"), python=sys.executable, wf_version="0.1"
        )
        assert again.stages[0].program == stage.program and again.stages[0].env == stage.env
    assert found == [("1.9", "007"), ("1.9", "1"), ("1.10", "007"), ("1.10", "1")]


@pytest.mark.parametrize("value", ["run #3", "[a, b] # c", "{a: 1} #x", "1.0 # half", "'run' #3"])
def test_a_value_on_the_command_line_is_used_whole_or_refused(value: str) -> None:
    rest = value[value.index("#") :]
    with pytest.raises(SpecError, match=f"`{rest}` would be a comment") as refused:
        plan_of("params: {v: x}\nstages: {a: {command: [echo, '${{ params.v }}']}}\n", f"params.v={value}")
    assert "put the value into quotes" in refused.value.problems[0].hint


@pytest.mark.parametrize(
    ("value", "meant"), [('"run #3"', "run #3"), ("run#3", "run#3"), ("'a # b'", "a # b"), ("  x ", "x")]
)
def test_a_value_in_quotes_is_whole(value: str, meant: str) -> None:
    plan = plan_of("params: {v: x}\nstages: {a: {command: [echo, '${{ params.v }}']}}\n", f"params.v={value}")
    assert plan.stages[0].program[1] == meant


def test_steered_values_are_whole_too() -> None:
    from click import UsageError

    from workflow.cli.attach_verbs import _read_values

    assert _read_values(("stages.s.steer.title='run #3'",)) == ("s", {"title": "run #3"})
    with pytest.raises((SpecError, UsageError), match="would be a comment"):
        _read_values(("stages.s.steer.title=run #3",))
