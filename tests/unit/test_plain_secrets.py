"""A secret is a reference: one in clear is refused before a file is written, one that is referred to is in no file."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.redaction import shown_line
from workflow.site.load_site import load_site
from workflow.spec.load import load_pipeline
from workflow.spec.plain_secrets import secret_problems
from workflow.spec.yaml_tree.parse import parse_yaml

PLANTED = "correct-horse-battery"
HEAD = "wf: 1\nname: planted\n"
SHOWS = "test ${#API_TOKEN} = 21"


def wf(*words: str) -> tuple[int, str]:
    """Exit code and output of a command in the current directory."""
    done = subprocess.run([sys.executable, "-m", "workflow.cli", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def files_with(text: str, folder: Path, but: set[Path]) -> list[str]:
    """The files below a folder that hold a text, those in archives as well."""
    found = []
    for path in folder.rglob("*"):
        if not path.is_file() or path in but:
            continue
        if text.encode() in path.read_bytes():
            found.append(str(path.relative_to(folder)))
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                found += [f"{path.name}: {name}" for name in archive.namelist() if text.encode() in archive.read(name)]
    return found


PIPELINES = {
    "variable": f"stages:\n  a: {{command: [env], env: {{API_TOKEN: {PLANTED}}}}}\n",
    "argument": f"stages:\n  a: {{command: [echo, --password, {PLANTED}]}}\n",
    "argument with =": f"stages:\n  a: {{command: [echo, --password={PLANTED}]}}\n",
    "stage called files": f"stages:\n  files: {{command: [env], env: {{API_TOKEN: {PLANTED}}}}}\n",
    "line of a shell": f"stages:\n  a: {{command: [sh, -c, 'API_TOKEN={PLANTED} env']}}\n",
    "option in a shell": f"stages:\n  a: {{command: [sh, -c, 'echo --password {PLANTED} on']}}\n",
    "address": f"stages:\n  a: {{command: [echo, 'https://me:{PLANTED}@host/x']}}\n",
    "address in a variable": f"stages:\n  a: {{command: [env], env: {{SERVER: 'redis://:{PLANTED}@host'}}}}\n",
    "address without a scheme": f"stages:\n  a: {{command: [curl, --proxy, 'me:{PLANTED}@host:80']}}\n",
    "variable called secret": f"stages:\n  a: {{command: [env], env: {{secret: {PLANTED}}}}}\n",
    "argument on a line of its own": f"stages:\n  a:\n    command:\n    - echo\n    - --password\n    - {PLANTED}\n",
    "variable on the next line": f"stages:\n  a:\n    command: [env]\n    env:\n      API_TOKEN:\n        {PLANTED}\n",
    "parameter": f"stages:\n  a: {{component: ./own, with: {{api_key: {PLANTED}}}}}\n",
    "profile": "stages:\n  a: {command: [env]}\n"
    f"profiles:\n  p: {{stages: {{a: {{env: {{DB_PASSWORD: {PLANTED}}}}}}}}}\n",
    "tap": "stages:\n  a: {command: [env]}\nstreams:\n  s:\n    from: a\n    to: a\n    tap:\n"
    f"      t: {{component: 'null', env: {{API_TOKEN: {PLANTED}}}}}\n",
}


@pytest.mark.parametrize("text", PIPELINES.values(), ids=PIPELINES.keys())
def test_a_secret_in_clear_is_refused_and_not_shown(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "p.yaml"
    file.write_text(HEAD + text)
    code, output = wf("run", "p.yaml")
    assert code == 2 and "in plain text" in output and "{secret: FILE}" in " ".join(output.split())
    assert PLANTED not in output
    assert not files_with(PLANTED, tmp_path, {file})


def test_an_option_with_a_secret_is_refused_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(HEAD + "stages:\n  a: {command: [env]}\n")
    code, output = wf("run", "p.yaml", "--set", f"stages.a.env.API_TOKEN={PLANTED}")
    assert code == 2 and "in plain text" in output and PLANTED not in output
    assert not files_with(PLANTED, tmp_path, set())


@pytest.mark.parametrize(
    ("part", "options"),
    [
        (f"matrix: {{stages.a.env.API_TOKEN: [{PLANTED}, other-one-here]}}\n", ()),
        (f"matrix:\n  stages.a.env.API_TOKEN:\n    - {PLANTED}\n    - {PLANTED}\n", ()),
        (f"set: {{stages.a.env.API_TOKEN: {PLANTED}}}\n", ()),
        (f"set: {{stages.a.command: [env, --password, {PLANTED}]}}\n", ()),
        ("", ("--set", f"set.stages.a.env.API_TOKEN={PLANTED}")),
    ],
    ids=["matrix", "twice in a matrix", "set", "command", "option"],
)
def test_a_secret_in_a_campaign_is_refused_and_not_shown(
    part: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(HEAD + "stages:\n  a: {command: [env]}\n")
    file = tmp_path / "c.yaml"
    file.write_text(f"wf: 1\ncampaign: c\npipeline: p.yaml\n{part}metrics: {{t: run.wall_s}}\nrepetitions: 1\n")
    code, output = wf("campaign", "run", "c.yaml", *options)
    assert code == 2 and "in plain text" in output and PLANTED not in output
    assert not files_with(PLANTED, tmp_path, {file})


def test_no_other_message_quotes_a_secret(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "program.py").touch()
    (tmp_path / "own" / "component.yaml").write_text(
        "component: own\nsummary: own\nkind: sink\nparameters: {api_key: {type: int, default: 3, help: own}}\n"
    )
    (tmp_path / "p.yaml").write_text(HEAD + f"stages:\n  a: {{component: ./own, with: {{api_key: {PLANTED}}}}}\n")
    with pytest.raises(SpecError, match="`api_key` may be a secret") as caught:
        load_pipeline(tmp_path / "p.yaml")
    assert PLANTED not in str(caught.value)


def test_a_campaign_shows_no_secret_of_its_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(HEAD + PIPELINES["argument on a line of its own"])
    (tmp_path / "c.yaml").write_text(
        "wf: 1\ncampaign: c\npipeline: p.yaml\nmatrix: {stages.a.env.X: [1, 2]}\nmetrics: {t: run.wall_s}\n"
    )
    code, output = wf("campaign", "run", "c.yaml")
    assert code == 2 and "stages.a.command[2]: `--password` may be a secret" in output
    assert "- <removed>" in output and PLANTED not in output


def test_a_campaign_varies_what_its_pipeline_says_to_be_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(HEAD + "not_secret: [SORT_KEY]\nstages:\n  a: {command: [env]}\n")
    (tmp_path / "c.yaml").write_text(
        "wf: 1\ncampaign: c\npipeline: p.yaml\nmatrix: {stages.a.env.SORT_KEY: [density, energy]}\n"
        "metrics: {t: run.wall_s}\nrepetitions: 1\n"
    )
    code, output = wf("campaign", "plan", "c.yaml")
    assert code == 0, output


def test_the_ledger_of_a_campaign_holds_no_text_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deck").write_text(f"password = {PLANTED}\n")
    (tmp_path / "p.yaml").write_text(HEAD + "stages:\n  a: {command: ['true'], files: {deck: deck}}\n")
    (tmp_path / "c.yaml").write_text("wf: 1\ncampaign: c\npipeline: p.yaml\nmetrics: {t: run.wall_s}\nrepetitions: 1\n")
    code, output = wf("campaign", "run", "c.yaml", "-q")
    assert code == 0, output
    given = set(tmp_path.glob("campaigns/c/runs/*/stages/a/work/deck"))
    assert len(given) == 2, "what the stage was given stays with the run"
    assert not files_with(PLANTED, tmp_path, {tmp_path / "deck", *given})


def test_a_secret_in_a_site_file_is_refused(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(f"site: here\nsummary: here\nenv: {{API_TOKEN: {PLANTED}}}\n")
    (tmp_path / "p.yaml").write_text(HEAD + "stages:\n  a: {command: [env]}\n")
    with pytest.raises(SpecError, match="site here sets API_TOKEN, which may be a secret, in plain text") as caught:
        make_plan(load_pipeline(tmp_path / "p.yaml"), load_site(str(site), tmp_path), python="python", wf_version="")
    assert PLANTED not in str(caught.value)


def test_a_secret_that_is_referred_to_reaches_the_program_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rocrate")
    monkeypatch.chdir(tmp_path)
    secret = tmp_path / "token.txt"
    secret.write_text(f"{PLANTED}\n")
    secret.chmod(0o600)
    monkeypatch.setenv("SUBMITTERS_TOKEN", f"{PLANTED}2")
    (tmp_path / "p.yaml").write_text(
        HEAD + "stages:\n  a:\n"
        f"    command: [sh, -c, '{SHOWS} && test ${{#OTHER}} = 22']\n"
        "    env: {API_TOKEN: {secret: token.txt}, OTHER: {secret: {env: SUBMITTERS_TOKEN}}}\n"
    )
    code, output = wf("run", "p.yaml", "--run-dir", "r")
    assert code == 0, output
    code, output = wf("archive", "r")
    assert code == 0, output
    assert not files_with(PLANTED, tmp_path, {secret})
    assert '"API_TOKEN": "file:' in (tmp_path / "r" / "plan.json").read_text()


def test_what_a_program_prints_of_its_secret_is_left_out_of_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rocrate")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token.txt").write_text(PLANTED)
    (tmp_path / "p.yaml").write_text(
        HEAD + "stages:\n  a: {command: [sh, -c, 'echo $API_TOKEN'], env: {API_TOKEN: {secret: token.txt}}}\n"
    )
    assert wf("run", "p.yaml", "--run-dir", "r")[0] == 0
    assert wf("archive", "r")[0] == 0
    logs = {tmp_path / "r" / "stages" / "a" / "stdout.log", tmp_path / "token.txt"}
    assert not files_with(PLANTED, tmp_path, logs)


@pytest.mark.parametrize(
    ("env", "what"),
    [("{secret: missing.txt}", "No such file"), ("{secret: {env: NOT_SET_HERE}}", "NOT_SET_HERE is not set")],
)
def test_a_secret_that_cannot_be_read_is_said_before_the_start(
    env: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(HEAD + f"stages:\n  a: {{command: [env], env: {{API_TOKEN: {env}}}}}\n")
    code, output = wf("run", "p.yaml")
    assert code == 2 and what in output and not (tmp_path / "runs").exists()


def test_a_secret_as_an_argument_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token.txt").write_text(PLANTED)
    (tmp_path / "p.yaml").write_text(
        HEAD + "stages:\n  a:\n    command: [sh, -c, 'true --password \"$API_TOKEN\"']\n"
        "    env: {API_TOKEN: {secret: token.txt}}\n"
    )
    code, output = wf("check", "p.yaml")
    assert code == 0 and "which every process list of its node shows" in " ".join(output.split())


@pytest.mark.parametrize(
    "stage",
    [
        "command: [x, --max-tokens, 512, --author, me]",
        "command: [x, --sort-key, name]\n    env: {SORT_KEY: name}",
        "command: [x]\n    env: {SSL_CERT_FILE: /etc/ssl/cert.pem, API_KEY: '${{ pipeline.dir }}/key'}",
        "command: [x]\n    files: {key.pem: p.yaml}",
        "command: [curl, 'http://host:8080/a@b', 'me@host:path', 'mailto:me@host', 'i:1@sha256:0f']",
    ],
)
def test_what_is_no_secret_is_not_refused(stage: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(HEAD + f"not_secret: [SORT_KEY, --sort-key]\nstages:\n  a:\n    {stage}\n")
    assert not load_pipeline(tmp_path / "p.yaml").warnings


def test_a_campaign_may_vary_a_reference() -> None:
    root = parse_yaml("matrix: {stages.a.env.API_TOKEN: [{secret: a.txt}, {secret: {env: OTHER}}]}", "c.yaml")
    assert not list(secret_problems(root))


@pytest.mark.parametrize(("share", "mode"), [("none", 0o700), ("group", 0o750)])
def test_who_may_read_a_run_directory(share: str, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(HEAD + f"share: {share}\nstages:\n  a: {{command: ['true']}}\n")
    before = os.umask(0o002)
    try:
        (tmp_path / "given").mkdir()
        for directory in ("new", "given"):
            assert wf("run", "p.yaml", "--run-dir", directory)[0] == 0
            assert stat.S_IMODE((tmp_path / directory).stat().st_mode) == mode
    finally:
        os.umask(before)


def test_files_of_a_stage_are_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates and copies, at every share: the program may read a secret there."""
    monkeypatch.chdir(tmp_path)
    for name, content, mode in (("t", b"password: x", 0o644), ("c", b"\xff", 0o644), ("tool", b"\xff", 0o755)):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    (tmp_path / "p.yaml").write_text(
        HEAD + "share: group\nstages:\n  a: {command: ['true'], files: {d/t: t, c: c, tool: tool}}\n"
    )
    assert wf("run", "p.yaml", "--run-dir", "r")[0] == 0
    work = tmp_path / "r" / "stages" / "a" / "work"
    modes = {name: stat.S_IMODE((work / name).stat().st_mode) for name in ("d/t", "c", "tool")}
    assert modes == {"d/t": 0o600, "c": 0o600, "tool": 0o700}


def test_what_a_template_holds_is_in_no_record_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deck").write_text(f"password = {PLANTED}\nout = ${{{{ run.dir }}}}\n")
    (tmp_path / "p.yaml").write_text(HEAD + "share: group\nstages:\n  a: {command: [cat, deck], files: {deck: deck}}\n")
    code, said = wf("run", "p.yaml", "--run-dir", "r")
    assert code == 0, said
    work = tmp_path / "r/stages/a/work/deck"
    assert work.read_text() == f"password = {PLANTED}\nout = {tmp_path / 'r'}\n"
    found = files_with(PLANTED, tmp_path, {tmp_path / "deck", work})
    assert found == ["r/stages/a/stdout.log"], "the program's own words"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"    env: {{API_TOKEN: {PLANTED}}}", "    env: {API_TOKEN: <removed>"),
        ("    env: {API_TOKEN: {secret: token.txt}}", "    env: {API_TOKEN: {secret: token.txt}}"),
        ("not_secret: [SORT_KEY]", "not_secret: [SORT_KEY]"),
    ],
)
def test_a_message_shows_no_secret_of_its_line(line: str, shown: str) -> None:
    assert shown_line(line) == shown
    assert not re.search(PLANTED, shown)
