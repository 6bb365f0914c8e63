"""The state of the git repository of a folder: its own files tell the commit, one process whether anything differs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from workflow.provenance.provenance_model import GitState
from workflow.redaction import clean_url

DEADLINE_S = 3.0
_REFS = "ref: "
# No monitor, external diff or text conversion that a repository configures is executed, and its index stays as it is.
# Its clean filters are, as in every `git diff`: without them all files of Git LFS would differ.
_DIFF = ("git", "-c", "core.fsmonitor=false", "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--", ".")


def start_git_state(folder: Path) -> Callable[[], GitState | None]:
    """Begin to look at the repository of a folder; the result waits for git, at most `DEADLINE_S`.

    None where there is no repository, or one that has no commit.
    """
    found = _repository(folder)
    if found is None:
        return lambda: None
    top, its = found
    shared = _shared(its)
    branch, commit = _head(its, shared)
    if not commit:
        return lambda: None
    difference = _start_diff(folder)

    def finish() -> GitState:
        diff = difference()
        return GitState(
            commit=commit,
            branch=branch,
            remote=clean_url(_remote(shared, branch)),
            folder=os.path.relpath(folder.resolve(), top.resolve()),
            dirty=None if diff is None else bool(diff),
            diff_sha256=hashlib.sha256(diff).hexdigest() if diff else "",
        )

    return finish


def _repository(folder: Path) -> tuple[Path, Path] | None:
    """(its top, its git directory); a worktree and a submodule have a file `.git` that names the latter."""
    for top in (folder, *folder.parents):
        its = top / ".git"
        if its.is_dir():
            return top, its
        text = _read(its)
        if text.startswith("gitdir: "):
            return top, top / text.removeprefix("gitdir: ")
    return None


def _shared(its: Path) -> Path:
    """The git directory that all worktrees share."""
    text = _read(its / "commondir")
    return its / text if text else its


def _head(its: Path, shared: Path) -> tuple[str, str]:
    """(branch, commit), the branch empty for a detached HEAD, the commit empty where there is none yet."""
    head = _read(its / "HEAD")
    if not head.startswith(_REFS):
        return "", head
    ref = head.removeprefix(_REFS)
    commit = _read(its / ref) or _read(shared / ref) or _packed(shared, ref)
    return ref.removeprefix("refs/heads/"), commit


def _packed(shared: Path, ref: str) -> str:
    for line in _read(shared / "packed-refs").split("\n"):
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""


def _remote(shared: Path, branch: str) -> str:
    """The URL of the branch's remote, else of `origin`, else of the first one; as it is written."""
    urls: dict[str, str] = {}
    section, of_branch = "", ""
    for line in _read(shared / "config").split("\n"):
        text = line.strip()
        if text.startswith("["):
            section = text
            continue
        key, _, value = (part.strip() for part in text.partition("="))
        if key == "url" and section.startswith('[remote "'):
            urls.setdefault(section.split('"')[1], value)
        elif key == "remote" and section == f'[branch "{branch}"]':
            of_branch = value
    return urls.get(of_branch) or urls.get("origin") or next(iter(urls.values()), "")


def _start_diff(folder: Path) -> Callable[[], bytes | None]:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            _DIFF, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return lambda: None

    def finish() -> bytes | None:
        with process:
            try:
                said, _ = process.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                return None
        return said if process.returncode == 0 else None

    return finish


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
