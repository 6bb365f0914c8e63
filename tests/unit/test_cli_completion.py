"""What the shell offers when a user presses the tab key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from workflow.cli.main import wf

ROOT = Path(__file__).parents[2]
TEXT = """wf: 1
name: offered
stages:
  sim: {component: gray_scott, with: {steps: 4}, ranks: 2}
  keep: {component: archive, with: {path: a.bp}}
streams:
  field: {from: sim, to: keep}
profiles:
  fast: {stages: {sim: {ranks: 1}}}
  post-hoc: {streams: {field: {via: bp5}}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(TEXT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/pipeline.yaml").write_text("profiles: {slow: {}}\n")
    for name in ("offered-20260101-000000-aaaa", "offered-20260102-000000-bbbb"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "plan.json").write_text("{}")
    os.utime(tmp_path / "runs/offered-20260101-000000-aaaa", (1, 1))
    (tmp_path / "runs/latest").symlink_to("offered-20260102-000000-bbbb")
    return tmp_path


def offered(words: str) -> list[str]:
    """What is offered for the last of the words, which may be empty."""
    *before, begun = words.split(" ")
    return [item.value for item in ShellComplete(wf, {}, "wf", "_WF_COMPLETE").get_completions(before, begun)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run p.yaml --profile ", ["fast", "post-hoc"]),
        ("run p.yaml --profile po", ["post-hoc"]),
        ("run other/pipeline.yaml --profile sl", ["slow"]),
        ("run --profile f", ["fast"]),  # the only pipeline file here
        ("run gone.yaml --profile ", []),
        ("logs --run l", ["latest"]),
        ("status ", ["latest", "offered-20260102-000000-bbbb", "offered-20260101-000000-aaaa"]),
        ("events ", ["latest", "offered-20260102-000000-bbbb", "offered-20260101-000000-aaaa"]),
        ("report offered-20260101", ["offered-20260101-000000-aaaa"]),
        ("compare latest offered-20260102", ["offered-20260102-000000-bbbb"]),
        ("stat", ["status"]),
    ],
)
def test_what_is_offered(words: str, expected: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert offered(words) == expected
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", ["", "[", "a: 1", "profiles: 5", "wf: &a [*a]"])
def test_a_file_that_is_wrong_is_no_error(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(text)
    assert offered("plan p.yaml --profile ") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("words", "reply"), [(["run", "p.yaml", "--profile", "p"], "post-hoc"), (["log"], "logs")])
def test_bash(words: list[str], reply: str, here: Path) -> None:
    """The script that click prints, in bash itself."""
    (here / "bin").mkdir()
    (here / "bin/wf").write_text(f'#!/bin/sh\nexec {sys.executable} -m workflow.cli "$@"\n')
    (here / "bin/wf").chmod(0o755)
    env = {**os.environ, "PATH": f"{here / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    quoted = " ".join(f"'{word}'" for word in ("wf", *words))
    program = (
        f'eval "$(_WF_COMPLETE=bash_source wf)"; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}\n'
        '_wf_completion wf; echo "${COMPREPLY[@]}"'
    )
    answer = subprocess.run(["bash", "-c", program], capture_output=True, text=True, env=env, cwd=here, timeout=60)
    assert answer.stderr == ""
    assert answer.stdout == f"{reply}\n"
