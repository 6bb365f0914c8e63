"""A program without wf: write STEPS steps of SIZE doubles to PATH, each after WORK seconds of computing.

make.py PATH STEPS SIZE WORK
"""

import sys
import time

import adios2
import numpy as np

path, steps, size, work_s = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
io = adios2.Adios("adios2.yaml").declare_io("Out")
with adios2.Stream(io, path, "w") as out:
    for step in range(steps):
        end = time.process_time() + work_s
        while time.process_time() < end:
            np.sin(np.arange(1000.0))
        out.begin_step()
        out.write("a", np.full(size, float(step)), [size], [0], [size])
        out.end_step()
