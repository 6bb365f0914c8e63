"""Two electron beams that meet: a particle-in-cell simulation that writes openPMD and does not use wf.

Usage: two_stream.py SERIES [OPTIONS] [--steps N]
SERIES is opened by openPMD-api with OPTIONS (JSON or TOML, or `@FILE`). Written are the electric field and the
electrons, in the units of the simulation, with openPMD's unitSI: lengths in v/ω, times in 1/ω, momenta in m·v, where
v is the speed of the beams and ω the plasma frequency.
"""

import argparse
import math

import numpy as np
import openpmd_api as io

DENSITY, SPEED = 1e16, 6e6  # electrons per m³ in both beams together; m/s of each beam, to the right and to the left
CHARGE, MASS, VACUUM = 1.602176634e-19, 9.1093837015e-31, 8.8541878128e-12  # e, electron mass, ε0 (CODATA 2018)
FREQUENCY = math.sqrt(DENSITY * CHARGE**2 / (VACUUM * MASS))  # ω, of the plasma
LENGTH = SPEED / FREQUENCY
WAVES = 3  # of the wavelength that grows fastest: k = √(3/8) ω/v, at the rate ω/√8 (cold beams)
BOX = WAVES * 2 * math.pi / math.sqrt(3 / 8)
CELLS, ELECTRONS, TIME_STEP = 192, 30000, 0.1


def beams():
    """Positions and velocities: two cold beams, evenly spread, with a ripple that starts the fastest wave."""
    half = ELECTRONS // 2
    even = (np.arange(half) + 0.5) * BOX / half
    ripple = 0.002 * np.sin(2 * np.pi * WAVES * even / BOX)
    spread = 0.01 * np.random.default_rng(1).standard_normal(ELECTRONS)  # differs between the waves: vortices merge
    return np.concatenate([even + ripple, even - ripple]) % BOX, np.repeat([1.0, -1.0], half) + spread


def weights(position):
    """Cells on both sides of each electron and the share of the right one."""
    scaled = position * (CELLS / BOX)
    left = scaled.astype(np.int64)
    return left % CELLS, (left + 1) % CELLS, scaled - left


def field_of(position):
    """Electric field on the grid, of the electrons and of resting ions: dE/dx = 1 - n, solved by Fourier transform."""
    left, right, share = weights(position)
    density = np.bincount(left, 1 - share, CELLS) + np.bincount(right, share, CELLS)
    charge = 1 - density * (CELLS / ELECTRONS)
    k = 2 * np.pi * np.fft.rfftfreq(CELLS, BOX / CELLS)
    spectrum = np.fft.rfft(charge)
    spectrum[0] = 0
    spectrum[1:] /= 1j * k[1:]
    return np.fft.irfft(spectrum, CELLS)


def force_on(position, field):
    """Acceleration of each electron."""
    left, right, share = weights(position)
    return -((1 - share) * field[left] + share * field[right])


def write(series, number, time, field, position, velocity):
    """One iteration of the series."""
    iteration = series.snapshots()[number]
    iteration.time, iteration.dt, iteration.time_unit_SI = time, TIME_STEP, 1 / FREQUENCY
    mesh = iteration.meshes["E"]
    mesh.axis_labels, mesh.grid_spacing, mesh.grid_global_offset = ["x"], [BOX / CELLS], [0.0]
    mesh.grid_unit_SI = LENGTH
    d = io.Unit_Dimension
    mesh.unit_dimension = {d.L: 1, d.M: 1, d.T: -3, d.I: -1}
    store(mesh["x"], field, MASS * SPEED * FREQUENCY / CHARGE)
    electrons = iteration.particles["electrons"]
    electrons["momentum"].unit_dimension = {d.L: 1, d.M: 1, d.T: -1}
    store(electrons["position"]["x"], position, LENGTH)
    store(electrons["momentum"]["x"], velocity, MASS * SPEED)
    for record, value, unit in (("positionOffset", 0.0, {d.L: 1}), ("charge", -CHARGE, {d.T: 1, d.I: 1}),
                                ("mass", MASS, {d.M: 1})):  # fmt: skip
        component = electrons[record]["x"] if record == "positionOffset" else electrons[record]
        electrons[record].unit_dimension = unit
        component.reset_dataset(io.Dataset(np.dtype("float64"), [len(position)]))
        component.make_constant(value)
    iteration.close()


def store(component, values, unit_si):
    """A component of a record with its unit."""
    component.unit_SI = unit_si
    component.reset_dataset(io.Dataset(values.dtype, values.shape))
    component.store_chunk(np.ascontiguousarray(values))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("series")
    parser.add_argument("options", nargs="?", default="{}")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--write-every", type=int, default=10)
    args = parser.parse_args()

    series = io.Series(args.series, io.Access.create_linear, args.options)
    position, velocity = beams()
    field = field_of(position)
    for step in range(args.steps + 1):
        if step % args.write_every == 0:
            write(series, step, step * TIME_STEP, field, position, velocity)
        velocity = velocity + 0.5 * TIME_STEP * force_on(position, field)
        position = (position + TIME_STEP * velocity) % BOX
        field = field_of(position)
        velocity = velocity + 0.5 * TIME_STEP * force_on(position, field)
    series.close()
    print(f"two_stream: {args.steps // args.write_every + 1} iterations written to {args.series}")


if __name__ == "__main__":
    main()
