"""The process of a detached or submitted run: supervises the run, then writes its report and expectations.

`python -m workflow.report.run_process RUN_DIR`
"""

from __future__ import annotations

import sys
from pathlib import Path

from workflow.errors import EXIT_BAD_INPUT, EXIT_OK, EXIT_VIOLATED, WfError
from workflow.messages import to_text
from workflow.run import supervisor


def main(arguments: list[str]) -> int:
    """Supervise the run in the directory given, and write its report; the exit code is the run's."""
    code = supervisor.main(arguments)
    if code == EXIT_BAD_INPUT:
        return code  # it is the run of another process, or none
    # Only now: no stage waits for these imports.
    from workflow.provenance.collect import renew_host
    from workflow.report.read.run_states import keep_expectations
    from workflow.report.report_files import write_report
    from workflow.report.show.report_tables import expectation_messages

    run_dir = Path(arguments[0]).absolute()
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
    sys.exit(main(sys.argv[1:]))
