"""Mistakes on the command line: messages of the same form as all others, with how to get help, and exit code 2."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
import pytest

from workflow import __version__
from workflow.cli.main import main, wf
from workflow.errors import WfError

HERE = "wf: 1\nname: here\nstages:\n  s: {use: shock, via: ssst}\n"


def said_by(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What `wf WORDS` prints on standard error when it refuses them."""
    monkeypatch.setattr("sys.argv", ["wf", *words.split()])
    with pytest.raises(SystemExit) as caught:
        main()
    said = capsys.readouterr()
    assert caught.value.code == 2
    assert said.out == ""
    return said.err


@pytest.mark.parametrize(
    ("words", "message", "help_"),
    [
        ("plna", "no command `plna`; did you mean `plan`?", "`wf --help`"),
        ("PLAN p.yaml", "no command `PLAN`; did you mean `plan`?", "`wf --help`"),
        ("qqqqq", "no command `qqqqq`", "`wf --help`"),
        ("balance p.yaml", "no command `balance`", "write `search:` in a campaign file"),
        ("--vesion", "no option `--vesion`; did you mean `--version`?", "`wf --help`"),
        ("--json check p.yaml", "no option `--json`", "options come after the command: `wf check --json`"),
        ("campaign plna", "wf campaign: no command `plna`; did you mean `plan`?", "`wf campaign --help`"),
        ("calibrate --from latest", "wf calibrate: no option `--from`", "name the run"),
        ("plan --portable p.yaml", "wf plan: no option `--portable`", "compare two plans of one machine"),
        ("campaign plan --jnit x", "wf campaign plan: no option `--jnit`", "`wf campaign plan --help`"),
        ("campaign plan", "wf campaign plan: CAMPAIGN is missing", "usage: wf campaign plan [OPTIONS] CAMPAIGN"),
        (
            "campaign rnu",
            "wf campaign: no command `rnu`; did you mean `run`?",
            "`wf campaign --help` lists all commands",
        ),
        ("campaign status", "wf campaign status: CAMPAIGN is missing", "usage: wf campaign status [OPTIONS] CAMPAIGN"),
        ("--json campaign status x", "no option `--json`", "after the command: `wf campaign status --json`"),
        ("site prob", "wf site: no command `prob`; did you mean `probe`?", "`wf site --help` lists all commands"),
        ("site probe --name", "wf site probe: `--name` needs a value", "usage: wf site probe [OPTIONS]"),
        ("campaign gate a b -o g.html", "wf campaign gate: no option `-o`", "`wf campaign report NAME-gate`"),
        ("check", "wf check: PIPELINE is missing", "usage: wf check [OPTIONS] PIPELINE"),
        ("check --profle x p.yaml", "wf check: no option `--profle`; did you mean `--profile`?", "`wf check --help`"),
        ("run -Q p.yaml", "wf run: no option `-Q`", "`wf run --help`"),
        ("check p.yaml --via", "wf check: `--via` needs a value", "usage: wf check"),
        ("check p.yaml other.yaml", "wf check: got unexpected extra argument (other.yaml)", "usage: wf check"),
        ("logs heat r-1", "wf logs: got unexpected extra argument (r-1)", "option: `wf logs heat --run r-1`"),
        ("logs runs/r-1 heat", "wf logs: got unexpected extra argument (heat)", "`wf logs heat --run runs/r-1`"),
        ("logs a b c", "wf logs: got unexpected extra arguments (b c)", "usage: wf logs"),
        ("status --run r-1", "wf status: no option `--run`", "RUN is an argument, not an option: `wf status r-1`"),
        (
            "report --run=r-1 --json",
            "wf report: no option `--run`",
            "RUN is an argument, not an option: `wf report r-1 --json`",
        ),
        ("compare --run a b", "wf compare: no option `--run`", "RUN_A is an argument, not an option: `wf compare a b`"),
        (
            "check --pipeline p.yaml",
            "wf check: no option `--pipeline`",
            "PIPELINE is an argument, not an option: `wf check p.yaml`",
        ),
        (
            "campaign report --campaign x",
            "wf campaign report: no option",
            "CAMPAIGN is an argument, not an option: `wf",
        ),
        ("campaign report --name x", "wf campaign report: no option `--name`", "`wf campaign report --help` lists the"),
        (
            "look r-1 --run2 r-2",
            "wf look: no option `--run2`",
            "RUN2] is an argument, not an option: `wf look r-1 r-2`",
        ),
        ("set r-1 --key x", "wf set: no option `--key`", "KEY=VALUE... is an argument, not an option: `wf set r-1 x`"),
        (
            "logs a/r-1 token=hunter2xx",
            "wf logs: got unexpected extra argument (token=<removed>",
            "`wf logs token=<removed>`",
        ),
        ("logs -n three", "wf logs: `--lines`: `three` is not a valid integer range", "usage: wf logs"),
        ("completion bash", "no command `completion`", '`eval "$(_WF_COMPLETE=bash_source wf)"`'),
        ("replay r --pace x", "wf replay: `--pace`: `x` is not one of `max`, `recorded`", "usage: wf replay"),
        ("plan p.yaml --blocks 4", "wf plan: --blocks has no effect without --strategies", "`wf plan --help`"),
    ],
)
def test_a_mistake_is_one_message_with_the_way_to_help(
    words: str, message: str, help_: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, hint = said_by(words, monkeypatch, capsys).splitlines()
    assert first.startswith(f"error: {message}")
    assert hint.startswith("  ") and help_ in hint


def test_all_mistakes_of_a_file_have_the_same_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(HERE)
    said = said_by("check a.yaml", monkeypatch, capsys)
    assert re.sub(r"known here: .*", "known here: …", said) == (
        "error: a.yaml:4:7: stages.s.use: unknown key\n"
        "  4 |   s: {use: shock, via: ssst}\n"
        "    |       ^^^\n"
        "  known here: …\n"
        "error: a.yaml:4:19: stages.s.via: unknown key\n"
        "  4 |   s: {use: shock, via: ssst}\n"
        "    |                   ^^^\n"
        "  `via` belongs under `streams.NAME`\n"
    )


def test_nothing_like_an_option_is_proposed_for_an_argument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "did you mean" not in said_by("report --run r-1", monkeypatch, capsys)


def test_the_version_has_a_short_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["wf", "-V"])
    main()
    assert capsys.readouterr().out == f"wf, version {__version__}\n"


