"""Stages that wait for others, each written with `workflow.stage`: python waiting.py ROLE ARGUMENTS..."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count

import numpy as np

from workflow import stage


def write_two(*names: str) -> None:
    """Two streams, a step of each in turn."""
    with stage.open_writer(names[0]) as one, stage.open_writer(names[1]) as other:
        for index in range(20):
            for writer in (one, other):
                with writer.step():
                    writer.write("x", np.full(100, float(index)))


def forward(read: str, write: str) -> None:
    """Reads one stream and writes another, whatever else the pipeline declares."""
    with stage.open_reader(read) as reader, stage.open_writer(write) as writer:
        for step in reader:
            values = step.read("x")
            with writer.step():
                writer.write("x", values)


def read(name: str, step_s: str = "0") -> None:
    """Reads a stream and takes its time for each step."""
    with stage.open_reader(name) as reader:
        for step in reader:
            step.read("x")
            time.sleep(float(step_s))


def exchange(first: str, read: str, write: str, steps: str, step_s: str) -> None:
    """Two stages, each of which needs the other's step; the one that is `first` writes before it reads."""
    with stage.open_writer(write) as writer, stage.open_reader(read) as reader:
        for index in count() if first == "no" else range(int(steps)):
            if first == "no" and next(reader, None) is None:
                break
            time.sleep(float(step_s))
            with writer.step():
                writer.write("x", float(index))
            if first == "yes":
                next(reader).read("x")


ROLES: dict[str, Callable[..., None]] = {"write_two": write_two, "forward": forward, "read": read, "exchange": exchange}
ROLES[sys.argv[1]](*sys.argv[2:])
