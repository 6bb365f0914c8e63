"""Collects the provenance of a run: what all runs of a process have in common once, the files of each plan."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from workflow.plan.plan_model import Plan
from workflow.provenance.git_state import start_git_state
from workflow.provenance.installed_versions import versions, versions_of_stages
from workflow.provenance.plan_files import examine_plan, file_records, files_of
from workflow.provenance.provenance_model import (
    PROVENANCE_FILE,
    HostContext,
    Provenance,
    StartContext,
    read_provenance,
)
from workflow.redaction import clean_text, clean_words, kept_environment, secret_values
from workflow.replace_file import replace_file
from workflow.spec.load import Loaded
from workflow.spec.user_paths import in_utf8

# In all: a start does not wait for more than some 10 ms. `wf archive` reads the rest.
LARGEST_READ = 8 << 20


def start_context(folder: Path, argv: Sequence[str]) -> StartContext:
    """What all runs have in common that this process makes from pipelines of a folder.

    Takes some 10 ms: a campaign does it once.
    """
    git = start_git_state(folder)
    secrets = secret_values(os.environ)
    return StartContext(
        **dict(host_context()),
        command=[in_utf8(word) for word in clean_words(argv, secrets)],
        directory=in_utf8(clean_text(str(Path.cwd()), secrets)),
        git=git(),
    )


def host_context() -> HostContext:
    """What this process finds here: host, versions, modules, environment."""
    environment = kept_environment(os.environ)
    return HostContext(
        host=platform.node(),
        user=_user(),
        python=sys.executable,
        versions=versions(),
        modules=[module for module in environment.get("LOADEDMODULES", "").split(":") if module],
        environment={name: in_utf8(value) for name, value in environment.items()},
    )


def renew_host(run_dir: Path) -> None:
    """Put what this process finds on its host into the provenance of a run that was made on another one.

    A run without a provenance, or whose directory cannot be written any more, stays as it is.
    """
    known = read_provenance(run_dir)
    if known is None or known.host == platform.node():
        return
    renewed = known.model_copy(update=dict(host_context()))
    with contextlib.suppress(OSError):
        replace_file(run_dir / PROVENANCE_FILE, renewed.to_json().encode())


def to_provenance(common: StartContext, plan: Plan, loaded: Loaded) -> Provenance:
    """The provenance of a run of this plan. Files that were read before are not read again."""
    examined = examine_plan(plan, loaded)
    return Provenance(
        **dict(common),
        created=round(time.time(), 3),
        options=clean_words(loaded.options, secret_values(os.environ)),
        stage_pythons=versions_of_stages(examined.programs),
        files=file_records(files_of(examined, loaded), LARGEST_READ),
    )


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container
        return str(os.getuid())
