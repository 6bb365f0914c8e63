"""The equations of Huebl et al. 2017 (arXiv:1706.00522), against values from their table 1 worked out by hand."""

from __future__ import annotations

import math

import pytest

from tools.compression_break_even import (
    OutputPath,
    Reduction,
    break_even_ratio,
    break_even_threshold,
    output_s,
    reduced_output_s,
    relative_overhead,
)

GIB = 2.0**30
# Table 1, and section 3.1: 4 GiB are prepared in a second.
TITAN = OutputPath(memcpy=6.0 * GIB, file_system=0.055 * GIB, preparation=1 / (4 * GIB))
HYPNOS = OutputPath(memcpy=6.1 * GIB, file_system=1.25 * GIB, preparation=1 / (4 * GIB))
COMPRESSOR = Reduction(ratio=0.5, throughput=0.6 * GIB)


def test_time_of_output() -> None:
    # Equation 2 is 1 s + 4 ÷ 0.055 s; the copy takes 4 ÷ 6 s more. Equation 3: 1 s + 4 ÷ 0.6 s + 2 ÷ 0.055 s.
    assert output_s(4 * GIB, TITAN) == pytest.approx(1 + 4 / 0.055 + 4 / 6)
    assert reduced_output_s(4 * GIB, TITAN, COMPRESSOR) == pytest.approx(1 + 4 / 0.6 + 2 / 0.055)


def test_relative_overhead() -> None:
    # Equation 5 in the paper's normalized numbers: C_prep = 1.5, T_FS = 0.055 ÷ 6, T_C = 0.1.
    expected = (1.5 + 0.5 / (0.055 / 6) + 1 / 0.1) / (1.5 + 1 / (0.055 / 6) + 1)
    assert relative_overhead(TITAN, COMPRESSOR) == pytest.approx(expected)
    assert break_even_threshold(TITAN, COMPRESSOR) > TITAN.file_system
    # On Hypnos the same compressor makes output slower, as figure 3 shows for zlib.
    assert relative_overhead(HYPNOS, COMPRESSOR) > 1
    assert break_even_threshold(HYPNOS, COMPRESSOR) < HYPNOS.file_system


@pytest.mark.parametrize("path", [TITAN, HYPNOS])
@pytest.mark.parametrize("throughput", [3 * GIB, 4 * GIB, 5 * GIB])
def test_break_even(path: OutputPath, throughput: float) -> None:
    at = Reduction(break_even_ratio(path, throughput), throughput)
    assert relative_overhead(path, at) == pytest.approx(1)
    assert break_even_threshold(path, at) == pytest.approx(path.file_system)
    # Preparation changes how much is gained, not where: section 4.1.
    bare = OutputPath(path.memcpy, path.file_system)
    assert break_even_ratio(bare, throughput) == at.ratio


def test_limits() -> None:
    assert break_even_threshold(HYPNOS, Reduction(0.5, HYPNOS.memcpy)) == math.inf
    assert break_even_threshold(HYPNOS, Reduction(1.0, HYPNOS.memcpy)) == 0
    assert break_even_ratio(HYPNOS, 0.01 * GIB) < 0
