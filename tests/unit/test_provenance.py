"""What provenance.json says, and what it never says."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from workflow.api.plans import make_plan
from workflow.provenance import git_state
from workflow.provenance.collect import LARGEST_READ, renew_host, start_context, to_provenance
from workflow.provenance.git_state import start_git_state
from workflow.provenance.installed_versions import versions_of
from workflow.provenance.plan_files import checksum, examine_plan, file_records, files_of, unread_bytes
from workflow.provenance.provenance_model import GitState, Provenance
from workflow.redaction import (
    REMOVED,
    clean_text,
    clean_url,
    clean_words,
    is_secret_name,
    kept_environment,
    secret_values,
)
from workflow.spec.load import load_pipeline

SECRET = "hunter2-and-more"
GIT_DEADLINE_S = 60.0  # of a busy machine


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "apiKey", "db-password", "PGPASSWORD", "MY_SECRET", "AWS_SECRET_ACCESS_KEY", "SLURM_JWT",
     "OMPI_MCA_orte_credentials", "PBS_AUTH_METHOD", "SSH_PRIVATE", "--api-key", "CONDA_PASSPHRASE",
     "WF_DB_PASS", "MPI_PASS", "SSHPASS", "GH_PAT", "PAT", "GH_PAT_2"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["PATH", "LD_LIBRARY_PATH", "PATTERN", "PASSIVE", "FI_PASSTHROUGH", "BYPASS", "OMP_NUM_THREADS", "SLURM_JOB_ID",
     "FI_PROVIDER", "UCX_TLS", "LC_ALL"],
)  # fmt: skip
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_the_environment_keeps_what_may_change_a_run_and_no_secret() -> None:
    kept = kept_environment(
        {
            "OMP_NUM_THREADS": "4", "SLURM_JOB_ID": "12", "SLURM_JWT": SECRET, "GITHUB_TOKEN": SECRET,
            "HOME": "/home/a", "PYTHONPATH": "/a:/b", "FI_PROXY": f"http://ada:{SECRET}@proxy:3128/x",
            "MPICH_ECHO": f"said {SECRET} aloud",
            "DATABASE": f"postgres://ada:{SECRET}xyz@db/x", "MODULE_NOTE": f"{SECRET}xyz",
        }
    )  # fmt: skip
    assert kept == {
        "FI_PROXY": "http://proxy:3128/x", "MODULE_NOTE": REMOVED, "MPICH_ECHO": f"said {REMOVED} aloud",
        "OMP_NUM_THREADS": "4", "PYTHONPATH": "/a:/b", "SLURM_JOB_ID": "12", "SLURM_JWT": REMOVED,
    }  # fmt: skip


def test_short_values_and_places_are_no_secrets(tmp_path: Path) -> None:
    assert secret_values({"KEYBOARD": "us", "SSH_AUTH_SOCK": str(tmp_path), "A_TOKEN": SECRET}) == {SECRET: "A_TOKEN"}


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        (f"https://ada:{SECRET}@example.org/x.git", "https://example.org/x.git"),
        (f"https://{SECRET}@example.org:8080/x.git", "https://example.org:8080/x.git"),
        (f"https://example.org/x.git?private_token={SECRET}#{SECRET}", "https://example.org/x.git"),
        (f"https://a:b@{SECRET}@example.org/x", "https://example.org/x"),
        (f"https://ada:{SECRET}@[::1/x", REMOVED),
        ("ssh://git@example.org/x.git", "ssh://example.org/x.git"),
        ("git@example.org:x.git", "git@example.org:x.git"),
        ("/srv/git/x.git", "/srv/git/x.git"),
    ],
)
def test_urls_lose_their_credentials(url: str, clean: str) -> None:
    assert clean_url(url) == clean
    assert clean_text(f"see {url} now") == f"see {clean} now"


def test_command_lines_lose_their_secrets() -> None:
    words = ["wf", "run", "--set", f"stages.sim.env.API_TOKEN={SECRET}", "--api-key", SECRET, "--password", "-q",
             f"--token={SECRET}", "--set", "stages.sim.ranks=2", f"x{SECRET}", f"http://a:{SECRET}@b/c"]  # fmt: skip
    assert clean_words(words, [SECRET]) == [
        "wf", "run", "--set", f"stages.sim.env.API_TOKEN={REMOVED}", "--api-key", REMOVED, "--password", "-q",
        f"--token={REMOVED}", "--set", "stages.sim.ranks=2", f"x{REMOVED}", "http://b/c",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "clean"),
    [
        (f"--set=stages.one.env.API_KEY={SECRET} x, y", "--set=stages.one.env.API_KEY="),
        (f"stages.x.env={{SIZE: 3, API_KEY: {SECRET}}}", "stages.x.env={SIZE: 3, API_KEY: "),
        (f'stages.x.env={{"API_KEY":"a,{SECRET}"}}', 'stages.x.env={"API_KEY":'),
        (f"stages.x.command=[p, --token, {SECRET}]", "stages.x.command=[p, --token, "),
        (f"stages.x.command=[p, '--token', '{SECRET}']", "stages.x.command=[p, '--token', '"),
        (f"stages.x.command=[p, --token={SECRET}]", "stages.x.command=[p, --token="),
        (f"p --db-pass {SECRET}", "p --db-pass "),
        (f"Authorization: Bearer {SECRET}", "Authorization: "),
    ],
)
def test_words_of_a_command_line_lose_secrets_inside(word: str, clean: str) -> None:
    assert clean_words(["--set", word, "-q"]) == ["--set", clean + REMOVED, "-q"]


def test_words_without_secrets_stay() -> None:
    words = ["--set=stages.sim.ranks=2", "x.env={A: 1, B: [2, 3]}", "x.command=[p, --tokens, -q]", "/data/key/a.yaml"]
    assert clean_words(words) == words


def git(folder: Path, *words: str) -> str:
    identity = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=trunk", *words], cwd=folder, env={**clean, **identity},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def state_of(folder: Path) -> GitState | None:
    return start_git_state(folder)()


def test_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_state, "DEADLINE_S", GIT_DEADLINE_S)
    top, folder = tmp_path / "repo", tmp_path / "repo/deep/er"
    folder.mkdir(parents=True)
    assert state_of(folder) is None
    git(top, "init")
    assert state_of(folder) is None, "no commit yet"
    (folder / "pipeline.yaml").write_text("wf: 1\n")
    (top / "other").write_text("x")
    git(top, "add", ".")
    git(top, "commit", "-m", "first")
    git(top, "remote", "add", "origin", f"https://ada:{SECRET}@example.org/repo.git")
    commit = git(top, "rev-parse", "HEAD")
    clean = GitState(
        commit=commit, branch="trunk", remote="https://example.org/repo.git", folder="deep/er", dirty=False
    )
    assert state_of(folder) == clean
    git(top, "pack-refs", "--all")
    assert state_of(folder) == clean
    (top / "other").write_text("changed outside of the folder")
    assert state_of(folder) == clean
    (folder / "pipeline.yaml").write_text(f"wf: 1\nname: {SECRET}\n")
    dirty = state_of(folder)
    assert dirty is not None and dirty.dirty
    text = git(folder, "diff", "HEAD", "--", ".") + "\n"
    assert dirty.diff_sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert SECRET not in dirty.model_dump_json()
    git(top, "worktree", "add", "--detach", str(tmp_path / "tree"))
    assert state_of(tmp_path / "tree/deep/er") == clean.model_copy(update={"branch": ""})


def test_a_broken_repository_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_state, "DEADLINE_S", GIT_DEADLINE_S)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("4b825dc642cb6eb9a060e54bf8d69288fbee4904\n")
    found = state_of(tmp_path)
    assert found is not None and found.dirty is None and found.diff_sha256 == ""
    monkeypatch.setenv("PATH", "")
    assert state_of(tmp_path) == found


def test_a_checksum_is_read_once_and_again_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one")
    assert unread_bytes(file) == 3
    assert checksum(file) == hashlib.sha256(b"one").hexdigest()
    assert unread_bytes(file) == 0
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "sha256", lambda: pytest.fail("read again"))
        checksum(file)
    file.write_bytes(b"other")
    assert checksum(file) == hashlib.sha256(b"other").hexdigest()


def test_a_directory_of_adios2_has_one_checksum(tmp_path: Path) -> None:
    for name in ("a.bp", "b.bp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "md.idx").write_text("index")
        (tmp_path / name / "data.0").write_text("data")
    first = checksum(tmp_path / "a.bp")
    assert first == checksum(tmp_path / "b.bp")
    (tmp_path / "b.bp/data.0").write_text("more data")
    assert first != checksum(tmp_path / "b.bp")


def provenance_of(folder: Path, text: str, *sets: str) -> Provenance:
    (folder / "pipeline.yaml").write_text(text)
    loaded = load_pipeline(folder / "pipeline.yaml", sets=sets)
    return to_provenance(start_context(folder, ["wf", "run", *sets]), make_plan(loaded), loaded)


def test_every_file_of_a_plan_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, large = tmp_path / "mine", tmp_path / "large"
    program.write_text("#!/bin/sh\ntrue\n")
    program.chmod(0o755)
    with large.open("wb") as file:
        file.truncate(LARGEST_READ + 1)
    (tmp_path / "deck.in").write_text("run")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tool").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "own.yaml").write_text("site: own\nsummary: mine\nextends: local\n")
    found = provenance_of(
        tmp_path,
        "wf: 1\nname: p\nsite: ./own.yaml\noversubscribe: true\nstages:\n"
        f"  a: {{command: [./mine, '{large}'], files: {{run.in: deck.in}}}}\n  b: {{command: [tool]}}\n"
        "  c: {component: synthetic, with: {bytes: 8, steps: 1}}\n  d: {component: 'null'}\n"
        "streams: {x: {from: c, to: d, via: bp5}}\n",
        "stages.a.env.MY_TOKEN={secret: deck.in}",
    )
    by_name = {(each.role, Path(each.path).name): each for each in found.files}
    assert {("pipeline", "pipeline.yaml"), ("site", "own.yaml"), ("site", "local.yaml"), ("program", "mine"),
            ("program", "tool"), ("input", "deck.in"), ("input", "large"), ("component", "component.yaml"),
            ("component", "program.py")} <= set(by_name)  # fmt: skip
    assert by_name["program", "mine"].sha256 == hashlib.sha256(program.read_bytes()).hexdigest()
    assert by_name["program", "tool"].sha256 == by_name["program", "mine"].sha256
    assert (by_name["input", "large"].sha256, by_name["input", "large"].size) == (None, LARGEST_READ + 1)
    assert found.options == ["--set", f"stages.a.env.MY_TOKEN={REMOVED}"]
    assert SECRET not in found.to_json()
    assert {"wf", "python", "os", "adios2", "numpy"} <= set(found.versions)
    assert Provenance.model_validate_json(found.to_json()) == found


def test_programs_are_read_first(tmp_path: Path) -> None:
    for name in ("input", "program", "other"):
        (tmp_path / name).write_text(f"{name:8}")
    files = {tmp_path / "input": "input", tmp_path / "program": "program", tmp_path / "other": "input"}
    records = file_records(files, limit=10)  # type: ignore[arg-type]
    assert [(Path(each.path).name, each.sha256 is not None) for each in records] == [
        ("input", False), ("program", True), ("other", False),
    ]  # fmt: skip
    checksum(tmp_path / "other")
    assert [each.sha256 is not None for each in file_records(files, limit=0)] == [False, True, True]  # type: ignore[arg-type]


def test_versions_of_another_python_are_read_off_its_folders(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.12/site-packages"
    for name in ("adios2-2.10.1.dist-info", "numpy-1.26.4-py3.12.egg-info", "mpich-4.2.3.dist-info"):
        (packages / name).mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.7\n")
    (tmp_path / "bin").mkdir()
    expected = {"python": "3.12.7", "adios2": "2.10.1", "numpy": "1.26.4", "mpi": "MPICH 4.2.3"}
    assert versions_of(str(tmp_path / "bin/python3")) == expected
    # Builds with and without MPI may have one version.
    (packages / "adios2").mkdir()
    for name, build in (("libadios2_core.so", "serial"), ("libadios2_core_mpi.so", "MPI")):
        (packages / "adios2" / name).touch()
        versions_of.cache_clear()
        expected["adios2"] = f"2.10.1 ({build})"
        assert versions_of(str(tmp_path / "bin/python3")) == expected
    python = tmp_path / "bin/python3"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    (tmp_path / "p").mkdir()
    found = provenance_of(tmp_path / "p", f"wf: 1\nname: p\nstages: {{a: {{command: ['{python}', -c, pass]}}}}\n")
    (other,) = found.stage_pythons
    assert (other.python, other.stages, other.versions) == (str(python), ["a"], expected)


def test_files_are_found_without_reading_them(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text("wf: 1\nname: p\nstages: {a: {command: ['true', /dev/null]}}\n")
    loaded = load_pipeline(tmp_path / "pipeline.yaml")
    assert sorted(files_of(examine_plan(make_plan(loaded), loaded), loaded).values()) == ["pipeline", "program", "site"]


def test_a_run_of_a_batch_job_has_the_host_that_supervised_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = provenance_of(tmp_path, "wf: 1\nname: p\nstages: {a: {command: ['true']}}\n")
    on_login = made.model_copy(
        update={"host": "login1", "modules": ["PrgEnv/8"], "environment": {"OMP_NUM_THREADS": "1"}}
    )
    file = tmp_path / "provenance.json"
    file.write_text(on_login.to_json())
    monkeypatch.setenv("LOADEDMODULES", "gcc/13:mpich/4")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    renew_host(tmp_path)
    found = Provenance.model_validate_json(file.read_bytes())
    assert (found.host, found.modules, found.environment["OMP_NUM_THREADS"]) == (made.host, ["gcc/13", "mpich/4"], "8")
    same = {"host", "modules", "environment"}
    assert found.model_dump(exclude=same) == made.model_dump(exclude=same)
    # On the same host nothing is written.
    before = file.stat().st_mtime_ns
    renew_host(tmp_path)
    assert file.stat().st_mtime_ns == before
    renew_host(tmp_path / "no-run")
