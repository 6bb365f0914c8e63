"""The JSON Schema of the campaign file, for editors; made from the models that check the file."""

from __future__ import annotations

from typing import Any

from workflow.campaign.file.campaign_overlay import SCALE, SCALES
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.spec.json_schema import DRAFT, tidy


def campaign_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    schema = CampaignSpec.model_json_schema(by_alias=True)
    tidy(schema)
    schema["properties"]["scales"] = _scales(schema)
    return {"$schema": DRAFT, **schema, "title": "wf campaign"}


def _scales(schema: dict[str, Any]) -> dict[str, Any]:
    """A scale has the keys of the file; what is below them may be any part of it."""
    scale = {key: True for key in schema["properties"] if key not in ("wf", SCALE, SCALES)}
    section = schema["properties"][SCALES]
    pattern = next(iter(section["patternProperties"]))
    overlay = {"type": "object", "properties": scale, "additionalProperties": False}
    return {**section, "patternProperties": {pattern: overlay}}
