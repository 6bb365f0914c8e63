"""A plan from its JSON, also from that of older versions of wf: the only place that handles the older formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from workflow.errors import RunError
from workflow.formats.read_json import read_json
from workflow.formats.versions import NewerVersionError, check_version
from workflow.launch.launchers import launch_line
from workflow.launch.old_options import OLD_OPTIONS
from workflow.plan.launch_requests import group_request, stage_request
from workflow.plan.plan_model import PLAN_VERSION, Plan

_HINT = "is it a plan that wf has written?"
_PREFIX = "Value error, "  # pydantic's, of an error of a validator


def read_plan(text: str | bytes, name: str) -> Plan:
    """The plan that this JSON holds, as one of today's version. `name` is the file's, for messages.

    Raises:
        RunError: it is no plan, or one of a newer version of wf.
    """
    try:
        data = read_json(text)
    except ValueError as error:
        raise RunError(f"{name} cannot be read: it is not JSON: {error}", _HINT) from error
    try:
        if not isinstance(data, dict) or not isinstance(data.get("stages"), list):
            raise RunError(f"{name} cannot be read: it is not a plan", _HINT)
        if "portable_plan" in data:
            raise RunError(
                f"{name} is a portable plan, which no run can be made from", "`wf plan --json` is that of a run"
            )
        version = check_version(data, "plan_version", PLAN_VERSION, name)
        if version == 1:
            return _from_version_1(data)
        plan = (
            Plan.model_validate_json(json.dumps(_from_version_2(data)))
            if version == 2
            else Plan.model_validate_json(text)
        )
        for group in plan.groups:
            launch_line(group_request(group, plan))  # a group without a line is an error here, not later
        return plan
    except NewerVersionError as error:
        message, _, hint = str(error).partition("; ")
        raise RunError(message, hint) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RunError(f"{name} cannot be read: {where}: {first['msg'].removeprefix(_PREFIX)}", _HINT) from error
    except (LookupError, TypeError, ValueError) as error:
        raise RunError(f"{name} cannot be read: it is not a plan", _HINT) from error


def _from_version_2(data: dict[str, Any]) -> dict[str, Any]:
    """Version 2 had nothing of the node, and no options of the launcher. Lines of srun are shown in today's form."""
    launches = [part["launch"] for part in (*data["stages"], *data.get("groups", []))]
    for launch in launches:
        launch.pop("gpus_per_rank", None)
    used = [core for stage in data["stages"] for core in stage["placement"]["cores"]]
    launchers = {launch["launcher"] for launch in launches} & set(OLD_OPTIONS)
    return data | {
        "plan_version": PLAN_VERSION,
        "nodes": max(end for stage in data["stages"] for _, end in stage["placement"]["nodes"]),
        "node": {"cores": max(used, default=0) + 1},
        "launch_options": OLD_OPTIONS[launchers.pop()] if launchers else {},
    }


def _from_version_1(data: dict[str, Any]) -> Plan:
    """Version 1 had launch lines as they were executed: `argv`, `launcher`, and files of a group.

    The site's arguments are those words of a line that the launcher does not add by itself; with srun they are not
    known.
    """
    lines = {stage["name"]: stage.pop("argv") for stage in data["stages"]}
    group_lines = {group["name"]: group.pop("argv") for group in data.get("groups", [])}
    group_of = {name: group["name"] for group in data.get("groups", []) for name in group["stages"]}
    for stage in data["stages"]:
        name, launcher = stage["name"], stage.pop("launcher")
        stage["launch"] = {"launcher": launcher}
        if name in group_of:
            stage["launch"] |= {"group": group_of[name], "wrapper": lines[name]}
        elif lines[name] != stage["program"]:
            stage["launch"]["executable"] = lines[name][0]
    for group in data.get("groups", []):
        group.pop("files", None)
        group["launch"] = {"launcher": group.pop("launcher"), "executable": group_lines[group["name"]][0]}
    plan = Plan.model_validate_json(json.dumps(_from_version_2(data)))
    for stage in plan.stages:
        if stage.launch.executable:
            own = launch_line(stage_request(stage, plan)).argv
            stage.launch.arguments.extend(_added(lines[stage.name], own))
    for group in plan.groups:
        own = launch_line(group_request(group, plan)).argv
        group.launch.arguments.extend(_added(group_lines[group.name], own))
    return plan


def _added(line: Sequence[str], own: Sequence[str]) -> list[str]:
    """The words that `line` has and `own` lacks, in one place; [] where that is not the difference."""
    same = 0
    while same < len(own) and same < len(line) and own[same] == line[same]:
        same += 1
    rest = len(own) - same
    fits = len(line) >= len(own) and list(line[len(line) - rest :]) == list(own[same:])
    return list(line[same : len(line) - rest]) if fits else []
