"""One command of a fake scheduler: `fake_command.py FOLDER COMMAND ARGUMENTS…`. It imports little, to start fast."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def next_answer(folder: Path, command: str, arguments: list[str]) -> dict[str, Any]:
    """The answer to this call; the call is written down. `flux batch` may have answers of its own."""
    own = " ".join([command, *arguments[:1]])
    if (folder / f"{own}.json").exists():
        command, arguments = own, arguments[1:]
    with (folder / f"{command}.calls").open("a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.write(json.dumps(arguments) + "\n")
        answers: list[dict[str, Any]] = json.loads((folder / f"{command}.json").read_text())
        count = folder / f"{command}.count"
        number = int(count.read_text()) if count.exists() else 0
        count.write_text(str(number + 1))
    return answers[min(number, len(answers) - 1)]


def start_job(job: str, script: str, folder: Path, variables: dict[str, str] | None) -> None:
    """Execute a script as a job: in a session of its own, which the scheduler does not wait for."""
    nodes, here = folder / "nodes", os.uname().nodename
    nodes.write_text(f"{here}\n")
    own = {
        "sbatch": {"SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": here},
        "qsub": {"PBS_JOBID": job, "PBS_NODEFILE": str(nodes)},
        "bsub": {"LSB_JOBID": job, "LSB_MCPU_HOSTS": f"{here} 4"},
        "flux": {"FLUX_URI": "local:///fake"},
    }
    env = {**os.environ, **(own[sys.argv[2]] if variables is None else variables)}
    with (folder / "job.out").open("ab") as out:
        subprocess.Popen(["/bin/bash", script], env=env, start_new_session=True, stdout=out, stderr=out)


def script_of_stdin(folder: Path) -> str:
    """`bsub < SCRIPT`."""
    script = folder / "stdin.sh"
    script.write_text(sys.stdin.read())
    return str(script)


def main(folder: Path, command: str, arguments: list[str]) -> int:
    try:
        answer = next_answer(folder, command, arguments)
    except FileNotFoundError:
        print(f"{command}: the test gives no answer", file=sys.stderr)
        return 1
    if "run" in answer:
        start_job(answer["run"], arguments[-1] if arguments else script_of_stdin(folder), folder, answer.get("env"))
    sys.stdout.write(answer.get("stdout", ""))
    sys.stderr.write(answer.get("stderr", ""))
    return int(answer.get("code", 0))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
