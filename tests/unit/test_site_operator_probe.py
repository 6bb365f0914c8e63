"""Which operators and engines an ADIOS2 was built with, read off its library, against what its own tool says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from workflow.api.plans import make_plan
from workflow.engines import ENGINES
from workflow.errors import SpecError
from workflow.operators import built_into
from workflow.site.adios2_library import core_library, lacks_engine, operators_of
from workflow.site.load_site import load_site
from workflow.spec.load import load_pipeline
from workflow.stage.adios import probe
from workflow.stage.adios.probe import _engine_works

HDF5 = ENGINES["HDF5"]
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
    assert operators_of(loaded.spec, tmp_path) == {"s": names}


def test_what_the_library_says_of_an_engine_is_what_happens(tmp_path: Path) -> None:
    library = core_library()
    assert library is not None
    assert lacks_engine(library, HDF5.name) != _engine_works(HDF5)
    assert not lacks_engine(library, "BP5") and _engine_works(ENGINES["BP5"])
    assert not lacks_engine(tmp_path / "none.so", HDF5.name)


def test_the_questions_to_adios2_are_asked_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`wf doctor` took twice as long: each question takes the time of an import. All at once may take too long."""
    asked, now, most, second = list[object](), set[object](), list[int](), threading.Event()

    def works(each: object) -> bool:
        asked.append(each)
        now.add(each)
        most.append(len(now))
        if len(asked) > 1:
            second.set()
        found = second.wait(10)
        time.sleep(0.05)  # the others that may begin do so
        now.remove(each)
        return found

    for name in ("_plane_works", "_engine_works", "_operator_works"):
        monkeypatch.setattr(probe, name, works)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)  # of which the default is made
    probe.main()
    assert max(most) <= probe.AT_A_TIME
    answers = json.loads(capsys.readouterr().out)
    assert answers["planes"] == ["tcp", "rdma", "ucx"] and answers["engines"] == ["HDF5"]
    assert len(asked) == len(answers["planes"] + answers["engines"] + answers["operators"])


def built_for(folder: Path, program: str, config: str) -> dict[str, list[str]]:
    (folder / "pipeline.yaml").write_text(
        f"wf: 1\nname: a\nstages:\n  s: {{command: ['{program}'], writes: {{f: {config}}}, "
        'output: {compression: {"*": {blosc: {}}}}}\n  k: {component: "null"}\nstreams:\n  f: {from: s, to: k}\n'
    )
    loaded = load_pipeline(folder / "pipeline.yaml")
    return operators_of(loaded.spec, folder)


@pytest.mark.parametrize("program", [sys.executable, "${{ wf.python }}"])
def test_a_script_of_this_python_has_its_adios2(program: str, tmp_path: Path) -> None:
    library = core_library()
    assert library is not None
    assert built_for(tmp_path, program, "{io: f, config: a.xml}") == {"s": built_into(library)}
    # openPMD-api's wheel has an ADIOS2 of its own
    assert built_for(tmp_path, program, "{config: a.json}") == {}


def test_other_scripts_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert built_for(tmp_path, "./script", "{io: f, config: a.xml}") == {}


def test_another_site_is_not_judged_by_the_adios2_of_this_machine(tmp_path: Path) -> None:
    """Its own file says which operators there are; without that nobody knows."""
    (tmp_path / "p.yaml").write_text(
        "wf: 1\nname: p\nstages:\n  sim: {component: gray_scott, output: {compression: {U: {bzip2: {}}}}}\n"
        '  sink: {component: "null"}\nstreams:\n  field: {from: sim, to: sink, via: bp5}\n'
    )
    file = "site: s\nsummary: s\nnodes: 1\ncores_per_node: 4\nmemory_per_node: 8 GiB\n"
    loaded = load_pipeline(tmp_path / "p.yaml")
    (tmp_path / "here.yaml").write_text(file)
    with pytest.raises(SpecError, match="the ADIOS2 of stage sim is built without bzip2"):
        make_plan(loaded, load_site("./here.yaml", tmp_path))
    (tmp_path / "there.yaml").write_text(file + "detect: [{host: no-such-host-*}]\n")
    plan = make_plan(loaded, load_site("./there.yaml", tmp_path))
    assert any("not known which operators" in line and "`operators:` of site s" in line for line in plan.advice)
    (tmp_path / "there.yaml").write_text(file + "detect: [{host: no-such-host-*}]\noperators: [bzip2]\n")
    assert not make_plan(loaded, load_site("./there.yaml", tmp_path)).advice
    (tmp_path / "there.yaml").write_text(file + "detect: [{host: no-such-host-*}]\noperators: [blosc]\n")
    with pytest.raises(SpecError, match="the ADIOS2 of stage sim is built without bzip2: it has blosc"):
        make_plan(loaded, load_site("./there.yaml", tmp_path))
