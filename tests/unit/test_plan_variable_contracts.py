"""What two ends of a stream say of its variables."""

from __future__ import annotations

import pytest

from tests.support.planner import Planner
from workflow.errors import SpecError
from workflow.plan.plan_notes import Problems
from workflow.plan.topology.ports import StagePort
from workflow.plan.topology.variable_contracts import Contract, check_contract
from workflow.spec.models.component import PortVariable
from workflow.spec.models.pipeline import TypeAndShape, Variable
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


@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        (("N", 3), ("n", 3)),
        ((3, 4), ("n", "m")),  # two names, two numbers
        (("N", 3), ("n", "n")),  # N may be 3
        (("N", "M"), ("n", "n")),
    ],
)
def test_sizes_that_may_agree(writes: tuple[int | str, int | str], reads: tuple[int | str, int | str]) -> None:
    have, need = ({"x": var("float", a), "y": var("float", b)} for a, b in (writes, reads))
    assert compare(have, need)[1] == []


def test_a_writer_that_declares_nothing_may_write_anything() -> None:
    contract, said = compare(None, {"x": var("float", "N")})
    assert said == []
    assert contract.readers["ana"] == {"x": TypeAndShape(type="float", shape=["N"])}


def test_a_reader_relies_on_the_narrower_of_both() -> None:
    writes = {"x": var("float64", "N", 3), "y": var("int32"), "z": var("int32", optional=True)}
    contract, said = compare(writes, {"x": var("float", "n", "m"), "z": var("int", optional=True)})
    assert said == []
    assert contract.readers["ana"] == {"x": TypeAndShape(type="float64", shape=["n", 3])}
    assert contract.writer == {
        "x": TypeAndShape(type="float64", shape=["N", 3]),
        "y": TypeAndShape(type="int32", shape=[]),
    }


@pytest.mark.parametrize(
    ("have", "need"),
    [
        (var("float64", "n", 3), PortVariable()),
        (PortVariable(), var("float64", "n", 3)),
        (PortVariable(type="float64"), var(None, "n", 3)),
        (PortVariable(type="number"), var("float64", "n", 3)),
    ],
)
def test_what_one_end_leaves_open_the_other_fixes(have: PortVariable, need: PortVariable) -> None:
    contract, said = compare({"x": have}, {"x": need})
    assert said == []
    assert contract.readers["ana"] == {"x": TypeAndShape(type="float64", shape=["n", 3])}


def test_a_reader_of_anything_relies_on_all_that_is_certain() -> None:
    contract, _ = compare({"x": var("float64"), "z": var("int32", optional=True)}, None)
    assert list(contract.readers["ana"]) == ["x"]


def test_what_is_written_with_some_parameters_only_is_noted() -> None:
    sometimes = var("float64", optional=True)
    writes = {"x": sometimes, "always": var("float64"), "unneeded": sometimes}
    contract, said = compare(writes, {"x": var("float64"), "always": var("float64"), "unneeded": sometimes})
    assert said == []
    assert list(contract.readers["ana"]) == ["x", "always"]
    assert contract.unsure == {"x": "ana.in needs it; sim.out writes it with some parameters only"}


def test_the_stream_has_a_word_too() -> None:
    own = {"x": Variable(type="float64", shape=["N"]), "y": Variable()}
    contract, said = compare({"x": var("float", "N")}, {"x": var("number", "n")}, own)
    assert said == ["the contract of stream s needs `y`, which sim.out does not write"]
    assert contract.readers["ana"]["x"] == TypeAndShape(type="float64", shape=["n"])
    _, said = compare({"x": var("int32", "N")}, {"x": var("int", "n")}, {"x": Variable(type="float")})
    assert said == ["the contract of stream s needs `x` as float, but sim.out writes it as int32 [N]: the types differ"]
    contract, said = compare(None, None, own)
    assert said == []
    assert contract.readers["ana"] == {"x": TypeAndShape(type="float64", shape=["N"]), "y": TypeAndShape()}


