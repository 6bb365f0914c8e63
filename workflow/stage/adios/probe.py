"""What this machine's ADIOS2 can do, as JSON on stdout: `python -m workflow.stage.adios.probe`.

Each question is asked in a process of its own, because ADIOS2 answers some of them by aborting, and several at a time,
because each takes the time of an import. The SST planes are read off the log line that names the plane in use, since a
missing plane is otherwise replaced in silence.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import compress

from workflow.engines import ENGINES, EngineTraits
from workflow.operators import OPERATORS, OperatorTraits
from workflow.own_process import code_command
from workflow.sst_transports import TRANSPORTS, SstTransport

TIMEOUT_S = 30
# More of them slow each other down on a busy node, and an answer that is late counts as no.
AT_A_TIME = 4

_OPEN = """
import sys, adios2
io = adios2.Adios().declare_io("probe")
io.set_engine("SST")
io.set_parameters({"DataTransport": sys.argv[1], "RendezvousReaderCount": "0"})
engine = io.open(sys.argv[2], adios2.bindings.Mode.Write)
engine.close()
"""
_WRITE = """
import sys, adios2
io = adios2.Adios().declare_io("probe")
io.set_engine(sys.argv[1])
io.open(sys.argv[2], adios2.bindings.Mode.Write).close()
"""
_OPERATE = """
import json, sys, numpy, adios2
adios = adios2.Adios()
operator = adios.define_operator("probe", sys.argv[1], json.loads(sys.argv[2]))
io = adios.declare_io("probe")
io.set_engine("BP5")
data = numpy.zeros((8, 8, 8))
variable = io.define_variable("x", data, [8, 8, 8], [0, 0, 0], [8, 8, 8])
variable.add_operation(operator, json.loads(sys.argv[2]))
engine = io.open(sys.argv[3], adios2.bindings.Mode.Write)
engine.begin_step()
engine.put(variable, data)
engine.end_step()
engine.close()
"""


def main() -> None:
    """Ask everything and print the answers."""
    import adios2.bindings

    planes = [each for each in TRANSPORTS.values() if each.opens_alone]
    engines = [each for each in ENGINES.values() if each.optional]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        of_planes, of_engines = pool.map(_plane_works, planes), pool.map(_engine_works, engines)
        of_operators = pool.map(_operator_works, OPERATORS.values())
    answers = {
        "version": adios2.__version__,
        "mpi": bool(adios2.is_built_with_mpi),
        "planes": [each.name for each in compress(planes, of_planes)],
        "engines": [each.name for each in compress(engines, of_engines)],
        # The bindings have it where ADIOS2 was built with CUDA or Kokkos, since 2025.
        "gpu": hasattr(adios2.bindings, "MemorySpace"),
        "operators": [each.name for each in compress(OPERATORS.values(), of_operators)],
    }
    print(json.dumps(answers))


def _plane_works(transport: SstTransport) -> bool:
    env = {**os.environ, "SstVerbose": "2", **dict(transport.probe_environment)}
    with tempfile.TemporaryDirectory() as folder:
        answer = _ask(_OPEN, transport.parameter, f"{folder}/probe", env=env)
    return answer is not None and f'Selecting DataPlane "{transport.plane}"' in answer.stderr and answer.returncode == 0


def _engine_works(engine: EngineTraits) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        answer = _ask(_WRITE, engine.name, f"{folder}/probe{engine.suffixes[0]}", env=dict(os.environ))
    return answer is not None and answer.returncode == 0


def _operator_works(operator: OperatorTraits) -> bool:
    parameters = json.dumps(dict(operator.probe_parameters))
    with tempfile.TemporaryDirectory() as folder:
        answer = _ask(_OPERATE, operator.name, parameters, f"{folder}/probe.bp", env=dict(os.environ))
    return answer is not None and answer.returncode == 0


def _ask(program: str, *argv: str, env: dict[str, str]) -> subprocess.CompletedProcess[str] | None:
    command = code_command(program, *argv)
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=env)
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    main()
