"""The CI files of docs/how-to/performance-gate.md: their commands measure a campaign, and fail for a slower program."""

from __future__ import annotations

import contextlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/performance-gate.md"
BLOCK = re.compile(r"^```yaml\n# fragment: (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
JOBS = {host: yaml.safe_load(text) for host, text in BLOCK.findall(PAGE.read_text())}
INSTALL = 'pip install "wf-hpc[laptop,campaign] @ $WF_PACKAGE"'
CHANGE = {"GitHub": {"github.event_name": "pull_request"}, "GitLab": {"CI_PIPELINE_SOURCE": "merge_request_event"}}
MAIN = {"GitHub": {"github.event_name": "push"}, "GitLab": {"CI_PIPELINE_SOURCE": "push"}}
TIMEOUT_S = 120
# Measuring and the report are the same commands for both hosts and all events; what follows is their own.
MEASURE, REST = slice(2), slice(2, None)
# What the program says that it took, and a little more in each repetition: no clock of a busy machine decides.
FAST_S, SLOW_S = 0.2, 0.7
PROGRAM = """#!/bin/sh
repetition=$(wc -l < "$FOLDER/repetitions")
echo >> "$FOLDER/repetitions"
echo "{{\\"time\\": {time_s}0$repetition}}" > figures.json
"""
PIPELINE = """wf: 1
name: gate
oversubscribe: true
stages:
  one: {command: [./program.sh], env: {FOLDER: "${{ pipeline.dir }}"}}
"""
CAMPAIGN = """wf: 1
campaign: gate
pipeline: pipeline.yaml
repetitions: 6
warmup: 0
metrics: {time: {of: stages.one.figures.time, better: less, unit: s}}
"""
# What `gh` of a GitHub runner does: the newest run of the main branch, and its artifact.
GH = """#!/bin/sh
case "$1 $2" in
  "run list") echo 42 ;;
  "run download") [ "$3 $4 $5 $6" = "42 --name performance --dir" ] && cp -r "$ARTIFACT" "$7" ;;
  *) exit 2 ;;
esac
"""


def commands(host: str, event: Mapping[str, str]) -> list[str]:
    """The shell commands that a job runs for an event, without the installation."""
    if host == "GitLab":
        found = JOBS[host]["performance"]["script"]
    else:
        steps = JOBS[host]["jobs"]["performance"]["steps"]
        wanted = f"github.event_name == '{event['github.event_name']}'"
        found = [step["run"] for step in steps if "run" in step and step.get("if", wanted) == wanted]
    assert found[0] == INSTALL
    return list(found[1:])


def variables(host: str) -> dict[str, Any]:
    job = JOBS[host]["jobs"]["performance"]["env"] if host == "GitHub" else JOBS[host]["performance"]["variables"]
    assert job["TOLERANCE"] == "10%"
    return dict(job)


def check_out(folder: Path, time_s: float) -> Path:
    """A checkout of the repository, whose program says that it takes this time."""
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "campaign.yaml").write_text(CAMPAIGN)
    program = folder / "program.sh"
    program.write_text(PROGRAM.format(time_s=time_s))
    program.chmod(0o755)
    (folder / "repetitions").touch()
    return folder


def run_job(host: str, folder: Path, event: Mapping[str, str], more: Mapping[str, str], part: slice) -> tuple[int, str]:
    """The exit code of the job and all that it printed; it ends with the first command that fails."""
    tools = folder.parent / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "gh").write_text(GH)
    (tools / "gh").chmod(0o755)
    (tools / "wf").write_text(f'#!/bin/sh\nexec {sys.executable} -m workflow.cli "$@"\n')
    (tools / "wf").chmod(0o755)
    env = {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "120",
        "NO_COLOR": "1", **variables(host), **event, **more,
    }  # fmt: skip
    said = ""
    for command in commands(host, event)[part]:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", command], cwd=folder, env=env, capture_output=True, text=True,
            check=False, timeout=TIMEOUT_S,
        )  # fmt: skip
        said += f"$ {command}\n{done.stdout}{done.stderr}"
        if done.returncode:
            return done.returncode, said
    return 0, said


def artifact(host: str, folder: Path, to: Path) -> Path:
    """What the CI system keeps of a job: GitHub below the common folder of the paths, GitLab with their names."""
    if host == "GitHub":
        steps = JOBS[host]["jobs"]["performance"]["steps"]
        (paths,) = [step["with"]["path"].split() for step in steps if "upload-artifact" in step.get("uses", "")]
        start = folder / "measured"
    else:
        paths, start = JOBS[host]["performance"]["artifacts"]["paths"], folder
    for pattern in paths:
        for file in folder.glob(pattern):
            kept = to / file.relative_to(start)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, kept)
    return to


