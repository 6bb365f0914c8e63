"""The config files of programs of the user's own: ADIOS2's two formats, and openPMD-api's two.

ADIOS2: source/adios2/helper/adiosXML.cpp and adiosYAML.cpp of 2.12.1, docs "Runtime configuration".
openPMD-api: docs "JSON/TOML configuration" of 0.17. Strings are quoted by the XML rules, by tomli-w, and as JSON, which
every YAML parser reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from workflow.plan.plan_model import EndPlan
from workflow.plan.programs.openpmd import configuration
from workflow.spec.models.config_dialect import Dialect


def adios2_xml(ends: Sequence[EndPlan]) -> str:
    """One `<io>` with its engine per end."""
    lines = ['<?xml version="1.0"?>', "<adios-config>"]
    for end in ends:
        lines.append(f"  <io name={_quoted(end.io)}>")
        lines.append(f"    <engine type={_quoted(end.engine)}>")
        lines += [
            f"      <parameter key={_quoted(key)} value={_quoted(value)}/>" for key, value in end.parameters.items()
        ]
        lines += ["    </engine>", *_xml_operators(end), "  </io>"]
    return "\n".join([*lines, "</adios-config>", ""])


def _quoted(text: str) -> str:
    from xml.sax.saxutils import quoteattr  # here, as it loads the network's modules; most plans have no XML

    return quoteattr(text)


def _xml_operators(end: EndPlan) -> list[str]:
    lines: list[str] = []
    for name, operator in end.operators.items():
        lines += [f"    <variable name={_quoted(name)}>", f"      <operation type={_quoted(operator.type)}>"]
        lines += [
            f"        <parameter key={_quoted(key)} value={_quoted(value)}/>"
            for key, value in operator.parameters.items()
        ]
        lines += ["      </operation>", "    </variable>"]
    return lines


def adios2_yaml(ends: Sequence[EndPlan]) -> str:
    """One list item with its engine per end. Keywords are case-exact."""
    lines = ["---"]
    for end in ends:
        lines.append(f"- IO: {json.dumps(end.io)}")
        lines.append("  Engine:")
        lines.append(f"    Type: {json.dumps(end.engine)}")
        lines += [f"    {key}: {json.dumps(value)}" for key, value in end.parameters.items()]
        lines += ["  Variables:"] if end.operators else []
        for name, operator in end.operators.items():
            lines += [f"    - Variable: {json.dumps(name)}", "      Operations:"]
            lines += [f"        - Type: {json.dumps(operator.type)}"]
            lines += [f"          {key}: {json.dumps(value)}" for key, value in operator.parameters.items()]
    return "\n".join([*lines, ""])


def openpmd_json(ends: Sequence[EndPlan]) -> str:
    """The options of one series, as JSON."""
    return json.dumps(configuration(ends[0]), indent=2, ensure_ascii=False) + "\n"


def openpmd_toml(ends: Sequence[EndPlan]) -> str:
    """The options of one series, as TOML."""
    import tomli_w  # here, as most plans have no TOML

    return tomli_w.dumps(configuration(ends[0]))


# The dialects that are a whole file, which wf writes.
FILES: dict[Dialect, Callable[[Sequence[EndPlan]], str]] = {
    "adios2.xml": adios2_xml,
    "adios2.yaml": adios2_yaml,
    "openpmd.json": openpmd_json,
    "openpmd.toml": openpmd_toml,
    "picongpu": openpmd_json,
}
