"""Aggregation and asynchronous writing, proved from what lies on disk."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.packed_runs import chain, environment, real_error, wf
from workflow.plan.make import make_plan
from workflow.run.records.run_directory import fill_plan
from workflow.site.load_site import load_site
from workflow.spec.load import load_pipeline

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
NEEDED = re.compile(r"(per_node|count|ratio|subfiles): (\d)")


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
    settings = {
        "stage_file_version": 2,
        "stage": "all",
        "ranks": ranks,
        "parameters": {},
        "metrics": None,
        "ends": ends,
    }
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
