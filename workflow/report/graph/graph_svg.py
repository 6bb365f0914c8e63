"""The drawing of a pipeline as SVG, for light and dark pages. Pure. All texts are escaped here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from workflow.report.graph.graph_colours import DARK, LIGHT, Palette
from workflow.report.graph.graph_paths import PathCommand, curve_path, head_path, outline_path
from workflow.report.graph.graph_shapes import Arrow, DrawnFigure, PipelineShapes, Words

FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif'
XMLNS = ' xmlns="http://www.w3.org/2000/svg"'
SHRINKS = "max-width: 100%; height: auto"
# Half of the height of small letters, in em: SVG places text by its baseline.
_BASELINE = 0.36


def make_svg(shapes: PipelineShapes) -> str:
    """The drawing as a file that needs nothing from outside."""
    return svg_element(shapes, SHRINKS, XMLNS)


def svg_element(shapes: PipelineShapes, style: str, xmlns: str = "") -> str:
    """The drawing as a part of a page; `style`: CSS of the whole."""
    down = shapes.direction == "down"
    parts = [*(_arrow(each, down) for each in shapes.arrows), *map(_figure, shapes.figures)]
    return (
        f'<svg{xmlns} class="pipeline" role="img" width="{shapes.width:.0f}" '
        f'height="{shapes.height:.0f}" viewBox="0 0 {shapes.width:.1f} {shapes.height:.1f}" style="{style}">\n'
        f"<title>{escape(shapes.title)}</title>\n<desc>{escape(shapes.about)}</desc>\n"
        f"<style>\n{_STYLE}</style>\n"
        f'<rect class="paper" width="100%" height="100%" rx="8"/>\n{"".join(parts)}</svg>\n'
    )


def _rules(palette: Palette) -> Iterator[str]:
    yield f".pipeline .paper {{ fill: {palette.paper} }}"
    yield f".pipeline text {{ fill: {palette.text} }}"
    yield f".pipeline .curve {{ stroke: {palette.line} }}"
    yield f".pipeline .head {{ fill: {palette.line} }}"
    for role, (inside, edge) in palette.roles.items():
        yield f".pipeline .{role} .outline {{ fill: {inside}; stroke: {edge} }}"


_STYLE = "\n".join([
    f".pipeline text {{ font-family: {FONT}; text-anchor: middle }}",
    ".pipeline .name { font-weight: 600 }",
    ".pipeline .curve { fill: none; stroke-width: 1.6 }",
    ".pipeline .outline { stroke-width: 1.6 }",
    ".pipeline .dashed { stroke-dasharray: 6 4 }",
    *_rules(LIGHT), "@media (prefers-color-scheme: dark) {", *_rules(DARK), "}", "",
])  # fmt: skip


def _arrow(arrow: Arrow, down: bool) -> str:
    head = f'<path class="head" d="{_to_d(head_path(arrow, down))}"/>' if arrow.head else ""
    curve = f'<path class="curve{" dashed" if arrow.dashed else ""}" d="{_to_d(curve_path(arrow, down))}"/>'
    return f'<g class="arrow" data-stream="{escape(arrow.stream)}">{curve}{head}</g>\n'


def _figure(figure: DrawnFigure) -> str:
    dashed = " dashed" if figure.dashed else ""
    outline = f'<path class="outline{dashed}" d="{_to_d(outline_path(figure))}"/>'
    return (
        f'<g class="{figure.role}" data-name="{escape(figure.name)}"><title>{escape(figure.about)}</title>'
        f"{outline}{''.join(map(_words, figure.words))}</g>\n"
    )


def _words(words: Words) -> str:
    name = ' class="name"' if words.bold else ""
    baseline = words.y + _BASELINE * words.size
    return f'<text{name} x="{words.x:.1f}" y="{baseline:.1f}" font-size="{words.size:g}">{escape(words.text)}</text>'


def _to_d(path: Sequence[PathCommand]) -> str:
    return "".join(letter + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) for letter, points in path)
