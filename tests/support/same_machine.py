"""Tests see the same machine everywhere: no scheduler, launcher, module system or profiler, whether it has them or not.

A test that asks for one gets it all the same: `machine_program("mpirun.openmpi")`; everything in tests/cluster sees
them all. The programs of the Python environment that runs the tests, its mpiexec for one, belong to the project.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

SCHEDULERS = (
    "sbatch", "salloc", "squeue", "scancel", "scontrol", "sinfo", "sacct", "sacctmgr", "sstat", "sattach", "sbcast",
    "qsub", "qstat", "qselect", "qdel", "qalter", "qrls", "qhold", "pbsnodes", "pbsdsh",
    "bsub", "bjobs", "bkill", "bhosts", "bqueues", "flux",
)  # fmt: skip
LAUNCHERS = (
    "srun", "jsrun", "aprun", "prun", "prte", "orterun", "ibrun", "lrun", "mpirun", "mpirun.*", "mpiexec", "mpiexec.*",
    "hydra_*",
)  # fmt: skip
MODULES = ("module", "modulecmd", "modulecmd.*", "lmod", "ml", "spack")
PROFILERS = (
    "perf", "perf_*", "gdb", "strace", "ltrace", "valgrind", "nsys", "ncu", "rocprof*", "vtune", "map", "ddt",
    "nvidia-smi", "rocm-smi", "amd-smi", "xpu-smi",
)  # fmt: skip
PROGRAMS = (*SCHEDULERS, *LAUNCHERS, *MODULES, *PROFILERS)

# Set in jobs, by module systems, and on the machines that `configs/sites` recognises.
VARIABLES = (
    "SLURM*", "SBATCH_*", "SALLOC_*", "SRUN_*", "PBS_*", "PALS_*", "LSB_*", "LSF_*", "LS_JOBPID", "LS_SUBCWD",
    "FLUX_*", "COBALT_*", "PMI_*", "PMIX_*", "OMPI_*", "PRTE_*", "HYDRA_*", "MPIEXEC_*", "MPICH_*", "I_MPI_*",
    "WF_HOSTFILE", "LMOD_*", "MODULE*", "LOADEDMODULES", "_LMFILES_", "BASH_ENV", "BASH_FUNC_module*", "BASH_FUNC_ml*",
    "NERSC_HOST", "CLUSTER_NAME", "SYSTEMNAME",
)  # fmt: skip

# The whole PATH, for the tests that ask: the processes that xdist starts inherit the shortened one.
WHOLE_PATH = "WF_TESTS_WHOLE_PATH"


def see_the_same_everywhere() -> None:
    """Change this process, and thereby its children: variables, PATH, and what Ctrl-C does."""
    for name in [name for name in os.environ if any(fnmatchcase(name, pattern) for pattern in VARIABLES)]:
        del os.environ[name]
    if WHOLE_PATH not in os.environ:
        whole = os.environ[WHOLE_PATH] = os.environ.get("PATH", os.defpath)
        os.environ["PATH"] = ":".join(without_programs(Path(folder)) for folder in whole.split(":"))
    # A shell that starts `make test &` without job control has SIGINT ignored there, and children inherit it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # nohup protects the tests from the end of the terminal; what they start is not to inherit that.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)


@contextlib.contextmanager
def whole_path() -> Iterator[None]:
    """PATH with the programs that this machine has."""
    before, os.environ["PATH"] = os.environ["PATH"], os.environ[WHOLE_PATH]
    try:
        yield
    finally:
        os.environ["PATH"] = before


def machine_program(name: str) -> str | None:
    """Where this machine has a program that other tests do not see; None: it has none."""
    return shutil.which(name, path=os.environ.get(WHOLE_PATH))


def without_programs(folder: Path) -> str:
    """A folder of links to what a folder of PATH holds, less the hidden programs; the folder itself if it has none."""
    if folder.resolve() == Path(sys.executable).parent.resolve() or not folder.is_dir():
        return str(folder)
    names = [file.name for file in folder.iterdir()]
    hidden = {name for name in names if any(fnmatchcase(name, pattern) for pattern in PROGRAMS)}
    if not hidden:
        return str(folder)
    links = Path(tempfile.mkdtemp(prefix="wf-tests-path-"))
    links.chmod(0o755)  # some tests start programs as another user
    atexit.register(shutil.rmtree, links, ignore_errors=True)
    for name in set(names) - hidden:
        (links / name).symlink_to(folder.absolute() / name)
    return str(links)
