"""`params:` of a pipeline: what takes the place of `${{ params.NAME }}`, and who may change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workflow.campaign.file.trials import short_names
from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.plan.plan_model import Plan
from workflow.provenance.plan_files import examine_plan
from workflow.report.show.plan_tables import parameters_line, plan_parameter_table
from workflow.site.site_model import Site
from workflow.spec.load import Loaded, load_pipeline
from workflow.spec.overlay import Setting
from workflow.spec.yaml_tree.node import Node, SourcePosition

SITE = Site(site="test", summary="8 cores", nodes=1, cores_per_node=8, memory_per_node=2**33, planes=["tcp"])
PIPELINE = """
wf: 1
name: waves
params:
  n: 32
  label: "run one"
  fast: true
  tolerance: {value: 1e-3, unit: m, minimum: 0, maximum: 1, text: "largest error"}
stages:
  sim:
    command: [sim, "${{ params.n }}", "--tol=${{ params.tolerance }}", "${{ params.label }}/${{ params.fast }}"]
    ranks: ${{ params.n }}
    env: {FAST: "${{ params.fast }}"}
profiles:
  small: {params: {n: 4, tolerance: 1}}
  relaxed: {stages: {sim: {env: {TOLERANCE: "${{ params.tolerance }}"}}}}
"""


def load(folder: Path, text: str = PIPELINE, **options: Any) -> Loaded:
    file = folder / "pipeline.yaml"
    file.write_text(text)
    return load_pipeline(file, **options)


def plan(loaded: Loaded) -> Plan:
    site = SITE.model_copy(update={"cores_per_node": 128})
    return make_plan(loaded, site, python="/python", wf_version="0")


def mistakes(folder: Path, text: str = PIPELINE, **options: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load(folder, text, **options)
    return [problem.message for problem in caught.value.problems]


def test_a_value_that_is_one_placeholder_has_the_type_of_the_parameter(tmp_path: Path) -> None:
    sim = load(tmp_path).spec.stages["sim"]
    assert sim.ranks == 32
    assert sim.command is not None
    assert (sim.command[1], sim.env["FAST"]) == ("32", "true"), "a program gets texts"


def test_within_a_text_it_is_text_as_on_a_command_line(tmp_path: Path) -> None:
    command = load(tmp_path).spec.stages["sim"].command
    assert command is not None
    assert command[2:] == ["--tol=1e-3", "run one/true"]


def test_other_placeholders_and_literal_ones_stay(tmp_path: Path) -> None:
    text = PIPELINE.replace("[sim,", '[sim, "$${{ params.n }} $$${{ params.n }} ${{ run.dir }}/${{ params.n }}",')
    program = plan(load(tmp_path, text)).stages[0].program
    assert program[1] == "$${{ params.n }} $32 ${{ run.dir }}/32"


def test_dollars_of_a_value_do_not_begin_a_placeholder(tmp_path: Path) -> None:
    text = PIPELINE.replace('"run one"', '"cost $"').replace("${{ params.label }}/", "${{ params.label }}{{ x }}/")
    assert plan(load(tmp_path, text)).stages[0].program[3] == "cost $${{ x }}/true"


@pytest.mark.parametrize("sets", [["params.n=64"], ["params.n=8", "params.n=64"]])
def test_set_changes_the_value_everywhere(tmp_path: Path, sets: list[str]) -> None:
    sim = load(tmp_path, sets=sets).spec.stages["sim"]
    assert (sim.ranks, sim.command and sim.command[1]) == (64, "64")


def test_set_of_the_long_form_keeps_unit_bounds_and_text(tmp_path: Path) -> None:
    parameter = load(tmp_path, sets=["params.tolerance=0.01"]).spec.params["tolerance"]
    assert (parameter.value, parameter.unit, parameter.maximum, parameter.text) == (0.01, "m", 1, "largest error")
    assert mistakes(tmp_path, sets=["params.tolerance=2"]) == ["expected at most 1, got 2.0"]
    assert mistakes(tmp_path, sets=["params.tolerance=-0.5"]) == ["expected at least 0, got -0.5"]


def test_a_whole_number_is_good_for_a_parameter_with_fractions(tmp_path: Path) -> None:
    value = load(tmp_path, sets=["params.tolerance=1"]).spec.params["tolerance"].value
    assert value == 1.0 and isinstance(value, float)


def test_a_profile_gives_values_and_set_is_stronger(tmp_path: Path) -> None:
    loaded = load(tmp_path, profiles=["small"])
    assert (loaded.spec.stages["sim"].ranks, loaded.spec.params["tolerance"].value) == (4, 1.0)
    assert loaded.spec.params["tolerance"].unit == "m"
    assert load(tmp_path, profiles=["small"], sets=["params.n=5"]).spec.stages["sim"].ranks == 5


def test_what_a_profile_adds_is_filled_too(tmp_path: Path) -> None:
    loaded = load(tmp_path, profiles=["relaxed"], sets=["params.tolerance=0.5"])
    assert loaded.spec.stages["sim"].env["TOLERANCE"] == "0.5"


def test_a_campaign_gives_values_and_mistakes_have_its_places(tmp_path: Path) -> None:
    def setting(key: str, value: object) -> Setting:
        return Setting(key, Node(value, SourcePosition("c.yaml", 5, 22), SourcePosition("c.yaml", 5, 10)))

    assert load(tmp_path, settings=[setting("params.n", 64)]).spec.stages["sim"].ranks == 64
    with pytest.raises(SpecError) as caught:
        load(tmp_path, settings=[setting("params.n", "x"), setting("params.m", 1)])
    unknown, mistyped = sorted(caught.value.problems, key=lambda problem: problem.key)
    assert (unknown.place, unknown.message) == ("c.yaml:5:10", "there is no parameter `m`")
    assert (mistyped.place, mistyped.key) == ("c.yaml:5:22", "params.n")


def test_the_place_of_a_mistake_is_that_of_the_use_and_the_parameter_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load(tmp_path, sets=["params.n=0"])
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (12, 12)
    assert str(problem).startswith(f"error: {tmp_path}/pipeline.yaml:12:12: stages.sim.ranks: ")
    assert problem.message == "expected at least 1, got 0 (from params.n)"


def test_what_the_plan_refuses_names_the_parameter_too(tmp_path: Path) -> None:
    loaded = load(tmp_path, sets=["params.n=64"])
    assert loaded.origins.of("stages.sim.ranks") == f"{tmp_path}/pipeline.yaml:12:12 (from params.n)"
    with pytest.raises(SpecError) as caught:
        make_plan(loaded, SITE, python="/python", wf_version="0")
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("stages.sim.ranks", 12)
    assert problem.message.endswith(" (from params.n)")


def test_an_unknown_parameter_is_the_only_message_about_its_use(tmp_path: Path) -> None:
    assert mistakes(tmp_path, PIPELINE.replace("ranks: ${{ params.n }}", "ranks: ${{ params.m }}")) == [
        "there is no parameter `m`"
    ]


def test_templates_are_filled(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("n = ${{ params.n }} ${{ params.fast }} ${{ params.tolerance }}\n")
    text = PIPELINE.replace("    env:", "    files: {in.txt: in.txt}\n    env:")
    (content,) = plan(load(tmp_path, text, sets=["params.n=64"])).stages[0].files.values()
    assert content == "n = 64 true 1e-3\n"


def test_an_unknown_parameter_in_a_template_has_its_place_there(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("first line\nn = ${{ params.nn }}\n")
    text = PIPELINE.replace("    env:", "    files: {in.txt: in.txt}\n    env:")
    with pytest.raises(SpecError) as caught:
        plan(load(tmp_path, text))
    (problem,) = caught.value.problems
    assert problem.place == f"{tmp_path}/in.txt:2:5"
    assert problem.hint.startswith("did you mean `params.n`?")


def test_a_parameter_that_nothing_uses_is_a_warning(tmp_path: Path) -> None:
    text = PIPELINE.replace("params:\n", "params:\n  spare: 1\n", 1)
    (warning,) = load(tmp_path, text).warnings
    assert (warning.level, warning.key, warning.message) == ("warning", "params.spare", "is not used")
    assert warning.line == 5


@pytest.mark.parametrize("use", ["template", "profile", "replaced"])
def test_no_warning_where_a_template_or_a_profile_uses_it_or_set_replaces_its_use(tmp_path: Path, use: str) -> None:
    text = PIPELINE.replace("params:\n", "params:\n  spare: 1\n", 1)
    (tmp_path / "in.txt").write_text("${{ params.spare }}")
    sets = []
    if use == "template":
        text = text.replace("    env:", "    files: {in.txt: in.txt}\n    env:")
    elif use == "profile":
        text = text.replace("TOLERANCE: ", 'SPARE: "${{ params.spare }}", TOLERANCE: ')
    else:
        text, sets = text.replace("FAST: ", 'SPARE: "${{ params.spare }}", FAST: '), ["stages.sim.env.SPARE=2"]
    assert load(tmp_path, text, sets=sets).warnings == ()


def test_the_plan_lists_values_units_and_texts(tmp_path: Path) -> None:
    decided = plan(load(tmp_path, sets=["params.n=64"]))
    assert decided.model_dump(mode="json")["params"] == {
        "n": {"value": 64},
        "label": {"value": "run one"},
        "fast": {"value": True},
        "tolerance": {"value": 0.001, "unit": "m", "text": "largest error"},
    }
    assert Plan.model_validate_json(decided.to_json()) == decided
    rows = [list(row) for row in plan_parameter_table(decided).rows]
    assert rows[0][:2] == ["n", "64"] and rows[3] == ["tolerance", "0.001 m", "largest error"]
    assert parameters_line(decided.params) == "n = 64, label = run one, fast = true, tolerance = 0.001 m"


def test_a_plan_without_parameters_is_as_before(tmp_path: Path) -> None:
    decided = plan(load(tmp_path, "wf: 1\nname: a\nstages: {sim: {command: [sim]}}\n"))
    assert "params" not in decided.model_dump(mode="json")
    assert plan_parameter_table(decided).rows == []


def test_texts_of_parameters_do_not_change_what_a_trial_depends_on(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert "params" not in examine_plan(plan(loaded), loaded).data


def test_the_column_of_a_campaign_has_the_name_of_the_parameter() -> None:
    assert short_names(["params.n", "streams.field.via"]) == {"params.n": "n", "streams.field.via": "via"}
