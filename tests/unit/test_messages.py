"""The form of messages: level, place, what is wrong; the line of the source with a mark under the mistake; the hint."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from workflow.errors import Problem, Severity, SpecError, WfError, to_message
from workflow.messages import NARROWEST, WIDEST, excerpt, extent, message_lines, read_lines, to_text
from workflow.report.show.printing import show_messages
from workflow.report.show.terminal import Output
from workflow.spec.yaml_tree.parse import parse_yaml

FLOW = "  s: {use: shock, via: ssst}"


def shown(line: str, column: int, width: int = WIDEST, number: int = 4) -> list[str]:
    return ["".join(part.text for part in row) for row in excerpt(line, number, column, width)]


def mark(line: str, column: int, width: int = WIDEST) -> str:
    """What of the shown line stands above the carets, for a line of characters of one column each."""
    above, below = shown(line, column, width)
    assert set(below[below.index("|") + 1 :]) <= {" ", "^"}, below
    return above[below.index("^") : below.rindex("^") + 1]


def test_the_form_of_a_message() -> None:
    problem = Problem("a.yaml", 4, 7, "stages.s.use", "unknown key", "known here: command, component, env")
    assert to_text([problem], {"a.yaml": ["", "", "", FLOW]}) == (
        "error: a.yaml:4:7: stages.s.use: unknown key\n"
        "  4 |   s: {use: shock, via: ssst}\n"
        "    |       ^^^\n"
        "  known here: command, component, env\n"
    )


@pytest.mark.parametrize("level", ["error", "warning", "note"])
def test_every_message_begins_with_its_level(level: Severity) -> None:
    assert to_text([to_message(level, "the disk is full", "df -h")]) == f"{level}: the disk is full\n  df -h\n"
    assert to_text([Problem("p.yaml", 0, 0, "", "is empty", level=level)]) == f"{level}: p.yaml: is empty\n"


def test_each_of_several_problems_begins_with_error() -> None:
    """Only the first one did."""
    error = SpecError([Problem("a.yaml", 2, 1, "b", "wrong", "do"), Problem("a.yaml", 1, 1, "a", "bad", "do")])
    assert str(error) == "error: a.yaml:1:1: a: bad\n  do\nerror: a.yaml:2:1: b: wrong\n  do"
    assert [problem.line for problem in error.problems] == [1, 2]
    assert to_text(WfError("no run", "start one").problems) == "error: no run\n  start one\n"


def test_several_problems_on_a_line_have_an_excerpt_each() -> None:
    problems = [Problem("a", 1, column, "k", "bad") for column in (7, 19)]
    lines = to_text(problems, {"a": [FLOW]}).splitlines()
    assert lines[1] == lines[4] == f"  1 | {FLOW}"
    assert (lines[2].index("^"), lines[5].index("^")) == (len("  1 | ") + 6, len("  1 | ") + 18)


@pytest.mark.parametrize(
    ("line", "column", "marked"),
    [
        (FLOW, 3, "s"),
        (FLOW, 6, "{use: shock, via: ssst}"),
        (FLOW, 7, "use"),
        (FLOW, 12, "shock"),
        (FLOW, 24, "ssst"),
        ("ranks: 4", 1, "ranks"),
        ("ranks: 4", 8, "4"),
        ("ranks: 4  # four", 8, "4"),
        ("name: a, b", 7, "a, b"),  # outside of brackets a comma is text
        ("to: [a, b]", 9, "b"),
        ("to: [a, b]  # both", 5, "[a, b]"),
        ("a: [[1, 2], {b: ']'}] # x", 4, "[[1, 2], {b: ']'}]"),
        ("a: [1, 2", 4, "[1, 2"),  # goes on in the next line
        ("a: 'it''s: so' # b", 4, "'it''s: so'"),
        (r'a: "say \"x\": y", b', 4, r'"say \"x\": y"'),
        ('a: "open', 4, '"open'),
        ("a: 'b', c: [d's, e]", 12, "[d's, e]"),
        ("x: {a: 'b}', c: d}", 17, "d"),
        ("time: 12:30", 7, "12:30"),
        ("a: b: c", 5, ":"),
        ("from: *atoms", 7, "*atoms"),
        ("path = ${{ streams.a.pth }}/x", 8, "${{ streams.a.pth }}"),
        ("path = ${{ streams.a", 8, "${{ streams.a"),
        ("${{ a }}/${{ b }}", 1, "${{ a }}"),
        ("a: {b: [1, {c: 2}], d: 'x]'}, e: f}", 4, "{b: [1, {c: 2}], d: 'x]'}"),
        ("{a: [1], b: c, d: e}", 13, "c"),  # brackets that are closed before
        ("[a]: b, c", 6, "b, c"),
        ("{a: '}', b: c, d: e}", 13, "c"),
        ("a: [x'y, 'z]']", 4, "[x'y, 'z]']"),
        ("- 5", 1, "- 5"),
        ("a:   ", 4, " "),
        ("a#b: c", 1, "a#b"),
        ("k : v", 1, "k"),
    ],
)
def test_the_mark_is_as_long_as_the_key_or_value(line: str, column: int, marked: str) -> None:
    assert line[column - 1 :][: extent(line, column)] == marked
    if marked.strip():
        assert mark(line, column) == marked


@pytest.mark.parametrize("text", [FLOW, "a: {b: [1, 'x y', {c: d}], e: \"f\"}", "a: plain text, and more", "? k\n: v"])
def test_each_value_of_a_tree_is_marked_where_the_parser_saw_it(text: str) -> None:
    """The places of the parser and the marks agree: a scalar is marked whole, neither less nor more."""
    lines = text.split("\n")
    tree = parse_yaml(text, "x")
    for node in tree.children.values():
        line = lines[node.place.line - 1]
        marked = line[node.place.column - 1 :][: extent(line, node.place.column)]
        assert parse_yaml(marked, "x").value == node.value or isinstance(node.value, dict | list)


def test_a_tab_takes_four_columns_and_the_mark_stays_below_the_text() -> None:
    above, below = shown("\tmd:\t{rank: 4}", 7)
    assert "\t" not in above + below
    assert above[below.index("^") : below.rindex("^") + 1] == "rank"
    assert shown("\tmd: 1", 1)[1].count("^") == 4


@pytest.mark.parametrize(
    ("line", "column", "gap", "carets"),
    [
        ("  日本: {rank: 1}", 8, 9, 4),  # two columns each
        ("日本語: 1", 1, 0, 6),
        ("naïve: x", 8, 7, 1),
        ("nai\u0308ve: x", 9, 7, 1),  # a combining mark takes no column
        ("🦈: [x]", 4, 4, 3),
    ],
)
def test_wide_and_combining_characters(line: str, column: int, gap: int, carets: int) -> None:
    below = shown(line, column)[1]
    assert below == "    | " + " " * gap + "^" * carets


@pytest.mark.parametrize("bad", ["\x1b[31m", "\u202e", "\0", "\x07", "\x9b2J", "\xa0", "\ufeff"])
def test_no_source_reaches_the_terminal_as_a_control_sequence(bad: str) -> None:
    problem = Problem(f"f{bad}.yaml", 1, 4, "k", f"got {bad}", f"not {bad}")
    text = to_text([problem], {problem.source: [f"a: {bad}x"]})
    assert all(each.isprintable() for each in text.splitlines())
    assert text.count("\N{REPLACEMENT CHARACTER}") == 4


@pytest.mark.parametrize("width", [1, NARROWEST, 60, 80, 400])
@pytest.mark.parametrize("column", [1, 5, 60, 150, 299, 300, 301])
@pytest.mark.parametrize("word", ["ab, ", "x" * 300, "漢字, ", "\t"])
def test_a_long_line_is_cut_at_both_sides_of_the_mark(width: int, column: int, word: str) -> None:
    line = ("[" + word * 300)[:300]
    above, below = shown(line, column, width, number=123)
    room = min(max(width, NARROWEST), WIDEST)
    for row in (above, below):
        assert sum(2 if each in "漢字" else 1 for each in row) <= room
    assert "^" in below
    assert "…" in above


KEYS = "key: {" + ", ".join(f"k{number}: {number}" for number in range(10, 30)) + "}"


@pytest.mark.parametrize(
    ("line", "column", "width", "above", "gap", "carets"),
    [
        (KEYS, 1, 40, "key: {k10: 10, k11: 11, k12: 12, …", 0, 3),
        (KEYS, 7, 41, "key: {k10: 10, k11: 11, k12: 12, k…", 6, 3),
        (KEYS, 20, 40, "…: {k10: 10, k11: 11, k12: 12, k1…", 17, 1),
        (KEYS, 60, 40, "…14: 14, k15: 15, k16: 16, k17: 1…", 17, 1),
        (KEYS, 60, 60, "…k13: 13, k14: 14, k15: 15, k16: 16, k17: 17, k18: 18…", 27, 1),
        (KEYS, len(KEYS) + 1, 40, "…: 26, k27: 27, k28: 28, k29: 29}", 33, 1),  # after the end
        (KEYS, 6, 40, "key: {k10: 10, k11: 11, k1…", 5, 22),  # a mark that is too long itself
        ("name: '" + "x" * 99 + "' # end", 7, 40, "name: 'xxxxxxxxxxxxxxxxxxxx…", 6, 22),
        ("漢: " * 20, 41, 40, "…: 漢: 漢: 漢: 漢: 漢: 漢: 漢: 漢…", 17, 1),
        ("a" * 34, 1, 40, "a" * 34, 0, 34),  # fits exactly
        ("a" * 35, 1, 40, "a" * 21 + "…", 0, 22),
        ("Ｆ: " + "b" * 30, 4, 40, "Ｆ: " + "b" * 30, 4, 30),
    ],
)
def test_what_is_left_of_a_long_line(line: str, column: int, width: int, above: str, gap: int, carets: int) -> None:
    assert shown(line, column, width, number=7) == [f"  7 | {above}", "    | " + " " * gap + "^" * carets]


def test_parts_have_the_style_of_what_they_are() -> None:
    problem = Problem("a", 1, 4, "k", "bad\nand worse", "do this\nor that", level="warning")
    lines = message_lines([problem], {"a": ["k: v"]})
    assert [tuple(map(tuple, line)) for line in lines] == [
        (("warning:", "warning"), (" ", ""), ("a:1:4:", "place"), (" ", ""), ("k: bad", "")),
        (("  and worse", ""),),
        (("  1 | ", "margin"), ("k: v", "")),
        (("    | ", "margin"), ("   ", ""), ("^", "warning")),
        (("  do this", ""),),
        (("  or that", ""),),
    ]


def test_only_what_no_terminal_should_get_is_replaced() -> None:
    assert to_text([to_message("note", "a\x1bb\tc")]) == "note: a\N{REPLACEMENT CHARACTER}b    c\n"


def test_an_excerpt_is_as_wide_as_it_may_be() -> None:
    problem = Problem("a", 1, 1, "k", "bad")
    for width in (50, 80):
        lines = message_lines([problem], {"a": ["k: " + "x" * 400]}, width)
        assert len("".join(part.text for part in lines[1])) == width


@pytest.mark.parametrize("length", [200, 201])
def test_a_place_of_200_characters_is_whole(length: int) -> None:
    source = "d/" * 90 + "x" * (length - 180)
    head = to_text([Problem(source, 0, 0, "", "bad")])
    assert head == f"error: {source if length == 200 else source[:199] + '…'}: bad\n"


def test_a_long_line_keeps_what_is_marked_and_some_of_both_sides() -> None:
    line = "a: {" + ", ".join(f"key{number:02d}: {number}" for number in range(60)) + "}"
    above, below = shown(line, line.index("key30") + 1, 80)
    assert above[below.index("^") : below.rindex("^") + 1] == "key30"
    assert "key29" in above and "key31" in above
    assert above.split("| ")[1].startswith("…") and above.endswith("…")


@pytest.mark.parametrize("column", [0, 9, 10, 1000])
def test_a_place_outside_of_the_line_is_marked_at_its_nearest_end(column: int) -> None:
    below = shown("ranks: 4", column)[1]
    assert below.count("^") == (5 if column == 0 else 1)
    assert below.index("^") == len("  4 | ") + (0 if column == 0 else 8)


@pytest.mark.parametrize("line", [0, 3, 10**9])
def test_a_file_that_has_changed_meanwhile_gives_no_wrong_excerpt(line: int) -> None:
    assert " | " not in to_text([Problem("a", line, 1, "k", "bad")], {"a": ["x", "y"]})


def test_what_is_no_file_has_no_excerpt(tmp_path: Path) -> None:
    """A pipe can be read only once, and reading it again would wait for a writer."""
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", tmp_path, tmp_path / "gone", "--set a=b", "a\0b", "/dev/null", "x" * 5000):
        assert read_lines(str(name)) is None
    problem = Problem("--set stages.md.ranks=x", 0, 0, "stages.md.ranks", "expected a whole number", "ranks: 1")
    assert to_text([problem]) == "error: --set stages.md.ranks=x: expected a whole number\n  ranks: 1\n"


def test_a_long_place_is_cut() -> None:
    head = to_text([Problem(f"--set name={'x' * 10_000}", 0, 0, "name", "too long")])
    assert len(head) < 300 and head.endswith("xx…: too long\n")


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [
        (b"\xef\xbb\xbfwf: 1\nname: x", 1, "wf: 1"),  # a byte order mark is no character of the line
        (b"a: 1\r\nb: 2\rc: 3\n", 3, "c: 3"),
        ("a: 1\x85b: 2\u2028c: 3".encode(), 3, "c: 3"),
        (b"a: 1\x0cb: 2\nc: 3", 2, "c: 3"),  # a form feed ends no line
        (b"a: caf\xe9", 1, "a: caf\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_lines_are_those_that_the_parser_counts(tmp_path: Path, data: bytes, line: int, text: str) -> None:
    (tmp_path / "f.yaml").write_bytes(data)
    lines = read_lines(str(tmp_path / "f.yaml"))
    assert lines is not None and lines[line - 1] == text


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text("x: 1\n")
    read: list[Path] = []
    real = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        read.append(path)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    source = str(tmp_path / "a.yaml")
    to_text([Problem(source, 1, 1, "x", "bad"), Problem(source, 1, 4, "x", "bad"), Problem(source, 0, 0, "", "bad")])
    assert read == [tmp_path / "a.yaml"]


def test_colours_only_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    (tmp_path / "a.yaml").write_text(FLOW)
    problems = [Problem(str(tmp_path / "a.yaml"), 1, 7, "k", "[bold]bad[/bold]", "hint")]
    pipe, screen = io.StringIO(), io.StringIO()
    show_messages(problems, Output(pipe))
    show_messages(problems, Output(screen, 60, Console(file=screen, force_terminal=True, color_system="standard")))
    assert pipe.getvalue() == to_text(problems) and "\x1b" not in pipe.getvalue()
    assert "\x1b[1;31merror:\x1b[0m" in screen.getvalue() and "[bold]bad[/bold]" in screen.getvalue()


@pytest.mark.parametrize("width", [10, 40, 80])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_every_terminal_shows_it(tmp_path: Path, width: int, encoding: str) -> None:
    (tmp_path / "a.yaml").write_text("name: 日本語 " + "long " * 40 + "\n", encoding="utf-8")
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    problem = Problem(str(tmp_path / "a.yaml"), 1, 7, "stages.日本語", "is wrong → no", "write `x`")
    show_messages([problem], Output(file, width))
    file.flush()
    text = raw.getvalue().decode(encoding)
    assert re.search(r"is\s+wrong", text) and "write `x`" in text and "^" in text
    assert "a.yaml:1:7:" in text, "a place stays whole"


@pytest.mark.parametrize("width", [40, 60, 80])
def test_what_is_wrong_is_wrapped_on_a_terminal_and_whole_in_a_pipe(width: int) -> None:
    text = "expected a file system that all nodes see, and found one of this machine alone; " * 3
    problem = Problem("pipeline.yaml", 4, 7, "stages.md", text.strip(), "`wf run --run-dir PATH` " * 5)
    lines = ["".join(part.text for part in line) for line in message_lines([problem], {}, width, wrap=True)]
    *statement, hint = lines
    assert max(len(line) for line in statement) <= width and len(hint) > width, "a command stays whole"
    assert all(line.startswith("    ") for line in statement[1:])
    assert " ".join(line.strip() for line in statement) == f"error: pipeline.yaml:4:7: stages.md: {text.strip()}"
    assert len(message_lines([problem], {}, width)) == 2
