"""The keys of site files: what they become, and what is wrong between two of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from workflow.errors import SpecError
from workflow.site.load_site import load_site
from workflow.site.site_model import Site

SiteOf = Callable[[str], Site]
NODE = """
site: big
summary: s
nodes: 100
cores_per_node: 16
threads_per_core: 2
reserved_cores: 0,8
numa: [0-7, 8-15]
gpus_per_node: 2
gpus: [{cores: 8-15, nic: cxi1}, {cores: 0-7, nic: cxi0}]
gpu_variable: ROCR_VISIBLE_DEVICES
nics: [{name: cxi0, cores: 0-7}, {name: cxi1}]
memory_per_node: 64 GiB
scheduler: slurm
queues:
  batch: {nodes: [1, 100], walltime: 12 h, default: true, limits: [{nodes: [1, 9], walltime: 2 h}]}
  debug: {note: one job a user}
submit: {constraint: gpu, max_queued: 100}
workarounds: [{env: {A: "1"}, reason: it hangs, when: stream}]
detect: [{variable: CLUSTER, value: big}]
cost: {per_node_hour: 1}
"""


@pytest.fixture
def site_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteOf:
    (tmp_path / "sites").mkdir()
    monkeypatch.setenv("WF_CONFIGS", str(tmp_path))

    def load(text: str) -> Site:
        (tmp_path / "sites/big.yaml").write_text(text.lstrip())
        return load_site("big")

    return load


def test_a_node_with_all_its_parts(site_of: SiteOf) -> None:
    site = site_of(NODE)
    assert site.usable_cores == (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)
    assert site.numa == [tuple(range(8)), tuple(range(8, 16))]
    assert [(gpu.cores, gpu.nic) for gpu in site.gpus] == [(tuple(range(8, 16)), "cxi1"), (tuple(range(8)), "cxi0")]
    batch = site.queues["batch"]
    assert (batch.nodes, batch.walltime, batch.default) == ((1, 100), 12 * 3600, True)
    assert [(limit.nodes, limit.walltime) for limit in batch.limits] == [((1, 9), 2 * 3600)]
    assert site.queues["debug"].nodes is None
    assert site.workarounds[0].env == {"A": "1"}
    assert Site.model_validate_json(site.model_dump_json()) == site


def test_one_core_needs_no_quotes(site_of: SiteOf) -> None:
    site = site_of("site: big\nsummary: s\ncores_per_node: 4\nreserved_cores: 0\nmemory_per_node: 1 GiB\n")
    assert site.usable_cores == (1, 2, 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0,8", "0,16", "6:17: reserved_cores: there is no core 16: nodes have 16 cores, 0 to 15"),
        ("0,8", "0:8", '6:17: reserved_cores: expected cores such as `0-7,16`, got "0:8"'),
        ("0,8", "0-15", "6:17: reserved_cores: all cores are reserved\n  leave at least one"),
        ("8-15]", "7-15]", "7:7: numa: cores 7 are in two domains"),
        ("cores_per_node: 16\n", "", "5:1: reserved_cores: cores are numbered, but `cores_per_node` is not given"),
        ("gpus_per_node: 2", "gpus_per_node: 4", "9:7: gpus: describes 2 GPUs, and `gpus_per_node` is 4"),
        ("nic: cxi1", "nic: cxi2", "9:27: gpus[0].nic: there is no network adapter `cxi2`\n  did you mean `cxi"),
        ("gpu_variable", "nics_per_node: 4\ngpu_variable", "nics: describes 2 adapters, and `nics_per_node` is 4"),
        ("scheduler: slurm\n", "", "13:1: queues: the site has queues, but no scheduler"),
        ("scheduler: slurm", "scheduler: slrum", "did you mean `slurm`?"),
        ("[1, 9]", "[1, 900]", "jobs of 1 to 900 nodes: the queue takes 1 to 100"),
        ("[1, 9]", "[9, 1]", "expected the fewest and the most nodes, got [9, 1]\n  for example [1, 128]"),
        ("debug: {", "debug: {default: true, ", "queues.debug.default: batch is the default queue already"),
        ("variable: CLUSTER, ", "", "19:11: detect[0].value: the value of which variable?"),
        ("variable: CLUSTER, value: big", "", "detect[0]: neither a variable nor a host is given"),
        ("per_node_hour: 1", "per_node_hour: 0", "cost.per_node_hour: expected more than 0, got 0"),
    ],
)
def test_contradictions_have_their_place(old: str, new: str, message: str, site_of: SiteOf) -> None:
    assert old in NODE
    with pytest.raises(SpecError) as caught:
        site_of(NODE.replace(old, new, 1))
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1