def test_wf_alone_prints_its_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["wf"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert "Run it:" in said.out + said.err and "error:" not in said.err


@pytest.mark.parametrize("words", ["--help", "campaign --help", "site --help"])
def test_help_lists_every_verb_with_its_whole_summary(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.argv", ["wf", *words.split()])
    main()
    lines = capsys.readouterr().out.splitlines()
    group: click.Command = wf
    for word in words.split()[:-1]:
        group = wf.commands[word]
    assert isinstance(group, click.Group)
    for name, verb in group.commands.items():
        (line,) = [line for line in lines if re.match(rf"  {name} ", line)]
        summary = line[2 + len(name) :].strip()
        assert summary.endswith(".") and not summary.endswith("..."), line
        assert summary == str(verb.help).partition("\n\n")[0], "the summary is the first paragraph, on one line"


def test_help_groups_the_verbs_by_what_they_are_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wf", "--help"])
    main()
    text = capsys.readouterr().out
    titles = [line for line in text.splitlines() if re.fullmatch(r"[A-Z].*:", line)]
    assert titles == ["Options:", "Write a pipeline:", "Run it:", "Look at results:", "Run it many times:", "Machines:"]


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("words", ["campaign report none", "campaign archive none", "look none", "doctor none.yaml"])
def test_a_wait_is_announced_to_those_who_watch(
    words: str, watched: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: watched)
    with pytest.raises(WfError):
        wf.main(words.split(), standalone_mode=False)
    said = capsys.readouterr()
    assert ("…" in said.err) == watched and said.out == ""


@pytest.mark.parametrize("words", ["campaign report none", "doctor none.yaml"])
def test_no_wait_is_announced_with_json(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(WfError):
        wf.main([*words.split(), "--json"], standalone_mode=False)
    assert capsys.readouterr() == ("", "")
