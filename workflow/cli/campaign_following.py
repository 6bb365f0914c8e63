"""Follows a campaign that another process runs, and ends it; asks what Ctrl-C is to mean."""

from __future__ import annotations

from pathlib import Path

import click

from workflow.cli.following import leave_or_cancel
from workflow.errors import EXIT_INTERRUPTED


def show_campaign_to_the_end(name: Path, directory: Path | None, quiet: bool) -> int:
    """Show a campaign until no process runs it. Returns the exit code. Ending this process leaves it alone."""
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.campaign.control.campaign_state import read_state
    from workflow.campaign.control.campaign_watch import watch_campaign
    from workflow.campaign.show_campaign import ProgressLines, driver_text, show_left, show_now, trial_names

    found, campaign, schedule = find_campaign(name, directory)
    status = read_state(found, campaign.spec, schedule)
    if status.driver is not None and status.driver.alive:
        lines, names = ProgressLines(quiet), trial_names(status)
        try:
            if not quiet:
                show_now(status)
            for ended in watch_campaign(found, campaign.spec, schedule):
                for each in ended:
                    lines.show_watched(each, names)
        except KeyboardInterrupt:
            leave_or_cancel(found.name, "wf campaign", lambda: cancel_campaign(found, None))
            return EXIT_INTERRUPTED
        status = read_state(found, campaign.spec, schedule)
    show_left(status, found)
    if status.driver is not None:
        click.echo(driver_text(status), err=True)
    return status.exit_code


def cancel_campaign(name: Path, directory: Path | None, now: bool = False) -> None:
    """End a campaign and print what was done. Raises RunError when it could not be ended."""
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.campaign.control.campaign_cancellation import stop_campaign
    from workflow.campaign.control.campaign_state import read_state
    from workflow.campaign.show_campaign import driver_text, show_cancelled

    found, campaign, schedule = find_campaign(name, directory)
    status = read_state(found, campaign.spec, schedule)
    if status.driver is not None:
        click.echo(f"{found.name}: {driver_text(status)}", err=True)
        if status.driver.alive:
            click.echo(f"{found.name}: {'killing what runs' if now else 'asking what runs to stop'}…", err=True)
    end = stop_campaign(found, "kill" if now else "stop")
    if end.driver is None:
        click.echo(f"{found.name}: no process runs it now")
        return
    show_cancelled(end, read_state(found, campaign.spec, schedule), found)
