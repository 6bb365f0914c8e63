"""The processes of `wf` itself: the environment that they need, and command lines that start others.

They import nothing from the folder in which they are started. `python -m` and `python -c` put that folder first on
`sys.path`: a user's own random.py, numpy.py or workflow.py in it would be executed. From Python 3.11 on there is `-P`;
this file is for all versions: `python own_process.py MODULE ARGUMENT…` runs a module.
"""

from __future__ import annotations

import os
import sys


def set_home() -> str:
    """The value of HOME, for this process and those that it starts: where it is not set, the folder that the system has
    for the user, else one for temporary files.

    A systemd unit or a minimal container may have none, and ADIOS2 2.12.1 dies of SIGSEGV without that variable.
    """
    if not os.environ.get("HOME"):
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:  # a container that does not know the user
            home = ""
        os.environ["HOME"] = home or temporary_folder()
    return os.environ["HOME"]


def temporary_folder() -> str:
    """Where temporary files of this machine go, without importing `tempfile`."""
    return os.environ.get("TMPDIR") or "/tmp"


def find_programs_beside() -> None:
    """Put the folder of this Python last on PATH: `openpmd-pipe` beside `wf` is found without activating it."""
    beside, path = sys.executable.rpartition("/")[0], os.environ.get("PATH") or os.defpath
    if beside and beside not in path.split(os.pathsep):
        os.environ["PATH"] = f"{path}{os.pathsep}{beside}"


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of `wf`, or of a library."""
    return [sys.executable, __file__, module, *arguments]


def code_command(code: str, *arguments: str) -> list[str]:
    """The command line that executes lines of Python."""
    return [sys.executable, "-c", f"import sys\nif sys.path[0] == '': del sys.path[0]\n{code}", *arguments]


def _run_module() -> None:
    if sys.path and sys.path[0] == __file__.rpartition("/")[0]:  # not with PYTHONSAFEPATH
        del sys.path[0]
    del sys.argv[0]

    import runpy

    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run_module()
