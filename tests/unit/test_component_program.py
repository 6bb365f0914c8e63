"""A component program's arguments: from the run, or from the command line that its component.yaml describes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workflow.component_program import arguments
from workflow.stage import settings

COMPONENT = """
component: probe
kind: analysis
summary: Looks at things
parameters:
  grid: {type: "int[3]", default: [8, 8, 8], min: 1, help: cells}
  q_max: {type: float, default: 8.0, min: 0, unit: 1/Å, help: "largest q, 100 % of it"}
  names: {type: "string[]", default: [], help: names}
  method: {type: choice, choices: [fast, exact], default: fast, help: how}
  pause: {type: duration, default: 1 s, help: how long}
  buffer: {type: size, default: 1 MiB, help: how much}
  quiet: {type: bool, default: false, help: say less}
  script: {type: file, help: input}
  result: {type: output, default: out.txt, help: where to}
  steps: {type: int, required: true, help: how many}
reads:
  atoms: {any: true, help: atoms}
writes:
  pattern: {any: true, help: pattern}
  log: {any: true, optional: true, help: log}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "probe"
    folder.mkdir()
    (folder / "component.yaml").write_text(COMPONENT)
    (folder / "program.py").write_text("")
    monkeypatch.delenv("WF_STAGE", raising=False)
    before = settings.current()
    yield folder / "program.py"
    settings.use(before)


def test_defaults_are_filled_in_and_in_base_units(program: Path) -> None:
    args = arguments(program, ["--steps", "3"])
    assert vars(args) == {
        "grid": [8, 8, 8], "q_max": 8.0, "names": [], "method": "fast", "pause": 1.0, "buffer": 2**20, "quiet": False,
        "script": None, "result": "out.txt", "steps": 3,
    }  # fmt: skip


def test_everything_can_be_given(program: Path) -> None:
    script = program.with_name("in.txt")
    script.write_text("")
    line = "--grid 1 2 3 --q-max 2 --names a 7 --method exact --pause 2.5s --buffer 3 --quiet true --steps=2"
    args = arguments(program, [*line.split(), "--script", str(script)])
    assert (args.grid, args.q_max, args.names, args.method, args.pause) == ([1, 2, 3], 2.0, ["a", "7"], "exact", 2.5)
    assert (args.buffer, args.quiet, args.script, args.steps) == (3, True, str(script), 2)


def test_options_are_understood_with_underscores_too_and_with_units(program: Path) -> None:
    args = arguments(program, ["--steps", "1", "--q_max=1e-2", "--pause", "2 min", "--buffer", "1 kB"])
    assert (args.q_max, args.pause, args.buffer) == (0.01, 120.0, 1000)


def test_a_components_own_files_are_found_by_name(program: Path) -> None:
    program.with_name("in.default").write_text("")
    args = arguments(program, ["--steps", "1", "--script", "in.default"])
    assert args.script == str(program.with_name("in.default"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "steps: is missing"),
        ("--steps x", 'steps: expected a whole number, got "x"'),
        ("--steps 1 --grid 1 2", "--grid: expected 3 arguments"),
        ("--steps 1 --grid 0 1 1", "expected at least 1, got 0"),
        ("--steps 1 --q-max -1", "q_max: expected at least 0, got -1"),
        ("--steps 1 --method slow", "method: expected `fast` or `exact`"),
        ("--steps 1 --pause soon", "pause: "),
        ("--steps 1 --script nowhere", 'there is no file "nowhere"'),
        ("--steps 1 --stepz 2", "unrecognized arguments: --stepz"),
        ("--steps 1 --read x=a.bp", "expected NAME=PATH, where NAME is atoms; got 'x=a.bp'"),
        ("--steps 1 --write a.bp", "expected NAME=PATH, where NAME is log or pattern; got 'a.bp'"),
        ("--steps 1 --write pattern=", "write NAME=PATH"),
    ],
)
def test_mistakes_end_with_a_message_and_code_2(
    program: Path, line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        arguments(program, line.split())
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_streams_by_hand_are_found_by_their_ports(program: Path) -> None:
    line = ["--steps", "1", "--read", "a.bp", "--write", "pattern=b:c:BP4", "--write", "log=live"]
    arguments(program, line)
    atoms, pattern, log = settings.current().ends
    assert (atoms.port, atoms.side, atoms.engine, atoms.path) == ("atoms", "read", "BP5", "a.bp")
    assert (pattern.port, pattern.side, pattern.engine, pattern.path) == ("pattern", "write", "BP4", "b:c")
    assert (log.port, log.engine, log.path) == ("log", "SST", "live")
    assert settings.is_joined("log")
    assert settings.is_joined("atoms", "read")
    assert not settings.is_joined("atoms", "write")
    assert not settings.is_joined("other")


def test_help_shows_every_parameter_with_unit_and_default(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        arguments(program, ["--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "Looks at things",
        "--grid INT INT INT cells (default: 8 8 8)",
        "--q-max FLOAT largest q, 100 % of it [1/Å] (default: 8.0)",
        "--method {fast,exact} how (default: fast)",
        "--steps INT how many (required)",
        "--read NAME=PATH[:ENGINE]",
        "log, pattern",
    ):
        assert part in text


def test_under_a_run_they_come_from_it_and_nothing_heavy_is_imported(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "stage.json"
    settings = {"stage": "x", "ranks": 1, "parameters": {"steps": 5}, "metrics": None, "ends": []}
    file.write_text(json.dumps({"stage_file_version": 2, **settings}))
    program.write_text(
        "import sys\n"
        "from workflow import stage\n"
        "from workflow.component_program import arguments\n"
        "assert vars(arguments(__file__)) == {'steps': 5}, arguments(__file__)\n"
        "assert stage.communicator() is None and stage.size() == 1\n"
        "heavy = {'yaml', 'pydantic', 'rich', 'click', 'adios2', 'mpi4py', 'h5py', 'socket', 'difflib', 'mmap'}\n"
        "parts = ('hdf5', 'shared_memory', 'compressed_variables')\n"
        "heavy = (heavy | {f'workflow.stage.{part}' for part in parts}) & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    env = {**os.environ, "WF_STAGE": str(file), "PYTHONPATH": str(Path(__file__).parents[2])}
    answer = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
