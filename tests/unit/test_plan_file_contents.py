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
from workflow.errors import Problem, SpecError
from workflow.plan.make_plan import make_plan
from workflow.plan.plan_model import Plan
from workflow.plan.topology.variable_contracts import certain_species, may_be_position
from workflow.site.site_model import Site
from workflow.spec.component_files import chosen_format, load_component
from workflow.spec.load import load_pipeline
from workflow.spec.models.component import PortVariable
from workflow.stage import Info

SITE = Site(site="test", summary="8 cores", cores_per_node=8, memory_per_node=2**33)
FORMATS = load_component("archive").file_formats
OTHERS = "use another format: .bp (bp5), .bp5 (bp5), .h5 (hdf5), .hdf5 (hdf5)"


def planned(folder: Path, variables: str, keep: str, own: str = "{}", sim: str = "") -> Plan:
    """The plan of a program with these variables, whose stream an archive with these parameters writes.

    Args:
        own: the variables that the stream declares itself.
        sim: another stage that writes the stream, as `{component: ./sim}`.
    """
    file = folder / "pipeline.yaml"
    sim = sim or f"{{command: [sh], writes: {{field: {{io: f, config: a.xml, variables: {variables}}}}}}}"
    file.write_text(
        f"wf: 1\nname: formats\nstages:\n  sim: {sim}\n  keep: {{component: archive, with: {keep}}}\n"
        f"streams: {{field: {{from: sim, to: keep, variables: {own}}}}}\n"
    )
    return make_plan(load_pipeline(file), SITE, python="/python", wf_version="0")


def problem_of(folder: Path, variables: str, keep: str, own: str = "{}") -> Problem:
    with pytest.raises(SpecError) as caught:
        planned(folder, variables, keep, own)
    (problem,) = caught.value.problems
    return problem


def refusal(folder: Path, variables: str, keep: str) -> str:
    problem = problem_of(folder, variables, keep)
    return f"{problem.key}: {problem.message}"


def advice(folder: Path, variables: str, keep: str, own: str = "{}", sim: str = "") -> list[str]:
    """What the check says of the file where it does not refuse it."""
    return [line for line in planned(folder, variables, keep, own, sim).advice if "stage keep: " in line]


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
    said = refusal(
        tmp_path, "{a: {shape: [10]}, b: {shape: [11]}, c: {shape: [11]}}", "{path: a.h5part, variables: [a, b]}"
    )
    assert said.endswith("unclear which ones hold particles: a [10], b [11]")
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


