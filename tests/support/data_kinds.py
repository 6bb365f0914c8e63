"""Unusual data, as `workflow.stage.data_kinds` lists them: written and read by ADIOS2 and h5py alone.

`python -m tests.support.data_kinds live CASES` writes the live streams of the cases, one after the other;
`[mpiexec -n N] python -m tests.support.data_kinds components CASES` runs the components of the cases in one process of
each rank, and prints a JSON object for each. Cases: `{name, kind, medium, source, component, arguments}`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LOCAL, JOINED = "local", "joined"
# ADIOS2's `JoinedDim`, which its Python does not name.
_JOINED_LENGTH = 2**64 - 2


class Put(NamedTuple):
    """A variable of a step: its blocks with their starts. `shape`: of the global array; `local`; `joined`; or None."""

    blocks: Sequence[tuple[tuple[int, ...], Array]]
    shape: tuple[int, ...] | str | None = None

    @property
    def whole(self) -> Any:
        """What a reader should get: an array, or a list of blocks; gaps are zeros, and later blocks win."""
        if self.shape == LOCAL:
            return [values for _, values in self.blocks]
        if self.shape == JOINED:
            return np.concatenate([values for _, values in self.blocks])
        if self.shape is None:
            return self.blocks[0][1]
        assert not isinstance(self.shape, str)
        found = np.zeros(self.shape, self.blocks[0][1].dtype if self.blocks else np.float64)
        for start, values in self.blocks:
            found[tuple(slice(a, a + n) for a, n in zip(start, values.shape, strict=True))] = values
        return found


Step = Mapping[str, Put]
STEPS = 3
# What stands beside the unusual variable, `V`.
_USUAL = "T"


def whole(values: Array, parts: int = 1) -> Put:
    """A global array, in so many blocks along its first axis."""
    cuts = np.array_split(np.arange(len(values)), parts)
    return Put([((int(cut[0]), *(0,) * (values.ndim - 1)), values[cut]) for cut in cuts if len(cut)], values.shape)


def numbers(*shape: int, of: int = 0) -> Array:
    """Values that are different in each step, and never zero."""
    return np.arange(1.0, np.prod(shape) + 1).reshape(shape) + 100 * of


def _local(step: int) -> Put:
    sizes = [(3, 0, 2), (1, 4), (2, 2, 2, 1)][step]
    return Put([((), numbers(n, of=10 * step + i)) for i, n in enumerate(sizes)], LOCAL)


def _gap(step: int) -> Put:
    return Put([((1, 0), numbers(2, 3, of=step)), ((5 - step, 0), numbers(1, 3, of=9))], (7, 3))


def _ghosts(step: int) -> Put:
    """What is written twice is the same, as ghost cells are: ADIOS2 gives either, in the order its threads read."""
    values = numbers(7, 3, of=step)
    return Put([((0, 0), values[:4]), ((2, 0), values[2:])], (7, 3))


def _only(*there: int) -> Callable[[int], Put | None]:
    return lambda step: whole(numbers(4, 3, of=step), 2) if step in there else None


_NOTHING = Put([((0, 0), np.empty((0, 3)))], (0, 3))
# Kind → the variable `V` in a step; None: not there. Several kinds of absence are one line of the declarations.
VARIABLES: dict[str, Callable[[int], Put | None]] = {
    "local_blocks": _local,
    "new_shape": lambda step: whole(numbers(4 + [0, 2, -1][step], 3, of=step), 2),
    "new_dimensions": lambda step: whole(numbers(*[(6,), (3, 2), (6,)][step], of=step), 2),
    "absent, late": _only(1, 2),
    "absent, then gone": _only(0),
    "absent, once in between": _only(1),
    "joined": lambda step: Put([((), numbers(n, 3, of=step + n)) for n in (1 + step, 3 - step)], JOINED),
    "overlapping": _ghosts,
    "gap": _gap,
    "new_shape, from nothing": lambda step: whole(numbers(4, 3)) if step == 1 else _NOTHING,
    "zero_size": lambda _: _NOTHING,
    "new_blocks": lambda step: whole(numbers(6, 3, of=step), [1, 3, 2][step]),
    "empty_step": lambda step: None if step == 1 else whole(numbers(6, 3, of=step), 2),
}


def declared(kind: str) -> str:
    """The line of the declarations that a kind belongs to."""
    return kind.partition(",")[0]


def steps_of(kind: str) -> list[Step]:
    """The steps of a kind."""
    found: list[Step] = []
    for step in range(STEPS):
        values = VARIABLES[kind](step)
        usual: dict[str, Put] = {} if kind == "empty_step" and step == 1 else {_USUAL: whole(numbers(6, 4, of=step), 3)}
        found.append(usual if values is None else {**usual, "V": values})
    return found


# Which media can have a kind at all, as far as programs other than `wf` can write it there.
_WITHOUT = {
    "HDF5": {"local_blocks", "joined", "overlapping", "new_blocks"},
    "SHM": {"joined", "new_dimensions"},
    # ADIOS2 (2.12.1) dies of SIGSEGV when it opens a file with an empty step, and reads one number of dimensions only.
    "BP4": {"empty_step", "new_dimensions"},
}


def has(medium: str, kind: str) -> bool:
    """Whether a source of this medium can have the kind."""
    return declared(kind) not in _WITHOUT.get(medium, set())


# Writing without `workflow`, but for shared memory, which is its own.


def write_source(path: str, medium: str, kind: str) -> None:
    """A file or stream with the steps of a kind."""
    if medium == "HDF5":
        _write_hdf5(Path(path), steps_of(kind))
    elif medium == "SHM":
        _write_shared(path, steps_of(kind))
    else:
        write_adios(path, medium, steps_of(kind))


def write_adios(path: str, engine: str, steps: Sequence[Step], parameters: Mapping[str, str] = {}) -> None:
    """By ADIOS2's own bindings."""
    import adios2.bindings as adios2

    adios = adios2.ADIOS()
    out = adios.DeclareIO("out")
    out.SetEngine(engine)
    out.SetParameters(dict(parameters))
    file = out.Open(path, adios2.Mode.Write)
    for step in steps:
        file.BeginStep()
        for name, put in step.items():
            for start, values in put.blocks:
                file.Put(_variable(out, name, put, start, values), values, adios2.Mode.Sync)
        file.EndStep()
    file.Close()


