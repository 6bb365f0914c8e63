"""The process of a detached or submitted run: supervises the run, writes its report and expectations, and submits the
job of its next part.

`python -m workflow.api.run_process RUN_DIR`
"""

from __future__ import annotations

import sys
from pathlib import Path

from workflow.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_STOPPED, EXIT_VIOLATED, WfError, to_message
from workflow.messages import to_text
from workflow.program_start import begin_program
from workflow.run import supervisor
from workflow.run.chain import next_part_text
from workflow.run.processes.signals import Signals


def main(arguments: list[str]) -> int:
    """Supervise the run in the directory given, write its report, and go on; the exit code is the run's."""
    code = supervisor.main(arguments)
    if code == EXIT_BAD_INPUT:
        return code  # it is the run of another process, or none
    run_dir = Path(arguments[0]).absolute()
    # Only now: no stage waits for these imports.
    if code != EXIT_STOPPED:
        return _write_report(run_dir, code)
    from workflow.api.chains import announce_next_part, submit_next_part

    # At its end the scheduler signals the job, while the next part may be about to be accepted.
    with Signals() as signals:
        follows = announce_next_part(run_dir, code)
        code = _write_report(run_dir, code)
        if follows:
            part = submit_next_part(run_dir, signals.take)
            sys.stderr.write(to_text([to_message("note", next_part_text(run_dir.name, part), part.hint)]))
    return code


def _write_report(run_dir: Path, code: int) -> int:
    """Write the report of a run that has ended so. Returns the exit code."""
    from workflow.provenance.collect import renew_host
    from workflow.report.read.run_states import keep_expectations
    from workflow.report.report_files import write_report
    from workflow.report.show.report_tables import expectation_messages

    renew_host(run_dir)
    try:
        report = write_report(run_dir)
    except WfError as error:
        sys.stderr.write(to_text(error.problems))
        return code
    keep_expectations(run_dir, report)
    sys.stderr.write(to_text(expectation_messages(report)))
    return EXIT_VIOLATED if code == EXIT_OK and report.run.exit_code == EXIT_VIOLATED else code


if __name__ == "__main__":
    begin_program()
    sys.exit(main(sys.argv[1:]))
