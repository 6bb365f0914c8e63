"""Variables of a step against the contract of the stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workflow.formats.stage_file import StreamEnd
from workflow.plan.topology import variable_contracts
from workflow.stage import variables
from workflow.stage.stage_errors import ContractError
from workflow.stage.variables import Info, check_contract

FOUND = {
    "position": Info("float64", (12, 3)),
    "id": Info("int64", (12,)),
    "box": Info("float64", (2, 3)),
    "time": Info("float64", ()),
    "label": Info("string", ()),
    "phase": Info("complex128", (4,)),
}


def end_with(variables: dict[str, Any]) -> StreamEnd:
    return StreamEnd("atoms", "atoms", "read", "SST", "atoms", variables=variables)


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"position": {"type": "float64", "shape": ["N", 3]}, "id": {"type": "int64", "shape": ["N"]}},
        {
            "position": {"type": "float", "shape": None},
            "id": {"type": "int"},
            "box": {"type": "number", "shape": [2, 3]},
        },
        {"time": {"type": None, "shape": []}, "label": {"type": "string", "shape": []}},
        {"phase": {"type": "complex128"}},
        {"nothing": {"type": "float64", "optional": True}},
    ],
)
def test_a_step_that_fulfils_the_contract_passes(declared: dict[str, Any]) -> None:
    check_contract(end_with(declared), "saxs", FOUND)


@pytest.mark.parametrize(
    ("declared", "difference"),
    [
        ({"positions": {"type": "float64"}}, "variable positions is missing; did you mean 'position'?"),
        ({"zzz": {}}, "variable zzz is missing; there is box, id, label, phase, position, time"),
        ({"id": {"type": "int32"}}, "variable id: expected type int32, found int64"),
        ({"id": {"type": "float"}}, "variable id: expected type float, found int64"),
        ({"label": {"type": "number"}}, "variable label: expected type number, found string"),
        ({"phase": {"type": "number"}}, "variable phase: expected type number, found complex128"),
        ({"box": {"shape": [3, 3]}}, "variable box: expected shape [3, 3], found [2, 3] (2 is not 3)"),
        ({"time": {"shape": ["N"]}}, "variable time: expected shape [N], found [] (0 dimensions instead of 1)"),
        (
            {"position": {"shape": ["N", 3]}, "box": {"shape": ["N", 3]}},
            "variable box: expected shape [N, 3], found [2, 3] (N is 12 in position)",
        ),
    ],
)
def test_a_difference_is_reported_with_both_values(declared: dict[str, Any], difference: str) -> None:
    with pytest.raises(ContractError) as caught:
        check_contract(end_with(declared), "saxs", FOUND)
    assert str(caught.value) == f"stream atoms does not contain what stage saxs needs: {difference}"


def test_all_differences_are_reported_together() -> None:
    with pytest.raises(ContractError) as caught:
        check_contract(end_with({"a": {}, "id": {"type": "float", "shape": [3]}}), "", FOUND)
    assert len(str(caught.value).splitlines()) == 4


def test_families_of_types_are_those_of_the_plan() -> None:
    """They are defined twice, because the plan must not import numpy."""
    assert variables.FAMILIES.keys() == variable_contracts.FAMILIES.keys()
    for family, names in variable_contracts.FAMILIES.items():
        members = {name for name in variable_contracts.TYPES if name != "string"}
        matching = {name for name in members if issubclass(np.dtype(name).type, variables.FAMILIES[family])}
        assert matching == set(names), family


@pytest.mark.parametrize("kind", ["long double", "compound", "reference", "opaque", "variable length", "empty"])
def test_a_type_that_numpy_lacks_is_a_difference(kind: str) -> None:
    with pytest.raises(ContractError, match=f"expected type number, found {kind}"):
        check_contract(end_with({"V": {"type": "number"}}), "pdf", {"V": Info(kind, (2,))})
    assert Info(kind, (2,)).nbytes == 0


def test_what_the_pipeline_file_says_of_a_writer_is_blamed_on_the_file() -> None:
    end = StreamEnd(
        "atoms", "atoms", "read", "SST", "atoms", variables={"positions": {}},
        declared={"positions": "stages.sim.writes.atoms.variables.positions"},
    )  # fmt: skip
    with pytest.raises(ContractError) as caught:
        check_contract(end, "mean", FOUND)
    assert str(caught.value) == (
        "stream atoms does not contain what stage mean needs: variable positions is missing; did you mean 'position'?; "
        "its writer does not write what `stages.sim.writes.atoms.variables.positions` of the pipeline file says: "
        "correct that"
    )
