"""The command line: its verbs, and how an error ends it.

Other modules of `workflow` are imported inside the verb that needs them: no command pays for what it does not use.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

import click

from workflow import __version__
from workflow.cli.archive_verbs import archive, archive_of_campaign
from workflow.cli.calibration_verbs import calibrate
from workflow.cli.campaign_verbs import campaign
from workflow.cli.clean_verb import clean
from workflow.cli.completion import script
from workflow.cli.drawing_verbs import graph, look
from workflow.cli.installation_verbs import components, doctor, schema
from workflow.cli.pipeline_verbs import check, init, plan, replay, resume, run
from workflow.cli.result_verbs import compare, logs, report
from workflow.cli.run_verbs import cancel, events, explain, note, runs, status, watch
from workflow.cli.site_verbs import site, sites
from workflow.cli.verb_group import VerbGroup
from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, WfError, to_message

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


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script for shell completion.

    Use it as `eval "$(wf completion bash)"`.
    """
    click.echo(script(shell, wf))


campaign.add_command(archive_of_campaign)
# Sections and order are those of `wf --help`.
SECTIONS = {
    "Write a pipeline": (init, check, plan, graph, components, schema),
    "Run it": (run, watch, status, explain, events, cancel, resume, replay),
    "Look at results": (logs, report, compare, look, runs, note, archive, clean),
    "Run it many times": (campaign,),
    "Machines": (doctor, sites, site, calibrate, completion),
}
for title, verbs in SECTIONS.items():
    wf.add_section(title, verbs)


def main() -> None:
    """`wf`: run the verb; show errors meant for users without a traceback; exit with a documented code."""
    # Importing modules leaves no garbage, and garbage at the end goes with the process: collecting it would cost about
    # 20 ms at the start and 30 ms at the end.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # searching for them costs 40 ms
    try:
        wf.main(prog_name="wf", standalone_mode=False)
        return
    except WfError as error:
        problems, code = error.problems, error.exit_code
    except NO_ARGUMENTS as error:
        error.show()
        sys.exit(EXIT_BAD_INPUT)
    except click.ClickException as error:
        from workflow.cli.usage_errors import usage_problem

        problems, code = [usage_problem(error, wf, sys.argv[1:])], EXIT_BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        problems, code = [to_message("note", "interrupted")], EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader left: `wf plan --json | head`
        sys.stderr.close()  # or Python complains at exit
        sys.exit(0)
    from workflow.report.show.printing import show_errors

    show_errors(problems)
    gc.collect()  # the error is gone, and with it ADIOS2's objects, of which ADIOS2 would complain at the exit
    sys.exit(code)


if __name__ == "__main__":
    main()
