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
from workflow.errors import RunError, SpecError, WfError, named_if_missing

if TYPE_CHECKING:
    from workflow.campaign.campaign_run import CampaignOutcome, Say, ShowEnded
    from workflow.campaign.changes.changes_model import CampaignChanges, FactChange
    from workflow.campaign.planning.planned_trials import PlannedCampaign
    from workflow.errors import Problem
    from workflow.provenance.provenance_model import GitState
    from workflow.site.site_model import Site


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
    metrics: Sequence[str] = (),
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
        metrics: names of metrics; by default all of `new`.
        tolerance: smallest relative difference that counts; by default the threshold of each metric in `new`.
        show: is called with each repetition that ended.
        say: is called with what happens to pilots and jobs.

    Raises:
        SpecError: a trial cannot be planned, or this machine lacks what one needs; nothing was started.
        RunError: the directory cannot be used, or a process runs this campaign.
        WfError: they have no trial in common; a metric is not known; scipy is not installed.
    """
    from workflow.campaign.campaign_advice import advise_campaign
    from workflow.campaign.campaign_control import refuse_running
    from workflow.campaign.campaign_directory import read_schedule
    from workflow.campaign.campaign_run import run_planned
    from workflow.campaign.changes.make_changes import version_changes
    from workflow.campaign.execution.campaign_loop import CampaignContext
    from workflow.campaign.ledger import CAMPAIGNS, read_history
    from workflow.campaign.planning.both_versions import both_versions, have_one_content, of_one_version
    from workflow.campaign.results.make_results import make_results
    from workflow.installation import install_command
    from workflow.provenance.collect import start_context
    from workflow.provenance.git_state import start_git_state

    # NEW first: where OLD is a folder, its file has the name of NEW's.
    for given, name in ((new, "NEW"), (old, "OLD")):
        _refuse_no_file(Path(given.file), name)
    sides = [_plan_version(each, profiles, site) for each in (old, new)]
    before, after = (planned for planned, _ in sides)
    measured = _with_metrics(after, metrics, tolerance)
    planned = both_versions(before, measured)
    if not planned.ready:
        text = f"no trial is in both {before.campaign.path} and {after.campaign.path}"
        raise WfError(text, "trials are matched by the keys that vary and their values")
    if lacking := missing_libraries(planned):  # nothing would come of the measurements
        raise WfError(f"the versions cannot be compared here: {lacking}", install_command("campaign"))
    where = Path(directory or Path(CAMPAIGNS) / f"{planned.spec.campaign}-gate").absolute()
    problems = [*advise_campaign(planned), *data_notes(planned, where)]
    machines: dict[str, Site] = {}
    for version, (its, sites) in zip(("old", "new"), sides, strict=True):
        found = checked_machines(its, [], sites)
        machines |= {f"{key}-{version}": machine for key, machine in found.items()}
    if wrong := [each for each in problems if each.level == "error"]:
        raise SpecError(wrong)
    warnings = [each for each in problems if each.level == "warning" or not each.place]
    show_warnings([*warnings, *([_nothing_differs()] if have_one_content(before, measured) else [])])
    refuse_running(where)
    folders = [each.ready[0].loaded.path.parent for each in (before, after)]
    git = {folder: start_git_state(folder)() for folder in folders}
    common = start_context(folders[1], sys.argv)
    context = CampaignContext(sides[1][1].allocation, machines, make_plan, common, git)
    outcome = run_planned(planned, where, context, remeasure=True, failed_anew=True, show=show, say=say)
    if outcome.interrupted or outcome.left or not outcome.status.complete:
        return outcome, None
    with named_if_missing("comparing versions", "campaign"):
        results = make_results(planned.spec, read_schedule(where), read_history(where))
    names = _names_of_versions(old, new)
    alone = [] if metrics else [name for name in before.spec.metrics if name not in after.spec.metrics]
    facts = _version_facts(before, after, git)
    return outcome, version_changes(results, names, facts, of_one_version(before, after), alone)


def _plan_version(
    version: GateVersion, profiles: Sequence[str], site: str | os.PathLike[str] | None
) -> tuple[PlannedCampaign, Sites]:
    """One version, all trials of which can be planned, and its sites. Raises SpecError."""
    from workflow.campaign.file.load_campaign import load_campaign
    from workflow.campaign.planning.planned_trials import plan_campaign as plan

    sites = Sites()  # a site that is named by a path is another one in each folder
    campaign = load_campaign(version.file, campaign_options(version.sets, profiles, site))
    if version.python is not None:
        campaign = replace(campaign, python=_program(version.python))
    planned = plan(campaign, sites.decide)
    if planned.problems:
        raise SpecError(planned.problems)
    return planned, sites


def _refuse_no_file(file: Path, name: str) -> None:
    """Raises SpecError where there is no campaign file; `name`: the argument."""
    from workflow.errors import Problem
    from workflow.spec.suggest import nearest_name

    if file.is_dir():
        inside = sorted(file.glob("*.y*ml"))
        message = "is a folder, not a campaign file"
        hint = f"did you mean `{inside[0]}`?" if len(inside) == 1 else f"name the campaign file in it: {file}/FILE"
    elif not file.exists():
        near = nearest_name(file.stem, here := {each.stem: each for each in file.parent.glob("*.y*ml")})
        message = "no such file"
        usual = (
            "NEW is a campaign file; OLD is a campaign file, or a folder that contains a file with the same name as NEW"
        )
        hint = usual if near is None else f"did you mean `{here[near]}`?"
    else:
        return
    raise SpecError([Problem(str(file), 0, 0, "", f"{name}: {message}", hint)])


def _nothing_differs() -> Problem:
    """What the comparison says at its end, too: then it has taken its time."""
    from workflow.errors import to_message

    text = "both versions have the same content: the comparison measures only the noise of the machine"
    hint = "name the files of two checkouts, or give --old-set, --new-set, --old-python or --new-python"
    return to_message("warning", text, hint)


def _program(python: str | os.PathLike[str]) -> str:
    """A Python as an absolute path; links are kept, as those of virtual environments must be. Raises RunError."""
    import shutil

    found = shutil.which(python)
    if found is None:
        raise RunError(
            f"there is no program {os.fspath(python)}", "name a Python, for example `--old-python venv/bin/python`"
        )
    return os.path.abspath(found)  # noqa: PTH100 - resolves no links


def _with_metrics(planned: PlannedCampaign, asked: Sequence[str], tolerance: float | None) -> PlannedCampaign:
    """With these metrics only, and this threshold. Raises WfError for a metric that is not known."""
    from workflow.spec.suggest import did_you_mean, listing

    spec = planned.spec
    for name in asked:
        if name not in spec.metrics:
            hint = did_you_mean(name, spec.metrics) or f"metrics: {listing(spec.metrics)}"
            raise WfError(f"there is no metric `{name}`", hint)
    chosen = {name: spec.metrics[name] for name in dict.fromkeys(asked or spec.metrics)}
    if tolerance is not None:
        chosen = {name: each.model_copy(update={"threshold": tolerance}) for name, each in chosen.items()}
    campaign = replace(planned.campaign, spec=spec.model_copy(update={"metrics": chosen}))
    return replace(planned, campaign=campaign)


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
    from workflow.campaign.changes.make_changes import PYTHON

    facts = [FactChange(fact="pipeline", base=before.campaign.pipeline, new=after.campaign.pipeline)]
    states = [git[each.ready[0].loaded.path.parent] for each in (before, after)]
    if states[0] is not None and states[1] is not None:
        facts.append(FactChange(fact="commit", base=states[0].commit[:12], new=states[1].commit[:12]))
    pythons = [each.campaign.python or sys.executable for each in (before, after)]
    facts.append(FactChange(fact=PYTHON, base=pythons[0], new=pythons[1]))
    return facts