def _variable(out: Any, name: str, put: Put, start: tuple[int, ...], values: Array) -> Any:
    known = out.InquireVariable(name)
    if put.shape is None:
        return known or out.DefineVariable(name, values, [], [], [])
    if put.shape == JOINED:
        shape: Sequence[int] = [_JOINED_LENGTH, *values.shape[1:]]
        start = ()
    else:
        shape = [] if put.shape == LOCAL else [*put.shape]
    if known and len(known.Count()) != values.ndim:  # another number of dimensions is another variable to ADIOS2
        out.RemoveVariable(name)
        known = None
    if not known:
        return out.DefineVariable(name, values, shape, [*start], [*values.shape])
    if shape and put.shape != JOINED:
        known.SetShape(shape)
    known.SetSelection(([*start], [*values.shape]))
    return known


def _write_hdf5(path: Path, steps: Sequence[Step]) -> None:
    """In the layout of ADIOS2's HDF5 engine."""
    import h5py

    with h5py.File(path, "w") as file:
        file.attrs["NumSteps"] = np.uint32(len(steps))
        for number, step in enumerate(steps):
            group = file.create_group(f"Step{number}")
            for name, put in step.items():
                group.create_dataset(name, data=put.whole)


def _write_shared(path: str, steps: Sequence[Step]) -> None:
    from workflow import stage

    with stage.open_writer(path=path, engine="SHM") as out:
        for step in steps:
            with out.step():
                for name, put in step.items():
                    if put.shape == LOCAL:
                        out.write_local(name, [values for _, values in put.blocks])
                        continue
                    for start, values in put.blocks:
                        out.write(name, values, shape=put.shape, start=start)


# Reading without `workflow`.


def read_file(path: Path) -> list[dict[str, Any]]:
    """The steps of a file, with what `Put.whole` says of each variable."""
    return _read_hdf5(path) if path.is_file() else read_adios(str(path))


