"""Which streams `wf calibrate` measures on a machine, between which ranks, and where these run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planner import SITE, Planner
from workflow.calibration.measured_run import MeasuringPlace
from workflow.calibration.stream_measurement import (
    StreamSetting,
    file_settings,
    stream_pipeline,
    transport_settings,
)
from workflow.cli.calibration_verbs import PARTS as OFFERED
from workflow.forecast.calibration_model import PARTS
from workflow.launch.allocation import Allocation, Host
from workflow.site.site_model import Site

WITH_MPI = SITE.model_copy(
    update={"nodes": 2, "planes": ["tcp", "ucx", "mpi"], "parallel_adios2": True, "peer_memory": True}
)
SERIAL = SITE.model_copy(update={"planes": ["tcp"], "parallel_adios2": False})


def place_on(site: Site, hosts: int, quick: bool = False) -> MeasuringPlace:
    allocation = Allocation("slurm", "7", tuple(Host(f"n{number}") for number in range(hosts)))

    def refuse(_: object) -> object:
        raise AssertionError("nothing is planned")

    return MeasuringPlace(site, site.site, allocation, Path("/nonexistent"), refuse, quick)  # type: ignore[arg-type]


def test_what_is_measured_depends_on_the_machine() -> None:
    one = [setting.name for setting in transport_settings(place_on(WITH_MPI, 1))]
    assert one == ["sst-tcp", "sst-ucx", "shm"]
    two = [setting.name for setting in transport_settings(place_on(WITH_MPI, 2))]
    assert two == [*one, *(f"{name} between two nodes" for name in one if name != "shm")]
    assert [setting.name for setting in transport_settings(place_on(SERIAL, 1))] == ["sst-tcp", "shm"]
    files = [setting.name for setting in file_settings(place_on(WITH_MPI, 1), cores=4)]
    assert files == [
        "bp5", "bp5, async guided", "bp5, async naive", "bp5, 2 writers, 1 aggregator", "bp5, 2 writers, 2 aggregators",
        "bp5, 4 writers, 1 aggregator", "bp5, 4 writers, 4 aggregators", "bp5, 4 writers, 1 aggregator, async guided",
        "bp5, 4 writers, 1 aggregator, async naive",
    ]  # fmt: skip
    assert len(file_settings(place_on(WITH_MPI, 1, quick=True), cores=64)) == 7
    # Rank 0 would write for all.
    assert len(file_settings(place_on(SERIAL, 1), cores=64)) == 3


@pytest.mark.parametrize(("nodes", "expected"), [(1, ([(0, 1)], [(0, 1)])), (2, ([(0, 1)], [(1, 2)]))])
def test_where_the_ends_run(plan_of: Planner, nodes: int, expected: tuple[object, object]) -> None:
    plan = plan_of(stream_pipeline(StreamSetting("sst-tcp", nodes=nodes), [1000], 4), site=WITH_MPI)
    make, take = (stage.placement for stage in plan.stages)
    assert (make.nodes, take.nodes) == expected
    assert len(make.cores) == len(take.cores) == 1
    assert nodes == 2 or make.cores != take.cores


def test_as_many_writers_as_cores(plan_of: Planner) -> None:
    text = stream_pipeline(StreamSetting("bp5", writers=4, aggregators=2), [1000], 4)
    plan = plan_of(text, site=WITH_MPI)
    assert plan.stage("make").ends[0].parameters["NumAggregators"] == "2"
    assert plan.stage("make").placement.cores == [0, 1, 2, 3]


def test_the_command_line_offers_every_part() -> None:
    assert set(OFFERED) == set(PARTS)
