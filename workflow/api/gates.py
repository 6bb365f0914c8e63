"""The gate: two versions of a program run interleaved, in one campaign, and compared."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.api.campaigns import Sites, campaign_options, checked_machines, data_notes, missing_libraries
from workflow.api.plans import make_plan, show_warnings
from workflow.errors import RunError, SpecError, WfError, named_if_missing, to_message

if TYPE_CHECKING:
    from workflow.campaign.campaign_run import CampaignOutcome, Say, ShowEnded
    from workflow.campaign.changes.changes_model import CampaignChanges, FactChange
    from workflow.campaign.planning.planned_trials import PlannedCampaign
    from workflow.provenance.provenance_model import GitState
    from workflow.site.site_model import Site


SAME_CONTENT = "both versions have the same content: the comparison measures only the noise of the machine"


@dataclass(frozen=True)
class GateVersion:
    """One of the two versions that `gate_campaign` measures."""

    file: str | os.PathLike[str]
    """Its campaign file."""
    sets: Sequence[str] = ()
    """`KEY=VALUE` each, over keys of the campaign file, for this version."""
    python: str | os.PathLike[str] | None = None
    """The Python that executes its components; by default that of wf."""


def gate_campaign(
    old: GateVersion,
    new: GateVersion,
    directory: str | os.PathLike[str] | None = None,
    *,
    profiles: Sequence[str] = (),
    site: str | os.PathLike[str] | None = None,
    tolerance: float | None = None,
    show: ShowEnded | None = None,
    say: Say | None = None,
) -> tuple[CampaignOutcome, CampaignChanges | None]:
    """Run two versions of a program interleaved, in one campaign, and compare them; None if a repetition failed.

    Args:
        old: what is compared with.
        new: the version that the verdicts are about. Its file states the repetitions, their order and the metrics.
        directory: where they run; by default `campaigns/NAME-gate` below the current directory.
        profiles: profiles of both pipelines.
        site: the machine, by name or by path.
        tolerance: smallest relative difference that counts; by default the threshold of each metric in `new`.
        show: is called with each repetition that ended.
        say: is called with what happens to pilots and jobs.

    Raises:
        SpecError: a trial cannot be planned, or this machine lacks what one needs; nothing was started.
        RunError: the directory cannot be used, or a process runs this campaign.
        WfError: they have no trial in common; scipy is not installed.
    """
    from workflow.campaign.campaign_advice import advise_campaign
    from workflow.campaign.campaign_control import refuse_running
    from workflow.campaign.campaign_directory import read_schedule
    from workflow.campaign.campaign_run import run_planned
    from workflow.campaign.changes.changes_model import CampaignChanges
    from workflow.campaign.changes.make_changes import unmatched
    from workflow.campaign.execution.campaign_loop import CampaignContext
    from workflow.campaign.ledger import CAMPAIGNS, read_history
    from workflow.campaign.planning.both_versions import VERSION, both_versions, have_one_content, trials_without
    from workflow.campaign.results.make_results import make_results
    from workflow.installation import install_command
    from workflow.provenance.collect import start_context
    from workflow.provenance.git_state import start_git_state

    # NEW first: where OLD is a folder, its file has the name of NEW's.
    after, after_sites = _plan_version(new, profiles, site, tolerance)
    before, before_sites = _plan_version(old, profiles, site)
    planned = both_versions(before, after)
    if not planned.ready:
        text = f"no trial is in both {before.campaign.path} and {after.campaign.path}"
        raise WfError(text, "trials are matched by the keys that vary and their values")
    if lacking := missing_libraries(planned):  # nothing would come of the measurements
        raise WfError(f"the versions cannot be compared here: {lacking}", install_command("campaign"))
    where = Path(directory or Path(CAMPAIGNS) / f"{planned.spec.campaign}-gate").absolute()
    problems = [*advise_campaign(planned), *data_notes(planned, where)]
    machines: dict[str, Site] = {}
    for version, its, sites in (("old", before, before_sites), ("new", after, after_sites)):
        found = checked_machines(its, [], sites)
        machines |= {f"{key}-{version}": machine for key, machine in found.items()}
    if wrong := [each for each in problems if each.level == "error"]:
        raise SpecError(wrong)
    warnings = [each for each in problems if each.level == "warning" or not each.place]
    same = [SAME_CONTENT] if have_one_content(before, after) else []
    hint = "name the files of two checkouts, or give --old-set, --new-set, --old-python or --new-python"
    show_warnings([*warnings, *(to_message("warning", text, hint) for text in same)])
    refuse_running(where)
    folders = [each.ready[0].loaded.path.parent for each in (before, after)]
    git = {folder: start_git_state(folder)() for folder in folders}
    common = start_context(folders[1], sys.argv)
    context = CampaignContext(after_sites.allocation, machines, make_plan, common, git)
    outcome = run_planned(planned, where, context, remeasure=True, failed_anew=True, show=show, say=say)
    if outcome.interrupted or outcome.left or not outcome.status.complete:
        return outcome, None
    with named_if_missing("comparing versions", "campaign"):
        results = make_results(planned.spec, read_schedule(where), read_history(where))
    names = _names_of_versions(old, new)
    return outcome, CampaignChanges(
        base=names[0],
        new=names[1],
        facts=_version_facts(before, after, git),
        metrics=results.metrics,
        changes=[each for each in results.comparisons if each.vary == VERSION],
        unmatched=[
            *unmatched("base", trials_without(before, after)),
            *unmatched("new", trials_without(after, before)),
        ],
        unmatched_metrics={name: "base" for name in before.spec.metrics if name not in after.spec.metrics},
        notes=[*same, *results.notes],
    )


def _plan_version(
    version: GateVersion,
    profiles: Sequence[str],
    site: str | os.PathLike[str] | None,
    tolerance: float | None = None,
) -> tuple[PlannedCampaign, Sites]:
    """One version, all trials of which can be planned, and its sites. Raises SpecError.

    `tolerance`: in place of the threshold of each metric.
    """
    from workflow.campaign.file.load_campaign import load_campaign
    from workflow.campaign.planning.planned_trials import plan_campaign as plan

    sites = Sites()  # a site that is named by a path is another one in each folder
    campaign = load_campaign(version.file, campaign_options(version.sets, profiles, site))
    if version.python is not None:
        campaign = replace(campaign, python=_program(version.python))
    if tolerance is not None:
        metrics = campaign.spec.metrics.items()
        changed = {name: metric.model_copy(update={"threshold": tolerance}) for name, metric in metrics}
        campaign = replace(campaign, spec=campaign.spec.model_copy(update={"metrics": changed}))
    planned = plan(campaign, sites.decide)
    if planned.problems:
        raise SpecError(planned.problems)
    return planned, sites


def _program(python: str | os.PathLike[str]) -> str:
    """A Python as an absolute path; links are kept, as those of virtual environments must be. Raises RunError."""
    import shutil

    found = shutil.which(python)
    if found is None:
        raise RunError(
            f"there is no program {os.fspath(python)}", "name a Python, for example `--old-python venv/bin/python`"
        )
    return os.path.abspath(found)  # noqa: PTH100 - resolves no links


def _names_of_versions(old: GateVersion, new: GateVersion) -> tuple[str, str]:
    """What tells the two apart: their files, else what differs."""
    files = os.fspath(old.file), os.fspath(new.file)
    if files[0] != files[1]:
        return files
    texts = [", ".join([*map(str, each.sets), *([str(each.python)] if each.python else [])]) for each in (old, new)]
    return (texts[0] or "old", texts[1] or "new") if texts[0] != texts[1] else ("old", "new")


def _version_facts(
    before: PlannedCampaign, after: PlannedCampaign, git: Mapping[Path, GitState | None]
) -> list[FactChange]:
    """What is known of both versions."""
    from workflow.campaign.changes.changes_model import FactChange

    facts = [FactChange(fact="pipeline", base=before.campaign.pipeline, new=after.campaign.pipeline)]
    states = [git[each.ready[0].loaded.path.parent] for each in (before, after)]
    if states[0] is not None and states[1] is not None:
        facts.append(FactChange(fact="commit", base=states[0].commit[:12], new=states[1].commit[:12]))
    pythons = [each.campaign.python or sys.executable for each in (before, after)]
    facts.append(FactChange(fact="Python of components", base=pythons[0], new=pythons[1]))
    return facts
