"""The user's folder. A caller without HOME, such as a systemd unit or a minimal container, must not end what it starts:
ADIOS2 2.12.1 dies of SIGSEGV without that variable."""

from __future__ import annotations

import os


def set_home() -> str:
    """The value of HOME, for this process and those that it starts: where it is not set, the folder that the system has
    for the user, else one for temporary files."""
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
