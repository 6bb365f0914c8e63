"""Interference fringes from a wave field: an analysis in plain adios2 that does not use wf.

Usage: fringes.py INPUT OUTPUT [--average N]
Reads `pressure` [ny, nx] and `time` from INPUT, averages the intensity p² over the last N steps, and writes
to OUTPUT the intensity behind the wall, its line on a screen behind the slits, and the distance of the fringes there.
How both are opened (engines and parameters) is read from adios2.yaml in the current directory.
"""

import argparse
import math
from collections import deque

import adios2
import numpy as np

SPONGE = 40  # cells at the right end where the wave is absorbed: the screen stands before them


def fringe_distance(screen):
    """Cells from the central maximum of the line to the next one; nan where there is none."""
    half = (screen + screen[::-1])[len(screen) // 2 :] / 2  # both sides together, from the middle outwards
    rises = np.diff(half) > 0
    falling = int(np.argmax(~rises))  # behind the central maximum
    valley = falling + int(np.argmax(rises[falling:]))
    if valley == falling:
        return math.nan
    return valley + int(np.argmax(~rises[valley:])) + 0.5 if not rises[valley:].all() else math.nan


def expected_distance(wavelength, slits, depth):
    """Where the paths from both slits differ by one wavelength: on a hyperbola around the slits."""
    a, b2 = wavelength / 2, (slits**2 - wavelength**2) / 4
    return a * math.sqrt(1 + depth**2 / b2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--average", type=int, default=8)
    args = parser.parse_args()

    adios = adios2.Adios("adios2.yaml")
    source, sink = adios.declare_io("FieldInput"), adios.declare_io("Fringes")
    for name, label in (("intensity", "mean of p²"), ("screen", "mean of p² on the screen")):
        sink.define_attribute(f"{name}/long_name", label)
    last = deque(maxlen=args.average)
    with adios2.Stream(source, args.input, "r") as field, adios2.Stream(sink, args.output, "w") as out:
        for _ in field.steps():
            pressure, time = field.read("pressure"), field.read("time")
            last.append(pressure.astype(np.float64) ** 2)
            intensity = np.mean(last, axis=0)
            ny, nx = intensity.shape
            wall = int(field.read_attribute("wall"))
            screen = np.ascontiguousarray(intensity[:, nx - SPONGE])
            distance = fringe_distance(screen)
            out.begin_step()
            behind = np.ascontiguousarray(intensity[:, wall:])  # before the wall the source outshines all
            out.write("intensity", behind, [ny, nx - wall], [0, 0], [ny, nx - wall])
            out.write("screen", screen, [ny], [0], [ny])
            for name, first, end in (("y", 0, ny), ("x", wall, nx)):
                out.write(name, np.arange(first, end, dtype=np.float64), [end - first], [0], [end - first])
            out.write("time", time)
            out.write("fringe_distance", distance)
            out.end_step()
        depth = nx - SPONGE - wall
        expected = expected_distance(field.read_attribute("wavelength"), field.read_attribute("slit_distance"), depth)
    print(f"fringes: {distance:.1f} cells apart on the screen, {expected:.1f} expected")


if __name__ == "__main__":
    main()
