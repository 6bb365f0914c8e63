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


def chosen_panels(step: stage.Step, args: SimpleNamespace) -> list[Panel]:
    """The variables to draw. Raises SystemExit when the stream does not have one, or it cannot be drawn."""
    known = step.variables()
    arrays = [name for name, info in known.items() if 1 <= len(info.shape) <= 3 and info.type != "string"]
    names = args.panels or ([args.variable] if args.variable else arrays[:1])
    missing = [name for name in (*names, args.x, *args.axes, args.time) if name and name not in known]
    if missing or not names:
        raise SystemExit(f"plot: the stream has no {', '.join(missing) or 'array'}; it has {', '.join(sorted(known))}")
    bad = [name for name in names if known[name].type == "string" or len(known[name].shape) > 3]
    if bad:
        raise SystemExit(f"plot: {', '.join(bad)} cannot be drawn: only numbers with at most 3 dimensions can")
    return [Panel(name, quantity(step, name), len(known[name].shape)) for name in names]


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


def read_extent(step: stage.Step, args: SimpleNamespace) -> tuple[float, float, float, float] | None:
    """(left, right, bottom, top) of images, from the coordinates at their edges; None without coordinates."""
    if not args.axes:
        return None
    vertical, horizontal = (edges_of(read_floats(step, name)) for name in args.axes)
    return float(horizontal[0]), float(horizontal[-1]), float(vertical[0]), float(vertical[-1])


def read_step(step: stage.Step, panels: list[Panel], args: SimpleNamespace, names: Names) -> None:
    """Add one step to the panels."""
    time = float(step.read(names.time_variable)) if names.time_variable else float(step.index)
    x = read_floats(step, args.x) if args.x else np.empty(0)
    extent = read_extent(step, args)
    for panel in panels:
        values = read_values(step, panel, args)
        fits = values.ndim == 1 and x.size - values.size in (0, 1)
        along = values.size if values.ndim == 1 else 0
        panel.add(Shot(step.index, time, values, x if fits else np.arange(along, dtype=np.float64)))
        panel.x, panel.extent = names.x if fits else INDEX, extent


def main() -> None:
    """Read the stream, draw each step with `frames`, then draw the summary."""
    args = arguments(__file__)
    picture, frames = Path(args.picture), Path(args.frames_dir)
    for folder in (picture.parent, frames) if args.frames else (picture.parent,):
        folder.mkdir(parents=True, exist_ok=True)
    with stage.open_reader("input") as stream:
        state = stage.State(**no_values())
        (panels, names), new = from_values(state), 0
        for step in stream:
            if not panels:
                panels, names = chosen_panels(step, args), make_names(step, args)
            read_step(step, panels, args, names)
            if args.frames and step.index < args.max_frames:
                time = names.time.scaled(abs(panels[0].shots[-1].time))
                title = f"{args.title}   {time.moment(panels[0].shots[-1].time * time.factor)}".strip()
                draw([panel.newest() for panel in panels], args, names, title, frames / f"step{step.index:05d}.png")
            new += 1
            if state.is_due() and (is_worth_saving(panels, new) or stage.stop_requested()):
                state.save(**to_values(panels, names))
                new = 0
    if panels:
        draw(panels, args, names, args.title, picture)
        print(f"plot: {picture}")


if __name__ == "__main__":
    main()
