"""A plan from its JSON."""

from __future__ import annotations

from pydantic import ValidationError

from workflow.errors import RunError
from workflow.formats.read_json import read_json
from workflow.formats.versions import OtherVersionError, check_version
from workflow.plan.plan_model import PLAN_VERSION, Plan

_HINT = "is it a plan that wf has written?"
_PREFIX = "Value error, "  # pydantic's, of an error of a validator


def read_plan(text: str | bytes, name: str) -> Plan:
    """The plan that this JSON holds. `name` is the file's, for messages.

    Raises:
        RunError: it is no plan, or one of another version of wf.
    """
    try:
        data = read_json(text)
    except ValueError as error:
        raise RunError(f"{name} cannot be read: it is not JSON: {error}", _HINT) from error
    try:
        if not isinstance(data, dict) or not isinstance(data.get("stages"), list):
            raise RunError(f"{name} cannot be read: it is not a plan", _HINT)
        check_version(data, "plan_version", PLAN_VERSION, name)
        return Plan.model_validate_json(text)
    except OtherVersionError as error:
        message, _, hint = str(error).partition("; ")
        raise RunError(message, hint) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RunError(f"{name} cannot be read: {where}: {first['msg'].removeprefix(_PREFIX)}", _HINT) from error
    except (LookupError, TypeError, ValueError) as error:
        raise RunError(f"{name} cannot be read: it is not a plan", _HINT) from error