@pytest.mark.parametrize(
    ("variables", "keep", "key", "message", "hint"),
    [
        (
            "{i/position: {shape: [n, 3]}, e/position: {shape: [m, 3]}}", "{path: out.h5part}", "path",
            "a file of format h5part holds one species, but stream field has e, i",
            f"list the arrays of one in `variables`, or {OTHERS}",
        ),
        (
            "{t: {shape: []}}", "{path: out.h5, format: h5part}", "format",
            "a file of format h5part holds particles, and stream field has none: its arrays are none", OTHERS,
        ),
        (
            "{a: {shape: [10]}, b: {shape: [11]}, c: {}, t: {shape: []}}", "{path: out.h5part}", "path",
            "no array of stream field is called `position`, so it is unclear which ones hold particles: "
            "a [10], b [11], c",
            f"list arrays of one length in `variables`, or {OTHERS}",
        ),
        (
            "{a: {shape: [n]}, t: {shape: []}}", "{path: out.vtkhdf}", "path",
            "format vtkhdf holds fields of 2 or 3 dimensions, and stream field has none: its arrays are a [n]", OTHERS,
        ),
        (
            "{temp: {shape: [n]}}", "{path: out.bp, variables: [tmep]}", "variables",
            "sim.field writes no `tmep`", "did you mean `temp`?",
        ),
        (
            "{temp: {shape: [n]}, U: {shape: [n]}}", "{path: out.bp, variables: [speed]}", "variables",
            "sim.field writes no `speed`", "sim.field writes: U, temp",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_and_what_to_do(
    variables: str, keep: str, key: str, message: str, hint: str, tmp_path: Path
) -> None:
    problem = problem_of(tmp_path, variables, keep)
    assert (problem.key, problem.message, problem.hint) == (f"stages.keep.with.{key}", message, hint)


def test_advice_on_what_may_not_fit(tmp_path: Path) -> None:
    several = "{a: {shape: [10]}, b: {shape: [n]}, t: {shape: []}}"
    assert advice(tmp_path, several, "{path: out.h5part}") == [
        "stage keep: format h5part holds arrays of one length, and those of stream field may have several "
        f"(a [10], b [n]); list arrays of one length in `variables`, or {OTHERS}"
    ]
    left_out = "{a: {shape: [n]}, five: {shape: [1, 2, 3, 4, 5]}, U: {shape: [ny, nx]}, t: {shape: []}, open: {}}"
    assert advice(tmp_path, left_out, "{path: out.h5block}") == [
        "stage keep: a, five of stream field will be left out of the file: "
        "format h5block holds particles and fields of 2 or 3 dimensions"
    ]


@pytest.mark.parametrize(("optional", "certain"), [("true", False), ("false", True)])
def test_what_is_written_with_some_parameters_only_is_not_certain(optional: str, certain: bool, tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim/program.py").touch()
    (tmp_path / "sim/component.yaml").write_text(
        "component: sim\nkind: simulation\nsummary: s\nwrites:\n"
        f"  out: {{variables: {{a: {{shape: [10]}}, b: {{shape: [11], optional: {optional}}}}}}}\n"
    )
    if certain:
        with pytest.raises(SpecError, match="unclear which ones hold particles"):
            planned(tmp_path, "", "{path: out.h5part}", sim="{component: ./sim}")
    else:
        (line,) = advice(tmp_path, "", "{path: out.h5part}", sim="{component: ./sim}")
        assert "may have several (a [10], b [11])" in line


@pytest.mark.parametrize("suffix", ["h5part", "h5block"])
def test_beside_a_position_all_else_is_left_to_the_run(suffix: str, tmp_path: Path) -> None:
    """The arrays of its length are particles, and only a step shows which ones these are."""
    for position in ("{shape: [N, 3]}", "{}"):
        variables = f"{{position: {position}, a: {{shape: [10]}}, b: {{shape: [11]}}}}"
        assert advice(tmp_path, variables, f"{{path: out.{suffix}}}") == []


@pytest.mark.parametrize(
    ("variables", "suffix"),
    [
        ("{a: {shape: [n]}, b: {shape: [n]}, U: {shape: [ny, nx]}}", "h5part"),  # two of one length
        ("{a: {shape: [n]}, b: {}}", "h5part"),
        ("{a: {shape: [n]}, b: {shape: [m]}}", "h5"),  # holds anything
        ("{U: {shape: [ny, nx]}, V: {shape: [c, nz, ny, nx]}, W: {shape: [nz, ny, nx]}}", "h5block"),
        ("{a: {shape: [n]}, U: {shape: [ny, nx]}}", "vtkhdf"),  # one field is enough
        ("{a: {shape: [n]}, U: {}}", "vtkhdf"),
    ],
)
def test_what_fits_is_not_mentioned(variables: str, suffix: str, tmp_path: Path) -> None:
    assert advice(tmp_path, variables, f"{{path: out.{suffix}}}") == []


def test_what_the_stream_itself_declares_counts(tmp_path: Path) -> None:
    """The writer leaves the shapes open, and `variables:` of the stream gives them."""
    open_shapes = "{a: {}, b: {}, c: {}}"
    assert advice(tmp_path, open_shapes, "{path: out.h5part}") == []
    own = "{a: {shape: [10]}, b: {shape: [11]}}"
    assert problem_of(tmp_path, open_shapes, "{path: out.h5part}", own).message.endswith(": a [10], b [11], c")


def test_of_a_writer_that_declares_nothing_nothing_is_known(tmp_path: Path) -> None:
    assert advice(tmp_path, "{}", "{path: out.h5part, variables: [a]}", "{b: {shape: [n, m]}}") == []


# (name, shape, whether it holds positions: certainly, perhaps)
POSITIONS: list[tuple[str, list[int | str] | None, bool, bool]] = [
    ("position", ["N", 3], True, True),
    ("position", ["N", 2], True, True),
    ("ions/position", ["N", 3], True, True),
    ("position", [100, 1], False, False),
    ("position", ["N", 4], False, False),
    ("position", ["N", "k"], False, True),
    ("position", ["N"], False, False),
    ("position", ["N", 3, 3], False, False),
    ("position", None, False, True),
    ("ions/position/x", ["N"], True, True),
    ("position/z", [10], True, True),
    ("position/y", None, False, True),
    ("position/x", ["N", 3], False, False),
    ("position/x", [], False, False),
    ("position/w", ["N"], False, False),
    ("momentum/x", ["N"], False, False),
    ("position/x/y", ["N"], False, False),
    ("x", ["N"], False, False),
    ("positions", ["N", 3], False, False),
    ("position/ions", ["N", 3], False, False),
]


@pytest.mark.parametrize(("name", "shape", "certainly", "perhaps"), POSITIONS)
def test_which_arrays_hold_positions(name: str, shape: list[int | str] | None, certainly: bool, perhaps: bool) -> None:
    variable = PortVariable(shape=shape)
    assert bool(certain_species({name: variable})) == certainly
    assert may_be_position(name, variable) == perhaps
    assert certain_species({name: variable.model_copy(update={"optional": True})}) == []


def test_species_are_the_folders_of_positions() -> None:
    names = ["a/ions/position", "e/position/x", "e/position/y", "e/id", "/q/position/z", "Xe/position/x"]
    shapes: dict[str, list[int | str]] = {"a/ions/position": ["N", 3]}
    arrays = {name: PortVariable(shape=shapes.get(name, ["M"])) for name in names}
    assert certain_species(arrays) == ["a/ions", "e", "q", "Xe"]
    assert certain_species({"position": PortVariable(shape=["N", 3])}) == ["/"]
    assert certain_species({"position/x": PortVariable(shape=["N"]), **arrays})[:2] == ["/", "a/ions"]
