"""The JSON Schema of the pipeline file, for editors: `# yaml-language-server: $schema=pipeline.schema.json`.

Made from the same models that check the file, so that it cannot differ; the parameters of every component and
engine that is installed here are typed too.
"""

from __future__ import annotations

from typing import Any

from workflow.report_figures import FIGURES
from workflow.spec.component_files import json_schema, known_components, load_component
from workflow.spec.engine_presets import known_engines, load_engine
from workflow.spec.expectations import OWN_KEY
from workflow.spec.models.component import Component
from workflow.spec.models.engine import Engine, EngineParameter
from workflow.spec.models.pipeline import PipelineParameter, PipelineSpec, StreamSpec
from workflow.spec.pipeline_parameters import PARAMS
from workflow.spec.written_conditions import condition_example

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "string": "string"}
# ADIOS2's own words for true and false; YAML 1.2 reads them as text.
_BOOL_WORDS = ["on", "off", "yes", "no"]
# What stands for a value of any type.
_PARAMETER = {"type": "string", "pattern": r"^\$\{\{[ \t]*params\.[A-Za-z][A-Za-z0-9_-]*[ \t]*\}\}$"}
_LIMITED = ("boolean", "integer", "number")
_PARAMETER_REF = {"$ref": "#/$defs/parameter"}


def pipeline_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12. Raises SpecError when a component's or an engine's file is wrong."""
    schema = PipelineSpec.model_json_schema(by_alias=True)
    tidy(schema)
    _type_stages(schema["$defs"], {name: load_component(name) for name in known_components()})
    _type_streams(schema["$defs"], {via: load_engine(via) for via in known_engines()})
    _type_expectations(schema)
    schema["properties"]["profiles"] = _profiles(schema)
    _allow_parameters(schema)
    return {"$schema": DRAFT, **schema, "title": "wf pipeline"}


def tidy(part: Any) -> None:
    """Without pydantic's titles, which repeat the keys; names that do not match the pattern are refused."""
    if isinstance(part, list):
        for item in part:
            tidy(item)
    if not isinstance(part, dict):
        return
    if isinstance(part.get("title"), str):
        del part["title"]
    if "patternProperties" in part:
        part["additionalProperties"] = False
    for item in part.values():
        tidy(item)


def _type_stages(definitions: dict[str, Any], components: dict[str, Component]) -> None:
    """`component` is one of those there are; `with` follows from it."""
    stage = definitions["StageSpec"]
    about = stage["properties"]["component"].get("description", "")
    stage["properties"]["component"] = {"anyOf": [{"enum": list(components)}, {"pattern": "/"}], "description": about}
    stage["oneOf"] = [{"required": ["component"]}, {"required": ["command"]}]
    for name, component in components.items():
        parameters = json_schema(component)
        tidy(parameters)
        definitions[f"with-{name}"] = {**parameters, "description": component.summary}
    stage["allOf"] = [
        {
            "if": {"properties": {"component": {"const": name}}, "required": ["component"]},
            "then": {
                "properties": {"with": {"$ref": f"#/$defs/with-{name}"}},
                **({"required": ["with"]} if any(each.required for each in component.parameters.values()) else {}),
            },
        }
        for name, component in components.items()
    ]


def _type_streams(definitions: dict[str, Any], engines: dict[str, Engine]) -> None:
    """`via` is one of those there are; `parameters` and `coupling` follow from it."""
    stream = definitions["StreamSpec"]
    about = " · ".join(f"{via}: {engine.summary}" for via, engine in engines.items())
    default = StreamSpec.model_fields["via"].default
    stream["properties"]["via"] = {"enum": list(engines), "default": default, "description": about}
    stream["allOf"] = []
    for via, engine in engines.items():
        open_to_users = (item for item in engine.parameters.items() if not (item[1].managed or item[1].useless))
        useful = {name: _parameter(each) for name, each in open_to_users}
        couplings = {"enum": [*engine.couplings, None]}
        definitions[f"parameters-{via}"] = {"type": "object", "properties": useful, "additionalProperties": False}
        # A stream that names no engine takes the default one: then `const` alone holds of the missing key.
        required = {} if via == default else {"required": ["via"]}
        stream["allOf"].append(
            {
                "if": {"properties": {"via": {"const": via}}, **required},
                "then": {"properties": {"parameters": {"$ref": f"#/$defs/parameters-{via}"}, "coupling": couplings}},
            }
        )


