"""What `wf balance` varies of a pipeline, and which combinations are candidates."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from workflow.api.balances import BalanceRequest, BalanceSearch
from workflow.balance.knobs import find_knobs
from workflow.cli.main import main
from workflow.forecast.calibration_model import (
    Calibration,
    MeasuringConditions,
    PortRecord,
    StageRecord,
    StreamPoint,
    StreamRates,
)
from workflow.forecast.known_stages import stage_identity
from workflow.forecast.quartiles import exactly
from workflow.spec.load import load_pipeline

HEAD = "wf: 1\nname: held\n"
STAGES = """\
stages:
  sim: {component: gray_scott, with: {size: [16]}}
  pdf: {component: histogram, with: {variable: V}}
  keep: {component: archive}
"""


def knobs_of(tmp_path: Path, text: str, cores: int = 4, nodes: int = 1) -> dict:  # type: ignore[type-arg]
    file = tmp_path / "pipeline.yaml"
    file.write_text(HEAD + text)
    return {knob.key: knob.values for knob in find_knobs(load_pipeline(file), cores, nodes)}


def test_live_streams_and_what_may_have_any_ranks_are_varied(tmp_path: Path) -> None:
    streams = "streams:\n  field: {from: sim, to: pdf}\n  pdf: {from: pdf, to: keep}\n"
    found = knobs_of(tmp_path, STAGES + streams)
    assert found["stages.sim.ranks"] == (1, 2, 4)
    assert found["stages.pdf.place.cores_per_rank"] == (None, 0)
    assert found["streams.field.via"][0] == "sst" and "shm" in found["streams.field.via"]
    # A small stream may cost more than its bytes: of short steps the time of a message counts. A sink keeps its ranks,
    # and a file is not among the live engines.
    assert "streams.pdf.via" in found and "stages.keep.ranks" not in found
    assert "bp5" not in found["streams.field.via"]


def test_of_files_it_is_how_they_are_written(tmp_path: Path) -> None:
    streams = "streams:\n  field: {from: sim, to: pdf, via: bp5}\n  pdf: {from: pdf, to: keep}\n"
    found = knobs_of(tmp_path, STAGES + streams)
    assert "streams.field.via" not in found
    assert found["stages.sim.output.async"] == ("off", "guided")
    assert found["stages.sim.output.compression"][0] is None and len(found["stages.sim.output.compression"]) == 2
    lossy = STAGES.replace("[16]}", "[16]}, output: {compression: {V: {zfp: {accuracy: 1e-3}}}}")
    assert "stages.sim.output.compression" not in knobs_of(tmp_path, lossy + streams)


def test_a_program_of_ones_own_and_members_keep_their_ranks(tmp_path: Path) -> None:
    own = 'stages:\n  sim: {command: ["true"], writes: {field: {}}}\n  see: {component: "null"}\n'
    assert set(knobs_of(tmp_path, own + "streams:\n  field: {from: sim, to: see}\n")) == {"streams.field.via"}
    many = STAGES.replace("with: {size: [16]}", "members: 3, with: {size: [16]}")
    streams = "streams:\n  field: {from: sim, to: pdf, collect: any}\n  pdf: {from: pdf, to: keep}\n"
    assert not [
        key for key in knobs_of(tmp_path, "oversubscribe: true\n" + many + streams) if key.startswith("stages.sim")
    ]


def test_readers_may_share_nodes_where_there_are_several(tmp_path: Path) -> None:
    streams = "streams:\n  field: {from: sim, to: pdf}\n  pdf: {from: pdf, to: keep}\n"
    assert knobs_of(tmp_path, STAGES + streams, nodes=2)["stages.pdf.place.share"] == (None, "sim")
    assert "stages.pdf.place.share" not in knobs_of(tmp_path, STAGES + streams)


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BalanceSearch:
    monkeypatch.chdir(tmp_path)
    streams = "streams:\n  field: {from: sim, to: pdf}\n  pdf: {from: pdf, to: keep}\n"
    (tmp_path / "pipeline.yaml").write_text(HEAD + STAGES + streams)
    vary = {"streams.field.queue.limit": [1, 4], "stages.sim.ranks": [1, 3]}  # 1 is what it is anyway
    return BalanceSearch(BalanceRequest("pipeline.yaml", vary=vary))


def test_candidates_are_what_can_be_planned_each_once_and_the_file_first(search: BalanceSearch) -> None:
    settings = [each.settings for each in search.space.candidates]
    assert settings[0] == {}
    plans = [each.plan.model_copy(update={"reasons": {}, "advice": []}).to_json() for each in search.space.candidates]
    assert len(set(plans)) == len(plans)
    cores = len(search.site.usable_cores)
    for each in search.space.candidates:
        assert sum(stage.ranks for stage in each.plan.stages if stage.placement.cores_per_rank) <= cores
    # Named as an overlay would name it: shared memory is what `sst` in the file is here.
    vias = {knob.key: knob.values for knob in search.space.knobs}["streams.field.via"]
    assert vias[:2] == ("shm", "sst-tcp") and "sst" not in vias
    assert any("UCX" in text for text in search.space.refused)


def test_who_writes_a_transport_has_chosen(tmp_path: Path) -> None:
    streams = "streams:\n  field: {from: sim, to: pdf, transport: tcp}\n  pdf: {from: pdf, to: keep}\n"
    found = knobs_of(tmp_path, STAGES + streams)
    assert "streams.field.via" not in found and "streams.pdf.via" in found


def test_without_numpy_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipeline.yaml").write_text(HEAD + STAGES)
    for name in [name for name in sys.modules if name in ("workflow.api.balances", "workflow.balance.search")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.setattr("sys.argv", ["wf", "balance", str(tmp_path / "pipeline.yaml"), "--dry-run"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert re.search(r"comparing candidates needs numpy\n.*pip install .*\[components\]", capsys.readouterr().err)


def test_what_is_set_or_fixed_is_not_varied(search: BalanceSearch) -> None:
    request = BalanceRequest("pipeline.yaml", sets=["streams.field.via=shm"], fixed=["stages.sim.ranks"])
    other = BalanceSearch(request)
    keys = {knob.key for knob in other.space.knobs}
    assert not {"streams.field.via", "stages.sim.ranks"} & keys
    assert all(each.plan.stream("field").via == "shm" for each in other.space.candidates)
    assert {"streams.field.via", "streams.field.queue.limit"} <= {knob.key for knob in search.space.knobs}


def test_what_limits_is_known_from_other_ranks_and_not_without_a_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stages = STAGES.replace("[16]}", "[16]}, ranks: 2")
    streams = "streams:\n  field: {from: sim, to: pdf, transport: tcp}\n  pdf: {from: pdf, to: keep, transport: tcp}\n"
    Path("pipeline.yaml").write_text(f"{HEAD}oversubscribe: true\n{stages}{streams}")
    search = BalanceSearch(BalanceRequest("pipeline.yaml"))
    ports = {"bytes_per_step": 1e5, "share": 1.0, "steps": 9}
    records = [
        StageRecord(
            program=stage.component or "", parameters=stage_identity(stage).parameters, ranks=1, run="former", steps=9,
            compute_s=exactly(seconds), cpu_s=None,
            ports=[PortRecord(port=end.port, side=end.side, **ports) for end in stage.ends],
        )
        for stage, seconds in zip(search.space.candidates[0].plan.stages, (9.0, 2.0, 1.0), strict=True)
    ]  # fmt: skip
    conditions = MeasuringConditions(
        date="2026-11-22T10:00:00+00:00", host="n", cores=4, wf_version="0", python="3", adios2="2",
        parallel_adios2=True, quick=False,
    )  # fmt: skip
    costs = dict.fromkeys(("step_s", "write_s", "read_s", "write_cpu_s", "read_cpu_s"), exactly(1e-3))
    points = [StreamPoint(bytes=100_000, **costs)]
    rates = StreamRates(via="sst-tcp", engine="SST", transport="tcp", writers=1, readers=1, nodes=1, points=points)
    known = Calibration(site="local", measured={"transports": conditions}, transports=[rates])

    def limited_by(stages: list[StageRecord]) -> str | None:
        search.calibration = known.model_copy(update={"stages": stages})
        return search.result().limited_by

    # 4.5 s: two ranks share the work of one. Where there are few cores, it is `cores of stage sim`.
    assert str(limited_by(records)).endswith("stage sim")
    assert limited_by(records[1:]) is None
    assert limited_by([]) is None