def test_the_stream_and_its_writer_narrow_each_other() -> None:
    contract, said = compare({"x": var("float64", "N", 3)}, None, {"x": Variable(type="number", shape=[8, "k"])})
    assert said == []
    assert contract.writer == contract.readers["ana"] == {"x": TypeAndShape(type="float64", shape=[8, 3])}


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"y": Variable(type="float64")}, "needs `y`, which sim.out does not write"),
        ({"x": Variable(shape=["N"])}, "1 dimension against 2 dimensions"),
    ],
)
def test_what_the_stream_gets_wrong_its_reader_does_not_rely_on(own: dict[str, Variable], said: str) -> None:
    """One mistake in the stream's `variables:` is one message, not another one for each reader."""
    contract, messages = compare({"x": var("float64", "N", 3)}, None, own)
    (message,) = messages
    assert message.startswith("the contract of stream s needs") and message.endswith(said)
    assert contract.readers["ana"] == {"x": TypeAndShape(type="float64", shape=["N", 3])}
    assert compare({"x": var("float64", "N", 3)}, {"x": var("float64", "N", 3)}, own)[1] == messages


def test_unknown_types_are_refused_where_they_are_declared(plan_of: Planner) -> None:
    text = """
stages:
  sim: {command: [./sim], writes: {u: {io: u, variables: {U: {type: long}}}}}
  ana: {command: [./ana], reads: {u: {io: u, variables: {U: {type: short}}}}}
streams:
  u: {from: sim, to: ana, variables: {U: {type: char}}}
"""
    with pytest.raises(SpecError) as caught:
        plan_of(text)
    unknown = {problem.key: problem.hint for problem in caught.value.problems if "unknown type" in problem.message}
    assert unknown == {
        "stages.sim.writes.u.variables.U.type": "write int64",
        "stages.ana.reads.u.variables.U.type": "write int16",
        "streams.u.variables.U.type": "write int8",
    }


def test_the_plan_explains_what_only_the_first_step_shows(plan_of: Planner) -> None:
    (plan_of.folder / "sim").mkdir()
    (plan_of.folder / "sim/component.yaml").write_text(
        "component: sim\nkind: simulation\nsummary: s\n"
        "writes: {out: {variables: {T: {type: float64, shape: [], optional: true}}}}\n"
    )
    (plan_of.folder / "sim/program.py").touch()
    plan = plan_of("""
stages:
  sim: {component: ./sim}
  ana: {command: [./ana], reads: {in: {io: in, variables: {T: {type: float64}}}}}
streams:
  s: {from: sim, to: ana.in}
""")
    assert plan.reasons["streams.s.variables.T"] == "ana.in needs it; sim.out writes it with some parameters only"


def test_units_come_from_the_stream_then_from_its_ends() -> None:
    writes = {"x": PortVariable(unit="angstrom"), "v": PortVariable(unit="m/s", optional=True), "n": PortVariable()}
    reads = {"x": PortVariable(unit="Å"), "n": PortVariable(unit="1")}
    contract, said = compare(writes, reads, {"v": Variable(unit="m/s")})
    assert said == []
    assert contract.units == {"v": "m/s", "x": "angstrom", "n": "1"}


def test_units_that_differ() -> None:
    (said,) = compare({"x": PortVariable(type="float64", unit="nm")}, {"x": PortVariable(unit="Å")})[1]
    assert said == "ana.in needs `x` as any type in Å, but sim.out writes it as float64 in nm: the units differ"
    (said,) = compare({"x": PortVariable(unit="nm")}, None, {"x": Variable(unit="m")})[1]
    assert said.startswith("the contract of stream s needs `x` as any type in m") and said.endswith("the units differ")


def test_the_spelling_of_a_unit_is_that_of_the_stream() -> None:
    contract, said = compare({"x": PortVariable(unit="angstrom")}, None, {"x": Variable(unit="Å")})
    assert (said, contract.units) == ([], {"x": "Å"})


@pytest.mark.parametrize(("written", "own"), [("nm", ""), ("", "nm")])
def test_a_reader_is_compared_with_the_unit_that_the_writer_or_the_stream_declares(written: str, own: str) -> None:
    (said,) = compare({"x": PortVariable(unit=written)}, {"x": PortVariable(unit="Å")}, {"x": Variable(unit=own)})[1]
    assert said == "ana.in needs `x` as any type in Å, but sim.out writes it as any type in nm: the units differ"
