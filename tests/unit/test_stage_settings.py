"""The stream end that a name selects, the errors when it selects none, and the settings file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from workflow.formats.stage_file import StageSettings, StreamEnd, to_json
from workflow.plan.plan_model import EndPlan
from workflow.stage.settings import end_by_path, find_end, read_settings
from workflow.stage.stage_errors import StageError


def end(stream: str, port: str, side: str = "read") -> StreamEnd:
    return StreamEnd(stream, port, "read" if side == "read" else "write", "SST", stream)


def test_a_port_is_found_by_its_name_a_stream_by_its_own() -> None:
    settings = StageSettings(
        "saxs", 1, ends=(end("md-atoms", "atoms"), end("box", "cell"), end("cell", "out", "write"))
    )
    assert find_end(settings, "atoms", "read").stream == "md-atoms"
    assert find_end(settings, "md-atoms", "read").port == "atoms"
    assert find_end(settings, "cell", "read").stream == "box"
    assert find_end(settings, "cell", "write").port == "out"


def test_the_only_end_of_a_side_is_found_without_a_name_and_not_under_another_one() -> None:
    settings = StageSettings("saxs", 1, ends=(end("x", "heat"), end("z", "z", "write")))
    assert find_end(settings, None, "read").stream == "x"
    with pytest.raises(StageError, match=r"stage saxs reads heat, not 'field'; its ports are named by"):
        find_end(settings, "field", "read")
    by_hand = StageSettings(ends=(end("x", "heat"),))
    assert find_end(by_hand, "field", "read").stream == "x"


@pytest.mark.parametrize("name", ["fieldd", "feild", "Field", "flow_filed"])
def test_a_misspelt_name_of_the_only_end_is_refused(name: str) -> None:
    settings = StageSettings("mean", 1, ends=(end("flow-field", "field"),))
    with pytest.raises(StageError, match=rf"stage mean reads field, not '{name}'; (did you mean 'field'\?|its ports)"):
        find_end(settings, name, "read")
    assert find_end(settings, "field2", "read").port == "field"
    with pytest.raises(StageError, match="--read fieldd=PATH"):
        find_end(StageSettings(ends=(end("field.bp", "field"),)), "fieldd", "read")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("c", "stage saxs reads a, b, not 'c'"),
        (None, "stage saxs reads several streams: name one of s, t"),
    ],
)
def test_an_ambiguous_or_unknown_name_is_refused_with_the_known_ones(name: str | None, message: str) -> None:
    settings = StageSettings("saxs", 1, ends=(end("s", "a"), end("t", "b")))
    with pytest.raises(StageError, match=message):
        find_end(settings, name, "read")


@pytest.mark.parametrize(
    ("component", "said"),
    [
        (
            None,
            "did you mean 'right'? its ports are named by `reads:` of the stage, and by `streams:`, in the pipeline",
        ),
        ("tally", "did you mean 'right'? see its component.yaml and `streams:`"),
    ],
)
def test_where_the_ports_of_a_stage_are_named(component: str | None, said: str) -> None:
    settings = StageSettings("saxs", 1, ends=(end("s", "left"), end("t", "right")), component=component)
    with pytest.raises(StageError, match=re.escape(f"saxs reads left, right, not 'rihgt'; {said}")):
        find_end(settings, "rihgt", "read")


def test_without_a_run_the_error_names_the_option() -> None:
    with pytest.raises(StageError, match=r"this program writes no stream, not 'atoms'; .*--write atoms=PATH"):
        find_end(StageSettings(), "atoms", "write")


@pytest.mark.parametrize(
    ("path", "side", "engine", "opened"),
    [
        ("a.bp", "write", "BP5", "a.bp"),
        ("a.BP5", "write", "BP5", "a.BP5"),
        ("a.h5", "read", "HDF5", "a.h5"),
        ("atoms", "write", "SST", "atoms"),
        ("atoms.sst", "read", "SST", "atoms"),
        ("run.1/atoms", "read", "SST", "run.1/atoms"),
    ],
)
def test_the_engine_follows_from_the_suffix(path: str, side: Any, engine: str, opened: str) -> None:
    found = end_by_path(side, path)
    assert (found.engine, found.path) == (engine, opened)


def test_an_engine_that_is_named_wins() -> None:
    assert end_by_path("write", "a.bp.partial", "BP5").engine == "BP5"
    assert end_by_path("read", "a.bp", "BP4", open_timeout_s=3.0).open_timeout_s == 3.0


def test_an_end_of_the_plan_can_be_read(tmp_path: Path) -> None:
    plan = EndPlan(
        stream="atoms", port="input", side="read", engine="BP5", parameters={"OpenTimeoutSecs": "120"},
        path="/run/atoms.bp", open_timeout_s=120, step_timeout_s=600, io="input", config=None,
    )  # fmt: skip
    file = tmp_path / "stage.json"
    parameters = {"grid": [1, 2]}
    ends = [plan.model_dump()]
    text = {
        "stage_file_version": 2, "stage": "saxs", "component": "x", "ranks": 2, "run_dir": "/run",
        "parameters": parameters, "metrics": None,
    }  # fmt: skip
    file.write_text(json.dumps({**text, "ends": ends}))
    settings = read_settings(file)
    assert (settings.stage, settings.ranks, settings.parameters, settings.by_hand) == ("saxs", 2, parameters, False)
    (found,) = settings.ends
    assert (found.path, found.parameters, found.step_timeout_s) == (plan.path, plan.parameters, 600)


def test_settings_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "stage.json"
    file.write_text(
        to_json(StageSettings(stage="saxs", ranks=1)).replace('"stage_file_version": 2', '"stage_file_version": 3')
    )
    with pytest.raises(StageError, match=r"stage.json: stage_file_version is 3, and this wf reads version 2"):
        read_settings(file)


def test_settings_survive_the_file(tmp_path: Path) -> None:
    file = tmp_path / "stage.json"
    end = StreamEnd("atoms", "input", "read", "SST", "/run/atoms", {"QueueLimit": "2"}, 1.0, 2.0)
    settings = StageSettings("saxs", 2, {"grid": [1]}, "/run/metrics.jsonl", (end,), "scattering", "/run")
    file.write_text(to_json(settings))
    assert read_settings(file) == settings


def test_settings_that_cannot_be_read_name_the_variable(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"WF_STAGE names .*unset it to run by hand"):
        read_settings(tmp_path / "no.json")
