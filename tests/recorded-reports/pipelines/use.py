"""A program without wf: read NAME in every step of SOURCE, compute for WORK seconds, write 1000 values to SINK.

use.py SOURCE NAME SINK WORK
"""

import sys
import time

import adios2
import numpy as np

source, name, sink, work_s = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
adios = adios2.Adios("adios2.yaml")
reading, writing = adios.declare_io("In"), adios.declare_io("Out")
with adios2.Stream(reading, source, "r") as data, adios2.Stream(writing, sink, "w") as out:
    for _ in data.steps():
        values = data.read(name)
        end = time.process_time() + work_s
        while time.process_time() < end:
            np.sin(np.arange(1000.0))
        out.begin_step()
        out.write("b", values[:1000].astype(np.float64), [1000], [0], [1000])
        out.end_step()
