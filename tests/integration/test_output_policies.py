"""Aggregation, compression and asynchronous writing, proved from what lies on disk and from what arrived."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workflow.operators import built_into
from workflow.plan.make import make_plan
from workflow.run.rundir import fill_plan
from workflow.spec.load import load_pipeline
from workflow.spec.machine import core_library
from workflow.spec.presets import load_site

MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")
ROOT = Path(__file__).parents[2]
SIDE = 24  # of the cube of density
PROGRAMS = {
    # Writes every stream that stage.json has, one step each.
    "all.py": """
import numpy as np
from workflow import stage
from workflow.stage.settings import current
for end in current().ends:
    with stage.open_writer(end.stream) as out, out.step():
        n = 5000  # more than a page each, or DataSizeBased may leave a file empty
        out.write("x", np.full(n, stage.rank(), float), shape=(n * stage.size(),), start=(n * stage.rank(),))
""",
    "truth.py": """
import numpy as np
def density(first, count, side, step):
    i, j, k = np.meshgrid(np.arange(first, first + count), np.arange(side), np.arange(side), indexing="ij")
    return 1000 * np.sin(0.1 * i + step) * np.cos(0.07 * j) + 0.01 * k
""",
    "write.py": """
import sys
import numpy as np
from workflow import stage
sys.path.insert(0, sys.argv[1])
from truth import density
side, empty = int(sys.argv[2]), sys.argv[3:] == ["empty"]
first, count = stage.block(side)
with stage.open_writer("field") as out:
    for step in range(3):
        with out.step():
            size = 0 if empty and step == 1 else side
            values = density(first, count if size else 0, side, step)
            out.write("density", values, shape=(size, side, side), start=(first if size else 0, 0, 0))
            out.write("id", np.arange(first, first + count), shape=(side,), start=(first,))
            out.write("time", float(step))
""",
    "read.py": """
import json, sys
import numpy as np
from workflow import stage
sys.path.insert(0, sys.argv[1])
from truth import density
side, worst = int(sys.argv[2]), 0.0
# Another cut than the writers'.
first, count = stage.block(side)
with stage.open_reader("field") as field:
    for step in field:
        assert step.names() == ["density", "id", "time"], step.names()
        got = step.read("density", start=(first, 0, 0), count=(count, side, side))
        worst = max(worst, float(np.abs(got - density(first, count, side, step.index)).max()))
        assert step.read("id").tolist() == list(range(side)) and step.read("time") == step.index
with open(f"error-{stage.rank()}.json", "w") as file:
    json.dump({"worst": worst, "steps": field.steps}, file)
""",
    "glance.py": """
from workflow import stage
with stage.open_reader("field") as field:
    for step in field:
        step.read("id")
""",
    # Neither does this one: its options come from a file of openPMD-api's own kind.
    "openpmd.py": """
import sys
import numpy as np
import openpmd_api as io
series = io.Series(sys.argv[1], io.Access.create, "@openpmd.json")
mesh = series.snapshots()[0].meshes["E"]["x"]
values = np.sin(np.arange(100000) / 1000)
mesh.reset_dataset(io.Dataset(values.dtype, values.shape))
mesh[:] = values
series.snapshots()[0].close()
series.close()
""",
    # Knows nothing of wf: engine and operators come from its config file.
    "plain.py": """
import sys
import numpy as np
import adios2.bindings as adios2
adios = adios2.ADIOS("adios2.xml")
io = adios.DeclareIO("out")
values = np.sin(np.arange(100000) / 1000)
variable = io.DefineVariable("wave", values, [values.size], [0], [values.size])
engine = io.Open(sys.argv[1], adios2.Mode.Write)
engine.BeginStep()
engine.Put(variable, values, adios2.Mode.Sync)
engine.EndStep()
engine.Close()
""",
}
CHAIN = """
wf: 1
name: packed
oversubscribe: true
stages:
  make:
    command: [{python}, {programs}/write.py, {programs}, {side}{more}]
    ranks: {writers}
    writes: {{field: {{}}}}
    output: {output}
  look:
    command: [{python}, {programs}/read.py, {programs}, {side}]
    ranks: {readers}
    reads: {{field: {{}}}}
