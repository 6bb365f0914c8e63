"""A pipeline, its site, and what is missing here for it: scripts and Pythons made for tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.planner import SITE, Planner
from workflow.errors import Problem
from workflow.plan.topology.implicit_stages import complete_pipeline
from workflow.preflight import preflight
from workflow.site.site_model import Site

HERE = SITE.model_copy(update={"cores_per_node": 1, "launcher_path": sys.executable})
SCRIPT = f'command: [{sys.executable}, "${{{{ pipeline.dir }}}}/a.py"]'


def found(plan_of: Planner, text: str, site: Site = HERE) -> list[Problem]:
    """What is missing here for a pipeline of this text."""
    pipeline = complete_pipeline(plan_of.load("oversubscribe: true\n" + text))
    return preflight(pipeline, plan_of("oversubscribe: true\n" + text, site=site), site)


def one(plan_of: Planner, text: str, site: Site = HERE) -> str:
    """The one thing that is missing, without its place."""
    (problem,) = found(plan_of, text, site)
    return f"{problem.key}: {problem.message}\n{problem.hint}"


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o755)
    return path


def fake_python(folder: Path, lacks: str = "") -> Path:
    """An interpreter that is not that of wf, has all modules but `lacks`, and writes a line for each of its starts."""
    code = f"import json, sys; print(json.dumps([n for n in sys.argv[1:] if n in {json.dumps(lacks.split())}]))"
    script = f"#!/bin/sh\necho started >> '{folder}/starts'\nshift 2\nexec '{sys.executable}' -c '{code}' \"$@\"\n"
    return executable(folder / "bin/python3", script)
