"""The config files, read back by the real ADIOS2."""

from __future__ import annotations

from pathlib import Path

import adios2
import pytest

from tests.support.planner import Planner
from workflow.plan.placeholders import fill_run_dir
from workflow.plan.plan_model import EndPlan
from workflow.plan.programs.config_files import FILES
from workflow.spec.models.stage_policies import dialect_of

AWKWARD = "a & \"b\" <c> 'd' \\ : # ü"


def end(io: str, engine: str, **parameters: str) -> EndPlan:
    return EndPlan(
        stream=io, port="p", side="write", engine=engine, parameters=parameters, path="x", open_timeout_s=1,
        step_timeout_s=1, io=io,
    )  # fmt: skip


@pytest.mark.parametrize("suffix", [".xml", ".yaml", ".yml"])
def test_adios2_reads_what_was_written(suffix: str, tmp_path: Path) -> None:
    ends = [
        end("SimulationOutput", "SST", QueueLimit="2", QueueFullPolicy="Block", RendezvousReaderCount="1"),
        end(AWKWARD, "BP5", NumAggregators="3", Note=AWKWARD, Flag="true"),
        end("plain", "HDF5"),
    ]
    file = tmp_path / f"config{suffix}"
    file.write_text(FILES["adios2.xml" if suffix == ".xml" else "adios2.yaml"](ends), encoding="utf-8")
    adios = adios2.Adios(str(file))
    for each in ends:
        io = adios.declare_io(each.io)
        assert io.engine_type() == each.engine
        assert io.parameters() == each.parameters


@pytest.mark.parametrize("suffix", [".xml", ".yaml", ".yml"])
def test_a_program_of_ones_own_writes_through_its_config(suffix: str, plan_of: Planner, tmp_path: Path) -> None:
    """The whole way: pipeline file → plan → file → a real BP5 stream with the parameters of the plan."""
    text = f"""
stages:
  sim:
    command: [./sim]
    writes: {{field: {{io: Out, config: my{suffix}}}}}
  keep: {{component: keep}}
streams:
  field: {{from: sim, to: keep, via: bp5, parameters: {{StatsLevel: 0}}}}
"""
    stage = plan_of(text).stage("sim")
    config = fill_run_dir(stage.ends[0].config or "", str(tmp_path))
    assert config == f"{tmp_path}/stages/sim/work/my{suffix}"
    Path(config).parent.mkdir(parents=True)
    Path(config).write_text(fill_run_dir(next(iter(stage.files.values())), str(tmp_path)))
    io = adios2.Adios(config).declare_io("Out")
    assert (io.engine_type(), io.parameters()) == ("BP5", {"StatsLevel": "0"})
    with adios2.Stream(io, str(tmp_path / "field.bp"), "w") as out:
        out.begin_step()
        out.write("x", 1.0)
        out.end_step()
    assert (tmp_path / "field.bp/md.idx").is_file()


def test_the_name_says_the_dialect() -> None:
    names = ["adios2_config.xml", "a.yml", "my.json", "my.toml", "env", "adios2.conf", "inputs"]
    assert [dialect_of(name) for name in names] == [
        "adios2.xml", "adios2.yaml", "openpmd.json", "openpmd.toml", "env", None, None,
    ]  # fmt: skip