streams:
  field: {{from: make, to: look, {wiring}}}
"""
DENSITY = "density: {zfp: {accuracy: 1e-3}}"
PACKED = f'{{compression: {{{DENSITY}, "*": {{blosc: {{codec: lz4}}}}}}}}'


@pytest.fixture(scope="module")
def mpi_python() -> str:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    return MPI_PYTHON


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text)
    return folder


def environment() -> dict[str, str]:
    """Without what would win over the rpath of the other Python's ADIOS2."""
    return {**{key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}, "PYTHONPATH": str(ROOT)}


def wf(folder: Path, python: str, text: str, verb: str = "run") -> subprocess.CompletedProcess[str]:
    (folder / "pipeline.yaml").write_text(text)
    argv = [python, "-m", "workflow.cli", verb, str(folder / "pipeline.yaml")]
    argv += ["--run-dir", str(folder / "run"), "-q"] if verb == "run" else []
    return subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=120)


def chain(
    programs: Path, python: str, wiring: str, output: str, writers: int = 2, readers: int = 2, more: str = ""
) -> str:
    return CHAIN.format(
        programs=programs, python=python, wiring=wiring, output=output, writers=writers, readers=readers, side=SIDE,
        more=more,
    )  # fmt: skip


def report_of(folder: Path) -> Any:
    return json.loads((folder / "run/report.json").read_text())


def accuracy(folder: Path) -> dict[str, Any]:
    (stream,) = report_of(folder)["streams"]
    return {each["variable"]: each for each in stream["readers"][0]["accuracy"]}


def real_error(folder: Path) -> float:
    """What the reader's own comparison of every value with the formula found."""
    found = [json.loads(path.read_text()) for path in (folder / "run/stages/look/work").glob("error-*.json")]
    assert found
    assert all(each["steps"] == 3 for each in found)
    return max(float(each["worst"]) for each in found)


