"""Our lists of engine parameters against the real ADIOS2: what it refuses, prints and defaults to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workflow.spec.engine_presets import known_engines, load_engine
from workflow.spec.models.engine import EngineParameter

# In a process of its own: engines print from C, and an engine that throws in open is not fit for another one.
PROGRAM = """
import json, sys
from adios2 import bindings
adios = bindings.ADIOS()
for number, (engine, parameters) in enumerate(json.loads(sys.argv[1])):
    io = adios.DeclareIO(f"io{number}")
    io.SetEngine(engine)
    io.SetParameters(parameters)
    try:
        io.Open(f"stream{number}", bindings.Mode.Write).Close()
        print("OPENED", number, flush=True)
    except Exception as error:
        print("REFUSED", number, flush=True)
"""
NO_WAIT = {"RendezvousReaderCount": "0"}
# A value that the parameter's type cannot have; texts can have any.
NONSENSE = {"int": "many", "float": "many", "size": "many", "bool": "7", "choice": "nonsense"}
# ADIOS2 takes these as text and looks at them later, if at all.
READ_AS_TEXT = {"DataTransport", "WANDataTransport", "ControlTransport", "ControlModule", "IsRowMajor"}


def open_writers(cases: list[tuple[str, dict[str, str]]], folder: Path) -> tuple[list[bool], str]:
    """Opens one writer per (engine, parameters); whether each opened, and all that was printed."""
    pytest.importorskip("adios2")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(cases)],
        cwd=folder, env={**os.environ, "SstVerbose": "2"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    said = re.findall(r"^(OPENED|REFUSED) (\d+)$", done.stdout, re.M)
    opened = {int(number): word == "OPENED" for word, number in said}
    assert len(opened) == len(cases), done.stderr
    return [opened[number] for number in range(len(cases))], done.stdout + done.stderr


def as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_bp5_has_exactly_these_parameters_and_defaults(tmp_path: Path) -> None:
    _, printed = open_writers([("BP5", {"verbose": "1"})], tmp_path)
    real = dict(re.findall(r"^  (\w+) = .*  default = (.*)$", printed, re.M))
    ours = load_engine("bp5").parameters
    assert set(ours) == set(real)
    # enumerations are printed as numbers
    codes = {"true": "1", "false": "0", "TwoLevelShm": "2", "Sync": "0", "chunk": "1"}
    for name, parameter in ours.items():
        text = as_text("" if parameter.default is None else parameter.default)
        assert codes.get(text, text) == real[name], name


@pytest.mark.parametrize("via", ["sst", "bp4"])
def test_the_engine_reads_every_parameter_under_this_very_name(via: str, tmp_path: Path) -> None:
    engine = load_engine(via)
    extra = NO_WAIT if via == "sst" else {}
    names = [
        name for name, each in engine.parameters.items()
        if each.type in NONSENSE and name not in READ_AS_TEXT and name != "Verbose"
    ]  # fmt: skip
    cases = [(engine.engine, {**extra, name: NONSENSE[engine.parameters[name].type]}) for name in names]
    opened, printed = open_writers(cases, tmp_path)
    assert [name for name, did in zip(names, opened, strict=True) if did] == [], f"ignored by the engine: {printed}"


def test_sst_ignores_names_in_another_case(tmp_path: Path) -> None:
    # Why the list must be exact: if this ever fails, ADIOS2 has become kinder.
    opened, _ = open_writers([("SST", {**NO_WAIT, "queuelimit": "many"})], tmp_path)
    assert opened == [True]


@pytest.mark.parametrize("via", ["sst", "bp4", "bp5"])
def test_every_choice_is_one(via: str, tmp_path: Path) -> None:
    engine = load_engine(via)
    extra = NO_WAIT if via == "sst" else {}
    cases = [
        (engine.engine, {**extra, name: choice})
        for name, parameter in engine.parameters.items()
        if parameter.type == "choice" and not parameter.useless
        for choice in parameter.choices or []
        if choice != "FFS"  # a writer without a step crashes in close (ADIOS2 2.12.1); the other tests need none
    ]
    opened, printed = open_writers(cases, tmp_path)
    assert [case for case, did in zip(cases, opened, strict=True) if not did] == [], printed


def test_sst_writes_its_defaults_as_we_list_them(tmp_path: Path) -> None:
    _, printed = open_writers([("SST", dict(NO_WAIT))], tmp_path)
    real = dict(re.findall(r"^Param -   (\w+)=(\S*)", printed, re.M))
    parameters = load_engine("sst").parameters
    assert set(real) <= set(parameters)
    for name in set(real) - {"RendezvousReaderCount", "DataTransport", "StepDistributionMode", "IsRowMajor"}:
        if parameters[name].default is None:
            assert real[name].startswith("(default"), name
            continue
        assert as_text(parameters[name].default).lower() == real[name].lower(), name


@pytest.mark.parametrize("via", known_engines())
def test_presets_make_sense(via: str) -> None:
    engine = load_engine(via)
    assert engine.summary and engine.couplings
    for name, parameter in engine.parameters.items():
        assert parameter.help, name
        assert (parameter.type == "choice") == bool(parameter.choices), name
        assert not (parameter.managed and parameter.useless), name
        assert_default(name, parameter)


def assert_default(name: str, parameter: EngineParameter) -> None:
    kinds: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "size": int, "string": str, "choice": str}
    default = parameter.default
    if default is None:
        return
    assert isinstance(default, kinds[parameter.type]), name
    if parameter.type == "choice" and default:
        assert default in (parameter.choices or []), name


def test_live_readers_are_offered_only_where_the_engine_can() -> None:
    couplings = {via: load_engine(via).couplings for via in known_engines()}
    assert couplings == {
        "bp4": ["after", "live"], "bp5": ["after", "live"], "file": ["after"], "hdf5": ["after"],
        "shm": ["live"], "sst": ["live"], "sst-rdma": ["live"], "sst-tcp": ["live"], "sst-ucx": ["live"],
    }  # fmt: skip