def _type_expectations(schema: dict[str, Any]) -> None:
    """`expect` of the run, of stages and of streams: the figures that each has."""
    parts = {"run": schema, "stages": schema["$defs"]["StageSpec"], "streams": schema["$defs"]["StreamSpec"]}
    condition: dict[str, Any] = {"type": ["string", "number", "null"]}
    for section, part in parts.items():
        about = part["properties"]["expect"]["description"]
        figures = {
            name: {**condition, "examples": [condition_example(figure)]} for name, figure in FIGURES[section].items()
        }
        if section == "stages":
            own = "of the numbers in the program's figures.json, by name"
            figures[OWN_KEY] = {"type": ["object", "null"], "description": own, "additionalProperties": condition}
        part["properties"]["expect"] = {
            "type": "object", "description": about, "properties": figures, "additionalProperties": False,
        }  # fmt: skip


def _allow_parameters(schema: dict[str, Any]) -> None:
    """`${{ params.NAME }}` in place of every number, word or name below stages, streams and the like."""
    parts = schema["properties"]
    parts |= {key: _or_parameter(part) for key, part in parts.items() if key not in ("wf", PARAMS, "profiles")}
    for name, part in schema["$defs"].items():
        if name != PipelineParameter.__name__:
            _allow_inside(part)
    schema["$defs"]["parameter"] = _PARAMETER


def _allow_inside(part: dict[str, Any]) -> None:
    """The same for what a part holds."""
    for inside in (part.get("properties", {}), part.get("patternProperties", {})):
        inside |= {key: _or_parameter(child) for key, child in inside.items()}
    part |= {key: _or_parameter(part[key]) for key in ("items", "additionalProperties") if key in part}
    options = (*part.get("anyOf", []), *part.get("oneOf", []), *part.get("allOf", []))
    for option in (*options, part["then"]) if "then" in part else options:
        _allow_inside(option)


def _or_parameter(part: Any) -> Any:
    """The schema of one value, which may be a parameter where it is not any text anyway."""
    if not isinstance(part, dict):
        return part
    _allow_inside(part)
    options = part.get("anyOf", [part])
    if not any("enum" in each or "pattern" in each or each.get("type") in _LIMITED for each in options):
        return part
    if "anyOf" in part:
        return {**part, "anyOf": [*part["anyOf"], _PARAMETER_REF]}
    about = {key: part[key] for key in ("description", "default", "examples") if key in part}
    return {**about, "anyOf": [{key: part[key] for key in part if key not in about}, _PARAMETER_REF]}


def _parameter(parameter: EngineParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": parameter.help}
    if parameter.type == "choice":
        schema["enum"] = parameter.choices
    elif parameter.type == "bool":
        schema["enum"] = [True, False, *_BOOL_WORDS]
    elif parameter.type == "size":
        schema["type"] = ["integer", "string"]
    else:
        schema["type"] = _TYPES[parameter.type]
    if parameter.min is not None:
        schema["minimum"] = parameter.min
    if parameter.max is not None:
        schema["maximum"] = parameter.max
    if parameter.default not in (None, ""):
        schema["default"] = parameter.default
    return schema


def _profiles(schema: dict[str, Any]) -> dict[str, Any]:
    """A profile has the keys of the file; what is below them may be any part of it."""
    profile = {key: True for key in schema["properties"] if key not in ("wf", "profiles")}
    section = schema["properties"]["profiles"]
    pattern = next(iter(section["patternProperties"]))
    overlay = {"type": "object", "properties": profile, "additionalProperties": False}
    return {**section, "patternProperties": {pattern: overlay}}