def operators_in(file: Path, variable: str) -> str:
    """What ADIOS2's own tool says that a variable was written with."""
    bpls = Path(MPI_PYTHON).with_name("bpls")
    said = subprocess.run(
        [bpls, "--list_operators", file, variable], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stderr
    return said.stdout


def bytes_of(file: Path) -> int:
    return sum(path.stat().st_size for path in file.glob("data.*"))


# Aggregation

STRATEGIES = ("EveryoneWrites", "EveryoneWritesSerial", "DataSizeBased")
POLICIES = [
    "", "auto", "{per_node: 2}", "{per_node: 8}", "{count: 3}", "{count: 5}", "{ratio: 1}", "{ratio: 2}", "{ratio: 3}",
    "{subfiles: 2}", "{subfiles: 5}", "{count: 4, subfiles: 3}", "{per_gpu: 1}",
    "{count: 2, strategy: TwoLevelShm}",
    *(
        f"{{{count}strategy: {strategy}}}"
        for strategy in STRATEGIES
        for count in ("", "count: 3, ", "ratio: 2, ")
    ),
]  # fmt: skip
OF_BP4 = ["", "{per_node: 2}", "{count: 3}", "{ratio: 3}"]
NEEDED = re.compile(r"(per_node|count|ratio): (\d)")


def possible(policy: str, ranks: int) -> bool:
    """Whether so many ranks can do it: others are refused, see tests/specs/bad."""
    least = max([int(number) for _, number in NEEDED.findall(policy)], default=1)
    return ranks >= (2 if "per_gpu" in policy else least)


@pytest.mark.parametrize("ranks", range(1, 9))
def test_the_data_files_on_disk_are_the_plans(ranks: int, mpi_python: str, programs: Path, tmp_path: Path) -> None:
    """Every policy and engine in one start of so many ranks."""
    known = [*(("bp5", policy) for policy in POLICIES), *(("bp4", policy) for policy in OF_BP4)]
    # which looks at NumSubFiles only, and is told none here
    known.append(("bp5, parameters: {AggregationType: DataSizeBased}", "{count: 3}"))
    cases = [(via, policy) for via, policy in known if possible(policy, ranks)]
    stages, streams = "", ""
    for index, (via, policy) in enumerate(cases):
        output = f", output: {{aggregation: {policy}}}" if policy else ""
        stages += f"  w{index}: {{command: [x], ranks: {ranks}, writes: {{out: {{}}}}{output}}}\n"
        streams += f"  s{index}: {{from: w{index}, to: end.i{index}, via: {via}}}\n"
    ports = ", ".join(f"i{index}: {{}}" for index in range(len(cases)))
    text = f"wf: 1\nname: many\noversubscribe: true\nstages:\n{stages}  end: {{command: [x], reads: {{{ports}}}}}\n"
    (tmp_path / "pipeline.yaml").write_text(f"{text}streams:\n{streams}")
    site = load_site("local").model_copy(update={"parallel_adios2": True, "gpus_per_node": 2})
    plan = make_plan(load_pipeline(tmp_path / "pipeline.yaml"), site, python=mpi_python, wf_version="0")
    ends = [stage.ends[0].model_dump() for stage in fill_plan(plan, tmp_path).stages[:-1]]
    settings = {"stage": "all", "ranks": ranks, "parameters": {}, "metrics": None, "ends": ends}
    (tmp_path / "stage.json").write_text(json.dumps(settings))
    (tmp_path / "streams").mkdir()
    done = subprocess.run(
        [Path(mpi_python).with_name("mpiexec"), "-n", str(ranks), mpi_python, programs / "all.py"],
        env={**environment(), "WF_STAGE": str(tmp_path / "stage.json")}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {case: len(list((tmp_path / f"streams/s{i}.bp").glob("data.*"))) for i, case in enumerate(cases)}
    assert found == {case: plan.stream(f"s{i}").subfiles for i, case in enumerate(cases)}
    assert found["bp5", ""] == 1
    assert all(found["bp5", f"{{count: 3, strategy: {each}}}"] == 3 for each in STRATEGIES if ranks >= 3)
    assert max(found.values()) == ranks  # there is one that lets all of them write


# Asynchronous writing


@pytest.mark.parametrize("word", ["off", "guided", "naive"])
def test_asynchronous_writing_is_in_the_profile(word: str, mpi_python: str, programs: Path, tmp_path: Path) -> None:
    wiring = "via: bp5, coupling: live"
    output = f"{{async: {word}, aggregation: {{count: 2}}}}"
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, wiring, output, readers=1))
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "run/streams/field.bp").glob("data.*"))) == 2
    profile = json.loads((tmp_path / "run/streams/field.bp/profiling.json").read_text())
    waited = ["BS_WaitOnAsync" in rank for rank in profile]
    assert waited == [word != "off"] * 2
    advice = json.loads((tmp_path / "run/plan.json").read_text())["advice"]
    assert any("loses its last step" in line for line in advice) == (word != "off")
    assert real_error(tmp_path) == 0.0


# Compression


