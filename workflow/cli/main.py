"""The command line: its verbs, and how an error ends it.

The module of a verb is imported when the verb is asked for, and other modules of `workflow` inside the verb that needs
them: no command pays for what it does not use.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

import click

from workflow import __version__
from workflow.cli.verb_group import VerbGroup
from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, WfError, to_message
from workflow.interrupts import interrupts_ignored, interrupts_noted
from workflow.program_start import begin_program
from workflow.standard_streams import output_fault

# `wf` alone prints its help: an error of click since 8.2.
NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="wf")
def wf() -> None:
    """Couple simulations, analyses and sinks by ADIOS2 streams or files, from one YAML file.

    Start with `wf init my-first`, then `wf run my-first/pipeline.yaml`. `wf VERB --help` describes each verb.
    """
    try:
        os.getcwd()  # noqa: PTH109 - pathlib costs its import
    except FileNotFoundError:
        raise WfError("the current directory has been removed", "change to another one: `cd`") from None


# Each verb with its module; sections and order are those of `wf --help`.
SECTIONS = {
    "Write a pipeline": {
        "init": "pipeline_verbs",
        "check": "pipeline_verbs",
        "plan": "pipeline_verbs",
        "graph": "drawing_verbs",
        "components": "installation_verbs",
        "schema": "installation_verbs",
    },
    "Run it": {
        "run": "pipeline_verbs",
        "watch": "run_verbs",
        "status": "run_verbs",
        "explain": "run_verbs",
        "events": "run_verbs",
        "cancel": "run_verbs",
        "attach": "attach_verbs",
        "detach": "attach_verbs",
        "set": "attach_verbs",
        "resume": "pipeline_verbs",
        "replay": "pipeline_verbs",
    },
    "Look at results": {
        "logs": "result_verbs",
        "report": "result_verbs",
        "compare": "result_verbs",
        "look": "drawing_verbs",
        "runs": "run_verbs",
        "note": "run_verbs",
        "archive": "archive_verbs",
        "clean": "clean_verb",
    },
    "Run it many times": {"campaign": "campaign_verbs"},
    "Machines": {
        "doctor": "installation_verbs",
        "sites": "site_verbs",
        "site": "site_verbs",
        "calibrate": "calibration_verbs",
    },
}
for title, verbs in SECTIONS.items():
    wf.add_section(title, {verb: f"workflow.cli.{module}" for verb, module in verbs.items()})
# What these do is what matters, and their exit code says how it went. The others only print.
DOES_WORK = frozenset({
    "init", "run", "watch", "cancel", "attach", "detach", "set", "resume", "replay", "note", "archive", "clean",
    "calibrate", "campaign run", "campaign watch", "campaign cancel", "campaign gate",
})  # fmt: skip


def interrupt_text(error: BaseException) -> str:
    """What an interrupt has left, where its exception says so: a job that was being submitted."""
    # click makes an error of its own of each KeyboardInterrupt.
    cause = error.__cause__ if isinstance(error, click.Abort) else error
    said = str(cause) if isinstance(cause, KeyboardInterrupt) else ""
    return f"interrupted: {said}" if said else "interrupted"


@interrupts_noted()
def main() -> None:
    """`wf`: run the verb; show errors meant for users without a traceback; exit with a documented code."""
    # Importing modules leaves no garbage, and garbage at the end goes with the process: collecting it would cost about
    # 20 ms at the start and 30 ms at the end.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # searching for them costs 40 ms
    only_prints = DOES_WORK.isdisjoint({*sys.argv[1:2], " ".join(sys.argv[1:3])})
    begin_program(only_prints)
    try:
        try:
            wf.main(prog_name="wf", standalone_mode=False)
        finally:
            sys.stdout.flush()
            if not only_prints and (fault := output_fault()):
                from workflow.report.show.printing import show_errors

                show_errors([to_message("warning", fault, "what was printed is lost; the exit code says how it went")])
        return
    except WfError as error:
        problems, code = error.problems, error.exit_code
    except NO_ARGUMENTS as error:
        error.show()
        sys.exit(EXIT_BAD_INPUT)
    except click.ClickException as error:
        from workflow.cli.usage_errors import usage_problem

        problems, code = [usage_problem(error, wf, sys.argv[1:])], EXIT_BAD_INPUT
    except (click.Abort, KeyboardInterrupt) as error:
        problems, code = [to_message("note", interrupt_text(error))], EXIT_INTERRUPTED
    with interrupts_ignored():
        from workflow.report.show.printing import show_errors

        show_errors(problems)
        gc.collect()  # the error is gone, and with it ADIOS2's objects, of which ADIOS2 would complain at the exit
    sys.exit(code)


if __name__ == "__main__":
    main()
