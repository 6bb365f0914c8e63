"""Every kind of unusual data through every component: what comes out is what its component.yaml declares.

Sources are written, and results read, by ADIOS2 and h5py alone. Many cases share a process: a start takes longer than
all that a case does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support import data_kinds
from tests.support.data_kinds import VARIABLES, declared, forget, has, read_file, same, steps_of, write_source
from tests.support.long_tables import covering_table
from workflow.spec.component_files import load_component
from workflow.spec.models.component import UnusualData
from workflow.stage.data_kinds import DATA_KINDS

ROOT = Path(__file__).resolve().parents[2]
LIVE = ("SST", "SHM")
MEDIA = ("BP5", "BP4", "HDF5", *LIVE)
SUFFIXES = {"BP5": ".bp", "BP4": ".bp", "HDF5": ".h5"}
TIMEOUT_S = 150


class Row(NamedTuple):
    """One component, with parameters. `target`: what it writes; `format`: of the file, where formats differ."""

    component: str
    arguments: Callable[[Path, str], list[str]]
    target: str = "out.bp"
    format: str = ""
    most_ranks: int = 3
    media: Sequence[str] = MEDIA


def _reads(*more: str, target: str = "") -> Callable[[Path, str], list[str]]:
    writes = ["--write", f"{target}OUT"] if target else []
    return lambda folder, source: [
        each.replace("OUT", str(folder)) for each in ["--read", f"input={source}", *writes, *more]
    ]


def _archives(suffix: str, *more: str) -> Callable[[Path, str], list[str]]:
    return lambda folder, source: ["--read", f"input={source}", "--path", f"{folder}{suffix}", *more]


def _follows(folder: Path, source: str) -> list[str]:
    path = source.rpartition(":")[0]
    run = ["--events", f"{folder}.events", "--stream", "s", "--first", "0"]
    return ["--path", path, *run, "--write", f"output={folder}.bp"]


def _replays(folder: Path, source: str) -> list[str]:
    return ["--path", source.rpartition(":")[0], "--write", f"output={folder}.bp"]


ROWS = {
    "archive": Row("archive", _archives(".bp"), ".bp", "bp5"),
    "archive, HDF5": Row("archive", _archives(".h5"), ".h5", "hdf5"),
    "archive, openPMD": Row("archive", _archives(".h5", "--format", "openpmd"), ".h5", "openpmd"),
    "archive, H5Block": Row("archive", _archives(".h5block", "--variables", "V"), ".h5block", "h5block"),
    "archive, VTKHDF": Row("archive", _archives(".vtkhdf", "--variables", "V"), ".vtkhdf", "vtkhdf"),
    "relay": Row("relay", _reads("--write", "output=OUT.bp"), ".bp"),
    "relay, HDF5": Row("relay", _reads("--write", "output=OUT.h5"), ".h5", "hdf5"),
    "select": Row("select", _reads("--write", "output=OUT.bp", "--step", ">= 0"), ".bp"),
    "replay": Row("replay", _replays, ".bp", media=("BP5", "BP4", "HDF5")),
    "follow": Row("follow", _follows, ".bp", most_ranks=1, media=("BP5",)),
    "merge": Row("merge", lambda folder, source: [
        "--read", f"members={source}", "--write", f"merged={folder}.bp"
    ], ".bp", most_ranks=1, media=("BP5", "SST")),
    "histogram": Row("histogram", _reads("--write", "histogram=OUT.bp", "--variable", "V", "--bins", "4"), ".bp"),
    "statistics": Row("statistics", _reads("--write", "statistics=OUT.bp", "--variable", "V"), ".bp"),
    "plot": Row("plot", _reads("--variable", "V", "--picture", "OUT.png"), ".png", most_ranks=1),
    "reservoir": Row("reservoir", _reads(
        "--write", "batches=OUT.bp", "--variables", "V", "--size", "3", "--watermark", "1", "--batch", "1"
    ), ".bp"),
    "null": Row("null", _reads("--read-data", "true"), ""),
}  # fmt: skip


class Case(NamedTuple):
    """A line of the table."""

    row: str
    kind: str
    medium: str
    ranks: int

    @property
    def name(self) -> str:
        """A name for files."""
        return "-".join(map(str, self)).replace(", ", "_").replace(" ", "_")


ALL = [
    Case(row, kind, medium, ranks)
    for (row, each), kind, medium, ranks in product(ROWS.items(), VARIABLES, MEDIA, (1, 2, 3))
    if medium in each.media and ranks <= each.most_ranks and has(medium, kind)
]


@cache
def treatment(row: str, kind: str) -> str:
    """What is declared: by the format of a file, the port, or for all programs."""
    component = load_component(ROWS[row].component)
    ports = [port.takes for port in (*component.reads.values(), *component.writes.values()) if port.takes is not None]
    takes = ports[0]
    if ROWS[row].format:
        formats = load_component("archive").file_formats
        assert formats is not None
        takes = formats.formats[ROWS[row].format].takes or takes
    line = declared(kind)
    if row == "archive, VTKHDF" and kind == "zero_size":  # it has no place for such a grid
        return "refused"
    # A step without variables lacks the one that is wanted.
    copies = takes.absent == "kept"
    line = "absent" if line == "empty_step" and not copies else line
    if line in UnusualData.model_fields:
        return str(getattr(takes, line))
    return "kept" if copies else "used"


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of each case that is chosen."""
    chosen = [_params(item).get("case") for item in request.session.items]
    folder = tmp_path_factory.mktemp("kinds")
    found: dict[str, dict[str, Any]] = {}
    for ranks in (1, 2, 3):
        found |= _outcomes(folder, [case for case in chosen if isinstance(case, Case) and case.ranks == ranks], ranks)
    return found


