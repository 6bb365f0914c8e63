"""A small network in NumPy: two hidden layers with tanh, trained by Adam (Kingma and Ba 2015, arXiv:1412.6980)."""

from itertools import pairwise

import numpy as np

RATE, SLOWER = 1e-2, 1000  # the rate is half as large after SLOWER updates
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8


class Network:
    """`weights` and `moments` change by training; `inputs` and `outputs` are [mean, deviation] of the first samples."""

    def __init__(self, sizes: list[int], seed: int) -> None:
        random = np.random.Generator(np.random.PCG64(seed))
        shapes = list(pairwise(sizes))
        self.weights = [random.normal(size=shape) / np.sqrt(shape[0]) for shape in shapes]
        self.weights += [np.zeros(shape[1]) for shape in shapes]
        self.moments = [np.zeros_like(each) for each in self.weights * 2]
        self.updates = 0
        self.inputs = self.outputs = np.empty(0)

    def prepare(self, inputs: np.ndarray, changes: np.ndarray) -> None:
        """Scale by the first samples."""
        self.inputs, self.outputs = (
            np.stack([each.mean(axis=0), each.std(axis=0) + TINY]) for each in (inputs, changes)
        )

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """The changes that it expects, [n, 2]."""
        return self._layers(inputs)[-1] * self.outputs[1] + self.outputs[0]

    def train(self, inputs: np.ndarray, changes: np.ndarray) -> float:
        """One update by a batch. Returns its mean squared error, of changes in units of their deviation."""
        layers = self._layers(inputs)
        error = layers[-1] - (changes - self.outputs[0]) / self.outputs[1]
        depth, slope = len(layers) - 1, 2 * error / error.size
        gradients = [np.empty(0)] * (2 * depth)
        for i in reversed(range(depth)):
            gradients[i], gradients[depth + i] = layers[i].T @ slope, slope.sum(axis=0)
            slope = (slope @ self.weights[i].T) * (1 - layers[i] ** 2)
        self._update(gradients)
        return float((error**2).mean())

    def _layers(self, inputs: np.ndarray) -> list[np.ndarray]:
        depth = len(self.weights) // 2
        layers = [(inputs - self.inputs[0]) / self.inputs[1]]
        for i in range(depth):
            sums = layers[-1] @ self.weights[i] + self.weights[depth + i]
            layers.append(sums if i == depth - 1 else np.tanh(sums))
        return layers

    def _update(self, gradients: list[np.ndarray]) -> None:
        self.updates += 1
        number, rate = len(self.weights), RATE / (1 + self.updates / SLOWER)
        for i, gradient in enumerate(gradients):
            self.moments[i] = FIRST * self.moments[i] + (1 - FIRST) * gradient
            self.moments[number + i] = SECOND * self.moments[number + i] + (1 - SECOND) * gradient**2
            first = self.moments[i] / (1 - FIRST**self.updates)
            second = self.moments[number + i] / (1 - SECOND**self.updates)
            self.weights[i] = self.weights[i] - rate * first / (np.sqrt(second) + TINY)

    def to_values(self) -> dict:
        """For `stage.State`: all numbers one after the other."""
        parts = [*self.weights, *self.moments, self.inputs, self.outputs]
        return {"updates": self.updates, "network": np.concatenate([each.ravel() for each in parts])}

    def from_values(self, values: dict) -> None:
        """Take what `to_values` returned."""
        self.updates, rest = values["updates"], values["network"]

        def take(shape: tuple[int, ...]) -> np.ndarray:
            nonlocal rest
            size = int(np.prod(shape))
            taken, rest = rest[:size].reshape(shape), rest[size:]
            return taken

        self.weights = [take(each.shape) for each in self.weights]
        self.moments = [take(each.shape) for each in self.moments]
        if rest.size:
            depth = len(self.weights) // 2
            self.inputs, self.outputs = take((2, len(self.weights[0]))), take((2, self.weights[depth - 1].shape[1]))
