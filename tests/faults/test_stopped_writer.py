"""A writer that somebody has stopped by SIGSTOP: its reader, which waits for data amid a step, is not to blame.

SST fetches the data of a step from the memory of its writer when they are read. So a reader whose writer is stopped may
have got a step that it cannot read, and looks like one that computes. From shared memory it reads the
step, and waits for the next one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import run

SIM = """
import os
from pathlib import Path
import numpy as np
from workflow import stage
Path("pid").write_text(str(os.getpid()))
with stage.open_writer("field") as out:
    for index in range(9):
        with out.step():
            out.write("V", np.full(5_000_000, float(index)))
"""
# The step is there: its data are with the writer.
WORK = """
import os, signal, sys
from pathlib import Path
from workflow import stage
with stage.open_reader("field") as field:
    for step in field:
        if step.index == 3:
            os.kill(int(Path(sys.argv[1]).read_text()), signal.SIGSTOP)
        step.read("V")
"""
PIPELINE = """
stages:
  sim: {{command: ["${{{{ wf.python }}}}", "{folder}/sim.py"], writes: {{field: {{}}}}}}
  work:
    command: ["${{{{ wf.python }}}}", "{folder}/work.py", "${{{{ run.dir }}}}/stages/sim/work/pid"]
    reads: {{field: {{}}}}
    on_failure: {rule}
streams:
  field: {{from: sim, to: work, via: {via}{spool}}}
"""


@pytest.mark.parametrize(
    ("via", "said"), [("sst, transport: tcp", "no step for 5 s"), ("sst", "no new step within 5 s, after ")]
)
@pytest.mark.parametrize(("rule", "spool"), [("stop", ""), ("{do: restart, backoff: 0.1 s}", ", keep: true")])
def test_a_writer_that_is_stopped_is_named_and_not_its_reader(
    rule: str, spool: str, via: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    (tmp_path / "work.py").write_text(WORK)
    text = PIPELINE.format(folder=tmp_path, rule=rule, spool=spool, via=via)
    done = run(tmp_path, text, "--set", "deadlines.step=5 s")
    assert done.code == 1, done.said
    assert not done.report.restarts, done.said
    assert (done.report.run.stage, done.report.run.state) == ("sim", "failed"), done.said
    assert said in done.report.run.reason
    assert "sim has been stopped by a signal" in done.report.run.reason
