"""The page of `wf look` in Chromium: what it draws, after every change, is what was archived, as ADIOS2 reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from adios2 import Stream
from numpy.typing import NDArray
from playwright.sync_api import Page

from tests.support.accessibility import grave_violations
from tests.support.browser import PageOpener
from workflow.api.archives import look_at
from workflow.api.runs import run_pipeline
from workflow.look.fit_page_size import ordinal

Array = NDArray[Any]
SHOCK = """
wf: 1
name: shock
stages:
  md:
    component: lammps
    with: {cells: [4, 4, 20], variables: [piston=5.0], run_steps: 300, dump_every: 100}
  xrd:
    component: scattering
    with: {outputs: [line, slice], q_max: 8.0, slice_q_max: 4.6, line_from: [0, 0, 3], line_to: [0, 0, 8]}
  keep: {component: archive, with: {path: pattern.bp}}
  keep-atoms: {component: archive, with: {path: atoms.bp}}
streams:
  atoms: {from: md, to: [xrd, keep-atoms]}
  pattern: {from: xrd, to: keep}
oversubscribe: true
"""
GRAY_SCOTT = """
wf: 1
name: gray-scott
stages:
  simulation:
    component: gray_scott
    with: {size: [12, 16, 20], steps: 60, write_every: 20, F: 0.03}
  statistics: {component: histogram, with: {variable: V, bins: 30}}
  keep: {component: archive, with: {path: field.bp}}
  keep-histogram: {component: archive, with: {path: histogram.bp}}
streams:
  field: {from: simulation, to: [statistics, keep]}
  histogram: {from: statistics, to: keep-histogram}
oversubscribe: true
"""


def archived(path: Path, *names: str) -> list[dict[str, Array]]:
    """The steps of an archived file, as ADIOS2 reads them."""
    with Stream(str(path), "r") as file:
        return [{name: np.asarray(file.read(name)) for name in names} for _ in file.steps()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A shock run, and two Gray–Scott runs that differ in a parameter."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "shock.yaml").write_text(SHOCK)
    (folder / "gray-scott.yaml").write_text(GRAY_SCOTT)
    chosen = {
        "shock": ("shock", []),
        "one": ("gray-scott", []),
        "two": ("gray-scott", ["stages.simulation.with.F=0.04"]),
    }
    for name, (pipeline, sets) in chosen.items():
        report = run_pipeline(folder / f"{pipeline}.yaml", sets=sets, run_dir=folder / name)
        assert report.run.state == "succeeded", report.run.reason
    return {name: folder / name for name in chosen}


class Looker:
    """The page, as a user moves it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._until(0)

    def choose(self, **controls: str) -> None:
        """Select an entry of the lists with these ids, by its text."""
        for name, text in controls.items():
            self.do(lambda name=name, text=text: self.page.select_option(f"#{name}", label=text))  # type: ignore[misc]

    def press(self, *keys: str, on: str = "body") -> None:
        for key in keys:
            self.do(lambda key=key: self.page.locator(on).press(key))  # type: ignore[misc]

    def do(self, action: Callable[[], object]) -> None:
        """Do something that draws anew, and wait for the drawing."""
        before = int(self.page.locator("body").get_attribute("data-drawn") or 0)
        action()
        self._until(before)

    def _until(self, before: int) -> None:
        # By a selector: the page forbids the `eval` by which Playwright waits for an expression.
        self.page.locator(f"body[data-drawn]:not([data-drawn='{before}'])").wait_for()

    def drawn(self, place: int = 0) -> dict[str, Array]:
        """The numbers of the first trace of a drawing: x, y, and z of an image."""
        text = self.page.evaluate(
            """(place) => {
                const trace = document.getElementById(`plot${place}`).data[0];
                const list = (each) => each && Array.from(each);
                return JSON.stringify({x: list(trace.x), y: list(trace.y), z: trace.z && trace.z.map(list)});
            }""",
            place,
        )
        return {name: np.array(values, dtype=float) for name, values in json.loads(text).items() if values is not None}

    def state(self) -> str:
        return self.page.locator("#state").inner_text()