def read_adios(path: str) -> list[dict[str, Any]]:
    """Every block is put where its metadata say that it is: what is in no block stays zero."""
    import adios2.bindings as adios2

    adios = adios2.ADIOS()
    data = adios.DeclareIO("in")
    data.SetEngine("BPFile")
    file = data.Open(path, adios2.Mode.Read)
    found: list[dict[str, Any]] = []
    while file.BeginStep(adios2.StepMode.Read, 10.0) == adios2.StepStatus.OK:
        step = {}
        for name in data.AvailableVariables():
            variable = data.InquireVariable(name)
            kind = {"double": "f8", "int64_t": "i8"}.get(variable.Type(), "")
            if not kind:
                continue
            if not variable.Shape() and variable.ShapeID() != adios2.ShapeID.LocalArray:
                value = np.empty((), kind)
                file.Get(variable, value, adios2.Mode.Sync)
                step[name] = value
                continue
            blocks = []
            for number, info in enumerate(file.BlocksInfo(name, file.CurrentStep())):
                start, count = ([int(word) for word in info[key].split(",") if word] for key in ("Start", "Count"))
                values = np.full(count or (0,), -1.0, kind)
                if values.size:
                    variable.SetBlockSelection(number)
                    file.Get(variable, values, adios2.Mode.Sync)
                blocks.append((tuple(start), values))
            is_local = variable.ShapeID() == adios2.ShapeID.LocalArray
            step[name] = Put(blocks, LOCAL if is_local else tuple(variable.Shape())).whole
        file.EndStep()
        found.append(step)
    file.Close()
    return found


def _read_hdf5(path: Path) -> list[dict[str, Any]]:
    import h5py

    with h5py.File(path, "r") as file:
        number = int(file.attrs["NumSteps"])
        return [{name: file[f"Step{k}"][name][()] for name in file[f"Step{k}"]} for k in range(number)]


def same(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> str:
    """What differs, in words; "" for nothing."""
    if len(one) != len(other):
        return f"{len(one)} steps and {len(other)}"
    for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        if mine.keys() != theirs.keys():
            return f"step {number}: {sorted(mine)} and {sorted(theirs)}"
        for name, values in mine.items():
            if not _equal(values, theirs[name]):
                return f"step {number}: {name}: {values} and {theirs[name]}"
    return ""


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        both = isinstance(one, list) and isinstance(other, list) and len(one) == len(other)
        return both and all(_equal(a, b) for a, b in zip(one, other, strict=True))
    return np.shape(one) == np.shape(other) and np.array_equal(one, other)


# Running components, many in one process.


def run_components(cases: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The outcome of each: `said`, what it printed and raised; `code`, 0 where it raised nothing."""
    for case in cases:
        said = io.StringIO()
        code = 0
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                _run(case)
            except SystemExit as error:
                code = 0 if error.code in (None, 0) else 1
                said.write(str(error.code) if code else "")
            except BaseException as error:
                from workflow.stage import StageError

                code = 1 if isinstance(error, StageError) else 2
                said.write(str(error) if code == 1 else traceback.format_exc())
        yield {"name": case["name"], "code": code, "said": said.getvalue()}


def _run(case: Mapping[str, Any]) -> None:
    from workflow.spec import component_files
    from workflow.stage.api import open_streams, opened_ends

    for name in ("load_component_file", "parameters_model"):  # which a component reads once in its life
        if not hasattr(wanted := getattr(component_files, name), "cache"):
            setattr(component_files, name, _remembered(wanted))
    open_streams._ahead.clear()
    opened_ends.opened_ends.clear()
    program = importlib.import_module(f"components.{case['component']}.program")
    sys.argv = [program.__file__ or "", *case["arguments"]]
    program.main()


def _remembered(function: Callable[[Any], Any]) -> Any:
    known: dict[str, Any] = {}

    def answer(about: Any) -> Any:
        key = str(about) if isinstance(about, Path) else about.component
        if key not in known:
            known[key] = function(about)
        return known[key]

    answer.cache = known  # type: ignore[attr-defined]
    return answer


def main() -> None:
    """See above."""
    from workflow.stage import communicator

    role, file = sys.argv[1:3]
    cases = json.loads(Path(file).read_text(encoding="utf-8"))
    if role == "live":
        for case in cases:
            with contextlib.suppress(Exception):  # of a reader that has refused what it got
                _write_live(case)
    else:
        rank = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
        for outcome in run_components(cases):
            if rank == 0:
                with Path(file).with_suffix(".done").open("a", encoding="utf-8") as out:
                    out.write(json.dumps(outcome) + "\n")
        if (comm := communicator()) is not None:
            comm.Barrier()  # MPI would end the ranks that are not so far
    sys.stdout.flush()
    os._exit(0)  # not by the exit functions, which would report the errors that were expected


def _write_live(case: Mapping[str, Any]) -> None:
    if case["medium"] == "SHM":
        _write_shared(case["source"], steps_of(case["kind"]))
    else:
        parameters = {"RendezvousReaderCount": "1", "QueueLimit": "2"}
        write_adios(case["source"], case["medium"], steps_of(case["kind"]), parameters)


def forget(path: Path) -> None:
    """Remove a file or folder."""
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
