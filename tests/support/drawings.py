"""Reads drawings of pipelines back: who joins whom, from the places of shapes and characters alone."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]
Join = tuple[str, str]


class DrawnFigure(NamedTuple):
    """`key`: `stage md`, `stream atoms`, `file pattern.bp of keep`; where it is; and its lines of text."""

    key: str
    role: str
    dashed: bool
    lines: list[str]
    box: Box


class DrawnPipeline(NamedTuple):
    """An SVG, read back. `joins`: what the ends of each arrow lie on; `tips`: where it points; `dashed`: of `joins`."""

    title: str
    size: tuple[float, float]
    figures: list[DrawnFigure]
    joins: list[Join]
    tips: list[tuple[float, float]]
    dashed: list[Join]


def read_svg(text: str) -> DrawnPipeline:
    """The figures, and the figures on which the ends of each arrow lie. Fails where an end lies on none, or several."""
    root = ElementTree.fromstring(text)
    assert root.attrib["role"] == "img"
    title, about = root.findtext(f"{SVG}title"), root.findtext(f"{SVG}desc")
    assert title and about
    figures = [_figure(group) for group in root.iter(f"{SVG}g") if group.attrib["class"] != "arrow"]
    joins, tips, dashed = [], [], []
    for group in root.iter(f"{SVG}g"):
        if group.attrib["class"] == "arrow":
            curve = group.find(f"{SVG}path[1]")
            assert curve is not None
            points = _points(curve.attrib["d"])
            head = group.find(f"{SVG}path[@class='head']")
            tip = points[-1] if head is None else _points(head.attrib["d"])[0]
            join = _at(figures, points[0]), _at(figures, tip)
            joins.append(join)
            tips.append(tip)
            dashed += [join] if "dashed" in curve.attrib["class"] else []
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    return DrawnPipeline(title, (width, height), figures, joins, tips, dashed)


def _figure(group: ElementTree.Element) -> DrawnFigure:
    role, name = group.attrib["class"], group.attrib["data-name"]
    texts = list(group.iter(f"{SVG}text"))
    outline = group.find(f"{SVG}path")
    assert outline is not None
    points = _points(outline.attrib["d"])
    xs, ys = [x for x, _ in points], [y for _, y in points]
    box = (min(xs), min(ys), max(xs), max(ys))
    kind = role if role in ("stream", "file") else "stage"
    dashed = "dashed" in outline.attrib["class"]
    return DrawnFigure(f"{kind} {name}", role, dashed, [text.text or "" for text in texts], box)


def _points(path: str) -> list[tuple[float, float]]:
    numbers = [float(each) for each in re.findall(r"-?\d+\.\d+", path)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _at(figures: list[DrawnFigure], point: tuple[float, float]) -> str:
    x, y = point
    found = [
        each.key
        for each in figures
        if each.box[0] - 1 <= x <= each.box[2] + 1 and each.box[1] - 1 <= y <= each.box[3] + 1
    ]
    assert len(found) == 1, f"an arrow ends at {point}, on {found}"
    return found[0]


def overlaps(one: Box, other: Box) -> bool:
    """Whether two boxes have a point in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def read_rails(lines: list[str]) -> list[Join]:
    """(stream, stage that reads it) of each arrow of a drawing in text, by following the rails.

    A rail begins in the row of its label, goes down from `┌` and `├`, up from `└` and `├`, and at `├` and at its ends a
    line leads from it to a box.
    """
    joins = []
    for row, line in enumerate(lines):
        if label := re.match(r"[ │╎]*([┌├└])[─╌┼]+[┤┘] ([\w-]+): ", line):
            column = label.start(1)
            for end, rows in (("└", range(row + 1, len(lines))), ("┌", range(row - 1, -1, -1))):
                if label[1] == end:
                    continue
                for other in rows:
                    sign = lines[other][column]
                    assert sign in f"│╎├┼{end}", f"the rail of {label[2]} ends at line {other}: {lines[other]}"
                    if sign in f"├{end}":
                        joins.append((label[2], _box_at(lines, other, column)))
                    if sign == end:
                        break
    return sorted(joins)


def _box_at(lines: list[str], row: int, column: int) -> str:
    arrow = re.match(r"[─╌┼]*►", lines[row][column + 1 :])
    assert arrow, f"no arrow: {lines[row]}"
    side = column + 1 + arrow.end()
    top = next(each for each in range(row, -1, -1) if lines[each][side] == "┌")
    return lines[top + 1][side + 1 :].split()[0]
