"""When compression makes output faster: the equations of Huebl et al. 2017. Pure.

A. Huebl, R. Widera, F. Schmitt, A. Matthes, N. Podhorszki, J. Y. Choi, S. Klasky, M. Bussmann: On the Scalability of
Data Reduction Techniques in Current and Upcoming HPC Systems from an Application Perspective, 2017, arXiv:1706.00522,
sections 3 and 4.

All amounts and throughputs are those of one node (or of whatever writes by itself, e.g. one rank), in bytes and bytes
per second. The paper divides its throughputs by that of memcpy; here they are given as they are measured. What a
reduction takes is at least what copying takes, as in the paper: both end in the buffer of the I/O library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class OutputPath:
    """What output takes without a reduction. Throughputs in bytes per second."""

    memcpy: float
    """T_memcpy: copying within a node."""
    file_system: float
    """T_FS: what the file system gives one node, or a stream to its reader."""
    preparation: float = 0.0
    """t_prep ÷ S, seconds per byte: making the data ready for the I/O library."""


@dataclass(frozen=True)
class Reduction:
    """A compressor on given data."""

    ratio: float
    """f_C = S_C ÷ S: compressed size ÷ size; 1 changes nothing."""
    throughput: float
    """T_C: uncompressed bytes per second."""


def output_s(size: float, path: OutputPath) -> float:
    """t_I/O^simple, equation 2, and the copy into the buffer of the I/O library: the denominator of equation 5."""
    return reduced_output_s(size, path, Reduction(1.0, path.memcpy))


def reduced_output_s(size: float, path: OutputPath, reduction: Reduction) -> float:
    """t_I/O^reduce, equation 3: seconds to write `size` bytes through a reduction, nothing overlapping."""
    return size * path.preparation + size / reduction.throughput + reduction.ratio * size / path.file_system


def relative_overhead(path: OutputPath, reduction: Reduction) -> float:
    """Γ, equation 5: time of output with the reduction ÷ without it. Below 1 output gets faster."""
    return reduced_output_s(1.0, path, reduction) / output_s(1.0, path)


def break_even_threshold(path: OutputPath, reduction: Reduction) -> float:
    """The left side of equation 4, in bytes per second: the reduction pays where T_FS is below it.

    Infinite for a reduction that is as fast as memcpy.
    """
    relative = reduction.throughput / path.memcpy
    if relative >= 1:
        return math.inf if reduction.ratio < 1 else 0.0
    return relative * (1 - reduction.ratio) / (1 - relative) * path.memcpy


def break_even_ratio(path: OutputPath, throughput: float) -> float:
    """The f_C at which Γ is 1 for a given T_C: equation 4 solved for f_C. Negative where no ratio pays."""
    return 1 - path.file_system * (1 / throughput - 1 / path.memcpy)
