"""Steps as a dataset of xarray, with names of axes, units and numbers of steps. Only this module imports xarray."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workflow.installation import install_command
from workflow.stage.api.step import Step
from workflow.stage.stage_errors import StageError, StepRemoved
from workflow.stage.variables import Array, Info

if TYPE_CHECKING:
    import xarray

# Variable → the names of its axes, and its attributes.
Described = Mapping[str, tuple[tuple[str, ...], dict[str, str]]]


def read_dataset(steps: Iterator[Step], stream: str, names: Iterable[str], number: int | None) -> xarray.Dataset:
    """The next `number` steps of a stream, by default all that come. See `Reader.to_xarray`."""
    _check_installed()
    if number is not None and number < 1:
        raise ValueError(f"an array has at least one step, not {number}")
    values: dict[str, list[Array]] = {name: [] for name in names}
    infos: dict[str, Info] = {}
    numbers: list[int] = []
    described: Described = {}
    while number is None or len(numbers) < number:
        if (step := next(steps, None)) is None:
            break
        for name in values:
            info = step.info(name)
            if infos.setdefault(name, info) != info:
                raise StageError(
                    f"stream {stream}: {name} has shape {info.shape} in step {step.index}, but {infos[name].shape} in "
                    "the steps before: it cannot be one array"
                )
        try:
            found = step.read_many([*values])
        except StepRemoved:
            continue
        for name, array in found.items():
            values[name].append(array)
        described = {name: _described(step, name) for name in values}
        numbers.append(step.index)
    if not numbers:
        raise StageError(f"stream {stream}: it has no steps that could be an array")
    return _dataset(numbers, {name: np.stack(arrays) for name, arrays in values.items()}, described)


def to_dataset(step: Step, numbers: Sequence[int], values: Mapping[str, Array]) -> xarray.Dataset:
    """These values as a dataset, of which `step` is the newest. See `Window.to_xarray`."""
    _check_installed()
    return _dataset(numbers, values, {name: _described(step, name) for name in values})


def _described(step: Step, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of its axes, and its attributes."""
    attributes = {"long_name": step.label(name), "units": step.unit(name)}
    return step.axes(name), {key: text for key, text in attributes.items() if text}


def _dataset(numbers: Sequence[int], values: Mapping[str, Array], described: Described) -> xarray.Dataset:
    import xarray

    variables = {name: (("step", *described[name][0]), array, described[name][1]) for name, array in values.items()}
    return xarray.Dataset(variables, coords={"step": np.asarray(numbers)})


def _check_installed() -> None:
    try:
        import xarray  # noqa: F401
    except ImportError as error:
        raise StageError(f"a dataset needs {error.name}; install it: {install_command('xarray')}") from error
