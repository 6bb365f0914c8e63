"""A random sample of bounded size of all that a stream has brought: what a training draws its batches from.

Algorithm R: J. S. Vitter, Random sampling with a reservoir, ACM Transactions on Mathematical Software 11 (1985) 37–57,
doi:10.1145/3147.3165. Trainings that read streams have such a buffer, with a watermark, in Melissa: L. Meyer et al.,
High Throughput Training of Deep Surrogates from Large Ensemble Runs, 2023, arXiv:2309.16743. Theirs replaces samples
that have been drawn before others, and may let the simulations wait for that; this one never waits.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from workflow.stage.stage_errors import StageError
from workflow.stage.variables import Array

_ABOUT = "about.json"  # in the packed form: what is no array


class Reservoir:
    """A random sample of at most `size` of all samples that were put into it, each with the same probability.

    `size`: how many it holds; `watermark`: it gives out none before it holds so many; `seed`: of its random numbers.
    `len(reservoir)` is how many it holds, `reservoir.seen` how many were put into it.

    >>> reservoir = stage.Reservoir(size=4096, watermark=512, seed=1)
    >>> state = stage.State(reservoir=reservoir.pack())
    >>> reservoir.unpack(state["reservoir"])
    >>> for step in field:
    ...     reservoir.put(V=step.read("V"))
    ...     if reservoir.is_ready:
    ...         train(reservoir.draw(32)["V"])
    ...     if state.is_due():
    ...         state.save(reservoir=reservoir.pack())

    The same seed and the same samples, put and drawn in the same order, give the same batches: on several ranks, each
    with its part of every sample, the batches fit together; and after a restart they are those of an undisturbed run.

    Raises ValueError unless 1 ≤ watermark ≤ size.
    """

    def __init__(self, size: int, watermark: int = 1, seed: int = 0) -> None:
        if not 1 <= watermark <= size:
            raise ValueError(f"a reservoir needs 1 ≤ watermark ≤ size, not a watermark of {watermark} and size {size}")
        self.size, self.watermark, self.seen = size, watermark, 0
        # Not NumPy's default, which may change: a saved state is of this one.
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._held: dict[str, Array] = {}

    def __len__(self) -> int:
        return min(self.seen, self.size)

    @property
    def is_ready(self) -> bool:
        """Whether as many samples are there as `watermark` says."""
        return len(self) >= self.watermark

    def put(self, /, **sample: Any) -> None:
        """Put one sample: arrays or numbers by name, of the same names, shapes and types each time.

        It takes the place of a random one where the reservoir is full, or is left out. Raises ValueError for another
        name, shape or type.
        """
        self.put_all(**{name: np.asarray(value)[np.newaxis] for name, value in sample.items()})

    def put_all(self, /, **samples: Any) -> None:
        """Put several samples, one after the other: arrays of shape [n, …] by name. Raises what `put` raises."""
        arrays = {name: np.asarray(value) for name, value in samples.items()}
        number = self._check(arrays)
        if not self._held:
            self._held = {name: np.empty((self.size, *each.shape[1:]), each.dtype) for name, each in arrays.items()}
        for i in range(number):
            self.seen += 1
            # The sample of number n stays with the probability size / n.
            slot = self.seen - 1 if self.seen <= self.size else int(self._random.integers(self.seen))
            if slot < self.size:
                for name, array in arrays.items():
                    self._held[name][slot] = array[i]

    def _check(self, arrays: Mapping[str, Array]) -> int:
        """How many samples these are."""
        if not arrays:
            raise ValueError("a sample has at least one array")
        lengths = {name: len(array) if array.ndim else -1 for name, array in arrays.items()}
        number = next(iter(lengths.values()))
        if number < 0 or {*lengths.values()} != {number}:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise ValueError(f"the first axis of samples counts them, but the arrays are {shapes}")
        here = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
        held = {name: (array.shape[1:], array.dtype) for name, array in self._held.items()}
        if held and here != held:
            raise ValueError(f"this sample has {_described(here)}, but the reservoir holds {_described(held)}")
        return number

    def draw(self, number: int) -> dict[str, Array]:
        """So many different samples at random: name → array of shape [number, …]. They stay in the reservoir.

        Raises ValueError while it holds less than `watermark`, or less than `number`.
        """
        if not self.is_ready:
            raise ValueError(f"the reservoir holds {len(self)} samples, and gives out none before {self.watermark}")
        if number > len(self):
            raise ValueError(f"{number} samples cannot be drawn from {len(self)}")
        chosen = self._random.choice(len(self), number, replace=False)
        return {name: array[chosen] for name, array in self._held.items()}

    def held(self) -> dict[str, Array]:
        """All samples that it holds: name → array of shape [n, …], which is not a copy."""
        return {name: array[: len(self)] for name, array in self._held.items()}

    def pack(self) -> Array:
        """Samples and random numbers as one array of bytes, which `stage.State` can save."""
        about = {
            "size": self.size, "watermark": self.watermark, "seen": self.seen, "names": [*self._held],
            "random": self._random.bit_generator.state,
        }  # fmt: skip
        arrays = {str(i): array[: len(self)] for i, array in enumerate(self._held.values())}
        arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, **arrays)  # type: ignore[arg-type]
        return np.frombuffer(file.getvalue(), np.uint8)

    def unpack(self, packed: Array) -> None:
        """Take what `pack` returned: from now on it draws what that reservoir would have drawn.

        Raises StageError when that had another size or watermark: the program has changed since.
        """
        with np.load(io.BytesIO(np.asarray(packed).tobytes()), allow_pickle=False) as file:
            about = json.loads(file[_ABOUT].tobytes())
            known = (about["size"], about["watermark"])
            if known != (self.size, self.watermark):
                raise StageError(
                    f"the saved reservoir has size {known[0]} and watermark {known[1]}, but the program has "
                    f"{self.size} and {self.watermark}: it has changed since"
                )
            arrays = {name: file[str(i)] for i, name in enumerate(about["names"])}
        self.seen, self._random.bit_generator.state = about["seen"], about["random"]
        self._held = {}
        for name, array in arrays.items():
            self._held[name] = np.empty((self.size, *array.shape[1:]), array.dtype)
            self._held[name][: len(array)] = array


def _described(arrays: Mapping[str, tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{name} {kind} {shape}" for name, (shape, kind) in arrays.items())
