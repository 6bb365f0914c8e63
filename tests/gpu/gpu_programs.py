"""Stage programs of the tests on a GPU: `python gpu_programs.py ROLE LIBRARY`."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

import numpy as np

from workflow import stage

STEPS = 4
TYPES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip
BIG = (64, 96, 80)  # of float64: 3.9 MB
GROWING_STEPS, LEFT_AT = 40, 6
CUDA_HOST, CUDA_UNREGISTERED = 1, 0


def values_of(step: int) -> dict[str, Any]:
    """What is written in a step: random bits of every type, NaN among them, and odd shapes."""
    random = np.random.default_rng(step)
    found: dict[str, Any] = {
        f"of_{kind}": np.frombuffer(random.bytes(np.dtype(kind).itemsize * 1001), kind).copy() for kind in TYPES
    }
    found["big"] = random.random(BIG)
    found["grows"] = random.random((7 + 40_000 * step, 3))
    found["none"] = np.empty((0, 2), np.int32)
    found["time"] = np.float64(0.5 * step)
    return found


def to_device(library: str, values: Any) -> Any:
    """The same on the GPU."""
    module: Any = importlib.import_module(library)
    array = np.asarray(values)
    return module.from_numpy(array.copy()).to("cuda") if library == "torch" else module.asarray(array)


def to_host(library: str, array: Any) -> Any:
    """The values of an array of the GPU."""
    return array.cpu().numpy() if library == "torch" else array.get()


def memory_kind(library: str, values: Any) -> int:
    """What CUDA says of this memory of the host, which may be read-only."""
    module: Any = importlib.import_module(library)
    if library == "cupy":
        return int(module.cuda.runtime.pointerGetAttributes(values.ctypes.data).type)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CUDA_HOST if module.from_numpy(values).is_pinned() else CUDA_UNREGISTERED


def device_of(library: str) -> Any:
    """The first device, as the library names it."""
    module: Any = importlib.import_module(library)
    return module.device("cuda:0") if library == "torch" else module.cuda.Device(0)


def check(name: str, found: Any, wanted: Any) -> None:
    """Raises where an array differs in one bit."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    same = found.dtype == wanted.dtype and found.shape == wanted.shape and found.tobytes() == wanted.tobytes()
    if not same:
        raise RuntimeError(f"{name}: {found.dtype} {found.shape} is not {wanted.dtype} {wanted.shape}, or its values")


def write_from_host(_library: str) -> None:
    """From NumPy."""
    with stage.open_writer("data") as out:
        for step in range(STEPS):
            with out.step():
                for name, values in values_of(step).items():
                    out.write(name, values)


def write_from_jax(_library: str) -> None:
    """From a library that `workflow.stage` does not know: by DLPack."""
    import jax

    jax.config.update("jax_enable_x64", True)
    with stage.open_writer("data") as out:
        for step in range(STEPS):
            with out.step():
                for name, values in values_of(step).items():
                    out.write(name, jax.device_put(np.asarray(values), jax.devices("gpu")[0]))


def write_from_device(library: str) -> None:
    """From the GPU, also what is not contiguous, and what a kernel has just been queued for."""
    with stage.open_writer("data") as out:
        for step in range(STEPS):
            with out.step():
                for name, values in values_of(step).items():
                    out.write(name, to_device(library, values))
                big = to_device(library, values_of(step)["big"])
                out.write("turned", big.T if library == "cupy" else big.permute(2, 1, 0), lend=True)
                out.write("every_third", big[::3, 5:, ::2])
                out.write("computed", (big + 1.0) * 2.0)
                out.write("box", big[:10], shape=BIG, start=(0, 0, 0))
                out.write("truth", big > 0.5)


