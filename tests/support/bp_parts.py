"""A program of its own that writes a part of a stream as a BP5 file, or prints what a file holds, step by step.

python bp_parts.py write '[["part.bp", {"first": 0, "steps": 3}], …]'   (below mpiexec: one writer per rank)
python bp_parts.py read '[["part.bp", "stream", {"SelectSteps": "1:3"}], ["part.bp", "random", {}], …]'
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from typing import Any

import adios2.bindings as ab
import numpy as np

EVERYTHING = ("grid", "blocks", "number", "word", "rank", "local", "joined", "packed", "late", "mesh")
JOINED = 2**64 - 2  # ADIOS2's JoinedDim


def write(file: str, spec: dict[str, Any]) -> None:
    """Values depend on the number of the step in the whole stream, and of the writer."""
    comm = None
    if spec.get("mpi"):
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    rank, size = (comm.Get_rank(), comm.Get_size()) if comm else (0, 1)
    adios = ab.ADIOS(comm) if comm else ab.ADIOS()
    io = adios.DeclareIO("out")
    io.SetEngine("BP5")
    io.SetParameters(spec.get("parameters", {}))
    operator = spec.get("operator")
    for name, value in spec.get("attributes", {}).items():
        io.DefineAttribute(name, np.array(value) if isinstance(value, list | int | float) else value)
    first = spec["first"]
    seed = np.random.default_rng(spec.get("seed", 0))
    chosen = [name for name in spec.get("variables", EVERYTHING) if rank in spec.get("only", {}).get(name, [rank])]
    engine = io.Open(file, ab.Mode.Append if spec.get("append") else ab.Mode.Write)
    variables: dict[str, Any] = {}

    def put(name: str, values: Any, *place: Any) -> None:
        if name not in chosen:
            return
        if name not in variables:
            variables[name] = (
                io.DefineVariable(name, values, *place) if isinstance(values, np.ndarray) else (io.DefineVariable(name))
            )
            if name == "packed" and operator:
                variables[name].AddOperation(operator, {"accuracy": "1e-3"} if operator == "zfp" else {})
        elif len(place) == 3 and place[0]:
            variables[name].SetShape(place[0])
        if len(place) == 3:
            variables[name].SetSelection((place[1], place[2]))
        engine.Put(variables[name], values, *([ab.Mode.Sync] if isinstance(values, np.ndarray) else []))

    for step in range(first, first + spec["steps"]):
        rows = int(seed.integers(1, 40)) if "seed" in spec else 20
        engine.BeginStep()
        values = np.sin(np.arange(rows * 5, dtype=float) + step + 100 * rank).reshape(rows, 5)
        put("grid", values, [rows * size, 5], [rows * rank, 0], [rows, 5])
        if spec.get("flush"):
            engine.PerformDataWrite()
        for block in range(2):
            numbers = np.arange(3, dtype=np.int32) + 10 * block + 100 * step + 1000 * rank
            put("blocks", numbers, [6 * size], [6 * rank + 3 * block], [3])
        if spec.get("flush"):
            engine.PerformDataWrite()
        put("number", np.array([step], dtype=np.int64))
        put("word", f"step {step} " * (step % 3 + 1))
        put("rank", np.array([rank + 10 * step], dtype=np.int32), [ab.LocalValueDim])
        put("local", np.arange(rank + step % 3 + 1, dtype=np.float32), [], [], [rank + step % 3 + 1])
        put("joined", np.full((rank + 1, 3), step + rank, dtype=np.float32), [JOINED, 3], [], [rank + 1, 3])
        put("packed", np.cos(np.arange(rows * 8.0) + step), [rows * 8 * size], [rows * 8 * rank], [rows * 8])
        if step >= first + 2:
            put("late", np.arange(4, dtype=np.uint8) + step, [4 * size], [4 * rank], [4])
        if step == 0:
            put("mesh", np.arange(7.0), [7 * size], [7 * rank], [7])
        engine.EndStep()
    if spec.get("kill"):
        print("written", flush=True)
        time.sleep(0.1)
        os._exit(0)  # without Close: the file stays open
    engine.Close()


def read(file: str, how: str, parameters: dict[str, str]) -> Any:
    """A list of steps for `stream`, a list for each variable for `random`: digests, with attributes at the end."""
    adios = ab.ADIOS()
    io = adios.DeclareIO("in")
    io.SetEngine("BP5")
    io.SetParameters(parameters)
    if how == "stream":
        steps = []
        engine = io.Open(file, ab.Mode.Read)
        while engine.BeginStep(ab.StepMode.Read, 20.0) == ab.StepStatus.OK:
            steps.append({name: _value(io, engine, name, None) for name in sorted(io.AvailableVariables())})
            steps[-1]["attributes"] = _attributes(io)
            engine.EndStep()
        engine.Close()
        return steps
    engine = io.Open(file, ab.Mode.ReadRandomAccess)
    found: dict[str, Any] = {}
    for name, known in io.AvailableVariables().items():
        found[name] = [_value(io, engine, name, step) for step in range(int(known["AvailableStepsCount"]))]
    found["attributes"], found["steps"] = _attributes(io), engine.Steps()
    engine.Close()
    return found


def _attributes(io: Any) -> Any:
    return {name: known["Value"] for name, known in sorted(io.AvailableAttributes().items())}


def _value(io: Any, engine: Any, name: str, step: int | None) -> Any:
    variable = io.InquireVariable(name)
    if step is not None:
        variable.SetStepSelection((step, 1))
    blocks = engine.BlocksInfo(name, engine.CurrentStep() if step is None else step)
    # The numbers of writers and blocks are the same however the steps are read; the names of keys are ADIOS2's.
    layout = [[block[key] for key in ("Start", "Count", "WriterID", "Min", "Max") if key in block] for block in blocks]
    if variable.Type() == "string":
        return engine.Get(variable)
    kind = np.dtype({"float": "f4", "double": "f8"}.get(variable.Type(), variable.Type().removesuffix("_t")))
    parts = []
    shape = variable.Shape() if step is None else variable.Shape(step)
    if variable.ShapeID() == ab.ShapeID.LocalArray:
        for number, block in enumerate(blocks):
            variable.SetBlockSelection(number)
            parts.append(np.zeros([int(n) for n in block["Count"].split(",")], kind))
            engine.Get(variable, parts[-1], ab.Mode.Sync)
    else:
        if shape:
            variable.SetSelection(([0] * len(shape), shape))
        parts.append(np.zeros(shape, kind))
        engine.Get(variable, parts[-1], ab.Mode.Sync)
    digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]
    return [variable.Type(), list(shape), layout, digest]


if __name__ == "__main__":
    jobs = json.loads(sys.argv[2])
    if sys.argv[1] == "write":
        for job in jobs:
            write(*job)
    else:
        print(json.dumps([read(*job) for job in jobs]))
