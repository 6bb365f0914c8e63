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
        for stage in ("sim", "keep"):
            (tmp_path / "runs" / name / "stages" / stage).mkdir(parents=True)
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
        ("check p.yaml --via hd", ["hdf5"]),
        ("check p.yaml --site lo", ["local"]),
        ("run p.yaml --set stages.", ["stages.sim.", "stages.keep.", "stages.*."]),
        ("run p.yaml --set stages.sim.ra", ["stages.sim.ranks="]),
        ("run p.yaml --set stages.sim.pl", ["stages.sim.place."]),
        ("run p.yaml --set stages.sim.with.st", ["stages.sim.with.steps="]),
        ("run p.yaml --set streams.field.queue.l", ["streams.field.queue.limit="]),
        ("run p.yaml --set streams.*.vi", ["streams.*.via="]),
        ("run p.yaml --set deadlines.st", ["deadlines.start=", "deadlines.step=", "deadlines.stop="]),
        ("run p.yaml --set dead", ["deadlines."]),
        ("run p.yaml --set prof", []),  # chosen, not set
        ("plan p.yaml --explain streams.field.qu", ["streams.field.queue."]),
        ("plan p.yaml --explain streams.field.queue.li", ["streams.field.queue.limit"]),
        ("plan p.yaml --strategies ", ["field"]),
        ("logs ", ["keep", "sim"]),
        ("logs --run offered-20260101-000000-aaaa s", ["sim"]),
        ("logs --run l", ["latest"]),
        ("status ", ["latest", "offered-20260102-000000-bbbb", "offered-20260101-000000-aaaa"]),
        ("events ", ["latest", "offered-20260102-000000-bbbb", "offered-20260101-000000-aaaa"]),
        ("report offered-20260101", ["offered-20260101-000000-aaaa"]),
        ("compare latest offered-20260102", ["offered-20260102-000000-bbbb"]),
        ("components sc", ["scattering"]),
        ("stat", ["status"]),
    ],
)
def test_what_is_offered(words: str, expected: list[str]) -> None:
    assert offered(words) == expected


@pytest.mark.parametrize(
    "words",
    [
        "run gone.yaml --profile ",
        "run p.yaml --set nothing.at.",
        "run p.yaml --set stages.sim.ranks.",
        "logs -r gone s",
    ],
)
def test_what_is_not_there_offers_nothing_and_prints_nothing(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert offered(words) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text", ["", "[", "a: 1", "stages: 5", "stages: {sim: 5}", "wf: &a [*a]", "stages: {s: {component: 3}}"]
)
@pytest.mark.parametrize("words", ["--profile ", "--set ", "--set stages.s.with.", "--explain stages."])
def test_a_file_that_is_wrong_is_no_error(text: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(text)
    offered(f"plan p.yaml {words}")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (["run", "p.yaml", "--profile", "p"], "post-hoc"),
        (["run", "p.yaml", "--set", "stages.sim.ra"], "stages.sim.ranks="),
        (["log"], "logs"),
    ],
)
def test_bash(words: list[str], reply: str, here: Path) -> None:
    """The script that `wf completion bash` prints, in bash itself."""
    (here / "bin").mkdir()
    (here / "bin/wf").write_text(f'#!/bin/sh\nexec {sys.executable} -m workflow.cli "$@"\n')
    (here / "bin/wf").chmod(0o755)
    env = {**os.environ, "PATH": f"{here / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    quoted = " ".join(f"'{word}'" for word in ("wf", *words))
    program = (
        f'eval "$(wf completion bash)"; compopt() {{ echo "$@"; }}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}\n'
        '_wf_completion wf; echo "${COMPREPLY[@]}"'
    )
    answer = subprocess.run(["bash", "-c", program], capture_output=True, text=True, env=env, cwd=here, timeout=60)
    assert answer.stderr == ""
    assert answer.stdout.split("\n")[:-1] == ([*["-o nospace"] * reply.endswith("="), reply])
