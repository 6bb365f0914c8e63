"""Which libraries can use a GPU here. Without one these tests are skipped, and `make test-gpu` says why."""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import Any

import pytest


@cache
def why_not(library: str) -> str:
    """Why a library cannot use a GPU here; empty where it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module: Any = importlib.import_module(library)
        if library == "torch":
            return "" if module.cuda.is_available() else f"torch {module.__version__} finds no GPU"
        module.cuda.runtime.getDeviceCount()
    except Exception as error:  # whatever a driver that is missing raises
        return f"{library}: {type(error).__name__}: {error}"
    return ""


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> str:
    """The name of a library that can use a GPU here."""
    name = str(request.param)
    if why := why_not(name):
        pytest.skip(why)
    return name


@pytest.fixture
def torch() -> Any:
    """PyTorch, with a GPU."""
    if why := why_not("torch"):
        pytest.skip(why)
    return importlib.import_module("torch")


@pytest.fixture
def cupy() -> Any:
    """CuPy, with a GPU."""
    if why := why_not("cupy"):
        pytest.skip(why)
    return importlib.import_module("cupy")
