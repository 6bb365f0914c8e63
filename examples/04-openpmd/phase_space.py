"""Phase space of the electrons and the energy of the field, drawn from any openPMD series with a field E along x.

Usage: phase_space.py SERIES PICTURE [OPTIONS]
Knows nothing of wf: SERIES is opened by openPMD-api with OPTIONS (JSON or TOML, or `@FILE`), step by step.
All numbers are read with their units, so what was simulated in which units does not matter.
"""

import argparse
import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
import openpmd_api as io

mpl.use("agg")
import matplotlib.pyplot as plt

VACUUM, CHARGE, MASS = 8.8541878128e-12, 1.602176634e-19, 9.1093837015e-31  # SI, CODATA 2018
SNAPSHOTS = (0.0, 0.4, 0.6, 1.0)  # parts of the run


def load(series, iteration):
    """Time in s, mean energy density of the field in J/m³, positions in m, velocities in m/s."""
    field, electrons = iteration.meshes["E"]["x"], iteration.particles["electrons"]
    position, momentum = electrons["position"]["x"], electrons["momentum"]["x"]
    values = [component.load_chunk() for component in (field, position, momentum)]
    series.flush()  # all three at once
    e, x, p = (value * component.unit_SI for value, component in zip(values, (field, position, momentum), strict=True))
    return iteration.time * iteration.time_unit_SI, float(np.mean(VACUUM / 2 * e**2)), x, p / MASS


def growth_rate(times, energies):
    """Rate in 1/s at which the field grows while it does so exponentially: from 1e-4 to 1e-1 of its largest energy."""
    relative = energies / energies.max()
    first, last = int(np.argmax(relative > 1e-4)), int(np.argmax(relative > 1e-1))
    slope = np.polyfit(times[first:last], np.log(energies[first:last]), 1)[0]
    return slope / 2  # the energy goes with the square of the field


def draw(picture, shots, times, energies, measured, expected):
    """Four phase spaces and the energy over time."""
    figure = plt.figure(figsize=(5.4, 6.7), layout="constrained")
    above, lower = figure.subfigures(2, 1, height_ratios=[2, 1.1])
    axes = above.subplots(2, 2, sharex=True, sharey=True)
    for axis, (time, x, v) in zip(axes.flat, shots, strict=True):
        axis.scatter(x * 100, v / 1e6, s=0.5, c=v, cmap="coolwarm", vmin=-1e7, vmax=1e7, linewidths=0)
        axis.set(title=f"{time * 1e9:.1f} ns", ylim=(-16, 16))
    figure.suptitle(
        f"Two-stream instability: the field grows\nat {measured / expected:.2f} × the rate of theory",
        fontsize="large",
    )
    above.supxlabel("x (cm)", fontsize="medium")
    above.supylabel("velocity (1000 km/s)", fontsize="medium")
    below = lower.subplots()
    below.semilogy(times * 1e9, energies, label="energy of the field")
    start = int(np.argmax(energies > 1e-4 * energies.max()))
    line = energies[start] * np.exp(2 * expected * (times - times[start]))
    shown = line < 2 * energies.max()
    below.semilogy(times[shown] * 1e9, line[shown], "--", label="growth by theory")
    below.set(xlabel="time (ns)", ylabel="energy density (J/m³)")
    below.legend()
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=180)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("series")
    parser.add_argument("picture")
    parser.add_argument("options", nargs="?", default="{}")
    parser.add_argument("--density", type=float, default=1e16, help="electrons per m³, for the theory")
    args = parser.parse_args()

    series = io.Series(args.series, io.Access.read_linear, args.options)
    found = []
    for iteration in series.read_iterations():
        found.append(load(series, iteration))
        iteration.close()
    series.close()
    times, energies = np.array([each[0] for each in found]), np.array([each[1] for each in found])
    shots = [found[round(part * (len(found) - 1))] for part in SNAPSHOTS]
    frequency = math.sqrt(args.density * CHARGE**2 / (VACUUM * MASS))
    measured, expected = growth_rate(times, energies), frequency / math.sqrt(8)
    draw(args.picture, [(time, x, v) for time, _, x, v in shots], times, energies, measured, expected)
    print(f"phase_space: the field grows by {measured:.3e} 1/s, {expected:.3e} 1/s expected")


if __name__ == "__main__":
    main()
