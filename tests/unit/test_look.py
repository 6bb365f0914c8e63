"""What `wf look` takes from files: the variables, what fits into the page, and what the page says of it. Pure."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from tests.support.planner import CHAIN, Planner
from workflow.data_files.read_steps import VariableKind
from workflow.look.drawn_variables import (
    DataView,
    FileContents,
    StepTime,
    VariableLabel,
    ViewColumn,
    columns_of_species,
    make_views,
)
from workflow.look.files_to_look_at import RunTitles, file_titles, run_titles, spools
from workflow.look.fit_page_size import Thinning, carried_bytes, ordinal, thin, thinning_text, whole
from workflow.look.look_page import first_view, make_look_page, to_model
from workflow.look.read_numbers import Carried, FileView
from workflow.stage import Shape


def contents(steps: int = 3, **shapes: Shape) -> FileContents:
    """A file in which each variable has the same shape in all steps. `__` stands for a slash."""
    named = {name.replace("__", "/"): shape for name, shape in shapes.items()}
    return FileContents(
        tuple(StepTime(number) for number in range(steps)),
        {name: (VariableKind("float64", shape),) * steps for name, shape in named.items()},
    )


def view(kind: str, *extent: int, steps: int = 3, columns: int = 1) -> DataView:
    named = tuple(ViewColumn(f"c{column}", "v", None) for column in range(columns))
    return DataView("v", kind, named, ((extent,) * steps,))  # type: ignore[arg-type]


def test_each_variable_is_drawn_by_its_dimensions() -> None:
    found, left_out = make_views(
        [contents(mean=(), pdf=(30,), plane=(4, 5), V=(8, 8, 8), E=(8, 8, 8, 3), five=(1,) * 5)], range(3)
    )
    assert {each.name: each.kind for each in found} == {
        "mean": "scalar", "pdf": "line", "plane": "image", "V": "volume", "E": "volume",
    }  # fmt: skip
    assert [column.label for column in found[0].columns] == ["x", "y", "z"]
    assert left_out == {"five": "5 dimensions"}


@pytest.mark.parametrize(
    ("shapes", "columns"),
    [
        ({"position": (9, 3), "id": (9,), "box": (2, 3)}, ["id", "position x", "position y", "position z"]),
        ({"e/position/x": (9,), "e/position/y": (9,), "e/w": (9,), "rho": (9,)}, ["position x", "position y", "w"]),
        ({"x": (9,), "y": (9,), "z": (9,), "px": (9,), "n": (4,)}, ["px", "x", "y", "z"]),
    ],
)  # fmt: skip
def test_particles_are_one_entry_with_all_that_stands_beside_their_position(
    shapes: dict[str, Shape], columns: list[str]
) -> None:
    ((_, found),) = columns_of_species(shapes).items()
    assert [column.label for column in found] == columns


def test_a_species_and_a_variable_of_one_name_are_two_entries() -> None:
    found, _ = make_views([contents(position=(9, 3), particles=())], range(3))
    assert [each.name for each in found] == ["particles (particles)", "particles"]


def test_a_curve_over_x_is_no_particle() -> None:
    assert columns_of_species({"x": (9,), "y": (9,)}) == {}


def test_two_runs_are_one_entry_also_where_one_of_them_lacks_it() -> None:
    short = FileContents((StepTime(0),), {"a": (VariableKind("float32", (5,)),)})
    (a, b), _ = make_views([short, contents(2, a=(5,), b=(7,))], (0, 1))
    assert a.extents == (((5,), None), ((5,), (5,)))
    assert b.extents == ((None, None), ((7,), (7,)))


def test_what_fits_is_not_thinned() -> None:
    assert thin([view("volume", 32, 32, 32)], 3 * 32**3 * 8) == [Thinning(1, (1, 1, 1), 8)]


@pytest.mark.parametrize(
    "kind, extent", [("line", (10_000,)), ("image", (400, 700)), ("volume", (100, 4, 100)), ("particles", (50_000,))]
)
@pytest.mark.parametrize("limit", [3_000_000, 300_000, 5_000])
def test_the_page_never_carries_more_than_its_limit(kind: str, extent: Shape, limit: int) -> None:
    views = [view(kind, *extent, steps=200), view("scalar", steps=200)]
    large, small = thin(views, limit)
    assert large is not None and small == whole(views[1]), "what is small is not thinned for the sake of what is large"
    assert carried_bytes(views[0], large) + carried_bytes(views[1], small) <= limit
    finer = Thinning(large.every, tuple(max(1, n - 1) for n in large.strides), 4)
    assert finer.strides == large.strides or carried_bytes(views[0], finer) > limit // 3, "thinned more than is needed"


def test_arrays_of_one_size_are_thinned_alike() -> None:
    small, u, v = thin([view("line", 10), view("volume", 48, 48, 48), view("volume", 48, 48, 48)], 3 * 48**3 * 4)
    assert u == v and u != whole(view("volume", 48, 48, 48)) and small == whole(view("line", 10))


def test_a_view_that_cannot_be_thinned_enough_is_left_out() -> None:
    assert thin([view("volume", 100, 100, 100)], 1000) == [None]


def test_what_was_thinned_is_said() -> None:
    assert thinning_text(view("volume", 9, 9, 9), Thinning(1, (1, 1, 1), 8)) == ""
    assert thinning_text(view("volume", 90, 90, 90, steps=41), Thinning(3, (2, 2, 2), 4)) == (
        "every 3rd step (14 of 41), every 2nd cell along each axis, numbers with 7 digits"
    )
    assert (
        thinning_text(view("volume", 90, 9, 90), Thinning(1, (4, 1, 3), 8))
        == "every 4th cell along axis 0, every 3rd cell along axis 2"
    )
    assert thinning_text(view("particles", 900), Thinning(1, (22,), 8)) == "every 22nd particle"
    assert [ordinal(n) for n in (2, 3, 11, 12, 23, 101)] == ["2nd", "3rd", "11th", "12th", "23rd", "101st"]


ZEROS = base64.b64encode(bytes(16)).decode()


def page_file(name: str = "pdf") -> FileView:
    shown = DataView(name, "line", (ViewColumn(name, name),), (((2,), (2,)),))
    labels = {name: VariableLabel("probability", "1/Å")}
    carried = {name: ((Carried((ZEROS, None), 0.0, 1.0),),)}
    return FileView("a.bp", (0, 10), ((0.0, None),), "ps", labels, (shown,), {name: whole(shown)}, carried)


def carried_view(kind: str, name: str, *steps: list[float], extent: Shape = ()) -> tuple[DataView, tuple[Carried, ...]]:
    """A view of one column with these numbers in its steps."""
    texts = tuple(base64.b64encode(np.array(values).tobytes()).decode() for values in steps)
    shown = DataView(name, kind, (ViewColumn(name, name),), ((extent or (len(steps[0]),),) * len(steps),))  # type: ignore[arg-type]
    every = [value for values in steps for value in values]
    return shown, (Carried(texts, min(every), max(every)),)


CHOICES = {
    "mask": carried_view("image", "mask", [0.0, 1.0] * 50, [0.0, 1.0] * 50, extent=(10, 10)),
    "zero": carried_view("volume", "zero", [0.0] * 1000, [0.0] * 1000, extent=(10, 10, 10)),
    "box": carried_view("image", "box", [0.0, 1.0] * 3, [0.0, 2.0] * 3, extent=(2, 3)),
    "edges": carried_view("line", "edges", [0.0, 1.0, 2.0], [0.0, 2.0, 4.0]),
    "pdf": carried_view("line", "pdf", [1.0, 3.0, 2.0], [2.0, 1.0, 3.0]),
    "mean": carried_view("scalar", "mean", [1.0], [2.0]),
    "small": carried_view("image", "small", [0.0, 1.0] * 8, [1.0, 0.0] * 8, extent=(4, 4)),
    "large": carried_view("image", "large", [0.0, 1.0] * 32, [1.0, 0.0] * 32, extent=(8, 8)),
    "atoms": carried_view("particles", "atoms", [0.0, 1.0, 3.0] * 99, [1.0, 0.0, 2.0] * 99),
}


def file_with(name: str) -> FileView:
    shown, columns = CHOICES[name]
    return FileView("f.bp", (0, 1), ((None, None),), "", {}, (shown,), {name: whole(shown)}, {name: (columns,)})


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("mask zero atoms small large", "large"),
        ("mask pdf atoms edges", "atoms"),
        ("mean edges mask pdf", "pdf"),
        ("edges box mean", "box"),
        ("zero mean", "mean"),
        ("zero mask", "mask"),
        ("zero", "zero"),
    ],
)
def test_the_page_opens_with_a_field_that_changes(names: str, first: str) -> None:
    assert names.split()[first_view([file_with(name) for name in names.split()])] == first


def test_the_page_opens_with_what_was_archived_before_what_the_run_has_kept_for_itself() -> None:
    files = [replace(file_with("large"), is_spool=True), file_with("mean"), file_with("pdf"), file_with("zero")]
    assert first_view(files) == 2


def test_runs_are_called_by_what_differs_and_files_by_who_wrote_them(plan_of: Planner) -> None:
    one, two = plan_of(CHAIN), plan_of(CHAIN.replace("variable: position", "variable: position, bins: 20"), via="bp5")
    assert run_titles(["a"], [one]) == ("test", ["a"])
    assert run_titles(["a", "b"], [one, None]) == ("a and b", ["a", "b"])
    assert run_titles(["a", "b"], [one, one]) == ("test: a and b", ["a", "b"])
    other = one.model_copy(update={"pipeline": "shock"})
    assert run_titles(["a", "b"], [one, other]) == ("test and shock", ["test", "shock"])
    both = run_titles(["a", "b"], [one, two])
    assert both.runs == [
        "bins=10, sst",
        "bins=20, bp5",
    ]
    assert both.title == f"test: {both.runs[0]} and {both.runs[1]}"
    text = CHAIN.replace("variable: position", "variable: position, bins: '${{ params.bins }}'")
    text = f"params: {{bins: 10, nu: 0.1}}{text}"
    sets = [plan_of(text, sets=(each,)) for each in ("params.nu=0.05", "params.nu=0.1", "params.bins=9")]
    assert run_titles(["a", "b"], sets[:2]).runs == ["nu=0.05", "nu=0.1"]
    assert run_titles(["a", "b"], sets[1:]).runs == ["bins=10", "bins=9"], "once, though a stage has it as well"
    apart = run_titles(["a", "b"], [one, plan_of(CHAIN, sets=("streams.*.transport=tcp",))])
    assert apart.runs == ["shm", "tcp"], "as the transport is called in the file"
    assert file_titles(None) == {}
    titles = file_titles(two)
    assert titles["streams/positions.bp"] == "stream positions of walk"
    assert [title for title in titles.values() if title.endswith(" of keep")], titles


def test_the_spools_of_a_run_are_known_by_its_plan(plan_of: Planner) -> None:
    text = CHAIN.replace("to: count}", "to: count, keep: true}")
    assert spools(plan_of(text)) == {"streams/positions-spool.bp"} and spools(plan_of(CHAIN, via="bp5")) == set()
    assert spools(None) == set()


def test_a_list_of_vectors_has_a_column_for_each_component() -> None:
    found, _ = make_views([contents(dipole=(40, 3), spin=(9, 2), box=(2, 3), image=(40, 30))], range(3))
    assert {each.name: (each.kind, [column.label for column in each.columns]) for each in found} == {
        "dipole": ("vectors", ["x", "y", "z"]), "spin": ("vectors", ["x", "y"]), "box": ("image", ["box"]),
        "image": ("image", ["image"]),
    }  # fmt: skip
    assert found[1].extents == (((40,),) * 3,)


def test_the_model_names_steps_units_and_numbers() -> None:
    (file,) = to_model(["run"], [page_file()])["files"]
    assert file["steps"] == [0, 10] and file["times"] == [[0.0, None]] and file["timeUnit"] == "ps"
    (pdf,) = file["views"]
    assert pdf["columns"] == [{"name": "pdf", "label": "probability", "unit": "Å⁻¹", "factor": 1.0}]
    assert pdf["runs"] == [{"extents": [[2], [2]], "columns": [{"values": (ZEROS, None), "low": 0.0, "high": 1.0}]}]


def test_names_cannot_become_part_of_the_page() -> None:
    evil = "</script><script>alert(1)</script>"
    page = make_look_page(RunTitles(evil, [evil]), [evil], [page_file(evil)], [evil], "let Plotly;")
    assert "<script>alert" not in page
    model = page.partition('id="model">')[2].partition("</script>")[0]
    assert json.loads(model)["files"][0]["views"][0]["name"] == evil


def test_units_with_a_number_are_multiplied_out_once_for_all_values_of_one_unit() -> None:
    shown = DataView("e", "particles", (ViewColumn("x", "x"), ViewColumn("y", "y")), (((2,),),))
    labels = {name: VariableLabel("", "0.00106 m") for name in "xy"}
    carried = {"e": ((Carried((ZEROS,), 0.0, 40.0), Carried((ZEROS,), -0.5, 0.5)),)}
    file = FileView("a.h5", (50,), ((50.0,),), "1.77e-10 s", labels, (shown,), {"e": whole(shown)}, carried)
    (model,) = to_model(["run"], [file])["files"]
    assert (model["timeUnit"], model["timeFactor"] * 50) == ("ns", pytest.approx(8.85))
    for column in model["views"][0]["columns"]:
        assert (column["unit"], column["factor"]) == ("mm", pytest.approx(1.06))
