"""Placeholders: filled, refused, and literal ones kept through both fillings."""

from __future__ import annotations

import itertools

import pytest

from workflow.plan.placeholders import earlier_file, expand, fill_all, fill_run_dir, literal_all
from workflow.spec.placeholder_syntax import PlaceholderError, literal, names_in

VALUES = {"run.dir": "${{ run.dir }}", "stage.ranks": "4", "streams.a.path": "${{ run.dir }}/streams/a", "odd": "x$"}


def filled(text: str, run_dir: str = "/runs/1") -> str:
    """What a text of the user's becomes in the end."""
    return fill_run_dir(expand(text, VALUES), run_dir)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain $HOME {{ jinja }} {a: {b: 1}}", "plain $HOME {{ jinja }} {a: {b: 1}}"),
        ("${{ stage.ranks }}", "4"),
        ("${{stage.ranks}} ${{  stage.ranks  }}", "4 4"),
        ("-o ${{ streams.a.path }}.bp", "-o /runs/1/streams/a.bp"),
        ('{"path": "${{ run.dir }}/x"}', '{"path": "/runs/1/x"}'),
        ("$${{ stage.ranks }}", "${{ stage.ranks }}"),
        ("$${{ run.dir }} ${{ run.dir }}", "${{ run.dir }} /runs/1"),
        ("$$${{ stage.ranks }}", "$4"),
        ("$$$${{ a }}", "$${{ a }}"),
        ("${{ odd }}${{ run.dir }}", "x$/runs/1"),
        ("$$ ${{ stage.ranks }}$", "$$ 4$"),
        ("", ""),
    ],
)
def test_text_is_filled(text: str, expected: str) -> None:
    assert filled(text) == expected


def test_run_dir_is_what_is_left_in_the_plan() -> None:
    assert expand("${{ streams.a.path }}/${{stage.ranks}}", VALUES) == "${{ run.dir }}/streams/a/4"


def test_filling_loses_nothing() -> None:
    """Any text at all survives `literal` and filling, alone and after a placeholder."""
    for letters in itertools.product("${} a", repeat=6):
        text = "".join(letters)
        assert fill_run_dir(literal(text), "/r") == text
        values = {"a": "${{ run.dir }}", "t": literal(text)}
        assert fill_run_dir(expand("${{ t }}${{ a }}${{ t }}", values), "/r") == f"{text}/r{text}", text


def test_a_run_dir_with_dollars_is_not_filled_again() -> None:
    assert filled("${{ run.dir }}", "/runs/${{ run.dir }}") == "/runs/${{ run.dir }}"


def test_an_unknown_name_is_refused_with_its_place() -> None:
    with pytest.raises(PlaceholderError, match=r"unknown placeholder `stage\.rank`") as caught:
        expand("a\n  ${{ stage.rank }}", VALUES)
    assert caught.value.offset == 4


@pytest.mark.parametrize("text", ["${{ run.dir", "${{ run.dir }", "${{ a\n }}", "${{ {} }}", "x ${{"])
def test_an_open_placeholder_is_refused(text: str) -> None:
    with pytest.raises(PlaceholderError, match="without its"):
        expand(text, VALUES)
    assert names_in(text) == []


def test_names() -> None:
    assert names_in("${{ a.b }} $${{ no }} ${{c}}") == ["a.b", "c"]


def test_nested_values_are_filled_with_their_keys() -> None:
    value = {"${{ run.dir }}/f": ["${{ run.dir }}", 1, None, {"a": "$${{ x }}"}]}
    assert fill_all(value, "/r") == {"/r/f": ["/r", 1, None, {"a": "${{ x }}"}]}
    assert fill_all(literal_all(value), "/r") == value


def test_a_plan_with_another_placeholder_is_a_bug() -> None:
    with pytest.raises(PlaceholderError, match="holds only"):
        fill_run_dir("${{ stage.ranks }}", "/r")


@pytest.mark.parametrize(
    "below",
    ["streams/a.bp", "stages/sim/work/out.bp", "stages/sim/work/streams/out.bp", "stages/streams/work/stages/a.bp"],
)
def test_where_the_steps_of_earlier_parts_are(below: str) -> None:
    """A program may write into folders that are called as wf calls its own."""
    assert earlier_file(f"${{{{ run.dir }}}}/{below}") == f"${{{{ run.dir }}}}/.pieces/earlier/{below}"


def test_a_spool_is_found_also_when_the_run_directory_is_known() -> None:
    assert earlier_file("/my/streams/run/streams/a.bp") == "/my/streams/run/.pieces/earlier/streams/a.bp"
