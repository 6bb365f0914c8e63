"""What is learned: from the surroundings of a cell, how much its two concentrations change until the next output."""

import numpy as np

from workflow import stage

RADIUS = 3  # cells on each side
OFFSETS = np.arange(-RADIUS, RADIUS + 1)
# The law is the same in all directions: so what counts is the mean of the cells that are equally far away, and how it
# differs from the cell itself. Rings of a square: cells (1, 2) and (2, -1) are in one.
_away = np.sort(np.abs(np.stack(np.meshgrid(OFFSETS, OFFSETS), axis=-1)).reshape(-1, 2), axis=1)
RINGS = np.stack([(_away == ring).all(axis=1) for ring in np.unique(_away, axis=0)]).astype(float)
RINGS /= RINGS.sum(axis=1, keepdims=True)
INPUTS, OUTPUTS = 2 * len(RINGS), 2
PER_PAIR = 256  # cells that are taken of each pair of fields
WARM_UP = 200  # time steps that are left out: the cubes of the initial state have edges that do not come again
HOLD_OUT = 10  # every tenth output is not trained with, but tested with
TESTED = 16384  # cells that are tested with, at most: the newest ones


class Pairs:
    """Fields of one simulation that follow each other.

    Steps of several simulations may come in any order, as those of an ensemble do: each is known by its variable
    `member`. A field makes a pair with the one before it of the same simulation, if none is missing between them.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval  # time steps from one output to the next
        self._before: dict[str, tuple[int, np.ndarray]] = {}

    def add(self, step: stage.Step) -> tuple[int, np.ndarray, np.ndarray] | None:
        """(number of the time step, its fields [2, ny, nx], those of the next output), where the step completes one."""
        member = str(step.read("member")) if "member" in step else ""
        number, fields = int(step.read("step")), np.stack([step.read("U")[0], step.read("V")[0]])
        before = self._before.get(member)
        self._before[member] = number, fields
        if before is None or before[0] + self.interval != number or before[0] < WARM_UP:
            return None
        return before[0], before[1], fields

    def to_values(self) -> dict:
        """For `stage.State`."""
        known = self._before
        return {
            "members": [*known],
            "numbers": [number for number, _ in known.values()],
            "fields": np.stack([fields for _, fields in known.values()]) if known else np.empty(0),
        }

    def from_values(self, values: dict) -> None:
        """Take what `to_values` returned."""
        known = zip(values["members"], values["numbers"], values["fields"], strict=True)
        self._before = {member: (number, fields) for member, number, fields in known}


def take_cells(number: int, now: np.ndarray, then: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some cells and their surroundings, [PER_PAIR, INPUTS], and how their values change, [PER_PAIR, OUTPUTS].

    Which cells depends on the number of the time step alone: so they are the same after a restart.
    """
    random = np.random.Generator(np.random.PCG64(number))
    ny, nx = now.shape[1:]
    rows, columns = random.integers(ny, size=PER_PAIR), random.integers(nx, size=PER_PAIR)
    # The grid is periodic.
    y = (rows[:, None, None] + OFFSETS[:, None]) % ny
    x = (columns[:, None, None] + OFFSETS[None, :]) % nx
    rings = now[:, y, x].reshape(2, PER_PAIR, -1) @ RINGS.T
    rings[:, :, 1:] -= rings[:, :, :1]
    return rings.transpose(1, 0, 2).reshape(PER_PAIR, INPUTS), (then - now)[:, rows, columns].T


def is_held_out(number: int, interval: int) -> bool:
    """Whether this output is for the test."""
    return number // interval % HOLD_OUT == HOLD_OUT - 1


def newest(held: np.ndarray, more: np.ndarray) -> np.ndarray:
    """The rows of both that are tested with."""
    return np.concatenate([held, more])[-TESTED:]


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The L2 norm of the error ÷ that of the changes. Whoever predicts that nothing changes has 1."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected)) if expected.size else 1.0