def test_a_shock_run_step_by_step(runs: dict[str, Path], open_page: PageOpener, tmp_path: Path) -> None:
    look_at(runs["shock"], page=tmp_path / "shock.html")
    looker = Looker(open_page(tmp_path / "shock.html"))
    pattern = archived(
        runs["shock"] / "pattern.bp", "slice_intensity", "slice_horizontal", "line_intensity", "line_q", "time"
    )
    atoms = archived(runs["shock"] / "atoms.bp", "position", "velocity")
    assert len(pattern) == len(atoms) == 4

    # It opens with the field that changes, at the last step, over the coordinates of its axes.
    assert looker.state().startswith("slice_intensity in pattern.bp of keep: step 3")
    assert looker.page.locator("h1").inner_text() == "shock"
    looker.press("Home")
    np.testing.assert_array_equal(looker.drawn()["x"], pattern[0]["slice_horizontal"])
    # Spots on a background are logarithmic at first.
    assert looker.page.locator("#logarithmic").is_checked()
    np.testing.assert_allclose(looker.drawn()["z"], np.log10(pattern[0]["slice_intensity"]))
    # A curve is not: its values may be 0.
    looker.choose(variable="line_intensity")
    assert not looker.page.locator("#logarithmic").is_checked()
    looker.choose(variable="slice_intensity")
    assert looker.page.locator("#logarithmic").is_checked()
    looker.do(lambda: looker.page.uncheck("#logarithmic"))
    for step in range(4):
        assert f"step {step}, time {pattern[step]['time'].item():.4g} ps" in looker.state()
        np.testing.assert_array_equal(looker.drawn()["z"], pattern[step]["slice_intensity"])
        looker.press("ArrowRight")  # at the last step it stays there
    looker.press("Home")
    np.testing.assert_array_equal(looker.drawn()["z"], pattern[0]["slice_intensity"])

    # Another variable of the file stays at the step, and finds its coordinate.
    looker.press("ArrowRight", "ArrowRight", on="#step")
    looker.choose(variable="line_intensity")
    np.testing.assert_array_equal(looker.drawn()["y"], pattern[2]["line_intensity"])
    np.testing.assert_array_equal(looker.drawn()["x"], pattern[2]["line_q"])
    looker.choose(across="index")
    np.testing.assert_array_equal(looker.drawn()["x"], np.arange(len(pattern[2]["line_q"])))

    looker.choose(variable="particles")  # by itself the position along the shock
    z, velocity = atoms[2]["position"][:, 2], atoms[2]["velocity"][:, 2]
    every = np.concatenate([step["position"][:, 2] for step in atoms])
    np.testing.assert_array_equal(looker.drawn()["y"], counts(z, every, 100))
    looker.press("End")  # the atom that has gone farthest is in the last bin
    farthest = np.argmax([step["position"][:, 2].max() for step in atoms])
    looker.press(*["ArrowLeft"] * (3 - int(farthest)))
    np.testing.assert_array_equal(looker.drawn()["y"], counts(atoms[farthest]["position"][:, 2], every, 100))
    looker.press("Home", "ArrowRight", "ArrowRight")
    looker.choose(form="points of two")  # and the velocity along it
    np.testing.assert_array_equal(looker.drawn()["x"], z)
    np.testing.assert_array_equal(looker.drawn()["y"], velocity)
    looker.choose(form="density of two")
    assert looker.drawn()["z"].sum() == len(z)


def counts(values: Array, every: Array, bins: int) -> Array:
    """How many values are in each of equal bins over the range of all steps; the last bin includes its upper edge."""
    low, high = every.min(), every.max()
    places = np.minimum(np.floor((values - low) / (high - low) * bins).astype(int), bins - 1)
    return np.bincount(places, minlength=bins)


def test_planes_of_two_gray_scott_runs_and_their_difference(
    runs: dict[str, Path], open_page: PageOpener, tmp_path: Path
) -> None:
    look_at(runs["one"], runs["two"], page=tmp_path / "both.html")
    looker = Looker(open_page(tmp_path / "both.html"))
    one, two = (archived(runs[name] / "field.bp", "U", "V", "step") for name in ("one", "two"))

    looker.choose(variable="V")
    looker.press("End")
    for place, values in enumerate((one[3]["V"], two[3]["V"], two[3]["V"] - one[3]["V"])):
        np.testing.assert_array_equal(looker.drawn(place)["z"], values[6])
    looker.press("Shift+ArrowRight")
    looker.do(lambda: looker.page.check("#logarithmic"))
    looker.choose(axis="axis 2")
    # What was chosen holds for the other planes of a volume.
    assert looker.page.locator("#logarithmic").is_checked()
    looker.do(lambda: looker.page.uncheck("#logarithmic"))
    looker.press("Shift+ArrowLeft", "Shift+ArrowLeft")
    assert "step 3, cell 8 along axis 2" in looker.state()
    np.testing.assert_array_equal(looker.drawn(0)["z"], one[3]["V"][:, :, 8])
    np.testing.assert_array_equal(looker.drawn(2)["z"], (two[3]["V"] - one[3]["V"])[:, :, 8])
    assert np.abs(looker.drawn(2)["z"]).max() > 1e-3, "two runs that differ are to be compared"

    # One run, then the other one, then only the difference.
    assert looker.page.locator("h1").inner_text() == "gray-scott: F=0.03 and F=0.04"
    looker.choose(shown="F=0.04", variable="U")
    assert looker.page.locator("figure").count() == 1
    np.testing.assert_array_equal(looker.drawn()["z"], two[3]["U"][6])
    looker.choose(shown="F=0.03")
    np.testing.assert_array_equal(looker.drawn()["z"], one[3]["U"][6])
    looker.choose(shown="F=0.04 − F=0.03")
    np.testing.assert_array_equal(looker.drawn()["z"], (two[3]["U"] - one[3]["U"])[6])

    # The histogram: a curve over its edges, and a scalar over the steps.
    of_one = archived(runs["one"] / "histogram.bp", "pdf", "edges", "mean")
    looker.choose(shown="F=0.03", variable="pdf")
    np.testing.assert_array_equal(looker.drawn()["y"], of_one[3]["pdf"])
    np.testing.assert_array_equal(looker.drawn()["x"], (of_one[3]["edges"][1:] + of_one[3]["edges"][:-1]) / 2)
    looker.choose(variable="mean")
    np.testing.assert_array_equal(looker.drawn()["y"], [step["mean"].item() for step in of_one])


