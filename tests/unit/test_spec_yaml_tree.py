"""YAML → nodes: YAML 1.2 scalars, places of keys and values, bounds. Refusals and their messages: tests/specs/bad."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from workflow.errors import Problem, SpecError
from workflow.spec.yaml_tree import parse
from workflow.spec.yaml_tree.node import KeyPath, Node, SourcePosition, key_path, key_text, nearest, plain
from workflow.spec.yaml_tree.parse import parse_yaml, read_yaml

SPECS = Path(__file__).parents[1] / "specs"


def value(text: str) -> Any:
    return plain(parse_yaml(text, "x"))


def place(root: Node, *path: str | int) -> tuple[int, int]:
    found, node = nearest(root, path)
    assert found == path
    return node.place.line, node.place.column


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off", "off"), ("on", "on"), ("yes", "yes"), ("No", "No"), ("true", True), ("FALSE", False),
        ("null", None), ("~", None), ("12", 12), ("-3", -3), ("0x1F", 31), ("0o17", 15), ("017", 17),
        ("1_000", "1_000"), ("1e-3", 1e-3), ("1.", 1.0), (".5", 0.5), ("+1.5E3", 1500.0), ("-.inf", -math.inf),
        ("12:30", "12:30"), ("1.2.3", "1.2.3"),
        ("2026-10-01", "2026-10-01"), ("'12'", "12"), ('"true"', "true"), ("!!str 12", "12"),
        ("!!float 1", 1.0), ("!!float .5", 0.5), ("!!int 1", 1), ("!!bool true", True), ("!!null ~", None),
        ("9" * 100, 10**100 - 1), ("! 12", "12"), ("=", "="), ("0b1", "0b1"), ("", None),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text: str, expected: object) -> None:
    found = value(f"a: {text}")["a"]
    assert found == expected and type(found) is type(expected)


def test_nan_is_a_number() -> None:
    assert math.isnan(value("a: .nan")["a"])


def test_places_are_those_of_values_and_of_keys_for_blocks() -> None:
    root = parse_yaml("a:\n  b: 1\n  c: {d: [2, 3]}\ne:\n- 5\n- f: 6\n", "x")
    assert place(root, "a") == (1, 1)  # not 2:3, where its first key stands
    assert place(root, "a", "b") == (2, 6)
    assert place(root, "a", "c") == (3, 6)
    assert place(root, "a", "c", "d", 1) == (3, 14)
    assert place(root, "e") == (4, 1)
    assert place(root, "e", 1, "f") == (6, 6)
    key = root.mapping()["a"].mapping()["b"].key
    assert key is not None and (key.line, key.column) == (2, 3)


def test_columns_count_characters_not_bytes() -> None:
    assert place(parse_yaml("größe: [ä, 1]", "x"), "größe", 1) == (1, 12)


def test_a_byte_order_mark_is_skipped() -> None:
    assert plain(parse_yaml(b"\xef\xbb\xbfa: 1", "x")) == {"a": 1}


def test_windows_line_ends() -> None:
    root = parse_yaml(b"a: 1\r\nb:\r\n  c: 2\r\n", "x")
    assert plain(root) == {"a": 1, "b": {"c": 2}}
    assert place(root, "b", "c") == (3, 6)


def test_anchors_repeat_a_value_without_sharing_it() -> None:
    data = value("a: &x {b: [1]}\nc: *x\n")
    assert data == {"a": {"b": [1]}, "c": {"b": [1]}}
    data["a"]["b"].append(2)
    assert data["c"] == {"b": [1]}


def test_an_alias_stands_where_it_is_and_its_inside_where_it_was_written() -> None:
    root = parse_yaml("a: &x {b: 1}\nc: *x\n", "x")
    assert place(root, "c") == (2, 4)
    assert place(root, "c", "b") == (1, 11)


def test_merge_keys_fill_in_and_the_first_source_is_the_strongest() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {z: 3, <<: [*a, *b]}\nd:\n  <<: *b\n  y: 4\n"
    data = value(text)
    assert data["c"] == {"x": 1, "y": 1, "z": 3}
    assert data["d"] == {"y": 4, "z": 2}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert value("'<<': 1") == {"<<": 1}


def test_a_bomb_is_refused_before_it_is_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    with pytest.raises(SpecError, match="more than 200000 values"):
        parse_yaml("\n".join(lines), "x")


def test_depth_counts_through_aliases() -> None:
    text = "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 30 + "*a" + "]" * 30
    with pytest.raises(SpecError, match="nested deeper than 60"):
        parse_yaml(text, "x")


@pytest.mark.parametrize(
    "siblings", ["[{deep}, 1]", "[1, {deep}]", "{{x: {deep}, y: 1}}", "{{x: 1, y: {deep}}}", "[[], {deep}, [[]]]"]
)
@pytest.mark.parametrize(("above", "fits"), [(19, True), (20, False)])
def test_the_depth_of_an_alias_is_that_of_its_deepest_child(siblings: str, above: int, fits: bool) -> None:
    """The top mapping, what is above the alias, the siblings, and 39 lists: 60 levels are allowed."""
    deep = "[" * 39 + "]" * 39
    text = f"a: &a {siblings.format(deep=deep)}\nb: " + "[" * above + "*a" + "]" * above
    if fits:
        assert parse_yaml(text, "x").depth == 60
    else:
        with pytest.raises(SpecError, match=r"^error: x:2:24: nested deeper than 60 levels\n *check the brackets$"):
            parse_yaml(text, "x")


def test_a_million_brackets_are_refused_at_once() -> None:
    with pytest.raises(SpecError, match="nested deeper than 60"):
        parse_yaml("a: " + "[" * 1_000_000, "x")


@pytest.mark.parametrize("path", sorted(SPECS.glob("good/*.yaml")) + sorted(SPECS.glob("components/*/*.yaml")), ids=str)
def test_the_parser_in_python_reads_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = read_yaml(path)[0]
    monkeypatch.setattr(parse, "_Parser", yaml.SafeLoader)
    assert read_yaml(path)[0] == fast


@pytest.mark.parametrize(
    "case",
    ["yaml-no-colon", "yaml-open-quote", "yaml-bracket", "yaml-indentation", "tab"],
)
def test_the_parser_in_python_stops_at_the_same_place(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "_Parser", yaml.SafeLoader)
    monkeypatch.chdir(SPECS / "bad")
    with pytest.raises(SpecError) as caught:
        read_yaml(Path(f"{case}.yaml"))
    place = str(caught.value).partition(": ")[2].partition(": ")[0]
    assert Path(f"{case}.expected").read_text().startswith(f"error: {place}: ")


def refused(text: str | bytes) -> tuple[int, int, str]:
    """Line, column and message of what is refused in a text."""
    with pytest.raises(SpecError) as caught:
        parse_yaml(text, "x")
    (problem,) = caught.value.problems
    assert (problem.source, problem.key) == ("x", "")
    return problem.line, problem.column, problem.message


@pytest.mark.parametrize(
    ("tagged", "tag"),
    [
        ("!!binary aGk=", "!!binary"),
        ("!mine 1", "!mine"),
        ("!<str> 1", "str"),
        ("!!map [1]", "!!map"),
        ("!!seq {b: 1}", "!!seq"),
        ("!!str [1]", "!!str"),
    ],
)
def test_only_tags_of_the_core_schema_that_fit_are_allowed(tagged: str, tag: str) -> None:
    assert refused(f"a:\n  b: {tagged}") == (2, 6, f"the tag `{tag}` is not allowed here")


@pytest.mark.parametrize(
    ("text", "tag"), [("true", "float"), ("x", "float"), ("1.5", "int"), ("true", "int"), ("1", "bool"), ("0", "null")]
)
def test_a_value_that_is_not_what_its_tag_says(text: str, tag: str) -> None:
    assert refused(f"a: !!{tag} {text}") == (1, 4, f"'{text}' is no !!{tag}")


def test_tags_that_fit_change_nothing() -> None:
    assert value("!!map {a: !!seq [! [1], ! {b: 2}]}") == {"a": [[1], {"b": 2}]}


def test_a_key_with_a_tag_is_refused_at_the_key() -> None:
    assert refused("a: 1\n!mine b: 2") == (2, 1, "the tag `!mine` is not allowed here")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: \x07", (1, 4)),
        ("\n\x07", (2, 1)),
        ("a: 1\nb: größe \x07", (2, 10)),
        (b"a: 1\nb: \xff", (2, 4)),
        ("größe: ".encode() + b"\xff", (1, 8)),
        (b"\xef\xbb\xbfa: \xff", (1, 4)),
        (b"\xff", (1, 1)),
    ],
)
def test_what_is_no_text_is_refused_at_its_line_and_character(text: str | bytes, place: tuple[int, int]) -> None:
    words = "a control character (U+0007) in the file" if isinstance(text, str) else "not UTF-8 text (byte 0xff)"
    assert refused(text) == (*place, words)


@pytest.mark.parametrize(
    ("text", "values", "last"),
    [
        ("1", 1, (1, 1)),
        ("[1, 2]", 3, (1, 5)),
        ("a: 1", 3, (1, 4)),
        ("{a, b}", 5, (1, 6)),
        ("a: {}\nb: 2", 5, (2, 4)),
        ("- &x [1, 2]\n- *x", 7, (2, 3)),
        ("- &x {a: 1}\n- *x\n- [*x]", 9, (3, 4)),
    ],
)
def test_keys_and_values_are_counted_and_aliases_as_what_they_expand_to(
    text: str, values: int, last: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That many are allowed; with one less, the last one is refused where it is written."""
    monkeypatch.setattr(parse, "MAX_NODES", values)
    parse_yaml(text, "x")
    monkeypatch.setattr(parse, "MAX_NODES", values - 1)
    assert refused(text) == (*last, f"more than {values - 1} values once all aliases are expanded")


