"""The drawing of a pipeline as PNG: by matplotlib, which brings its own font to machines that have none."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from workflow.errors import WfError
from workflow.installation import install_command
from workflow.report.graph.graph_colours import LIGHT
from workflow.report.graph.graph_paths import PathCommand, curve_path, head_path, outline_path
from workflow.report.graph.graph_shapes import PipelineShapes

_CSS_DPI = 96.0
_POINT = 72.0
_SCALE = 2  # pixels of the picture in each CSS pixel


def make_png(shapes: PipelineShapes) -> bytes:
    """The drawing on white. Raises WfError where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise WfError("a PNG needs matplotlib", f"{install_command('campaign')}, or use `--format svg`") from error
    canvas = Figure((shapes.width / _CSS_DPI, shapes.height / _CSS_DPI), dpi=_CSS_DPI * _SCALE, facecolor=LIGHT.paper)
    FigureCanvasAgg(canvas)
    axes = canvas.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, shapes.width), ylim=(shapes.height, 0))
    axes.axis("off")
    line = {"linewidth": 1.6 * _POINT / _CSS_DPI}
    down = shapes.direction == "down"
    for arrow in shapes.arrows:
        dashes = (0, (6 / 1.6, 4 / 1.6)) if arrow.dashed else "-"
        axes.add_patch(_patch(curve_path(arrow, down), fill=False, edgecolor=LIGHT.line, linestyle=dashes, **line))
        if arrow.head:
            axes.add_patch(_patch(head_path(arrow, down), facecolor=LIGHT.line, linewidth=0))
    for figure in shapes.figures:
        inside, edge = LIGHT.roles[figure.role]
        dashes = (0, (6 / 1.6, 4 / 1.6)) if figure.dashed else "-"
        axes.add_patch(_patch(outline_path(figure), facecolor=inside, edgecolor=edge, linestyle=dashes, **line))
        for words in figure.words:
            axes.text(
                words.x, words.y, words.text, size=words.size * _POINT / _CSS_DPI, color=LIGHT.text, ha="center",
                va="center_baseline", weight="bold" if words.bold else "normal", parse_math=False,
                fontfamily="DejaVu Sans",
            )  # fmt: skip
    data = io.BytesIO()
    canvas.savefig(data, format="png", metadata={"Title": shapes.title, "Description": shapes.about})
    return data.getvalue()


def _patch(path: Sequence[PathCommand], **looks: Any) -> Any:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = {"M": Path.MOVETO, "L": Path.LINETO, "Q": Path.CURVE3, "C": Path.CURVE4}
    vertices: list[tuple[float, float]] = []
    kinds: list[Any] = []
    for letter, points in path:
        vertices += points or [vertices[0]]
        kinds += [codes[letter]] * len(points) if points else [Path.CLOSEPOLY]
    return PathPatch(Path(vertices, kinds), **looks)
