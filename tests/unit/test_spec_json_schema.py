"""The JSON Schema that editors get: valid itself, agrees with the checks, knows components and engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workflow.spec import shipped
from workflow.spec.component_files import json_schema, load_component
from workflow.spec.json_schema import pipeline_schema
from workflow.spec.yaml_tree.node import plain
from workflow.spec.yaml_tree.parse import read_yaml

jsonschema = pytest.importorskip("jsonschema")
SPECS = Path(__file__).parents[1] / "specs"
# Mistakes that the schema itself can show while one types.
SEEN_BY_EDITORS = [
    "unknown-key-top", "unknown-key-stage", "unknown-key-deep", "python-name", "missing-keys", "no-stages", "version",
    "wrong-type-int", "wrong-type-bool", "wrong-type-mapping", "choice", "out-of-range", "bad-name", "bad-end",
    "component-and-command", "neither-component-nor-command", "unknown-component", "unknown-parameter",
    "parameter-type", "parameter-length", "parameter-range", "parameter-choice", "parameter-missing", "unknown-engine",
    "profile-no-mapping", "readers-empty", "stages-empty",
]  # fmt: skip


@pytest.fixture
def validator(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [SPECS / "components"])
    schema = pipeline_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def mistakes(validator: Any, path: Path) -> list[str]:
    return [error.message for error in validator.iter_errors(plain(read_yaml(path)[0]))]


@pytest.mark.parametrize("path", sorted((SPECS / "good").glob("*.yaml")), ids=str)
def test_good_files_are_good(validator: Any, path: Path) -> None:
    assert mistakes(validator, path) == []


@pytest.mark.parametrize("case", SEEN_BY_EDITORS)
def test_bad_files_are_bad(validator: Any, case: str) -> None:
    assert mistakes(validator, SPECS / "bad" / f"{case}.yaml")


def test_examples_are_good_with_the_shipped_components() -> None:
    validator = jsonschema.Draft202012Validator(pipeline_schema())
    for path in sorted(shipped.EXAMPLES_DIR.glob("*/pipeline.yaml")):
        assert mistakes(validator, path) == [], path


@pytest.mark.parametrize(
    ("stream", "good"),
    [
        ({"parameters": {"StatsLevel": 1}}, True),  # sst is the default engine
        ({"parameters": {"QueueLimit": 1}}, False),  # wf sets it
        ({"via": "bp5", "parameters": {"StripeSize": 4096}}, True),
        ({"via": "bp5", "parameters": {"stripesize": 4096}}, False),
        ({"via": "hdf5", "coupling": "live"}, False),
        ({"via": "bp5", "coupling": "live"}, True),
    ],
)
def test_parameters_and_coupling_follow_from_the_engine(validator: Any, stream: dict[str, Any], good: bool) -> None:
    data = plain(read_yaml(SPECS / "good" / "chain.yaml")[0])
    data["streams"]["positions"] = {"from": "walk", "to": "count", **stream}
    assert validator.is_valid(data) is good


@pytest.mark.parametrize(("size", "good"), [([8], True), ([8, 8], False), ([8, 8, 8], True)])
def test_a_list_has_one_of_its_lengths(size: list[int], good: bool) -> None:
    schema = json_schema(load_component("gray_scott"))
    assert jsonschema.Draft202012Validator(schema).is_valid({"size": size}) is good


def test_every_key_says_what_it_is_for() -> None:
    def silent(part: Any, path: str) -> list[str]:
        if not isinstance(part, dict):
            return []
        found = []
        for key, value in part.get("properties", {}).items():
            named = isinstance(value, dict) and ("description" in value or "$ref" in value)
            found += [] if named else [f"{path}.{key}"]
        return found

    schema = pipeline_schema()
    assert [each for name, part in {**schema["$defs"], "file": schema}.items() for each in silent(part, name)] == []
