"""Small pipelines whose writer aggregates, compresses or writes asynchronously, and what they leave on disk."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

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
