"""Record a real run for the tests of the report: its plan, events and metrics, without the paths of this machine.

    python tests/recorded-reports/record.py PIPELINE NAME [OPTIONS OF wf run]

The recording is written to tests/recorded-reports/NAME. `WF` names the `wf` to run, e.g. one whose ADIOS2 has UCX.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = ("plan.json", "events.jsonl", "stages/*/metrics.jsonl", "stages/*/progress.jsonl")


def record(pipeline: Path, name: str, options: list[str]) -> None:
    """Run the pipeline and keep what the report reads."""
    wf = os.environ.get("WF", str(Path(sys.executable).with_name("wf")))
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / name
        subprocess.run([wf, "run", str(pipeline), "--run-dir", str(run_dir), "--quiet", *options], check=True)
        public = {
            str(run_dir): f"/runs/{name}", str(pipeline.parent.resolve()): "/pipelines", str(HERE.parents[1]): "/wf",
            str(Path(wf).parent): "/python/bin",
        }  # fmt: skip
        shutil.rmtree(HERE / name, ignore_errors=True)
        for path in (path for pattern in KEPT for path in run_dir.glob(pattern)):
            text = path.read_text()
            for private, replacement in public.items():
                text = text.replace(private, replacement)
            text = text.replace(f'"host": "{os.uname().nodename}"', '"host": "node1"')
            target = HERE / name / path.relative_to(run_dir)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