@pytest.mark.parametrize("wiring", ["via: sst", "via: bp5", "via: bp5, coupling: live"])
def test_errors_are_measured_and_within_the_bound(wiring: str, mpi_python: str, programs: Path, tmp_path: Path) -> None:
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, wiring, PACKED, readers=3))
    assert done.returncode == 0, done.stderr
    found = accuracy(tmp_path)
    assert sorted(found) == ["density", "id"]
    density, ids = found["density"], found["id"]
    # something was lost, no more than allowed, and the samples show no more than there is
    assert 0 < density["largest"] <= real_error(tmp_path) <= density["bound"] == 1e-3
    assert (density["operator"], density["steps"], density["compared"]) == ("zfp", 3, 3 * 1024)
    # every reader read all of it, and every value is a sample
    assert (ids["operator"], ids["largest"], ids["bound"], ids["compared"]) == ("blosc", 0.0, 0.0, 3 * 3 * SIDE)
    said = subprocess.run(
        [mpi_python, "-m", "workflow.cli", "report", str(tmp_path / "run")],
        env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert re.search(r"field → look: density: zfp, largest error \S+ ≤ 0.001", said.stdout), said.stdout
    if "sst" not in wiring:
        file = tmp_path / "run/streams/field.bp"
        assert "zfp" in operators_in(file, "density")
        assert "blosc" in operators_in(file, "id")
        assert bytes_of(file) < 0.6 * 3 * 8 * SIDE**3  # and not as large as what it holds
        stored = report_of(tmp_path)["streams"][0]["stored"]
        assert stored == sum(each.stat().st_size for each in file.glob("data.*"))
        assert re.search(r"field: stored \S+ kB of \S+ kB \(\d+ %\)", said.stdout), said.stdout


def test_what_nobody_read_is_not_called_checked(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    text = chain(programs, mpi_python, "via: bp5", PACKED, readers=1).replace("read.py", "glance.py")
    done = wf(tmp_path, mpi_python, text)
    assert done.returncode == 0, done.stderr
    (stream,) = report_of(tmp_path)["streams"]
    assert (stream["unread"], [each["variable"] for each in stream["readers"][0]["accuracy"]]) == (["density"], ["id"])


@pytest.mark.parametrize(
    ("via", "compressor"),
    [("bp4", "blosc: {codec: zstd, level: 7, shuffle: shuffle, threads: 2}"), ("bp5", "bzip2: {level: 3}")],
)
def test_lossless_keeps_every_bit(via: str, compressor: str, mpi_python: str, programs: Path, tmp_path: Path) -> None:
    output = f"{{compression: {{density: {{{compressor}}}}}}}"
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, f"via: {via}", output, readers=1))
    assert done.returncode == 0, done.stderr
    assert real_error(tmp_path) == 0.0
    assert accuracy(tmp_path)["density"]["largest"] == 0.0
    if via == "bp5":  # bpls (2.12.1) lists no operators of BP4
        assert "bzip2" in operators_in(tmp_path / "run/streams/field.bp", "density")
    assert bytes_of(tmp_path / "run/streams/field.bp") < 0.95 * 3 * 8 * SIDE**3


def test_a_broken_bound_fails_the_run(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    output = "{compression: {density: {zfp: {accuracy: 0.1}, bound: 1e-6}}}"
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, "via: sst", output))
    assert done.returncode == 1, done.stdout
    report = report_of(tmp_path)
    assert report["run"]["stage"] == "look"
    assert re.search(
        r"density arrived with an error of 0\.0\d+, zfp was to keep it within 1e-06; raise `bound`", done.stderr
    )
    density = accuracy(tmp_path)["density"]
    assert density["largest"] > density["bound"] == 1e-6


