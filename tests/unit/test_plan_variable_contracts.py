"""What two ends of a stream say of its variables."""

from __future__ import annotations

import pytest

from workflow.plan.problems import Problems
from workflow.plan.topology.ports import StagePort
from workflow.plan.topology.variable_contracts import Contract, check_contract
from workflow.spec.models.component import PortVariable
from workflow.spec.models.pipeline import Variable
from workflow.spec.origins import Origins
from workflow.spec.yaml_tree.node import Node, SourcePosition

Given = dict[str, PortVariable]


def var(type: str | None, *shape: int | str, optional: bool = False) -> PortVariable:
    return PortVariable(type=type, shape=list(shape), optional=optional)


def compare(
    writes: Given | None, reads: Given | None, own: dict[str, Variable] | None = None
) -> tuple[Contract, list[str]]:
    problems = Problems(Origins(Node({}, SourcePosition("test", 1, 1))))
    writer = StagePort("sim", "write", "out", writes, io="out")
    reader = StagePort("ana", "read", "in", reads, io="in")
    contract = check_contract("s", own or {}, writer, [reader], problems)
    return contract, [problem.message for problem in problems.found]


@pytest.mark.parametrize(
    ("have", "need"),
    [
        (var("float64", "N", 3), var("float", "N", 3)),
        (var("float64", "N", 3), var("number", "M", "k")),
        (var("float", "N"), var("float64", "N")),
        (var("int32"), var("int")),
        (var("uint8", 4), var(None, "n")),
        (PortVariable(type="float32"), var("float32", 1, 2, 3)),
        (var("float64", 4, 4), PortVariable(type="float64")),
        (PortVariable(), var("string")),
    ],
)
def test_ends_that_agree(have: PortVariable, need: PortVariable) -> None:
    assert compare({"x": have}, {"x": need})[1] == []


@pytest.mark.parametrize(
    ("have", "need", "said"),
    [
        (var("float64", "N"), var("int", "N"), "the types differ"),
        (var("float32"), var("float64"), "the types differ"),
        (var("string"), var("number"), "the types differ"),
        (var("float64", "N", 3), var("float64", "N"), "1 dimension against 2 dimensions"),
        (var("float64"), var("float64", "N"), "1 dimension against a scalar"),
        (var("float64", "N", 2), var("float64", "N", 3), "dimension 1 is 3 against 2"),
    ],
)
def test_ends_that_do_not(have: PortVariable, need: PortVariable, said: str) -> None:
    (message,) = compare({"x": have}, {"x": need})[1]
    assert "ana.in needs `x`" in message
    assert "sim.out writes it" in message
    assert message.endswith(said)


def test_a_missing_variable_names_both_ends() -> None:
    assert compare({"position": var("float64")}, {"positions": var("float64")})[1] == [
        "ana.in needs `positions`, which sim.out does not write"
    ]
    assert compare({}, {"x": var("float64", optional=True)})[1] == []


def test_one_size_name_is_one_number() -> None:
    needs = {"x": var("float", "n"), "y": var("float", "n")}
    assert compare({"x": var("float", 3), "y": var("float", 3)}, needs)[1] == []
    (message,) = compare({"x": var("float", 3), "y": var("float", 4)}, needs)[1]
    assert message.endswith("n is already 3 in `x`")


def test_a_writer_that_declares_nothing_may_write_anything() -> None:
    contract, said = compare(None, {"x": var("float", "N")})
    assert said == []
    assert contract.readers["ana"] == {"x": Variable(type="float", shape=["N"])}


def test_a_reader_relies_on_the_narrower_of_both() -> None:
    writes = {"x": var("float64", "N", 3), "y": var("int32"), "z": var("int32", optional=True)}
    contract, said = compare(writes, {"x": var("float", "n", "m"), "z": var("int", optional=True)})
    assert said == []
    assert contract.readers["ana"] == {"x": Variable(type="float64", shape=["n", 3])}
    assert contract.writer == {"x": Variable(type="float64", shape=["N", 3]), "y": Variable(type="int32", shape=[])}


def test_a_reader_of_anything_relies_on_all_that_is_certain() -> None:
    contract, _ = compare({"x": var("float64"), "z": var("int32", optional=True)}, None)
    assert list(contract.readers["ana"]) == ["x"]


def test_what_is_written_with_some_parameters_only_is_noted() -> None:
    contract, said = compare({"x": var("float64", optional=True)}, {"x": var("float64")})
    assert said == []
    assert list(contract.readers["ana"]) == ["x"]
    assert "some parameters only" in contract.unsure["x"]


def test_the_stream_has_a_word_too() -> None:
    own = {"x": Variable(type="float64", shape=["N"]), "y": Variable()}
    contract, said = compare({"x": var("float", "N")}, {"x": var("number", "n")}, own)
    assert said == ["the contract of stream s needs `y`, which sim.out does not write"]
    assert contract.readers["ana"]["x"] == Variable(type="float64", shape=["n"])
    _, said = compare({"x": var("int32", "N")}, {"x": var("int", "n")}, {"x": Variable(type="float")})
    assert said == ["the contract of stream s needs `x` as float, but sim.out writes it as int32 [N]: the types differ"]
    contract, said = compare(None, None, own)
    assert said == []
    assert contract.readers["ana"] == own
