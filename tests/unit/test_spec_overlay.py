"""Profiles, --via and --set: which one wins, what `*` means, and where each value says it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflow.api.plans import make_plan
from workflow.errors import SpecError
from workflow.spec import shipped
from workflow.spec.load import Loaded, load_pipeline

SPECS = Path(__file__).parents[1] / "specs"
HEAD = """
wf: 1
name: small
stages:
  walk: {component: walker}
  count: {component: tally, with: {variable: position}}
  keep: {component: keep}
"""
STREAMS = """
streams:
  positions: {from: walk, to: count, via: bp5}
  counts: {from: count, to: keep}
"""
PROFILES = """
profiles:
  live: {streams: {"*": {via: sst}}}
  old: {streams: {"*": {via: bp4}, counts: {via: hdf5}}}
  more: {stages: {walk: {ranks: 4, with: {walkers: 7}}}, deadlines: {step: 5 s}}
  twice: {stages: {also: {component: keep}}, streams: {counts: {to: [keep, also]}}}
"""


@pytest.fixture(autouse=True)
def test_components(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [SPECS / "components"])
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    monkeypatch.chdir(tmp_path)


Words = tuple[str, ...]


def load(
    text: str = HEAD + STREAMS + PROFILES, profiles: Words = (), via: str | None = None, sets: Words = ()
) -> Loaded:
    Path("p.yaml").write_text(text)
    return load_pipeline("p.yaml", profiles=profiles, sets=sets, via=via)


def engines(loaded: Loaded) -> dict[str, str]:
    return {name: stream.via for name, stream in loaded.spec.streams.items()}


def test_without_overlays_the_file_and_then_the_defaults_count() -> None:
    assert engines(load()) == {"positions": "bp5", "counts": "sst"}


def test_a_profile_beats_the_file_and_a_name_beats_the_star() -> None:
    assert engines(load(profiles=("old",))) == {"positions": "bp4", "counts": "hdf5"}


def test_a_later_profile_beats_an_earlier_one() -> None:
    assert engines(load(profiles=("old", "live"))) == {"positions": "sst", "counts": "sst"}


def test_via_beats_profiles_and_set_beats_via_in_any_order() -> None:
    sets = ("streams.counts.via=hdf5",)
    assert engines(load(profiles=("live",), via="bp4", sets=sets)) == {"positions": "bp4", "counts": "hdf5"}


def test_the_last_set_of_a_key_counts() -> None:
    assert engines(load(sets=("streams.counts.via=bp4", "streams.*.via=bp5"))) == {"positions": "bp5", "counts": "bp5"}


def test_via_leaves_files_that_are_only_handed_over() -> None:
    text = HEAD + STREAMS.replace("via: bp5", "via: file")
    assert engines(load(text, via="bp4")) == {"positions": "file", "counts": "bp4"}


def test_a_profile_changes_single_keys() -> None:
    loaded = load(profiles=("more",))
    assert loaded.spec.stages["walk"].ranks == 4
    assert loaded.parameters["walk"]["walkers"] == 7
    assert loaded.parameters["walk"]["boundary"] == "periodic"
    assert (loaded.spec.deadlines.step, loaded.spec.deadlines.start) == (5.0, 120.0)


def test_a_profile_may_add_a_whole_stage() -> None:
    loaded = load(profiles=("twice",))
    assert list(loaded.spec.stages) == ["walk", "count", "keep", "also"]
    assert loaded.spec.streams["counts"].readers == ["keep", "also"]


def test_a_star_reaches_stages_that_an_earlier_profile_added() -> None:
    text = HEAD + STREAMS + PROFILES + '  wide: {stages: {"*": {ranks: 2}}}\n'
    assert {stage.ranks for stage in load(text, profiles=("twice", "wide")).spec.stages.values()} == {2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stages.walk.ranks=3", 3), ("stages.walk.with.box=[1, 2.5, 3]", [1.0, 2.5, 3.0]), ("description=", ""),
        ("description=a=b", "a=b"), ("stages.walk.output.async=off", "off"), ("oversubscribe=true", True),
        ("stages.walk.place={nodes: 2}", {"nodes": 2}), ("deadlines.run=2 h", 7200.0),
        ("streams.counts.coupling=null", None), ("streams.counts.to=[keep]", ["keep"]),
    ],
)  # fmt: skip
def test_set_takes_yaml(text: str, expected: object) -> None:
    loaded = load(sets=(text,))
    found: object = {**loaded.spec.model_dump(by_alias=True, exclude_unset=True)}
    for part in text.partition("=")[0].split("."):
        assert isinstance(found, dict)
        found = loaded.parameters["walk"] if part == "with" else found[part]
    assert found == expected


def test_set_makes_the_mappings_on_its_way() -> None:
    loaded = load(sets=("stages.keep.output.aggregation.count=2",))
    assert loaded.spec.stages["keep"].output.aggregation is not None


def test_one_wrong_value_for_a_star_is_one_problem() -> None:
    with pytest.raises(SpecError) as caught:
        load(via="bp6")
    assert [problem.source for problem in caught.value.problems] == ["--via bp6"]


def test_origins_name_the_layer_and_the_place() -> None:
    loaded = load(profiles=("more",), via="bp4", sets=("stages.*.place.nodes=1",))
    origins = loaded.origins
    assert origins.of("stages.walk.component") == "p.yaml:5:21"
    assert origins.of("stages.walk.ranks") == "profile more (p.yaml:16:33)"
    assert origins.of("stages.walk.with.walkers") == "profile more (p.yaml:16:52)"
    assert origins.of("streams.counts.via") == "--via bp4"
    assert origins.of("stages.keep.place.nodes") == "--set stages.*.place.nodes=1"
    assert origins.of("stages.keep.ranks") == "default"
    assert origins.of("nothing.like.it") == "default"


def test_places_are_those_of_the_nearest_parent() -> None:
    origins = load().origins
    assert origins.place("streams.positions.via") == ("p.yaml", 10, 43)
    assert origins.place("streams.positions.queue.limit") == ("p.yaml", 10, 3)
    assert origins.place("deadlines.step")[0] == "p.yaml"


def test_site_of_the_command_line_replaces_that_of_the_file() -> None:
    Path("p.yaml").write_text(HEAD + STREAMS + "site: nosuch\n")
    loaded = load_pipeline("p.yaml", site="example-slurm")
    assert loaded.spec.site == "example-slurm"
    assert loaded.origins.of("site") == "--site example-slurm"
    assert load_pipeline("p.yaml", site="nowhere", sets=["site=local"]).spec.site == "local"


def test_a_site_that_does_not_exist_is_refused_with_the_option_as_its_place() -> None:
    Path("p.yaml").write_text(HEAD + STREAMS)
    with pytest.raises(SpecError) as caught:
        load_pipeline("p.yaml", site="exampel-slurm")
    assert str(caught.value) == (
        "error: --site exampel-slurm: there is no site `exampel-slurm`\n  did you mean `example-slurm`?"
    )


def test_a_site_is_named_by_its_file_too(tmp_path: Path) -> None:
    """On the command line relative to the user's directory, in the file to the folder of the file."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/mine.yaml").write_text(
        "site: mine\nsummary: 3 cores\ncores_per_node: 3\nmemory_per_node: 1 GiB\n"
    )
    (tmp_path / "inside/p.yaml").write_text(HEAD + STREAMS + "site: ./mine.yaml\n")
    loaded = load_pipeline("inside/p.yaml")
    assert make_plan(loaded).site == "mine"
    assert make_plan(load_pipeline("inside/p.yaml", site="inside/mine.yaml")).site == "mine"
    with pytest.raises(
        SpecError, match=r'--site ./mine.yaml: there is no file "mine.yaml"\n  expected at /.*/mine.yaml'
    ):
        load_pipeline("inside/p.yaml", site="./mine.yaml")
    with pytest.raises(SpecError, match=r'p.yaml:12:7: site: there is no file "gone.yaml"'):
        (tmp_path / "inside/p.yaml").write_text(HEAD + STREAMS + "site: ./gone.yaml\n")
        load_pipeline("inside/p.yaml")


def test_one_profile_or_setting_may_be_given_as_text(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "wf: 1\nname: x\nstages:\n  a: {command: [a]}\n  b: {command: [b]}\n"
        "streams: {x: {from: a, to: b, via: file}}\nprofiles: {big: {stages: {a: {ranks: 2}}}}\n"
    )
    one = load_pipeline(file, profiles="big", sets="stages.b.ranks=3").spec
    assert one == load_pipeline(file, profiles=["big"], sets=["stages.b.ranks=3"]).spec
    assert (one.stages["a"].ranks, one.stages["b"].ranks) == (2, 3)
