"""Pictures of a stream: a summary when the stream has ended and, with `frames`, one of each step as it arrives.

A scalar is drawn as a curve over the steps, a 1-D variable as a map (or curves) over the steps, a 2-D variable as an
image, a 3-D variable as the image of a slice through the middle; only that slice is read.
Labels are the variables' names and units as `Step.label` and `Step.unit` know them: from attributes of the stream, from
the pipeline file, or of openPMD data from unitSI and unitDimension.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

# This file is started by path: make the module beside it importable by its full name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from components.plot.drawing import INDEX, Floats, Names, Panel, Shot, draw, edges_of
from components.plot.kept import from_values, is_worth_saving, no_values, to_values
from components.plot.labels import Quantity, quantity, time_variable
from workflow import stage
from workflow.component_program import arguments


def make_names(step: stage.Step, args: SimpleNamespace) -> Names:
    """The quantities along the axes that all panels share."""
    variable = time_variable(step, args.time)
    time = quantity(step, variable) if variable else Quantity("step")
    x = quantity(step, args.x) if args.x else INDEX
    return Names(variable, time, x, *(quantity(step, name) for name in args.axes))


def wanted_names(step: stage.Step, args: SimpleNamespace, panels: list[Panel]) -> list[str]:
    """The variables to draw: those that are asked for, else that which is drawn, else the first array of the step."""
    if named := args.panels or [panel.name for panel in panels if not args.variable]:
        return [*named]
    arrays = [name for name, info in step.variables().items() if 1 <= len(info.shape) <= 3 and info.type != "string"]
    return [args.variable] if args.variable else arrays[:1]


def make_panel(step: stage.Step, name: str) -> Panel:
    """The panel of a variable, with the first step that has it. Raises SystemExit when it cannot be drawn."""
    info = step.info(name)
    if info.type == "string" or info.local or len(info.shape) > 3:
        what = "only numbers with at most 3 dimensions and a global shape can"
        raise SystemExit(f"plot: {name} cannot be drawn, in step {step.index}: {what}")
    return Panel(name, quantity(step, name), len(info.shape))


def read_floats(step: stage.Step, name: str) -> Floats:
    """A whole variable as float64."""
    return np.asarray(step.read(name), dtype=np.float64)


def read_values(step: stage.Step, panel: Panel, args: SimpleNamespace) -> Floats:
    """The values to draw: the variable, or the middle slice of a 3-D one."""
    if panel.dimensions < 3:
        return read_floats(step, panel.name)
    shape, axis = step.shape(panel.name), args.slice_axis
    start, count = [0, 0, 0], list(shape)
    start[axis], count[axis] = shape[axis] // 2, 1
    return np.asarray(step.read(panel.name, start=start, count=count), dtype=np.float64).squeeze(axis)


class Coordinates:
    """The newest values of the variables with coordinates: many programs write them once."""

    def __init__(self, args: SimpleNamespace) -> None:
        self._x, self._axes = args.x, args.axes
        self._known: dict[str, Floats] = {}

    def read(self, step: stage.Step) -> None:
        """Read those that the step has."""
        for name in (self._x, *self._axes):
            if name and name in step:
                self._known[name] = read_floats(step, name)

    def along(self, panel: Panel, length: int) -> Floats | None:
        """Those along a variable of one dimension: as many, or one more; None where there are none that fit."""
        x = self._known.get(self._x)
        if x is None and self._x and panel.shots:  # of an earlier attempt
            x = panel.shots[-1].x
        return x if x is not None and x.size - length in (0, 1) else None

    def extent(self, panel: Panel) -> tuple[float, float, float, float] | None:
        """(left, right, bottom, top) of images, from the coordinates at their edges; None without coordinates."""
        if not self._axes or not all(name in self._known for name in self._axes):
            return panel.extent
        vertical, horizontal = (edges_of(self._known[name]) for name in self._axes)
        return float(horizontal[0]), float(horizontal[-1]), float(vertical[0]), float(vertical[-1])


def read_step(
    step: stage.Step, panels: list[Panel], args: SimpleNamespace, names: Names, coordinates: Coordinates
) -> list[Panel]:
    """Add one step to the panels of the variables of which it has elements, and return these."""
    coordinates.read(step)
    here = [panel for panel in panels if panel.name in step and 0 not in step.shape(panel.name)]
    if not here or (names.time_variable and names.time_variable not in step):
        return []
    time = float(step.read(names.time_variable)) if names.time_variable else float(step.index)
    for panel in here:
        if len(step.shape(panel.name)) != panel.dimensions:
            changed = f"it had {panel.dimensions} dimensions before, and has {len(step.shape(panel.name))} now"
            raise SystemExit(f"plot: {panel.name} cannot be drawn in step {step.index}: {changed}")
        values = read_values(step, panel, args)
        x = coordinates.along(panel, values.size) if values.ndim == 1 else None
        along = np.arange(values.size if values.ndim == 1 else 0, dtype=np.float64)
        panel.extent = coordinates.extent(panel)
        panel.add(Shot(step.index, time, values, along if x is None else x))
        panel.x = INDEX if x is None else names.x
    return here


def main() -> None:
    """Read the stream, draw each step with `frames`, then draw the summary."""
    args = arguments(__file__)
    picture, frames = Path(args.picture), Path(args.frames_dir)
    for folder in (picture.parent, frames) if args.frames else (picture.parent,):
        folder.mkdir(parents=True, exist_ok=True)
    may_lack = [args.variable, *args.panels, args.x, *args.axes]
    coordinates, wanted, left_out = Coordinates(args), list[str](), list[int]()
    with stage.open_reader("input", may_lack=may_lack) as stream:
        state = stage.State(**no_values())
        (panels, names), new = from_values(state), 0
        for step in stream:
            wanted = wanted or wanted_names(step, args, panels)
            known = {panel.name: panel for panel in panels}
            come = {name: make_panel(step, name) for name in wanted if name in step and name not in known}
            if come:
                names = names if panels else make_names(step, args)
                panels = [panel for name in wanted if (panel := known.get(name) or come.get(name)) is not None]
            if not (here := read_step(step, panels, args, names, coordinates)):
                left_out.append(step.index)
                continue
            if args.frames and step.index < args.max_frames:
                time = names.time.scaled(abs(here[0].shots[-1].time))
                title = f"{args.title}   {time.moment(here[0].shots[-1].time * time.factor)}".strip()
                draw([panel.newest() for panel in here], args, names, title, frames / f"step{step.index:05d}.png")
            new += 1
            if state.is_due() and (is_worth_saving(panels, new) or stage.stop_requested()):
                state.save(**to_values(panels, names))
                new = 0
    if not panels and stream.steps:
        raise SystemExit("plot: no step of the stream had an array to draw")
    if left_out:
        which = f"step {left_out[0]}" if len(left_out) == 1 else f"{len(left_out)} steps, {left_out[0]} the first,"
        stage.note(f"{which} had nothing to draw, or no time")
    shown = [panel for panel in panels if panel.shots]
    if panels and not shown:
        stage.note(f"there is no picture: {', '.join(panel.name for panel in panels)} had no elements in any step")
    if shown:
        draw(shown, args, names, args.title, picture)
        print(f"plot: {picture}")


if __name__ == "__main__":
    main()
