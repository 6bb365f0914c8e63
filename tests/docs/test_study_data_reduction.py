"""The study data-reduction: a tiny one runs, and what is predicted follows from what was measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tools.compression_break_even import OutputPath, Reduction, break_even_threshold
from tools.data_reduction import (
    BETWEEN,
    FIELDS,
    SingleMeasurements,
    inputs,
    iso_finding,
    label_places,
    pictures,
    predict,
)
from workflow.campaign.results.results_model import CampaignResults

ROOT = Path(__file__).parents[2]
CAMPAIGN = ROOT / "examples/campaigns/data-reduction/campaign.yaml"
MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")


@pytest.fixture(scope="module")
def measured() -> tuple[SingleMeasurements, CampaignResults]:
    return inputs()


def test_a_tiny_study_compresses(tmp_path: Path) -> None:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (["run", str(CAMPAIGN), "--set", "scale=tiny"], ["report", "data-reduction"]):
        command = [MPI_PYTHON, "-m", "workflow.cli", "campaign", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    report = CampaignResults.model_validate_json((tmp_path / "campaigns/data-reduction/report.json").read_bytes())
    stored = {
        str(each.parameters["profile"]): each.median
        for each in report.results
        if each.metric == "stored" and each.median
    }
    # Small fields are smooth: zfp with an absolute accuracy keeps the least of them.
    assert set(stored) == {"none", "lz4", "zfp-1e-3"} and stored["zfp-1e-3"] < stored["lz4"] < stored["none"]


def test_the_page_of_predictions_is_made_of_the_measurements() -> None:
    command = [sys.executable, "tools/data_reduction.py", "--check"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "."})
    assert answer.returncode == 0, answer.stderr


def test_a_prediction_is_near_or_names_the_term_that_is_off(
    measured: tuple[SingleMeasurements, CampaignResults],
) -> None:
    single, results = measured
    found = predict(single, results)
    assert {each.name for each in found} == {each.profile for each in single.compressors} and len(found) == 11
    for each in found:
        assert (abs(each.difference) <= 0.2) == (not each.off)
        # Equation 4 says the same as equation 5.
        assert (each.predicted < 1) == (break_even_threshold(single.path, each.single) > single.path.file_system)
    ratios = {each.metric + str(each.value): each.ratio for each in results.comparisons}
    assert all(each.measured == pytest.approx(ratios["output" + each.name]) for each in found)


def test_a_wrong_term_is_named(measured: tuple[SingleMeasurements, CampaignResults]) -> None:
    single, results = measured
    changed = json.loads(single.model_dump_json())
    (zstd,) = (each for each in changed["compressors"] if each["profile"] == "zstd-2")
    for field in zstd["fields"]:
        field["compress"]["median"] *= 3
    assert len(zstd["fields"]) == len(FIELDS)
    (found,) = (each for each in predict(single.model_validate(changed), results) if each.name == "zstd-2")
    assert found.off.startswith("T_C: ")


def test_the_pictures_have_their_data_beside_them(measured: tuple[SingleMeasurements, CampaignResults]) -> None:
    for picture in pictures(*measured):
        file = ROOT / f"docs/pictures/data-reduction-iso-compression-{picture.name}.csv"
        assert file.read_bytes() == picture.csv() and file.with_suffix(".svg").is_file()


def test_the_title_is_what_the_compressors_show_and_the_legend_has_all_marks(
    measured: tuple[SingleMeasurements, CampaignResults],
) -> None:
    path = OutputPath(memcpy=8e9, file_system=1e8)
    fast, slow = Reduction(0.5, 4e9), Reduction(0.9, 1e6)
    shown = [("slow", slow, 80.0), ("zfp", fast, 0.5)]
    title = iso_finding("here", path, shown)
    assert title == "1 of 2 compressors saves time here: Γ = 0.5 (zfp) to 80 (slow), as measured"
    predicted = [("slow", slow, None), ("slower", slow, None)]
    assert iso_finding("there", path, predicted).startswith("None of 2 compressors saves time there: ")
    here, titan = (picture.svg.decode() for picture in pictures(*measured))
    assert ">measured<" in here and ">measured<" not in titan
    assert "lossless, predicted" in here and "◂ bzip2" in here


def test_labels_beside_one_another_keep_their_order_and_their_distance() -> None:
    """Three marks at one place, one far to the left, and one at the right end of the axis."""
    places = label_places([0.7, 0.1, 0.7, 1.0, 0.7])
    assert places[1] == 0.1 and places[0] < places[2] < places[4] < places[3] < 1.0
    ordered = sorted(places)
    assert all(later - earlier >= BETWEEN * 0.999 for earlier, later in pairwise(ordered))
