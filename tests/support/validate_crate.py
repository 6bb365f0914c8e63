"""Validates an RO-Crate by roc-validator, without a network: `validate_crate.py CRATE` prints what is wrong, as JSON.

Run by the Python of `.venv-crate`, which has nothing of wf. The only document that the validator fetches is the context
of RO-Crate 1.1, which the package `rocrate` 0.13.0 holds; any other request is an error.
"""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from rocrate_validator import services
from rocrate_validator.models import ValidationSettings

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
PROFILES = ("workflow-run-crate-0.5",)


def answer(_adapter: HTTPAdapter, request: Any, **_options: object) -> requests.Response:
    """The context; nothing else is fetched."""
    if request.url.rstrip("/") != CONTEXT:
        raise requests.ConnectionError(f"no network: {request.url}")
    found = importlib.util.find_spec("rocrate")
    assert found is not None and found.origin is not None
    response = requests.Response()
    response.status_code, response.url, response.request = 200, request.url, request
    response.headers["Content-Type"] = "application/ld+json"
    response.raw = io.BytesIO((Path(found.origin).parent / "data/ro-crate.jsonld").read_bytes())
    return response


def main() -> None:
    """Validate by the profile of workflow runs, or by those that are given."""
    HTTPAdapter.send = answer  # type: ignore[assignment,method-assign]
    problems = []
    for profile in sys.argv[2:] or PROFILES:
        settings = ValidationSettings(
            rocrate_uri=sys.argv[1],
            profile_identifier=profile,
            requirement_severity="REQUIRED",
            no_cache=True,
        )
        for issue in services.validate(settings).get_issues():
            problems.append([profile, str(issue.severity.name), str(issue.check.identifier), issue.message])
    print(json.dumps(problems))


if __name__ == "__main__":
    main()