def _params(item: Any) -> Mapping[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") and item.module.__name__ == __name__ else {}


def _outcomes(folder: Path, cases: Sequence[Case], ranks: int) -> dict[str, dict[str, Any]]:
    records = []
    for case in cases:
        source = folder / f"{case.name}.source{SUFFIXES.get(case.medium, '')}"
        if case.medium not in LIVE:
            write_source(str(source), case.medium, case.kind)
        arguments = ROWS[case.row].arguments(folder / case.name, f"{source}:{case.medium}")
        component = ROWS[case.row].component
        records.append({**case._asdict(), "name": case.name, "source": str(source), "component": component,
                        "arguments": arguments})  # fmt: skip
    all_of_them, live = folder / f"components-{ranks}.json", folder / f"live-{ranks}.json"
    all_of_them.write_text(json.dumps(records))
    live.write_text(json.dumps([record for record in records if record["medium"] in LIVE]))
    launch = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks)] if ranks > 1 else []
    module = [sys.executable, "-m", "tests.support.data_kinds"]
    env = {key: value for key, value in os.environ.items() if key != "WF_STAGE"} | {"PYTHONPATH": str(ROOT)}
    groups = []
    with (folder / f"{ranks}.log").open("w") as log:
        for argv in ([*module, "live", str(live)], [*launch, *module, "components", str(all_of_them)]):
            groups.append(subprocess.Popen(argv, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True))
        try:
            groups[1].wait(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass  # the cases after the one that hangs have no outcome
        finally:
            for group in groups:
                if group.poll() is None:
                    os.killpg(group.pid, signal.SIGKILL)
                    group.wait()
    done = all_of_them.with_suffix(".done")
    lines = done.read_text().splitlines() if done.exists() else []
    log_text = (folder / f"{ranks}.log").read_text()[-2000:]
    return {
        **{case.name: {"code": 124, "said": f"no outcome\n{log_text}", "folder": folder} for case in cases},
        **{record["name"]: {**record, "folder": folder} for record in map(json.loads, lines)},
    }


def facts(case: Case) -> list[tuple[Any, ...]]:
    """What the sample has: each kind through each component, and by each medium on each number of ranks."""
    return [(case.row, case.kind), (case.kind, case.medium, case.ranks), (case.row, case.medium)]


@pytest.mark.parametrize("case", covering_table(ALL, facts), ids=lambda case: case.name)
def test_what_comes_out_is_what_is_declared(case: Case, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[case.name]
    said, declared_as = outcome["said"], treatment(case.row, case.kind)
    assert "Traceback" not in said, said
    if declared_as == "refused":
        assert outcome["code"] == 1, said
        assert "V" in said and "step" in said, said
        return
    assert outcome["code"] == 0, said
    path = outcome["folder"] / f"{case.name}{ROWS[case.row].target}"
    if case.row in LAYOUTS:
        check_layout(case, path)
    elif declared_as == "kept":
        assert same(expected_copy(case), read_file(path)) == ""
    else:
        check = CHECKS.get(case.row)
        if check is not None:
            check(case, path)
    forget(path)


def expected_copy(case: Case) -> list[dict[str, Any]]:
    """What the source has, and what the component adds."""
    steps = [{name: put.whole for name, put in step.items()} for step in steps_of(case.kind)]
    added: dict[str, Callable[[int], dict[str, Any]]] = {
        "select": lambda step: {"selected_step": np.int64(step)},
        "merge": lambda step: {"member": np.int64(0), "member_step": np.int64(step)},
    }
    add = added.get(case.row)
    return [{**step, **(add(number) if add is not None else {})} for number, step in enumerate(steps)]


def values_of(case: Case) -> list[Any]:
    """The variable in each step, all blocks of a local one as one array; None where a step lacks it."""
    found = [step["V"].whole if "V" in step else None for step in steps_of(case.kind)]
    return [np.concatenate(each) if isinstance(each, list) else each for each in found]


def check_histogram(case: Case, path: Path) -> None:
    steps = read_file(path)
    assert len(steps) == data_kinds.STEPS
    for step, values in zip(steps, values_of(case), strict=True):
        expected = np.empty(0) if values is None else values.ravel()
        assert step["counts"].sum() == expected.size
        if expected.size:
            assert (step["min"], step["max"]) == (expected.min(), expected.max())
            np.testing.assert_array_equal(step["counts"], np.histogram(expected, 4)[0])


def check_statistics(case: Case, path: Path) -> None:
    there = [values for values in values_of(case) if values is not None]
    steps = read_file(path)
    assert [int(step["number"]) for step in steps] == [*range(1, len(there) + 1)]
    np.testing.assert_allclose(steps[-1]["mean"], np.mean(there, axis=0), rtol=1e-14)


def check_reservoir(case: Case, path: Path) -> None:
    values = values_of(case)
    for step in read_file(path):
        number = int(step["sample_steps"][0])
        np.testing.assert_array_equal(step["V"], values[number][np.newaxis])


def check_plot(case: Case, path: Path) -> None:
    if case.kind == "zero_size":
        assert not path.exists()
        return
    assert path.read_bytes()[:4] == b"\x89PNG"


# Where a layout has the variable of a step, by its number.
LAYOUTS: dict[str, Callable[[int], str]] = {
    "archive, openPMD": lambda step: f"data/{step}/meshes/V",
    "archive, H5Block": lambda step: f"Step#{step}/Block/V/0",
    "archive, VTKHDF": lambda _: "VTKHDF/PointData/V",
}


def check_layout(case: Case, path: Path) -> None:
    import h5py

    with h5py.File(path, "r") as file:
        for number, values in enumerate(values_of(case)):
            place = LAYOUTS[case.row](number)
            if values is None or (values.ndim == 1 and case.row == "archive, H5Block"):
                assert place not in file
                continue
            found = file[place][number] if case.row == "archive, VTKHDF" else file[place][()]
            np.testing.assert_array_equal(found.reshape(values.shape), values)


CHECKS: dict[str, Callable[[Case, Path], None]] = {
    "histogram": check_histogram,
    "statistics": check_statistics,
    "reservoir": check_reservoir,
    "plot": check_plot,
}


def test_every_kind_of_the_rules_is_in_the_table() -> None:
    assert {declared(kind) for kind in VARIABLES} == {kind.name for kind in DATA_KINDS}
    assert {kind.name for kind in DATA_KINDS if not kind.rule} == set(UnusualData.model_fields)