def test_an_array_of_nothing_is_an_error_and_no_crash(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    """ADIOS2 2.12.1 dies of it (SIGBUS)."""
    output = f"{{compression: {{{DENSITY}}}}}"
    text = chain(programs, mpi_python, "via: bp5", output, writers=1, readers=1, more=", empty")
    done = wf(tmp_path, mpi_python, text)
    assert done.returncode == 1
    assert "density has no elements in this step, and zfp cannot take that" in done.stderr
    assert report_of(tmp_path)["stages"][0]["exit_code"] == 1


def test_a_variable_that_the_operator_cannot_do(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    """Not known before the first step, since the program declares nothing."""
    output = "{compression: {id: {zfp: {accuracy: 1}}}}"
    done = wf(tmp_path, mpi_python, chain(programs, mpi_python, "via: bp5", output, writers=1, readers=1))
    assert done.returncode == 1
    assert "zfp cannot compress id: it is of type int64" in done.stderr


def test_a_program_of_ones_own_is_told_and_not_checked(mpi_python: str, programs: Path, tmp_path: Path) -> None:
    text = f"""
wf: 1
name: plain
stages:
  make:
    command: [{mpi_python}, {programs}/plain.py, "${{{{ streams.wave.path }}}}"]
    writes: {{wave: {{io: out, config: adios2.xml, variables: {{wave: {{type: float64, shape: [N]}}}}}}}}
    output: {{compression: {{"*": {{zfp: {{accuracy: 1e-4}}}}}}}}
  drop: {{component: "null"}}
streams:
  wave: {{from: make, to: drop, via: bp5}}
"""
    done = wf(tmp_path, mpi_python, text)
    assert done.returncode == 0, done.stderr
    assert "zfp" in operators_in(tmp_path / "run/streams/wave.bp", "wave")
    assert bytes_of(tmp_path / "run/streams/wave.bp") < 0.5 * 800_000
    (note,) = [each for each in report_of(tmp_path)["notes"] if "compression" in each]
    assert note == "what compression did to wave was not checked for drop: make does not use workflow.stage"


def test_an_openpmd_program_is_told(programs: Path, tmp_path: Path) -> None:
    """The wheel of openPMD-api has an ADIOS2 of its own, with zfp."""
    text = f"""
wf: 1
name: openpmd
stages:
  make:
    command: [{sys.executable}, {programs}/openpmd.py, "${{{{ streams.wave.path }}}}"]
    writes: {{wave: {{config: openpmd.json}}}}
    output: {{compression: {{"*": {{zfp: {{accuracy: 1e-4}}}}}}}}
  drop: {{component: "null", with: {{read_data: false}}}}
streams:
  wave: {{from: make, to: drop, via: bp5}}
"""
    done = wf(tmp_path, sys.executable, text)
    assert done.returncode == 0, done.stderr
    assert bytes_of(tmp_path / "run/streams/wave.bp") < 0.5 * 800_000
    assert any(
        "not known which operators" in line for line in json.loads((tmp_path / "run/plan.json").read_text())["advice"]
    )


# An ADIOS2 that lacks the operator

serial = pytest.mark.skipif(
    "zfp" in (((lib := core_library()) and built_into(lib)) or []), reason="this Python's adios2 has zfp"
)


@serial
def test_the_plan_refuses_what_is_not_built(programs: Path, tmp_path: Path) -> None:
    done = wf(tmp_path, sys.executable, chain(programs, sys.executable, "via: bp5", PACKED), "check")
    assert done.returncode == 2
    assert "the ADIOS2 of stage make is built without zfp: it has none" in done.stderr


@serial
def test_the_stage_refuses_what_is_not_built(programs: Path, tmp_path: Path) -> None:
    """A site's file may be wrong about it; ADIOS2 itself would abort."""
    (tmp_path / "sites").mkdir()
    liar = "site: liar\nsummary: says that it can more\noperators: [zfp, blosc]\n"
    (tmp_path / "sites/liar.yaml").write_text(liar)
    text = chain(programs, sys.executable, "via: bp5", PACKED, writers=1, readers=1).replace(
        "wf: 1", "wf: 1\nsite: liar"
    )
    (tmp_path / "pipeline.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", "run", tmp_path / "pipeline.yaml", "--run-dir", tmp_path / "run", "-q"],
        env={**environment(), "WF_CONFIGS": str(tmp_path)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "this ADIOS2 is built without zfp: it has none; `make adios2-mpi`" in done.stderr
    stage = report_of(tmp_path)["stages"][0]
    assert (stage["exit_code"], stage["signal"]) == (1, None)


# The size of steps


def test_steps_larger_than_stated_are_noted(programs: Path, tmp_path: Path) -> None:
    wiring = "via: sst, step_size: 10 kB"
    done = wf(tmp_path, sys.executable, chain(programs, sys.executable, wiring, "{}", writers=1, readers=1))
    assert done.returncode == 0, done.stderr
    (note,) = [each for each in report_of(tmp_path)["notes"] if "step_size" in each]
    assert re.match(r"steps of field were 111 kB on average, and the queue up to 332 kB, the plan took them for", note)
