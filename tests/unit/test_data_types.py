"""Every type of ADIOS2 and of NumPy is carried, converted with a word, or refused with the name of its variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from workflow import stage
from workflow.stage.data_kinds import ADIOS2_TYPES, ATTRIBUTE_TYPES, HDF5_TYPES, WRITTEN_TYPES
from workflow.stage.variables import NUMPY_TYPES

STRINGS = np.array(["one", "two"])
# NumPy's name → values of it.
VALUES: dict[str, Any] = {
    "bool": np.array([True, False]),
    "float16": np.array([0.5, -2.0], np.float16),
    "longdouble": np.array([0.1, 1e400], np.longdouble),
    "clongdouble": np.array([1 + 2j], np.clongdouble),
    "str, one": "text",
    "str, an array": STRINGS,
    "object": np.array([None, 1], object),
    "datetime64": np.array(["2026-01-01"], "datetime64[D]"),
}
CONVERTED = [rule for rule in WRITTEN_TYPES if rule.becomes not in ("", "string")]


def raw(path: Path, values: dict[str, Any], attributes: dict[str, Any] | None = None) -> None:
    """Written by ADIOS2 alone."""
    import adios2.bindings as adios2

    adios = adios2.ADIOS()
    out = adios.DeclareIO("out")
    out.SetEngine("BP5")
    file = out.Open(str(path), adios2.Mode.Write)
    file.BeginStep()
    for name, value in values.items():
        if isinstance(value, str):
            file.Put(out.DefineVariable(name), value)
        else:
            variable = out.DefineVariable(name, value, [*value.shape], [0] * value.ndim, [*value.shape])
            file.Put(variable, value, adios2.Mode.Sync)
    for name, value in (attributes or {}).items():
        out.DefineAttribute(name, value)
    file.EndStep()
    file.Close()


def raw_types(path: Path) -> dict[str, str]:
    import adios2.bindings as adios2

    adios = adios2.ADIOS()
    data = adios.DeclareIO("in")
    data.SetEngine("BP5")
    file = data.Open(str(path), adios2.Mode.Read)
    file.BeginStep()
    found = {name: facts["Type"] for name, facts in data.AvailableVariables().items()}
    file.EndStep()
    file.Close()
    return found


def copy(source: Path, target: Path) -> None:
    with stage.open_reader(path=source) as data, stage.open_writer(path=target) as out:
        for step in data:
            step.copy_attributes_to(out)
            with out.step():
                stage.StepCopy.of(step).write_to(out)


def test_the_types_are_those_that_adios2_has() -> None:
    rules = {rule.name: rule.becomes for rule in ADIOS2_TYPES}
    assert {name: kind for name, kind in rules.items() if kind} == NUMPY_TYPES
    assert [name for name, kind in rules.items() if not kind] == ["long double"]


def test_every_type_that_pythons_adios2_writes_is_carried(tmp_path: Path) -> None:
    kinds = [rule.becomes for rule in ADIOS2_TYPES if rule.becomes not in ("", "string")]
    values: dict[str, Any] = {f"of_{kind}": np.arange(3).astype(kind) for kind in kinds}
    values |= {f"one_{kind}": np.array(7).astype(kind) for kind in kinds} | {"text": "µ"}
    raw(tmp_path / "a.bp", values)
    copy(tmp_path / "a.bp", tmp_path / "b.bp")
    assert raw_types(tmp_path / "b.bp") == raw_types(tmp_path / "a.bp")
    with stage.open_reader(path=tmp_path / "b.bp") as data:
        (found,) = [{name: step.read(name) for name in step.names()} for step in data]
    assert found.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("rule", CONVERTED, ids=lambda rule: rule.name)
def test_a_type_that_adios2_lacks_is_converted_and_a_note_says_so(
    rule: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = VALUES[rule.name]
    with stage.open_writer(path=tmp_path / "a.bp") as out:
        for _ in range(2):
            with out.step():
                out.write("V", value)
    with stage.open_reader(path=tmp_path / "a.bp") as data:
        for step in data:
            assert step.info("V").type == rule.becomes
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(step.read("V"), value.astype(rule.becomes))
    told = capsys.readouterr().err
    assert told.count("note: V is ") == (rule.name != "bool")
    assert "note" not in rule.why or f"it becomes {rule.becomes}" in told


@pytest.mark.parametrize("rule", [rule for rule in WRITTEN_TYPES if not rule.becomes], ids=lambda rule: rule.name)
def test_other_types_are_refused_by_name(rule: Any, tmp_path: Path) -> None:
    out = stage.open_writer(path=tmp_path / "a.bp")
    with pytest.raises(TypeError, match="V: "), out.step():
        out.write("V", VALUES[rule.name])
    out.close("refused")


def test_a_copy_of_what_cannot_be_written_names_variable_and_step(tmp_path: Path) -> None:
    info = stage.Info("object", (2,))
    copied = stage.StepCopy({"V": [stage.Piece(STRINGS, (0,))]}, {"V": info})
    out = stage.open_writer(path=tmp_path / "a.bp")
    with pytest.raises(stage.ContractError, match=r"stream a\.bp: step 0: V: arrays of strings"), out.step():
        copied.write_to(out)
    out.close("refused")


ATTRIBUTES: dict[str, Any] = {
    "one": np.array(1.5),
    "several": np.arange(3, dtype=np.int16),
    "text": "µ",
    "texts": ["a", "", "b"],
    "complex": np.array(1 - 2j),
    "complexes": np.array([1j, 2.0], np.complex64),
    "none": np.empty(0, np.complex128),
}


@pytest.mark.parametrize("suffix", [".bp", ".h5"])
def test_attributes_are_carried(suffix: str, tmp_path: Path) -> None:
    assert all(rule.becomes for rule in ATTRIBUTE_TYPES)
    given = {name: value for name, value in ATTRIBUTES.items() if name != "none"}
    with stage.open_writer(path=tmp_path / f"a{suffix}") as out:
        for name, value in given.items():
            out.attribute(name, value)
        with out.step():
            out.write("V", 1.0)
    with stage.open_reader(path=tmp_path / f"a{suffix}") as data:
        (found,) = [step.attributes() for step in data]
    for name, value in given.items():
        np.testing.assert_array_equal(found[name], value)


def test_attributes_that_sst_cannot_transfer_are_told_apart_from_text() -> None:
    from workflow.stage.shared_memory.attribute_values import from_json, to_json
    from workflow.stage.variables import complex_to_pairs, pairs_to_complex

    for name in ("complex", "complexes", "none"):
        value = ATTRIBUTES[name]
        for back in (pairs_to_complex(complex_to_pairs(value)), from_json(to_json(value))):
            assert isinstance(back, np.ndarray)
            assert (back.dtype, back.shape) == (value.dtype, value.shape)
            np.testing.assert_array_equal(back, value)


def test_a_long_double_attribute_becomes_a_double(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage.open_writer(path=tmp_path / "a.bp") as out:
        out.attribute("position", np.array([0.5, 0.0], np.longdouble))
        with out.step():
            out.write("V", 1.0)
    del capsys
    with stage.open_reader(path=tmp_path / "a.bp") as data:
        (found,) = [step.attributes()["position"] for step in data]
    assert found.dtype == np.float64 and found.tolist() == [0.5, 0.0]


# What a dataset is → what a copy by ADIOS2 has: its type, or None where the copy is refused.
HDF5_DATASETS: dict[str, tuple[Any, str | None]] = {
    "integers of 1 to 8 bytes, floats of 4 and 8, of either byte order": (np.array([1, 2], ">i4"), "int32"),
    "complex numbers": (np.array([1 + 2j]), "complex128"),
    "float16": (np.array([0.5, -2.0], np.float16), "float32"),
    "long double": (np.array([0.25, 3.0], np.longdouble), "float64"),
    "truth values": (np.array([True, False]), "uint8"),
    "an enumeration": (np.array([0, 1], h5py.enum_dtype({"RED": 0, "BLUE": 1}, "i2")), "int16"),
    "text, one": ("µ", "string"),
    "text, an array": (["a", "b"], "attribute"),
    "without a dataspace": (h5py.Empty("f8"), ""),
    "compound, opaque, reference, variable length": (np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), None),
}


@pytest.mark.parametrize("rule", HDF5_TYPES, ids=lambda rule: rule.name)
def test_every_type_of_hdf5_is_carried_converted_or_refused(
    rule: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value, becomes = HDF5_DATASETS[rule.name]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["V"], file["T"] = value, 1.5
    if becomes is None:
        with pytest.raises(stage.ContractError, match=r"stream b\.bp: step 0: V is of HDF5's type compound"):
            copy(tmp_path / "a.h5", tmp_path / "b.bp")
        return
    copy(tmp_path / "a.h5", tmp_path / "b.bp")
    with stage.open_reader(path=tmp_path / "b.bp") as data:
        for step in data:
            assert step.read("T") == 1.5
            if becomes == "attribute":
                assert step.attributes()["V"] == value
            elif becomes:
                assert step.info("V").type == becomes
                np.testing.assert_array_equal(step.read("V"), value if becomes == "string" else value.astype(becomes))
            else:
                assert step.names() == ["T"]
    assert capsys.readouterr().err.count("note: V is ") == ("a note says so" in rule.why)


@pytest.mark.parametrize("kind", ["opaque", "reference", "variable length"])
def test_other_types_of_hdf5_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if kind == "opaque":
            file["V"] = np.void(b"ab")
        elif kind == "reference":
            file.create_dataset("V", data=file.ref, dtype=h5py.ref_dtype)
        else:
            file.create_dataset("V", (1,), h5py.vlen_dtype("i4"))[0] = np.array([1], "i4")
    with pytest.raises(stage.ContractError, match=f"V is of HDF5's type {kind}"):
        copy(tmp_path / "a.h5", tmp_path / "b.bp")


def test_attributes_of_hdf5_are_lists_and_texts(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["V"] = 1.0
        given = {
            "matrix": [[1.0, 2.0], [3.0, 4.0]], "where": file["V"].ref, "opaque": np.void(b"\1\2"),
            "long": np.longdouble(0.25), "pair": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), "none": [],
        }  # fmt: skip
        for name, value in given.items():
            file.attrs[name] = value
    copy(tmp_path / "a.h5", tmp_path / "b.bp")
    with stage.open_reader(path=tmp_path / "b.bp") as data:
        (found,) = [step.attributes() for step in data]
    assert found["matrix"].tolist() == [1.0, 2.0, 3.0, 4.0] and found["long"] == 0.25
    assert [found[name] for name in ("where", "opaque", "pair")] == ["/V", "0102", ['{"a": 1, "b": 2.0}']]
