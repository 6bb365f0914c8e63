"""Pictures of a stream: a summary when the stream has ended and, with `frames`, one of each step as it arrives.

A scalar is drawn as a curve over the steps, a 1-D variable as a map (or curves) over the steps, a 2-D variable as an
image, a 3-D variable as the image of a slice through the middle; only that slice is read.
Labels come from the attributes `<variable>/long_name` and `<variable>/unit` where the stream has them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

# This file is started by path: make the module beside it importable by its full name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from components.plot.drawing import Floats, Names, Panel, Shot, draw, edges_of
from workflow import stage
from workflow.component_program import arguments

UNITS = {"angstrom": "Å", "1/angstrom": "Å⁻¹", "angstrom^-1": "Å⁻¹", "angstrom/ps": "Å/ps"}


def text_and_unit(name: str, step: stage.Step) -> tuple[str, str]:
    """Label and unit of a variable from its attributes; its name and "" where it has none."""
    attributes = step.attributes(name)
    unit = str(attributes.get("unit", ""))
    return str(attributes.get("long_name", name)), UNITS.get(unit, unit)


def label_of(name: str, step: stage.Step) -> str:
    """`long_name (unit)`."""
    text, unit = text_and_unit(name, step)
    return f"{text} ({unit})" if unit else text


def make_names(step: stage.Step, args: SimpleNamespace) -> Names:
    """The labels of the axes."""
    vertical, horizontal = (label_of(name, step) for name in args.axes) if args.axes else ("", "")
    x, time = label_of(args.x, step) if args.x else "index", label_of(args.time, step) if args.time else "step"
    text, unit = text_and_unit(args.time, step) if args.time else ("step", "")
    moment = f"{text} {{:g}} {unit}".rstrip()
    return Names(x, time, moment, vertical, horizontal)


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
    return [Panel(name, label_of(name, step), len(known[name].shape)) for name in names]


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


def read_step(step: stage.Step, panels: list[Panel], args: SimpleNamespace) -> None:
    """Add one step to the panels."""
    time = float(step.read(args.time)) if args.time else float(step.index)
    x = read_floats(step, args.x) if args.x else np.empty(0)
    extent = read_extent(step, args)
    for panel in panels:
        values = read_values(step, panel, args)
        fits = values.ndim == 1 and x.size - values.size in (0, 1)
        panel.add(Shot(step.index, time, values, x if fits else np.arange(values.size, dtype=np.float64)))
        panel.extent = extent


def main() -> None:
    """Read the stream, draw each step with `frames`, then draw the summary."""
    args = arguments(__file__)
    if len(args.axes) not in (0, 2):
        raise SystemExit(f"plot: axes takes two variables, [vertical, horizontal]; got {args.axes}")
    picture, frames = Path(args.picture), Path(args.frames_dir)
    for folder in (picture.parent, frames) if args.frames else (picture.parent,):
        folder.mkdir(parents=True, exist_ok=True)
    panels: list[Panel] = []
    with stage.open_reader("input") as stream:
        for step in stream:
            if not panels:
                panels, names = chosen_panels(step, args), make_names(step, args)
            read_step(step, panels, args)
            if args.frames and step.index < args.max_frames:
                title = f"{args.title}   {names.moment.format(panels[0].shots[-1].time)}".strip()
                draw([panel.newest() for panel in panels], args, names, title, frames / f"step{step.index:05d}.png")
    if panels:
        draw(panels, args, names, args.title, picture)
        print(f"plot: {picture}")


if __name__ == "__main__":
    main()