def test_a_key_beyond_the_last_value_is_refused_at_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "MAX_NODES", 3)
    assert refused("a: 1\nb: 2") == (2, 1, "more than 3 values once all aliases are expanded")


def test_a_duplicate_key_names_the_first_one() -> None:
    assert refused("a: 1\nb: 2\na: 3") == (3, 1, "duplicate key `a` (first at 1:1)")


def test_a_text_that_ends_too_early_is_refused_at_its_end() -> None:
    line, column, message = refused("a: [1,\n\t2\n")
    assert (line, column) == (3, 1) and message.endswith("while parsing a flow sequence that begins at 1:4")


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n"])
def test_an_empty_document_is_nothing_at_its_beginning(text: str) -> None:
    assert parse_yaml(text, "x") == Node(None, SourcePosition("x", 1, 1))


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("empty.yaml", "the file is empty", "`wf init my-first` writes a working pipeline"),
        ("nowhere", "no such file", "`wf init my-first` writes a working pipeline"),
        ("several", "is a directory, not a file", "name the file in it"),
        ("large.yaml", "larger than 2 MB", "is this the right file?"),
    ],
)
def test_a_file_that_is_refused_as_a_whole_has_no_line(
    name: str, message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parse, "MAX_BYTES", 2_000_000)
    Path("empty.yaml").write_text("# nothing")
    Path("large.yaml").write_text("#" * 2_000_001)
    Path("several").mkdir()
    for each in ("a", "b"):
        Path(f"several/{each}.yaml").write_text("wf: 1")
    with pytest.raises(SpecError) as caught:
        read_yaml(Path(name))
    assert caught.value.problems == [Problem(name, 0, 0, "", message, hint)]


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="null") as why, Path("one\0two").open():
        pass
    with pytest.raises(SpecError) as caught:
        read_yaml(Path("one\0two"))
    assert caught.value.problems == [Problem("one\0two", 0, 0, "", f"cannot be read: {why.value}", "check the path")]


