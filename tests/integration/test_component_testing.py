"""`workflow.testing`: our own components, each alone, with the physics that they must show; failures; recorded data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.image
import numpy as np
import pytest
from matplotlib import colormaps

from tests.support.pipelines import ROOT
from workflow.errors import SpecError
from workflow.testing import ComponentRunFailed, StepData

if TYPE_CHECKING:
    from workflow.testing.pytest_plugin import RunComponent

pytest_plugins = ["workflow.testing.pytest_plugin"]
LATTICE = 2.0  # Å


@pytest.mark.parametrize("via", ["sst", "bp5"])
def test_histogram_counts_every_value_once(via: str, run_component: RunComponent) -> None:
    random = np.random.default_rng(1)
    fields = [random.normal(size=(16, 16, 16)) + shift for shift in (0.0, 3.0)]
    result = run_component(
        "histogram",
        reads={"input": [{"V": each} for each in fields]},
        parameters={"variable": "V", "bins": 16},
        via=via,
    )
    assert result.state == "succeeded"
    assert result.exit_code == 0
    assert len(result["histogram"]) == 2
    for step, field in zip(result["histogram"], fields, strict=True):
        assert step["counts"].sum() == 4096
        assert step["mean"] == pytest.approx(field.mean())
        assert np.sum(step["pdf"] * np.diff(step["edges"])) == pytest.approx(1.0)


def test_scattering_has_its_peaks_where_bragg_says(run_component: RunComponent) -> None:
    """A simple cubic crystal: along (00l) the intensity is N² at q = 2π l / a, and next to nothing between."""
    number = 6
    edge = LATTICE * number
    places = np.stack(np.meshgrid(*[np.arange(number) * LATTICE] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    atoms = StepData(
        {"position": places, "box": np.array([[0.0] * 3, [edge] * 3])},
        {"species": ["Cu"], "periodic": np.array([1, 1, 1])},
    )
    wanted = {"outputs": ["line"], "line_from": [0.0, 0.0, 0.5], "line_to": [0.0, 0.0, 4.0], "line_points": 701}
    (step,) = run_component("scattering", reads={"atoms": [atoms]}, parameters=wanted)["pattern"]
    q, intensity = step["line_q"] - step["line_q"][0] + 0.5, step["line_intensity"]
    bragg = 2 * np.pi / LATTICE
    # The form factor, which falls with q, moves the peak of so few cells a little.
    assert q[np.argmax(intensity)] == pytest.approx(bragg, abs=0.02)
    assert intensity[np.abs(q - bragg) > 1.0].max() < 0.1 * intensity.max()


def test_gray_scott_stays_within_its_bounds_and_does_not_depend_on_the_ranks(run_component: RunComponent) -> None:
    wanted = {"size": [8], "steps": 40, "write_every": 20}
    alone, together = (run_component("gray_scott", parameters=wanted, ranks=ranks)["field"] for ranks in (1, 2))
    assert [int(step["step"]) for step in alone] == [0, 20, 40]
    for one, two in zip(alone, together, strict=True):
        assert np.all((one["U"] >= 0) & (one["U"] <= 1.1) & (one["V"] >= 0))
        np.testing.assert_array_equal(one["V"], two["V"])


def test_synthetic_writes_what_its_description_says(run_component: RunComponent) -> None:
    steps = run_component("synthetic", parameters={"grid_points": 10, "particles": 4, "steps": 3}, ranks=2)["output"]
    for number, step in enumerate(steps):
        np.testing.assert_array_equal(step["grid"], np.arange(20) + number)
        np.testing.assert_array_equal(step["particles"], np.arange(8)[:, None] + np.arange(3) + number)
    assert len(steps) == 3


def test_relay_copies_values_and_attributes_of_every_second_step(run_component: RunComponent) -> None:
    given = [StepData({"a": np.full(3, float(n)), "n": n, "text": f"step {n}"}, {"a/unit": "Å"}) for n in range(5)]
    written = run_component("relay", reads={"input": given}, parameters={"every": [2]})["output"]
    assert [int(step["n"]) for step in written] == [0, 2, 4]
    assert [str(step["text"]) for step in written] == ["step 0", "step 2", "step 4"]
    assert written[0].attributes["a/unit"] == "Å"


def test_archive_writes_a_file_with_all_steps(run_component: RunComponent) -> None:
    given = ({"x": np.arange(4) * n} for n in range(3))
    result = run_component("archive", reads={"input": given}, parameters={"path": "kept.h5"})
    assert [step["x"].tolist() for step in result.read("kept.h5")] == [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 4, 6]]
    assert result.streams == {}


def test_null_says_how_much_it_has_read(run_component: RunComponent) -> None:
    assert "null: 2 steps, 160 bytes" in run_component("null", reads={"input": [{"x": np.zeros(10)}] * 2}).log


def test_plot_shows_where_values_are_large(run_component: RunComponent) -> None:
    """A quarter of the newest image is 1, the rest 0: of two colours one covers three times the area of the other."""
    fields = [np.zeros((8, 8)), np.zeros((8, 8))]
    fields[1][:4, :4] = 1.0
    wanted = {"variable": "V", "colormap": "viridis", "snapshots": 1, "picture": "look.png", "frames": True}
    result = run_component("plot", reads={"input": [{"V": each} for each in fields]}, parameters=wanted)
    pixels = matplotlib.image.imread(result.run_dir / "look.png")[..., :3]
    low, high = (np.abs(pixels - colormaps["viridis"](value)[:3]).max(axis=-1) < 0.01 for value in (0.0, 1.0))
    assert low.sum() / high.sum() == pytest.approx(3.0, abs=0.1)
    # The first row of the data is the lowest, its first column on the left.
    (low_row, low_column), (high_row, high_column) = (np.argwhere(each).mean(axis=0) for each in (low, high))
    assert high_row > low_row
    assert high_column < low_column
    assert len(list(result.run_dir.glob("pictures/frames/*.png"))) == 2


def test_a_program_of_ones_own_on_a_recorded_stream(tmp_path: Path, run_component: RunComponent) -> None:
    recorded = run_component("gray_scott", parameters={"size": [8], "steps": 40, "write_every": 20})
    program = tmp_path / "mean.py"
    program.write_text(
        "from workflow import stage\n"
        "with stage.open_reader('field') as field, stage.open_writer('mean') as mean:\n"
        "    for step in field:\n"
        "        with mean.step():\n"
        "            mean.write('mean', float(step.read('V').mean()))\n"
    )
    result = run_component(
        [sys.executable, str(program)], reads={"field": recorded.run_dir / "written/field.bp"}, writes=["mean"]
    )
    assert [step["mean"] for step in result["mean"]] == [step["V"].mean() for step in recorded["field"]]


def test_a_failure_has_its_reason_and_its_log(run_component: RunComponent) -> None:
    steps = [{"grid": np.zeros(4)}] * 4
    wanted = {"how": "raise", "where": "after", "at": 1, "times": 99}
    with pytest.raises(ComponentRunFailed, match="ArithmeticError: requested by the test"):
        run_component(ROOT / "tests/support/faulty", reads={"input": steps}, parameters=wanted)
    result = run_component(ROOT / "tests/support/faulty", reads={"input": steps}, parameters=wanted, check=False)
    assert (result.state, result.exit_code) == ("failed", 1)
    assert "requested by the test" in result.log


def test_a_mistake_is_told_of_the_argument_and_not_of_a_file_that_nobody_wrote(
    tmp_path: Path, run_component: RunComponent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as caught:
        run_component("histogram", reads={"input": "nothere.bp"}, parameters={"variable": "V"})
    assert str(caught.value) == (
        f'error: reads["input"]: there is no file nothere.bp\n  relative paths start at the current folder, {tmp_path}'
    )
    for given, key in (({"binz": 3}, 'parameters["binz"]'), ({"bins": "x"}, 'parameters["bins"]')):
        with pytest.raises(SpecError) as caught:
            run_component("histogram", reads={"input": [{"V": 1.0}]}, parameters={"variable": "V", **given})
        assert [(each.place, each.key) for each in caught.value.problems] == [("", key)]
    with pytest.raises(SpecError) as caught:
        run_component("histogram", reads={"inputs": [{"V": 1.0}]}, parameters={"variable": "V"})
    assert {each.key for each in caught.value.problems} <= {'reads["inputs"]', "component"}


def test_a_mistake_is_found_before_anything_runs(run_component: RunComponent) -> None:
    with pytest.raises(SpecError, match="did you mean"):
        run_component("histogram", reads={"input": [{"V": np.zeros(3)}]}, parameters={"variable": "V", "bin": 16})
