"""What each kind of program is told to compress, and what the plan says about it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from typing import get_args

import pytest

from tests.support.planner import SITE, Planner, end_of
from workflow.errors import SpecError
from workflow.operators import OPERATORS, Operator, refusal
from workflow.report.show.plan_tables import end_table
from workflow.spec.models.stage_policies import Compressor

COMPONENT = """
stages:
  walk: {component: walker, output: {compression: %s}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: keep, via: %s}
"""
PROGRAM = """
stages:
  sim:
    command: [/bin/sim]
    writes:
      f:
        %s
        variables: {E: {type: float64, shape: [N]}, id: {type: int64, shape: [N]}, t: {type: float64, shape: []}}
    output: {compression: %s}
  keep: {component: keep}
streams:
  f: {from: sim, to: keep, via: bp5}
"""
ZFP = "{zfp: {accuracy: 1e-3}}"


def test_operators_of_a_component(plan_of: Planner) -> None:
    plan = plan_of(COMPONENT % (f'{{position: {ZFP}, "*": {{blosc: {{level: 3, threads: 2}}}}}}', "sst"))
    found = end_of(plan, "walk", "positions").operators
    assert (found["position"].type, found["position"].parameters) == ("zfp", {"accuracy": "0.001"})
    assert found["position"].bound == 1e-3
    assert found["*"].parameters == {
        "compressor": "zstd", "clevel": "3", "doshuffle": "BLOSC_BITSHUFFLE", "nthreads": "2",
    }  # fmt: skip
    assert found["*"].bound == 0.0
    assert end_of(plan, "keep", "positions").operators == {}
    assert "errors of at most 0.001" in plan.reasons["streams.positions.write.operators.position"]


def test_wf_plan_shows_operators_without_engine_parameters(plan_of: Planner) -> None:
    plan = plan_of(COMPONENT % (f"{{position: {ZFP}}}", "bp5"))
    assert end_table(plan).rows[0][2] == "position: zfp accuracy=0.001"


def test_a_bound_of_ones_own(plan_of: Planner) -> None:
    plan = plan_of(COMPONENT % ("{position: {zfp: {accuracy: 1e-3}, bound: 1e-5}}", "bp5"))
    assert end_of(plan, "walk", "positions").operators["position"].bound == 1e-5


def test_an_engine_without_operators_leaves_them(plan_of: Planner) -> None:
    plan = plan_of(COMPONENT % (f"{{position: {ZFP}}}", "hdf5"))
    assert end_of(plan, "walk", "positions").operators == {}
    assert any("HDF5 has no operators" in line for line in plan.advice)


def told(plan_of: Planner, config: str, compression: str) -> str:
    plan = plan_of(PROGRAM % (config, compression))
    assert any("is not checked" in line for line in plan.advice)
    return next(iter(plan.stage("sim").files.values()), "")


def test_adios2_xml(plan_of: Planner) -> None:
    root = ElementTree.fromstring(
        told(plan_of, "io: out\n        config: adios2.xml", f'{{E: {ZFP}, "*": {{blosc: {{}}}}}}')
    )
    found = {
        variable.get("name"): [(each.get("type"), [p.get("key") for p in each]) for each in variable]
        for variable in root.findall("io/variable")
    }
    # `*` is all that it can do of what is declared: no single values
    assert found == {
        "E": [("zfp", ["accuracy"])],
        "id": [("blosc", ["compressor", "clevel", "doshuffle", "nthreads"])],
    }


def test_adios2_yaml(plan_of: Planner) -> None:
    import yaml

    (io,) = yaml.safe_load(told(plan_of, "io: out\n        config: adios2.yaml", f"{{E: {ZFP}}}"))
    assert io["Variables"] == [{"Variable": "E", "Operations": [{"Type": "zfp", "accuracy": "0.001"}]}]


@pytest.mark.parametrize("config", ["openpmd.json", "openpmd.toml"])
def test_openpmd(config: str, plan_of: Planner) -> None:
    text = told(plan_of, f"config: {config}", f'{{"*": {ZFP}}}')
    if config == "openpmd.json":
        assert json.loads(text)["adios2"]["dataset"] == {
            "operators": [{"type": "zfp", "parameters": {"accuracy": "0.001"}}]
        }
    else:
        assert '[adios2.dataset]\noperators = [\n    { type = "zfp", parameters = { accuracy = "0.001" } },\n]' in text


def test_an_operator_that_is_not_built(plan_of: Planner) -> None:
    bare = SITE.model_copy(update={"operators": []})
    with pytest.raises(SpecError, match="is built without zfp: it has none"):
        plan_of(COMPONENT % (f"{{position: {ZFP}}}", "bp5"), site=bare)


def test_what_is_not_known_is_mentioned(plan_of: Planner) -> None:
    plan = plan_of(
        PROGRAM % ("io: out\n        config: adios2.xml", f"{{E: {ZFP}}}"),
        site=SITE.model_copy(update={"operators": None}),
    )
    assert any("not known which operators its ADIOS2" in line for line in plan.advice)


@pytest.mark.parametrize(
    ("operator", "kind", "dimensions", "can"),
    [
        ("zfp", "float64", 3, True), ("zfp", "complex64", 1, True), ("zfp", "float", None, True),
        ("zfp", None, None, True), ("zfp", "int64", 1, False), ("zfp", "uint8", 1, False),
        ("blosc", "int64", 1, True), ("bzip2", "float32", 5, True), ("blosc", "float32", 0, False),
        ("blosc", "string", 0, False), ("bzip2", "string", None, False),
    ],
)  # fmt: skip
def test_what_operators_can_do(operator: str, kind: str | None, dimensions: int | None, can: bool) -> None:
    assert (refusal(operator, kind, dimensions) == "") == can


def test_each_operator_of_the_table_can_be_named_set_and_measured() -> None:
    """A new one is an entry of the table: what else it needs is missed here."""
    assert get_args(Operator) == tuple(OPERATORS), "what a site's file can name"
    assert Compressor.model_fields.keys() - {"bound"} == OPERATORS.keys()
