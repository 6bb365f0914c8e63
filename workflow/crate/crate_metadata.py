"""Entities → the text of ro-crate-metadata.json. The only file that imports rocrate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workflow.crate.run_entities import Entity, reference, references
from workflow.errors import WfError
from workflow.installation import install_command

# The profiles of the workflow run family build upon RO-Crate 1.1.
_VERSION = "1.1"
_WORKFLOW_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    _WORKFLOW_CRATE: "Workflow RO-Crate",
}
# Terms that RO-Crate's own context lacks: https://w3id.org/ro/terms/workflow-run. Written out, so that no second
# context has to be fetched.
_TERMS = "https://w3id.org/ro/terms/workflow-run#"
_OWN_TERMS = ("ParameterConnection", "connection", "sourceParameter", "targetParameter", "resourceUsage", "sha256")


def to_metadata(
    root: Mapping[str, Any], pipeline: str, entities: Iterable[Entity], parts: Sequence[str], mentions: Sequence[str]
) -> str:
    """The text of ro-crate-metadata.json.

    Args:
        root: properties of the root: name, description, datePublished, license.
        pipeline: id of the main entity.
        parts: ids of the files and directories that are described.
        mentions: ids of what was executed.

    Raises:
        WfError: rocrate is not installed.
    """
    try:
        from rocrate.model import ContextEntity
        from rocrate.rocrate import ROCrate
    except ModuleNotFoundError as error:
        raise WfError("an archive needs rocrate", install_command("archive")) from error
    crate = ROCrate(version=_VERSION)
    crate.metadata.extra_terms.update({name: f"{_TERMS}{name}" for name in _OWN_TERMS})
    profiles: list[Entity] = [
        {"@id": url, "@type": "CreativeWork", "name": name, "version": url.rpartition("/")[2]}
        for url, name in _PROFILES.items()
    ]
    # `add_jsonld` would search all entities for each one.
    crate.add(*(ContextEntity(crate, each["@id"], properties=each) for each in (*entities, *profiles)))
    links = {
        "conformsTo": references(_PROFILES), "mainEntity": reference(pipeline),
        "hasPart": references(parts), "mentions": references(mentions),
    }  # fmt: skip
    for name, content in {**root, **links}.items():
        crate.root_dataset[name] = content
    crate.metadata["conformsTo"] = references([crate.metadata["conformsTo"], _WORKFLOW_CRATE])
    return json.dumps(crate.metadata.generate(), indent=2, ensure_ascii=False) + "\n"
