"""Engines and sites from configs/: shipped ones, the user's own, and what is wrong in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workflow.errors import SpecError, WfError
from workflow.site.load_site import load_site
from workflow.spec.engine_presets import known_engines, load_engine
from workflow.spec.shipped import known_configs


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own folder of engines and sites."""
    (tmp_path / "engines").mkdir()
    (tmp_path / "sites").mkdir()
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))
    return tmp_path


def test_the_local_site_is_this_machine() -> None:
    site = load_site("local")
    assert site.cores_per_node == len(os.sched_getaffinity(0))
    assert 2**26 < site.memory_per_node <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize("name", known_configs("sites"))
def test_every_shipped_site_loads_anywhere(name: str) -> None:
    site = load_site(name)
    assert site.site == name and site.summary and site.cores_per_node >= 1


def test_an_own_site_has_sizes_with_units(own: Path) -> None:
    (own / "sites" / "big.yaml").write_text("site: big\nsummary: s\ncores_per_node: 128\nmemory_per_node: 2 TiB\n")
    assert load_site("big").memory_per_node == 2 * 2**40


def test_an_own_engine_shadows_the_shipped_one(own: Path) -> None:
    (own / "engines" / "sst.yaml").write_text("engine: SST\nsummary: mine\ncouplings: [live]\n")
    assert load_engine("sst").summary == "mine"


def test_a_preset_takes_the_rest_from_what_it_is_based_on(own: Path) -> None:
    (own / "engines" / "sst-rdma.yaml").write_text(
        "based_on: sst\nsummary: over InfiniBand\nwrite: {DataTransport: RDMA}\nread: {SpecAutoNodeThreshold: 2}\n"
    )
    preset, base = load_engine("sst-rdma"), load_engine("sst")
    assert (preset.engine, preset.traits.in_memory, preset.couplings) == ("SST", True, ["live"])
    assert preset.write == {"DataTransport": "RDMA"}
    assert preset.read == {**base.read, "SpecAutoNodeThreshold": 2}
    assert preset.parameters == base.parameters
    assert "sst-rdma" in known_engines()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("based_on: mine\nsummary: s", "mine.yaml:1:11: based_on: engine mine is based on itself"),
        ("based_on: stt\nsummary: s", "mine.yaml:1:11: based_on: there is no engine `stt`\n  did you mean `sst`?"),
        ("based_on: sst\nsummery: s", "mine.yaml:2:1: summery: unknown key\n  did you mean `summary`?"),
        ("based_on: sst\nwrite: {QueuLimit: 2}", "mine.yaml:2:9: write.QueuLimit: engine SST has no parameter "
         "`QueuLimit` for the end that writes\n  did you mean `QueueLimit`?"),
        ("based_on: sst\nread: {QueueLimit: 2}", "mine.yaml:2:8: read.QueueLimit: engine SST has no parameter"),
        ("engine: SST", "mine.yaml:1:1: summary: is missing"),
        ("engine: SST\nsummary: s", "mine.yaml:1:1: couplings: is missing"),
        ("engine: SST\nsummary: s\ncouplings: []", "mine.yaml:3:12: couplings: "),
        ("engine: SST\nsummary: s\nparameters: {A: {type: integer, side: write, help: h}}",
         "mine.yaml:3:24: parameters.A.type: expected `int`, `float`, `bool`, `size`, `string` or `choice`, got"),
    ],
)  # fmt: skip
def test_mistakes_in_an_engine_file_have_their_place(own: Path, text: str, message: str) -> None:
    (own / "engines" / "mine.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_engine("mine")
    assert message in str(caught.value)


def test_mistakes_in_a_site_file_have_their_place(own: Path) -> None:
    text = "site: mine\nsummary: s\ncores_per_node: many\nmemory_per_node: 5 apples\n"
    (own / "sites" / "mine.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_site("mine")
    first, second = caught.value.problems
    assert (first.line, first.message) == (3, 'expected a whole number or `auto`, got "many"')
    assert (second.line, second.key) == (4, "memory_per_node")


@pytest.mark.parametrize(("load", "near"), [(load_engine, "bp5"), (load_site, "local")])
def test_unknown_names_bring_a_near_one(load: type, near: str) -> None:
    with pytest.raises(WfError, match=f"did you mean `{near}`"):
        load(near + "x")