def read_to_device(library: str) -> None:
    """To the GPU, one by one, in boxes, and all together; compared bit for bit."""
    device = device_of(library)
    with stage.open_reader("data") as data:
        for step in data:
            wanted = values_of(step.index)
            for name in wanted:
                array = step.read(name, device=device)
                if type(array).__module__.partition(".")[0] != library or array.device != device:
                    raise RuntimeError(f"{name} is a {type(array)} on {array.device}")
                check(name, to_host(library, array), wanted[name])
            part = step.read("big", (3, 0, 5), (20, 96, 41), device=device)
            check("part", to_host(library, part), wanted["big"][3:23, :, 5:46])
            together = step.read_many([*wanted], device=device)
            for name in wanted:
                check(name, to_host(library, together[name]), wanted[name])
            check("big", step.read("big"), wanted["big"])
    print("right")


def growing(step: int) -> Any:
    """One size for a while, then a larger one."""
    rows = 16 * (1 + step // 10)
    return np.random.default_rng(rows).random((rows, *BIG[1:])) + step


def write_growing(library: str) -> None:
    """Of shared memory: segments are used again, then new ones are made. One array from the host, one from the GPU."""
    with stage.open_writer("data") as out:
        for step in range(GROWING_STEPS):
            with out.step():
                out.write("big", growing(step))
                twice = to_device(library, growing(step)) * 2.0
                out.write("twice", twice, shape=twice.shape, start=(0, 0, 0))
            if any(each.size for staging in out._stagings for each in staging._memory):
                raise RuntimeError(f"step {step} was copied on the host")
    print("right")


def read_shared(library: str, last: int = GROWING_STEPS) -> None:
    """To the GPU from where the writer has it, without a copy on the host, until the step `last`."""
    device, kept = device_of(library), []
    with stage.open_reader("data") as data:
        for step in data:
            found = step.read_many(["big", "twice"], device=device)
            big, view = growing(step.index), step.view("big")
            check("twice", to_host(library, found["twice"]), 2.0 * big)
            part = step.read("big", (3, 0, 0), (9, *BIG[1:]), device=device)
            check("part", to_host(library, part), big[3:12])
            if step.index % 5 == 0:
                kept.append((found["big"], big))
            else:
                check("big", to_host(library, found["big"]), big)
            if memory_kind(library, view) != CUDA_HOST:
                raise RuntimeError(f"step {step.index} is in memory that is not pinned")
            if any(each.size for staging in data._stagings for each in staging._memory):
                raise RuntimeError(f"step {step.index} was copied on the host")
            if step.index == last:
                break
    if memory_kind(library, view) != CUDA_UNREGISTERED:
        raise RuntimeError("memory is still pinned")
    for array, wanted in kept:
        check("kept", to_host(library, array), wanted)
    print("right")


def read_some_shared(library: str) -> None:
    """Leaves the stream before its end."""
    read_shared(library, LEFT_AT)


def read_plain(_library: str) -> None:
    """What `write_from_host` writes, by NumPy."""
    with stage.open_reader("data") as data:
        for step in data:
            for name, values in values_of(step.index).items():
                check(name, step.read(name), values)
    print("right")


def read_on_host(_library: str) -> None:
    """What `write_from_device` has written, by NumPy."""
    with stage.open_reader("data") as data:
        for step in data:
            wanted = values_of(step.index)
            big = wanted["big"]
            wanted |= {"turned": big.T, "every_third": big[::3, 5:, ::2], "computed": (big + 1.0) * 2.0}
            wanted |= {"truth": (big > 0.5).astype(np.uint8)}
            for name, values in wanted.items():
                check(name, step.read(name), values)
            check("box", step.read("box", count=(10, *BIG[1:])), big[:10])
    print("right")


if __name__ == "__main__":
    roles = {"write": write_from_host, "write-device": write_from_device, "write-jax": write_from_jax}
    roles |= {"write-growing": write_growing, "read-shared": read_shared, "read-some-shared": read_some_shared}
    roles |= {"read": read_plain, "read-written": read_on_host, "read-device": read_to_device}
    roles[sys.argv[1]](sys.argv[2])
