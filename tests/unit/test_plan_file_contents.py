"""Formats of files against the streams that they are written from: what is certain is refused by the check.

The rules are those of the component archive: each case is given to both.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components.archive.h5part import H5Part
from components.archive.program import BY_SUFFIX, format_of
from components.archive.tree import Described
from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.plan.plan_model import Plan
from workflow.site.site_model import Site
from workflow.spec.component_files import load_component
from workflow.spec.file_formats import chosen_format
from workflow.spec.load import load_pipeline
from workflow.stage import Info

SITE = Site(site="test", summary="8 cores", cores_per_node=8, memory_per_node=2**33)
FORMATS = load_component("archive").file_formats


def planned(folder: Path, variables: str, keep: str) -> Plan:
    """The plan of a program with these variables, whose stream an archive with these parameters writes."""
    file = folder / "pipeline.yaml"
    file.write_text(
        "wf: 1\nname: formats\nstages:\n"
        f"  sim: {{command: [sh], writes: {{field: {{io: f, config: a.xml, variables: {variables}}}}}}}\n"
        f"  keep: {{component: archive, with: {keep}}}\nstreams: {{field: {{from: sim, to: keep}}}}\n"
    )
    return make_plan(load_pipeline(file), SITE, python="/python", wf_version="0")


def refusal(folder: Path, variables: str, keep: str) -> str:
    with pytest.raises(SpecError) as caught:
        planned(folder, variables, keep)
    (problem,) = caught.value.problems
    return f"{problem.key}: {problem.message}"


def archived(shapes: dict[str, tuple[int, ...]], fields: bool) -> str:
    """What the component says of a step with these arrays; empty when it writes them."""
    arrays = {name: Info("float64", shape) for name, shape in shapes.items()}
    try:
        H5Part(fields).tree(Described(0, 0, arrays, {}, {}))
    except SystemExit as error:
        return str(error)
    return ""


# (variables as declared, refused by h5part, refused by h5block)
CONTENTS: list[tuple[dict[str, list[int | str]], bool, bool]] = [
    ({"U": ["nz", "ny", "nx"], "step": []}, True, False),
    ({"a": [10], "b": [10], "m": [4, 4]}, False, False),
    ({"a": [10], "b": [11]}, True, False),
    ({"position": ["N", 3], "id": ["N"], "grid": [4, 4]}, False, False),
    ({"ions/position": ["N", 3], "electrons/position": ["M", 3]}, True, True),
    ({"ions/position/x": ["N"], "ions/position/y": ["N"], "w": [7]}, False, False),
    ({"position": [5, 7], "id": [5]}, False, False),
    ({"position": [5, 7]}, True, False),
]


@pytest.mark.parametrize("fields", [False, True], ids=["h5part", "h5block"])
@pytest.mark.parametrize("case", CONTENTS, ids=lambda case: " ".join(case[0]))
def test_the_check_refuses_what_the_component_refuses(
    case: tuple[dict[str, list[int | str]], bool, bool], fields: bool, tmp_path: Path
) -> None:
    declared, refused = case[0], case[2 if fields else 1]
    sizes: dict[int | str, int] = {"N": 20, "M": 30, "nz": 4, "ny": 5, "nx": 6}
    shapes = {
        name: tuple(sizes.get(size, 0) or int(size) for size in shape) for name, shape in declared.items() if shape
    }
    assert bool(archived(shapes, fields)) == refused
    variables = "{" + ", ".join(f"{name}: {{shape: {shape}}}" for name, shape in declared.items()) + "}"
    keep = "{path: out.h5, format: " + ("h5block}" if fields else "h5part}")
    if refused:
        assert refusal(tmp_path, variables, keep).startswith("stages.keep.with.format: ")
    else:
        planned(tmp_path, variables, keep)


def test_messages_name_the_arrays_and_other_formats(tmp_path: Path) -> None:
    said = refusal(tmp_path, "{U: {shape: [nz, ny]}, step: {shape: []}}", "{path: out.h5part}")
    assert said == (
        "stages.keep.with.path: a file of format h5part holds particles, and stream field has none: "
        "its arrays are U [nz, ny]"
    )
    with pytest.raises(SpecError, match=re.escape(".h5 (hdf5)")):
        planned(tmp_path, "{U: {shape: [nz, ny]}}", "{path: out.h5part}")


def test_what_is_not_certain_is_advice_or_left_to_the_run(tmp_path: Path) -> None:
    several = planned(tmp_path, "{a: {shape: [n]}, b: {shape: [m]}}", "{path: out.h5part}").advice
    assert any("may have several (a [n], b [m])" in each for each in several)
    left = planned(tmp_path, "{a: {shape: [n]}, U: {shape: [ny, nx]}}", "{path: out.h5block}").advice
    assert any("stage keep: a of stream field will be left out" in each for each in left)
    for open_end in ("{a: {type: float64}, U: {shape: [ny, nx]}}", "{}"):
        plan = planned(tmp_path, open_end, "{path: out.h5part}")
        assert not any("h5part" in each for each in plan.advice)


def test_variables_choose_what_counts(tmp_path: Path) -> None:
    variables = "{a: {shape: [10]}, b: {shape: [11]}}"
    planned(tmp_path, variables, "{path: out.h5part, variables: [a]}")
    said = refusal(tmp_path, variables, "{path: out.bp, variables: [a, c]}")
    assert said == "stages.keep.with.variables: sim.field writes no `c`"


@pytest.mark.parametrize("wanted", ["auto", *(FORMATS.formats if FORMATS else ())])
@pytest.mark.parametrize("suffix", [*BY_SUFFIX, ".dat", ""])
def test_suffixes_are_those_of_the_component(wanted: str, suffix: str, tmp_path: Path) -> None:
    """A name and a format are refused by the check where the program refuses them, and mean the same to both."""
    try:
        expected = format_of(Path(f"out{suffix}"), wanted)
    except SystemExit:
        said = refusal(tmp_path, "{}", f"{{path: out{suffix}, format: {wanted}}}")
        assert said.startswith("stages.keep.with.path: ")
    else:
        plan = planned(tmp_path, "{}", f"{{path: out{suffix}, format: {wanted}}}")
        chosen = chosen_format(load_component("archive"), plan.stage("keep").parameters)
        assert chosen is not None
        assert chosen[0] == expected


def test_a_name_without_a_suffix_gets_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=re.escape("`results` has no suffix, which selects the format of the file")
    ) as caught:
        planned(tmp_path, "{}", "{path: results}")
    assert "`path: results.bp`" in str(caught.value)
    with pytest.raises(SpecError, match=re.escape("`path: out.h5part`")):
        planned(tmp_path, "{}", "{path: out.h5prt}")
    planned(tmp_path, "{}", "{path: 'a${{ stage.ranks }}.bp'}")
    planned(tmp_path, "{}", "{path: 'out${{ stage.name }}'}")  # only the run shows it


def test_a_vtkhdf_file_needs_a_field(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match="holds fields of 2 or 3 dimensions, and stream field has none: its arrays are a"
    ):
        planned(tmp_path, "{a: {shape: [n]}, t: {shape: []}}", "{path: out.vtkhdf}")
    two_species = "{e/position: {shape: [n, 3]}, i/position: {shape: [m, 3]}, U: {shape: [nz, ny, nx]}}"
    assert not [line for line in planned(tmp_path, two_species, "{path: out.vtkhdf}").advice if "vtkhdf" in line]
