"""Scales and options over a campaign file: which value counts, and what a campaign keeps of its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.campaign.file.campaign_overlay import CampaignOptions
from workflow.campaign.file.campaign_spec import CampaignSpec, campaign_schema
from workflow.campaign.file.load_campaign import Campaign, load_campaign
from workflow.campaign.file.trials import make_trials
from workflow.errors import SpecError
from workflow.site.load_site import read_site_file
from workflow.spec.overlay import Setting
from workflow.spec.yaml_tree.node import Node, SourcePosition

SITES = Path(__file__).parents[1] / "specs" / "sites"
TEXT = """
wf: 1
campaign: c
pipeline: pipeline.yaml
set: {a.b: 1, c: 2}
matrix: {stages.s.ranks: [1, 2], via: [sst, bp5]}
repetitions: 8
budget: {time: 1 min}
baseline: {set: {c: 0}}
scales:
  small: {repetitions: 6}
  large:
    site: frontier
    set: {c: 3, site.launcher: srun}
    matrix: {stages.s.ranks: [512, 1024]}
    budget: {node_hours: 7}
scale: small
"""


def load(tmp_path: Path, *sets: str, profiles: tuple[str, ...] = (), site: str | None = None) -> Campaign:
    (tmp_path / "campaign.yaml").write_text(TEXT)
    return load_campaign(tmp_path / "campaign.yaml", CampaignOptions(sets, profiles, site))


def test_the_scale_of_the_file_counts_until_another_is_chosen(tmp_path: Path) -> None:
    small, large = load(tmp_path).spec, load(tmp_path, "scale=large").spec
    assert (small.repetitions, small.matrix["stages.s.ranks"], small.site) == (6, [1, 2], None)
    assert (large.repetitions, large.matrix, large.site) == (
        8, {"stages.s.ranks": [512, 1024], "via": ["sst", "bp5"]}, "frontier",
    )  # fmt: skip
    assert large.set_ == {"a.b": 1, "c": 3, "site.launcher": "srun"}
    assert (large.budget.time, large.budget.node_hours) == (60, 7)


def test_set_is_stronger_than_the_scale_and_reaches_every_key(tmp_path: Path) -> None:
    spec = load(
        tmp_path, "matrix.stages.s.ranks=[4]", "scale=large", "set.a.b=9", "set.new.key=x", "order.seed=3", "site=alps",
        "budget.time=2 min", "baseline.set.c.d=1", "zip.x.y=[1]", "metrics.rate=streams.f.throughput", "set.c=",
    ).spec  # fmt: skip
    assert spec.matrix["stages.s.ranks"] == [4] and spec.zip_ == {"x.y": [1]}
    assert spec.set_ == {"a.b": 9, "c": "", "new.key": "x", "site.launcher": "srun"}
    assert (spec.order.seed, spec.site, spec.budget.time, spec.budget.node_hours) == (3, "alps", 120, 7)
    assert spec.baseline is not None and spec.baseline.set_ == {"c": 0, "c.d": 1}
    assert spec.metrics["rate"].of == "streams.f.throughput"
    assert load(tmp_path, "scale=null").spec.repetitions == 8


def test_site_and_profiles(tmp_path: Path) -> None:
    campaign = load(tmp_path, "profiles=[one]", "scale=large", site="perlmutter-cpu")
    assert (campaign.site, campaign.spec.profiles) == ("perlmutter-cpu", ["one"])
    assert load(tmp_path, profiles=("one", "two")).spec.profiles == ["one", "two"]
    elsewhere = load(tmp_path, site="~/own.yaml")
    assert elsewhere.site == str(Path("~/own.yaml").expanduser())


def test_each_value_has_the_place_where_it_is_written(tmp_path: Path) -> None:
    (one, two, *_) = make_trials(load(tmp_path, "scale=large", "matrix.via=[file]"))
    (ranks,) = (each.value.place for each in two.settings if each.key == "stages.s.ranks")
    assert (ranks.line, ranks.column) == (15, 36)
    assert {each.key: each.value.place.source for each in one.settings}["via"] == "--set matrix.via=[file]"


def test_keys_of_the_site_are_no_keys_of_the_pipeline(tmp_path: Path) -> None:
    trial = make_trials(load(tmp_path, "scale=large"))[0]
    assert [each.key for each in trial.of_site] == ["launcher"]
    assert [each.key for each in trial.of_pipeline] == ["a.b", "c", "stages.s.ranks", "via"]
    assert trial.parameters == {"stages.s.ranks": 512, "via": "sst"}


def test_settings_of_a_site_replace_its_values() -> None:
    place = SourcePosition("campaign.yaml", 3, 4)

    def with_settings(**values: object) -> list[Setting]:
        return [Setting(key.replace("__", "."), Node(value, place)) for key, value in values.items()]

    file = read_site_file("four-cores.yaml", SITES, with_settings(launcher="srun", env__NEW="1", cores_per_node=2))
    assert (file.launcher, file.env, file.cores_per_node, file.memory_per_node) == ("srun", {"NEW": "1"}, 2, 2**33)
    with pytest.raises(SpecError) as caught:
        read_site_file("four-cores.yaml", SITES, with_settings(cores_per_node="few"))
    assert str(caught.value).startswith("error: campaign.yaml:3:4: site.cores_per_node: expected")


def test_later_options_are_added_and_replace_those_of_the_same_key() -> None:
    first = CampaignOptions(("scale=large", "repetitions=5"), ("one",), "frontier")
    both = first.and_later(CampaignOptions(("repetitions=9", "warmup=0"), ("two", "one")))
    assert both == CampaignOptions(("scale=large", "repetitions=9", "warmup=0"), ("one", "two"), "frontier")
    assert both.arguments[:4] == ["--site", "frontier", "--profile", "one"]
    assert not CampaignOptions() and first.and_later(CampaignOptions(site="alps")).site == "alps"


def test_editors_know_the_keys_of_a_scale() -> None:
    scales = campaign_schema()["properties"]["scales"]
    (scale,) = scales["patternProperties"].values()
    known = {info.alias or name for name, info in CampaignSpec.model_fields.items()}
    assert set(scale["properties"]) == known - {"wf", "scale", "scales"} and not scale["additionalProperties"]


def test_a_campaign_that_is_missing_is_pointed_to_the_page_about_campaigns(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_campaign(tmp_path / "gone.yaml")
    (problem,) = caught.value.problems
    assert (problem.message, problem.hint) == ("no such file", "docs/how-to/first-campaign.md shows how to write one")
