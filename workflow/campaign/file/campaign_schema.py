"""The JSON Schema of the campaign file, for editors; made from the models that check the file."""

from __future__ import annotations

from typing import Any

from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.spec.json_schema import DRAFT, tidy


def campaign_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    schema = CampaignSpec.model_json_schema(by_alias=True)
    tidy(schema)
    return {"$schema": DRAFT, **schema, "title": "wf campaign"}
