"""The likeliest mistakes with a program of one's own: it opens something else than its stream. What the run says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import run
from workflow.report.report_model import Report

PIPELINE = """
stages:
  sim:
    command: ["${{ wf.python }}", "${{ pipeline.dir }}/sim.py", "${{ streams.field.path }}"]
    writes:
      field: {io: SimulationOutput, config: adios2.xml}
  keep:
    component: archive
    with: {path: kept.bp}
streams:
  field: {from: sim, to: keep}
"""
LOOP = """
    for step in range(STEPS):
        stream.begin_step()
        stream.write("x", np.arange(10.0), [10], [0], [10])
        stream.end_step()
"""
HEAD = "import sys\nimport adios2\nimport numpy as np\n"
WITHOUT_CONFIGURATION = HEAD + 'with adios2.Stream(sys.argv[1], "w") as stream:' + LOOP
OTHER_IO = (
    HEAD + 'io = adios2.Adios("adios2.xml").declare_io("Output")\n'
    'with adios2.Stream(io, sys.argv[1], "w") as stream:' + LOOP
)
CONFIGURATION_FORGOTTEN = OTHER_IO.replace('"adios2.xml"', "").replace('"Output"', '"SimulationOutput"')
OTHER_NAME = OTHER_IO.replace('"Output"', '"SimulationOutput"').replace("sys.argv[1]", '"field.bp"')
WROTE_A_FILE = "sim wrote the file streams/field and did not open the stream field: "


def failed(folder: Path, program: str, *options: str) -> Report:
    """The run of this program, and what its report says of it."""
    (folder / "sim.py").write_text(program)
    report = run(folder, PIPELINE, *options).report
    assert (report.run.state, report.run.stage) == ("failed", "sim")
    return report


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (WITHOUT_CONFIGURATION, "it does not read adios2.xml, or its IO is not called SimulationOutput"),
        (OTHER_IO, "sim.py declares the IO Output, and adios2.xml configures the IO SimulationOutput"),
        (
            CONFIGURATION_FORGOTTEN,
            'it does not read adios2.xml: pass that name to ADIOS2, `adios2.Adios("adios2.xml")`',
        ),
    ],
)
@pytest.mark.parametrize("steps", [3, 10**9])
def test_a_file_in_place_of_the_stream_is_named_with_its_cause(
    program: str, why: str, steps: int, tmp_path: Path
) -> None:
    # It is found when the program has ended, and while it runs: long before the deadline of 40 s.
    report = failed(tmp_path, program.replace("STEPS", str(steps)))
    assert report.run.reason == WROTE_A_FILE + why
    said = "\n".join(report.stage("sim").last_lines)
    assert "KeyboardInterrupt" not in said, "the excerpt shows the signal of the stop and not the program's own error"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (OTHER_NAME, "sim opened the stream field.bp, which nobody reads, and not streams/field; "),
        ('print("0 steps")', "sim ended with exit code 0, but never opened field: nothing is at streams/field; "),
    ],
)
def test_a_program_that_does_not_open_the_name_of_its_stream(program: str, words: str, tmp_path: Path) -> None:
    reason = failed(tmp_path, program.replace("STEPS", "3")).run.reason
    assert reason == words + "pass ${{ streams.field.path }} to the program"


def test_what_a_program_printed_itself_stays_in_the_excerpt(tmp_path: Path) -> None:
    program = WITHOUT_CONFIGURATION.replace("STEPS", str(10**9)) + '\nprint("never")'
    report = failed(tmp_path, 'import sys; print("no configuration given", file=sys.stderr)\n' + program)
    assert report.stage("sim").last_lines == ["no configuration given"]
