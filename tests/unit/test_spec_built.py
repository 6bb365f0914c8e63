"""Which operators an ADIOS2 was built with, read off its library, against what its own tool says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workflow.operators import built_into
from workflow.spec.built import operators_of
from workflow.spec.load import load_pipeline

MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")


def test_no_library_is_not_known(tmp_path: Path) -> None:
    assert built_into(tmp_path / "none.so") is None
    (tmp_path / "empty.so").touch()
    assert built_into(tmp_path / "empty.so") is None
    (tmp_path / "text.so").write_text("…N6adios24core8compress11CompressZFPE…")
    assert built_into(tmp_path / "text.so") == ["zfp"]


@pytest.mark.skipif(not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
def test_the_full_adios2_has_what_its_tool_says(tmp_path: Path) -> None:
    bpls = Path(MPI_PYTHON).with_name("bpls")
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    said = subprocess.run([bpls, "-vV"], env=env, capture_output=True, text=True, timeout=60).stdout
    match = re.search(r"Available operators = \d+:(.*)", said)
    assert match is not None
    names = sorted(word.lower() for word in re.findall(r"\w+", match[1]))
    assert built_into(bpls.parents[1] / "lib/libadios2_core.so") == names
    # and a program that links it is asked for its own, not for that of this Python
    (tmp_path / "pipeline.yaml").write_text(
        f"wf: 1\nname: a\nstages:\n  s: {{command: [{bpls}], writes: {{f: {{io: f, config: a.xml}}}}, "
        'output: {compression: {x: {blosc: {}}}}}\n  k: {component: "null"}\nstreams:\n  f: {from: s, to: k}\n'
    )
    loaded = load_pipeline(tmp_path / "pipeline.yaml")
    assert loaded.built == {"s": names}


def test_scripts_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        f"wf: 1\nname: a\nstages:\n  s: {{command: [{sys.executable}], writes: {{f: {{io: f, config: a.xml}}}}, "
        'output: {compression: {x: {blosc: {}}}}}\n  k: {component: "null"}\nstreams:\n  f: {from: s, to: k}\n'
    )
    loaded = load_pipeline(tmp_path / "pipeline.yaml")
    assert loaded.built == operators_of(loaded.spec, tmp_path) == {}