@contextlib.contextmanager
def gitlab_api(kept: Path) -> Iterator[dict[str, str]]:
    """The part of GitLab's API that gives a file of an artifact; yields the variables of a job."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            prefix, query = "/api/projects/7/jobs/artifacts/main/raw/", "?job=performance"
            known = self.path.startswith(prefix) and self.path.endswith(query) and self.headers["PRIVATE-TOKEN"] == "t"
            file = kept / self.path.removeprefix(prefix).removesuffix(query)
            self.send_response(200 if known and file.is_file() else 404)
            self.end_headers()
            if known and file.is_file():
                self.wfile.write(file.read_bytes())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield {
                "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}/api", "CI_PROJECT_ID": "7",
                "CI_DEFAULT_BRANCH": "main", "BASE_TOKEN": "t", "no_proxy": "127.0.0.1",
            }  # fmt: skip
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three checkouts, measured by the commands of the files: the base, the same program, a slower one."""
    folder = tmp_path_factory.mktemp("gate")
    found = {
        name: check_out(folder / name, time_s)
        for name, time_s in (("base", FAST_S), ("same", FAST_S), ("slow", SLOW_S))
    }
    for each in found.values():
        code, said = run_job("GitHub", each, MAIN["GitHub"], {}, MEASURE)
        assert code == 0 and "6 of 6 repetitions succeeded" in said, said
    return found


@pytest.mark.parametrize("host", ["GitHub", "GitLab"])
def test_the_gate_passes_for_the_same_program_and_fails_for_a_slower_one(
    host: str, measured: dict[str, Path], tmp_path: Path
) -> None:
    assert commands(host, CHANGE[host])[MEASURE] == commands("GitHub", MAIN["GitHub"])
    for name, folder in measured.items():
        shutil.copytree(folder, tmp_path / name)
    code, said = run_job(host, tmp_path / "base", MAIN[host], {}, REST)
    assert code == 0 and "gate" not in said.partition("fi\n")[2], "a job of the main branch compares nothing"
    kept = artifact(host, tmp_path / "base", tmp_path / "kept")
    with gitlab_api(kept) as api:
        nothing = {**api, "CI_PROJECT_ID": "8", "ARTIFACT": str(tmp_path / "nothing")}
        code, said = run_job(host, tmp_path / "same", CHANGE[host], nothing, REST)
        assert code != 0 and "gate passed" not in said and "gate failed" not in said, "without a base the job fails"
        given = {**api, "ARTIFACT": str(kept)}
        code, said = run_job(host, tmp_path / "same", CHANGE[host], given, REST)
        assert code == 0 and "gate passed: 1 ratio, none regressed" in said, said
        code, said = run_job(host, tmp_path / "slow", CHANGE[host], given, REST)
    assert code == 4 and "gate failed: 1 of 1 case" in said, said
    assert re.search(r"pipeline file +\w+ +\w+", said) is None, "only the program differs"
    assert "the content of all trials differs: plan, programs, inputs or versions" in said
    for name, failures in (("same", "0"), ("slow", "1")):
        root = ElementTree.parse(tmp_path / name / "measured/gate.xml").getroot()
        assert (root.get("tests"), root.get("failures")) == ("1", failures)
        kept = artifact(host, tmp_path / name, tmp_path / f"kept-{name}")
        assert {"gate.xml", "report.json"} <= {path.name for path in kept.rglob("*")}


def test_the_command_for_two_versions_measures_a_change_beside_the_main_branch(tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## A gate for two versions")[2]
    (block,) = re.findall(r"^```console\n(.*?)^```", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    wf = tmp_path / "tools/wf"
    wf.parent.mkdir()
    wf.write_text(f'#!/bin/sh\nexec {sys.executable} -m workflow.cli "$@"\n')
    wf.chmod(0o755)
    env = {**os.environ, "PATH": f"{wf.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "120"}

    def shell(command: str, folder: Path) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False,
            timeout=TIMEOUT_S,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    main = check_out(tmp_path / "main", FAST_S)
    user = "-c user.name=n -c user.email=e@example.org"
    assert shell(f"git init -qb main && git add . && git {user} commit -qm main", main) == (0, "")
    code, said = shell("git clone -q main change", tmp_path)
    assert code == 0, said
    change = tmp_path / "change"
    assert shell(lines[0], change)[0] == 0
    code, said = shell(lines[1], change)
    assert code == 0 and "gate passed: 1 ratio, none regressed" in said, said
    (change / "program.sh").write_text(PROGRAM.format(time_s=SLOW_S))
    code, said = shell(lines[1], change)
    assert code == 4 and "gate failed: 1 of 1 case" in said, said
    assert (change / "gate.xml").exists()
