"""LowFive's workload by the messages of MUSCLE3: three producers and a consumer, each a process of its own.

    python muscle3_messages.py STEPS

Runs under a Python that has libmuscle, in a folder for its logs, and writes there `times.json`: seconds from one
received step to the next. Every value of the first and of the last step is checked, outside of what is measured.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

# Started by its path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.bench_lowfive import EDGE, PARTICLES, WARM, check, grid_of, particles_of

PRODUCERS = 3
MODEL = """
ymmsl_version: v0.1
model:
  name: lowfive
  components:
    producer: {implementation: produce, multiplicity: 3}
    consumer: {implementation: consume}
  conduits: {producer.out: consumer.in}
settings: {steps: %d}
"""


def produce() -> None:
    """A block of the grid and its particles for each step, made beforehand: the last step differs from all others.

    Its messages take no unsigned integers: these go as signed ones of the same bits.
    """
    import numpy as np
    from libmuscle import Instance, Message
    from ymmsl.v0_2 import Operator

    instance = Instance({Operator.O_I: ["out"]})
    while instance.reuse_instance():
        steps, me = instance.get_setting("steps", "int"), int(_instance()[-2])
        made = [
            {
                "grid": grid_of(step, PRODUCERS, (EDGE * me, 0, 0), (EDGE,) * 3).view(np.int64),
                "particles": particles_of(step, PARTICLES * me, PARTICLES),
            }
            for step in (0, steps - 1)
        ]
        for number in range(steps):
            instance.send("out", Message(float(number), None, made[number == steps - 1]))


def consume() -> None:
    """All blocks of a step, put into one grid and one list of particles."""
    import numpy as np
    from libmuscle import Instance
    from ymmsl.v0_2 import Operator

    instance = Instance({Operator.S: ["in[]"]})
    ends = []
    while instance.reuse_instance():
        steps = instance.get_setting("steps", "int")
        for number in range(steps):
            grid = np.empty((EDGE * PRODUCERS, EDGE, EDGE), np.uint64)
            particles = np.empty((PARTICLES * PRODUCERS, 3), np.float32)
            for slot in range(PRODUCERS):
                found = instance.receive("in", slot).data
                grid[EDGE * slot : EDGE * (slot + 1)] = found["grid"].array.view(np.uint64)
                particles[PARTICLES * slot : PARTICLES * (slot + 1)] = found["particles"].array
            ends.append(time.perf_counter())
            settings = {"steps": steps, "producers": PRODUCERS, "consumers": 1}
            check(settings, 0, number, {"grid": grid, "particles": particles})
    Path("times.json").write_text(json.dumps([after - before for before, after in pairwise(ends)][WARM:]))


def _instance() -> str:
    """Such as `producer[2]`."""
    return next(word for word in sys.argv if word.startswith("--muscle-instance="))


if __name__ == "__main__":
    import ymmsl
    from libmuscle.runner import run_simulation

    model = ymmsl.load(MODEL % int(sys.argv[1]))
    run_simulation(model, {"produce": produce, "consume": consume})