def test_a_file_may_have_as_many_bytes_as_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "MAX_BYTES", 10)
    (tmp_path / "ten.yaml").write_text("a: 1 # 890")
    assert plain(read_yaml(tmp_path / "ten.yaml")[0]) == {"a": 1}


def test_a_file_that_is_no_mapping_is_refused_at_its_first_value(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("\n- 1")
    with pytest.raises(SpecError) as caught:
        read_yaml(tmp_path / "list.yaml", "shown")
    message = "expected `key: value` lines at the top of the file"
    assert caught.value.problems == [Problem("shown", 2, 1, "", message, "begin with `wf: 1`")]


def test_a_missing_file_names_a_near_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yaml").write_text("wf: 1")
    with pytest.raises(SpecError, match=r"pipelin.yaml: no such file\n  did you mean `pipeline.yaml`\?"):
        read_yaml(Path("pipelin.yaml"))


def test_a_directory_names_the_file_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    Path("demo/pipeline.yaml").write_text("wf: 1")
    with pytest.raises(SpecError, match=r"demo: is a directory, not a file\n  did you mean `demo/pipeline.yaml`"):
        read_yaml(Path("demo"))


def test_an_unreadable_file_says_why() -> None:
    # Permissions do not stop root, where CI may run; nobody can read this one from its start.
    with pytest.raises(SpecError, match="/proc/self/mem: cannot be read: Input/output error"):
        read_yaml(Path("/proc/self/mem"))


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(SpecError, match="larger than 10 MB"):
        read_yaml(tmp_path / "huge.yaml")


def test_key_texts_lead_back_to_their_paths() -> None:
    root = parse_yaml("files: {settings.json: a, settings: {json: b}}\nto: [x, y]\n", "x")
    paths: list[KeyPath] = [("files", "settings.json"), ("to", 1), ("files", "settings", "jso"), ("new", "key")]
    for path in paths:
        assert key_path(root, key_text(path)) == path
    assert key_path(root, "to.1") == ("to", 1)