def test_a_page_says_what_is_thinned_reaches_no_network_and_needs_no_mouse(
    runs: dict[str, Path], open_page: PageOpener, tmp_path: Path
) -> None:
    written = look_at(runs["one"] / "field.bp", page=tmp_path / "small.html", limit=20_000)
    looker = Looker(open_page(tmp_path / "small.html", width=400))
    looker.choose(variable="V")
    said = looker.page.locator("#thinned").inner_text()
    strides = json.loads(looker.page.locator("#model").text_content() or "")["files"][0]["views"][1]["strides"]
    assert f"every {ordinal(strides[2])} cell along axis 2, numbers with 7 digits" in said and max(strides) > 1
    assert f"field.bp: V: {said[len('Thinned: ') : -1]}" in written.thinned
    values = archived(runs["one"] / "field.bp", "V")[3]["V"].astype(np.float32)[
        tuple(slice(None, None, n) for n in strides)
    ]
    np.testing.assert_array_equal(looker.drawn()["z"], values[values.shape[0] // 2])
    assert grave_violations(looker.page) == []
    # The page itself forbids it, whatever a script would try.
    refused = looker.page.evaluate("fetch('https://example.org/').then(() => 'answered', (error) => 'refused')")
    assert refused == "refused"
    assert all("Content Security Policy" in fault for fault in open_page.faults), open_page.faults
    open_page.faults.clear()
    # Each control has a label, and every step can be reached by the Tab key and the arrows.
    looker.page.locator("body").press("Tab")
    for _ in range(20):
        if looker.page.evaluate("document.activeElement.id") == "step":
            break
        looker.page.keyboard.press("Tab")
    looker.do(lambda: looker.page.keyboard.press("ArrowLeft"))
    assert "step 2" in looker.state()
    assert looker.page.locator("#step").get_attribute("aria-valuetext") == "step 2 (3 of 4)"


def test_steps_without_a_column_and_equal_bytes_of_two_types(open_page: PageOpener, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        for step in range(2):
            file[f"Step#{step}/position"] = np.arange(15.0).reshape(5, 3)
            file[f"Step#{step}/narrow"] = np.zeros(32, np.float32)
            file[f"Step#{step}/wide"] = np.zeros(16)
            file[f"Step#{step}/dipole"] = np.arange(21.0).reshape(7, 3) + step
        file["Step#1/weight"] = np.arange(5.0)
    look_at(tmp_path / "run.h5", page=tmp_path / "page.html")
    looker = Looker(open_page(tmp_path / "page.html"))
    for name, length in (("narrow", 32), ("wide", 16)):
        looker.choose(variable=name)
        np.testing.assert_array_equal(looker.drawn()["y"], np.zeros(length))
    looker.choose(variable="dipole")  # a curve for each component, and points
    np.testing.assert_array_equal(looker.drawn()["y"], np.arange(7) * 3 + 1)
    names = "JSON.stringify(document.getElementById('plot0').data.map(each => each.name))"
    assert json.loads(looker.page.evaluate(names)) == ["x", "y", "z"]
    looker.choose(form="points of two", against="z")
    np.testing.assert_array_equal(looker.drawn()["y"], np.arange(7) * 3 + 3)
    looker.press("Home")
    looker.choose(variable="particles", column="weight", form="points of two", against="position y")
    assert looker.page.locator("figcaption span").inner_text() == "nothing in this step"
    looker.press("End")
    np.testing.assert_array_equal(looker.drawn()["x"], np.arange(5.0))
    looker.choose(column="position x", against="weight")
    looker.press("Home")
    assert looker.page.locator("figcaption span").inner_text() == "nothing in this step"
    looker.choose(form="histogram")
    assert looker.drawn()["y"].sum() == 5


def test_the_title_of_the_scale_stays_beside_it_when_the_window_gets_another_size(
    open_page: PageOpener, tmp_path: Path
) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["Step#0/plane"] = np.arange(900.0).reshape(30, 30)
    look_at(tmp_path / "run.h5", page=tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    page.wait_for_function("document.body.dataset.drawn")
    page.set_viewport_size({"width": 390, "height": 900})
    place = "(name) => document.querySelector(name).getBoundingClientRect()"
    page.wait_for_function(
        f"() => {{ const at = {place}, title = at('.cbtitle');"
        " return at('.main-svg').height === 400 && title.top > at('.xtitle').bottom"
        " && title.bottom < at('.cbfill').top; }"
    )
