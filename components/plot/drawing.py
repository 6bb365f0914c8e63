"""The pictures of `plot`: panels one below the other, each for one variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import wrap
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import matplotlib
import numpy as np
import numpy.typing as npt

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine

from components.plot.labels import Quantity, Scaled

Floats = npt.NDArray[np.float64]

WIDTH = 5.4  # inches: the letters can be read in a column of 370 pixels, too, which is what a phone has
ACROSS = 3  # images side by side at most
LONGEST_TITLE = 50  # letters of a line of the title
LONGEST_LABEL = 24  # letters beside a colour scale; of longer ones the unit is in a line of its own
SHADE = 0.01  # share of the colour scale: an image with smaller differences shows nothing
GAP = 0.09  # inches above and below a panel: twice that between the label of an axis and the title under it
KEPT = 256  # steps of a variable kept for the summary; of more steps every second one is dropped
STYLE: Any = {
    "font.size": 9, "axes.titlesize": 9, "figure.titlesize": 11, "axes.spines.top": False, "axes.spines.right": False,
    "lines.linewidth": 1.3, "savefig.dpi": 180, "image.origin": "lower",
}  # fmt: skip


class Shot(NamedTuple):
    """A step of one variable: its values, 0- to 2-dimensional, and for 1-D ones the abscissa, [n] or edges [n + 1]."""

    step: int
    time: float
    values: Floats
    x: Floats


def cell_along(axis: int) -> Quantity:
    """What runs along an axis of an array without coordinates, as `wf look` calls it."""
    return Quantity(f"cell along axis {axis}")


INDEX = cell_along(0)
"""Along a 1-D variable."""


@dataclass
class Panel:
    """One variable and the steps kept of it. `extent` is (left, right, bottom, top) of images with coordinates.

    `x` is the quantity along 1-D variables, `factor` what all values have been multiplied by for a readable unit.
    """

    name: str
    quantity: Quantity
    dimensions: int
    x: Quantity = INDEX
    shots: list[Shot] = field(default_factory=list)
    low: float = np.inf
    high: float = -np.inf
    extent: tuple[float, float, float, float] | None = None
    stride: int = 1
    factor: float = 1.0

    def add(self, shot: Shot) -> None:
        """Keep a step; the newest is always kept, older ones evenly."""
        if self.shots and self.shots[-1].step % self.stride:
            del self.shots[-1]
        if len(self.shots) >= KEPT:
            self.stride *= 2
            self.shots = [kept for kept in self.shots if kept.step % self.stride == 0]
        self.shots.append(shot)
        finite = shot.values[np.isfinite(shot.values)]
        if finite.size:
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))

    def newest(self) -> Panel:
        """The last step alone, with the limits of all steps so far; a scalar keeps its past."""
        return replace(self, shots=self.shots[-1:]) if self.dimensions else self


class Names(NamedTuple):
    """The quantities that all panels share: the time of the steps, x of 1-D variables, the coordinates of images if
    they have any.

    `time_variable`: where the time of a step is read; "": its index.
    """

    time_variable: str
    time: Quantity
    x: Quantity
    vertical: Quantity | None = None
    horizontal: Quantity | None = None


class Shown(NamedTuple):
    """A panel in readable units, with the labels of its axes."""

    panel: Panel
    value: str
    x: str
    time: Scaled
    vertical: str = ""
    horizontal: str = ""


def in_readable_units(panel: Panel, names: Names, slice_axis: int) -> Shown:
    """The panel as it is drawn; `slice_axis` is that of 3-D variables along which the image is cut out."""
    value = panel.quantity.scaled(max(abs(panel.low), abs(panel.high)))
    x = panel.x.scaled(max((float(np.abs(shot.x).max()) for shot in panel.shots if shot.x.size), default=0.0))
    time = names.time.scaled(max(abs(shot.time) for shot in panel.shots))
    shots = panel.shots
    if (value.factor, x.factor, time.factor) != (1.0, 1.0, 1.0):
        shots = [
            Shot(each.step, each.time * time.factor, each.values * value.factor, each.x * x.factor) for each in shots
        ]
    found = replace(
        panel, shots=shots, low=panel.low * value.factor, high=panel.high * value.factor, factor=value.factor
    )
    if panel.extent is None or names.vertical is None or names.horizontal is None:
        axes = [axis for axis in range(panel.dimensions) if panel.dimensions < 3 or axis != slice_axis]
        return Shown(found, value.label, x.label, time, *(cell_along(axis).name for axis in axes[:2]))
    left, right, bottom, top = panel.extent
    across, up = names.horizontal.scaled(max(abs(left), abs(right))), names.vertical.scaled(max(abs(bottom), abs(top)))
    found.extent = (left * across.factor, right * across.factor, bottom * up.factor, top * up.factor)
    return Shown(found, value.label, x.label, time, up.label, across.label)


def limits(panel: Panel, args: SimpleNamespace) -> tuple[float, float]:
    """Smallest and largest value to show: `range`, else those of the data; positive with `log`."""
    low, high = [each * panel.factor for each in args.range] if args.range else (panel.low, panel.high)
    if not np.isfinite([low, high]).all():
        low, high = (1.0, 10.0) if args.log else (0.0, 1.0)
    if args.log:
        high = high if high > 0 else 1.0
        low = max(low, high * 10.0**-args.decades)
    if low >= high:
        margin = abs(high) * 0.1 or 1.0
        low, high = (high / 10, high) if args.log else (low - margin, high + margin)
    return low, high


def colours(panel: Panel, args: SimpleNamespace) -> ScalarMappable:
    """The colour scale of a panel."""
    low, high = limits(panel, args)
    return ScalarMappable(LogNorm(low, high) if args.log else Normalize(low, high), args.colormap)


def beyond(panel: Panel, args: SimpleNamespace) -> Literal["neither", "min", "max", "both"]:
    """At which ends of the colour scale values lie outside it."""
    low, high = limits(panel, args)
    below, above = panel.low < low, panel.high > high
    return "both" if below and above else "min" if below else "max" if above else "neither"


def edges_of(centres: Floats) -> Floats:
    """[n] centres → [n + 1] edges half way between them; a single one gets a width of 1."""
    if centres.size == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def beside_scale(label: str) -> str:
    """The label of a colour scale, in two lines where it is long."""
    return label if len(label) <= LONGEST_LABEL else label.replace(" (", "\n(", 1)


def draw_map(axes: Axes, panel: Panel, scale: ScalarMappable) -> None:
    """Values over x and time, a row per step; rows may have each its own x."""
    rows = edges_of(np.array([shot.time for shot in panel.shots]))
    columns = [shot.x if shot.x.size == shot.values.size + 1 else edges_of(shot.x) for shot in panel.shots]
    style: dict[str, Any] = {"norm": scale.norm, "cmap": scale.cmap, "rasterized": True}
    axes.set_facecolor(scale.cmap(0.0))
    if all(np.array_equal(columns[0], column) for column in columns):
        axes.pcolormesh(columns[0], rows, np.array([shot.values for shot in panel.shots]), **style)
        return
    for index, (column, shot) in enumerate(zip(columns, panel.shots, strict=True)):
        axes.pcolormesh(column, rows[index : index + 2], shot.values[None, :], **style)
    axes.set_xlim(min(column[0] for column in columns), max(column[-1] for column in columns))


def draw_curves(figure: Figure, axes: Axes, shown: Shown, args: SimpleNamespace) -> None:
    """One curve per step, or steps where x has the edges of bins; the colour is the time."""
    panel = shown.panel
    first, last = panel.shots[0].time, panel.shots[-1].time
    # The light end of the colour map is hard to see on white.
    scale = ScalarMappable(Normalize(first, last + 0.15 * (last - first)), args.colormap)
    for shot in panel.shots:
        values = np.where(shot.values > 0, shot.values, np.nan) if args.log else shot.values
        if shot.x.size == values.size + 1:
            axes.stairs(values, shot.x, color=scale.to_rgba(np.array(shot.time)), baseline=None, linewidth=1.2)
        else:
            axes.plot(shot.x, values, color=scale.to_rgba(np.array(shot.time)))
    axes.set_ylabel(shown.value)
    if args.log:
        low, high = limits(panel, args)
        axes.set(yscale="log", ylim=(low, high * 1.5))
    if len(panel.shots) > 1:
        figure.colorbar(scale, ax=axes, label=shown.time.label, pad=0.02).ax.set_ylim(first, last)


def draw_lines(figure: Figure, cell: SubplotSpec, shown: Shown, args: SimpleNamespace) -> None:
    """A 1-D variable over the steps."""
    axes, panel = figure.add_subplot(cell), shown.panel
    axes.set_xlabel(shown.x)
    if args.lines == "curves" or len(panel.shots) == 1:
        draw_curves(figure, axes, shown, args)
        return
    scale = colours(panel, args)
    draw_map(axes, panel, scale)
    axes.set_ylabel(shown.time.label)
    figure.colorbar(scale, ax=axes, label=beside_scale(shown.value), pad=0.02, extend=beyond(panel, args))


def draw_scalar(figure: Figure, cell: SubplotSpec, shown: Shown) -> None:
    """A scalar over the steps; never logarithmic, as `log` is meant for the arrays."""
    axes, shots = figure.add_subplot(cell), shown.panel.shots
    axes.plot([shot.time for shot in shots], [float(shot.values) for shot in shots], "o-", markersize=2.5)
    axes.set(xlabel=shown.time.label, ylabel=shown.value)


def draw_images(figure: Figure, cell: SubplotSpec, shown: Shown, args: SimpleNamespace) -> None:
    """Snapshots of a 2-D variable, or of the slice of a 3-D one, in rows, with one colour scale."""
    panel = shown.panel
    scale, number = colours(panel, args), images_of(panel, args)
    chosen = image_steps([is_plain(shot.values, scale) for shot in panel.shots], number)
    rows, columns = rows_and_columns(number)
    places = cell.subgridspec(rows, columns)
    # Blocks where values are much larger than pixels, else smooth: no row or column of values is left out.
    style: dict[str, Any] = {"norm": scale.norm, "cmap": scale.cmap, "interpolation": "auto", "extent": panel.extent}
    images = [figure.add_subplot(places[place // columns, place % columns]) for place in range(number)]
    for place, (axes, index) in enumerate(zip(images, chosen, strict=True)):
        is_left, is_lowest = place % columns == 0, place + columns >= number
        axes.imshow(panel.shots[index].values, **style)
        axes.set_facecolor(scale.cmap(0.0))  # values without a logarithm
        axes.spines[:].set_visible(False)
        axes.tick_params(length=2.5, labelleft=is_left, labelbottom=is_lowest)
        axes.locator_params(nbins=4)
        is_right = place % columns == columns - 1
        axes.locator_params(axis="x", prune=None if is_right else "upper")  # labels would overlap
        if number > 1:
            axes.set_title(shown.time.moment(panel.shots[index].time))
        axes.set(xlabel=shown.horizontal if is_lowest else "", ylabel=shown.vertical if is_left else "")
    aspect = 14 * rows
    figure.colorbar(
        scale, ax=images, label=beside_scale(shown.value), pad=0.02, aspect=aspect, extend=beyond(panel, args)
    )


def is_plain(values: Floats, scale: ScalarMappable) -> bool:
    """Whether an image of these values would have one colour."""
    shades = np.clip(np.ma.filled(np.ma.masked_invalid(scale.norm(values)), 0.0), 0.0, 1.0)
    return float(np.ptp(shades)) < SHADE


def image_steps(plain: Sequence[bool], number: int) -> list[int]:
    """Which steps the images show, spread evenly: from the first, or after those at the beginning that are plain."""
    last = len(plain) - 1
    if number == 1:
        return [last]
    begin = next((step for step, is_so in enumerate(plain) if not is_so), 0)
    if begin == 0 or last - begin < number:
        return [round(index * last / (number - 1)) for index in range(number)]
    return [begin + round((index + 1) * (last - begin) / number) for index in range(number)]


def images_of(panel: Panel, args: SimpleNamespace) -> int:
    """How many images a panel has."""
    return min(int(args.snapshots), len(panel.shots)) if panel.dimensions > 1 else 1


def rows_and_columns(images: int) -> tuple[int, int]:
    """In which rows and columns so many images stand: in as few rows as possible, which are as full as possible."""
    rows = -(-images // ACROSS)
    return rows, -(-images // rows)


def height_of(panel: Panel, args: SimpleNamespace, width: float) -> float:
    """Height of a panel in inches."""
    if panel.dimensions < 2:
        return 2.3 if panel.dimensions else 1.6
    if panel.extent is not None:
        left, right, bottom, top = panel.extent
        ratio = abs((top - bottom) / (right - left))
    else:
        ratio = panel.shots[-1].values.shape[0] / panel.shots[-1].values.shape[1]
    images = images_of(panel, args)
    rows, columns = rows_and_columns(images)
    labels = 0.55 + 2 * GAP + 0.25 * rows * (images > 1)
    return rows * float(np.clip((width - 1.4) / columns * ratio, 0.6, 6.0)) + labels


def draw(panels: list[Panel], args: SimpleNamespace, names: Names, title: str, path: Path) -> None:
    """Draw all panels, one below the other, to a file; under a temporary name until it is complete."""
    drawn = [in_readable_units(panel, names, args.slice_axis) for panel in panels]
    panels = [each.panel for each in drawn]
    heights = [height_of(panel, args, WIDTH) for panel in panels]
    with pyplot.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(h_pad=GAP)
        lines = wrap(title, LONGEST_TITLE)
        figure = pyplot.figure(figsize=(WIDTH, sum(heights) + 0.1 + 0.2 * len(lines)), layout=layout)
        cells = figure.add_gridspec(len(panels), 1, height_ratios=heights)
        for row, each in enumerate(drawn):
            if each.panel.dimensions == 0:
                draw_scalar(figure, cells[row], each)
            elif each.panel.dimensions == 1:
                draw_lines(figure, cells[row], each, args)
            else:
                draw_images(figure, cells[row], each, args)
        figure.suptitle("\n".join(lines))
        temporary = path.with_name(f".{path.name}")
        figure.savefig(temporary, format="png")
        pyplot.close(figure)
    temporary.rename(path)
