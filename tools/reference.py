"""Write the generated reference pages into docs/reference: `make docs`. A test compares them with the code.

Everything on these pages comes from the models, the component.yaml files, the engine lists and the command
line itself, so that the reference cannot disagree with what `wf` does.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, TypeAdapter

from tools.api_reference import python_page, stage_page
from workflow.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REGRESSED,
    EXIT_RUN_FAILED,
    EXIT_STOPPED,
    EXIT_UNDECIDED,
    EXIT_VIOLATED,
)
from workflow.spec.models.engine import EngineParameter
from workflow.spec.models.units import in_one_unit

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
JSON_RULES = """`--json` prints one document to standard output. Errors of the command line itself, and of runs and
files that do not exist, are messages on standard error with exit code 2; only `wf check` and `wf campaign plan` put
their messages into the document. Exit codes are those without `--json`.

Names of fields are stable. New fields may be added at any time; if a field is renamed or changes its meaning, the
number of the document's `…_version` increases. Names that end in `_s` are seconds; sizes are bytes.
`wf status --json` and `wf report --json` print [the report](report.md), for a run in progress the report so far.
`wf events --json` prints a document on each line: [the events of a run](events.md).
`wf plan --json` prints the plan, the same text as `plan.json` of a run.
"""
CAMPAIGN_RULES = """[Your first campaign](../how-to/first-campaign.md) is an introduction with an example. Unknown keys
are refused. Durations are written with units: `10 min`, `30 s`. Keys of the pipeline are written as for `--set`:
`stages.sim.ranks`,
`streams.*.via`, whose value `sst` is [SST itself](../how-to/shared-memory.md#which-engine-via-sst-means).
"""
EXIT_CODES = f"""## Exit codes

| code | meaning |
|---|---|
| {EXIT_OK} | the command worked; the run *succeeded* |
| {EXIT_RUN_FAILED} | a run failed, or is lost; a campaign is not complete; data differ; \
something could not be ended or removed |
| {EXIT_BAD_INPUT} | bad input: the command line, a file, this machine; nothing was started |
| {EXIT_VIOLATED} | [an expectation](../how-to/performance-gate.md#a-gate-for-a-single-run) was not met, by a \
run that succeeded or by a complete campaign |
| {EXIT_REGRESSED} | the gate of a campaign: a metric has regressed, or is not measured any more |
| {EXIT_UNDECIDED} | the gate of a campaign with `--strict`: nothing has regressed, and a metric is undecided, or a \
trial is missing |
| {EXIT_STOPPED} | the run was stopped cleanly before [the job ends](../how-to/when-a-node-dies.md) |
| {EXIT_INTERRUPTED} | interrupted: Ctrl-C, `wf cancel`, or the job was cancelled |

Whether anybody can read what is printed decides nothing: where a log is full, a descriptor is closed or a terminal is
gone, commands that do something, such as `wf run`, go on and exit as above, and a run has a note of it. Commands that
only print, such as `wf plan`, exit with 2 where standard output cannot be written, and with 0 where the reader of a
pipe has left.
"""
EXPECT_RULES = """`FIGURE: CONDITION`, in `expect` of a stage, of a stream, or at the top of the file for the run as
a whole. A condition is an operator (`<`, `<=`, `==`, `>=`, `>`) and a quantity with its unit: `"> 1 GB/s"`, in quotes
because `>` has a meaning in YAML. A quantity alone means `==`, which only counts and sizes can have; steps are whole
numbers, shares are written in percent, and the ratios `…_imbalance`, of the slowest rank to the median one, as numbers
of at least 1. Figures are those that [campaigns measure](campaign.md#figures).
`figures: {NAME: CONDITION}` of a stage is about the numbers in the `figures.json` that its program wrote. `null`, in a
profile or by `--set`, removes an expectation. [How-to](../how-to/performance-gate.md#a-gate-for-a-single-run).
"""
FIGURE_RULES = """What `metrics` may name: fields of [the report](report.md) of a run; `step_rate`, its `steps_out`
divided by its `wall_s`; `step_s`, its `compute_s`, `io_s` and `wait_s` together, divided by its steps; `compute_share`,
`io_share` and `wait_share`, these divided by its `wall_s`; `load_s` and `load_rate`, the `io_s` and the `transfer_rate`
of the slowest reader of the stream; `…_p50_s`, `…_p95_s` and `…_max_s`, the median, the 95th percentile and the largest
of the times of single steps ([how they are counted](../explanation/statistics.md#within-a-run)); `…_imbalance`, the
time of the slowest rank divided by that of the median rank; `dropped`, the largest number of steps that a reader did
not read; and `perceived_throughput`, which needs a `baseline`. Figures that are not known for every program need a
program that uses `workflow.stage`, as all components do.
`stages.NAME.figures.X` is the number `X` in the `figures.json` that the program of the stage wrote into its working
directory.
"""
SITE_RULES = """What a site file may say ([how-to](../how-to/your-own-machine.md)). Unknown keys are refused.
A key that is left out is not known; the value of `auto` is found on the machine where `wf` runs. Sets of cores are
written `0-7,16`:
numbers of physical cores on the node, from 0.
"""
EVENT_RULES = """`events.jsonl` in the directory of a run has a line for each event, a JSON object. Lines are only
appended, while the run goes on, and nothing comes after the verdict, `run_finished`. `wf events RUN --follow --json`
prints the lines as they come: [follow a run from another program](../how-to/follow-events.md).

Each line has `event`, the name of its kind; `t`, when it happened, in Unix seconds; and all fields of its kind. Lines
are in the order in which the supervisor noticed what had happened: `t` may go back by a little. Names that end in
`_s` are seconds; sizes are bytes. `stage` and `stream` are names of the pipeline, empty where an event is about
none; `stream` may also be a file that a sink writes. A last line without its newline is still being written. A run
whose supervisor has died may have no verdict.

## Version

The first line, `run_started`, states `events_version`, now {version}. The version increases when a program that reads
these lines would misunderstand them: when a kind of event or a field is removed or renamed, or changes its meaning. New
kinds, new fields and new values of a field such as `cause` come without a new version: a program leaves out what it
does not know. `wf` itself reads its own version only.

## Progress, attempts and cuts

`stream_progress` has the totals of one end since the beginning of the run. The interval between two lines of one end
grows with the time, up to {interval:.0f} s; `stream_closed` has the exact totals.

With [`on_failure: restart`](../how-to/go-on-after-a-failure.md) stages are started again. `restart_decided` says which,
and why; `stages_restarted` begins their next attempt. What follows about these stages, from `stage_started` on, is of
that attempt, until the next `stages_restarted`. Steps of their streams count on from `first_step`.

A stage that is stopped before its work is done says so by `stage_cut`. An end that was left early has `complete: false`
in its `stream_closed`.
"""
MADE = "<!-- written by `make docs`; do not edit -->\n"


def main() -> None:
    """Write all pages, or with --check exit 1 when one is out of date."""
    stale = []
    for name, text in pages().items():
        path = PAGES / name
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            PAGES.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}\n  run `make docs`")


def pages() -> dict[str, str]:
    """File name → Markdown text."""
    return {
        "pipeline.md": pipeline_page(),
        "campaign.md": campaign_page(),
        "sites.md": sites_page(),
        "components.md": components_page(),
        "data-types.md": data_types_page(),
        "engines.md": engines_page(),
        "commands.md": commands_page(),
        "json.md": json_page(),
        "report.md": report_page(),
        "events.md": events_page(),
        "python.md": python_page(MADE),
        "stage.md": stage_page(MADE),
    }


def pipeline_page() -> str:
    """Every key of the pipeline file, a table per part; then the figures that `expect` may name."""
    from workflow.report_figures import RUN, STAGE, STREAM
    from workflow.spec.models.pipeline import PipelineSpec
    from workflow.spec.written_conditions import condition_example

    lines = ["# The pipeline file", MADE]
    lines.append(
        "Unknown keys are refused. Durations and sizes are written with units: `10 min`, `30 s`, `2 GiB`, `16 MB`.\n"
    )
    lines += [*_keys(PipelineSpec, first=("stages", "streams")), "## Expectations", "", EXPECT_RULES]
    lines.append("| `expect` of | figure | for example | known for every program |\n|---|---|---|---|")
    for owner, figures in (("the run", RUN), ("a stage", STAGE), ("a stream", STREAM)):
        for name, figure in figures.items():
            known = "yes" if figure.own_program else "no"
            lines.append(f"| {owner} | `{name}` | `{condition_example(figure)}` | {known} |")
    return "\n".join([*lines, ""])


def campaign_page() -> str:
    """Every key of the campaign file, and every figure that it can measure."""
    from workflow.campaign.file.campaign_spec import CampaignSpec
    from workflow.report_figures import RUN, STAGE_FIGURES, STREAM

    lines = ["# The campaign file", MADE, CAMPAIGN_RULES, *_keys(CampaignSpec), "## Figures", "", FIGURE_RULES]
    lines.append("| figure | unit | better | known for every program |\n|---|---|---|---|")
    for start, fields in (("run", RUN), ("stages.NAME", STAGE_FIGURES), ("streams.NAME", STREAM)):
        for name, (unit, better, own_program) in fields.items():
            lines.append(f"| `{start}.{name}` | {unit} | {better} | {'yes' if own_program else 'no'} |")
    return "\n".join([*lines, ""])


def sites_page() -> str:
    """Every key of a site file, a table per part."""
    from workflow.site.site_model import SiteFile

    return "\n".join(["# Site files", MADE, SITE_RULES, *_keys(SiteFile)])


def _keys(model: type[BaseModel], first: Sequence[str] = ()) -> list[str]:
    """A table of the keys of each part of a file, titled by its key; the parts of the keys in `first` come first."""
    schema = model.model_json_schema(by_alias=True)
    titles = _titles(schema, first)
    lines = []
    for name, part in [("", schema), *((name, schema["$defs"][name]) for name in titles)]:
        lines.append(f"## `{titles[name]}`\n\n{part.get('description', '').strip()}\n" if name else "## The file\n")
        lines.append("| key | type | default | meaning |\n|---|---|---|---|")
        for key, field in part.get("properties", {}).items():
            default = "**required**" if key in part.get("required", []) else _value(_written(field))
            lines.append(f"| `{key}` | {_type(field, titles)} | {default} | {_cell(field.get('description', ''))} |")
        lines.append("")
    return lines


def _titles(schema: dict[str, Any], first: Sequence[str]) -> dict[str, str]:
    """Model → the key where it is written first, `stages.NAME.output`: in the order of the keys, parts after wholes."""
    titles: dict[str, str] = {}

    def visit(part: dict[str, Any], path: str) -> None:
        for key, field in sorted(part.get("properties", {}).items(), key=lambda item: item[0] not in first):
            for name, at in _models(field, f"{path}{key}"):
                if name not in titles:
                    titles[name] = at
                    visit(schema["$defs"][name], f"{at}.")

    visit(schema, "")
    return titles


def _models(field: Any, path: str) -> Iterator[tuple[str, str]]:
    """(model, the key where it is written) of all that a value may be."""
    if not isinstance(field, dict):
        return
    if "$ref" in field:
        yield field["$ref"].rpartition("/")[2], path
    for each in (*field.get("anyOf", ()), *field.get("oneOf", ()), *field.get("allOf", ()), field.get("items")):
        yield from _models(each, path)
    for each in (field.get("additionalProperties"), *field.get("patternProperties", {}).values()):
        yield from _models(each, f"{path}.NAME")


def components_page() -> str:
    """Each component: parameters and ports."""
    from workflow.spec.component_files import known_components, load_component

    lines = ["# Components", MADE]
    for name in known_components():
        component = load_component(name)
        lines += [f"## {name}", "", f"*{component.kind}.* {component.summary}", ""]
        if component.parameters:
            lines.append("| parameter | type | default | meaning |\n|---|---|---|---|")
            for key, parameter in component.parameters.items():
                default = "**required**" if parameter.required else _value(parameter.default)
                choices = f" One of {', '.join(map(str, parameter.choices))}." if parameter.choices else ""
                unit = f" [{parameter.unit}]" if parameter.unit else ""
                steer = " Can be changed while it runs." if key in component.steer else ""
                lines.append(
                    f"| `{key}` | {_cell(parameter.type)}{unit} | {default} | {_cell(parameter.help)}{choices}{steer} |"
                )
            lines.append("")
        for side, ports in (("Reads", component.reads), ("Writes", component.writes)):
            for port_name, port in ports.items():
                optional = " (optional)" if port.optional else ""
                any_ = ": any variables" if port.any else ""
                lines.append(f"{side} `{port_name}`{optional}{any_}. {port.help}".rstrip())
                for variable, fact in port.variables.items():
                    shape = ", ".join(map(str, fact.shape)) if fact.shape is not None else "any shape"
                    unit = f" [{fact.unit}]" if fact.unit else ""
                    lines.append(
                        f"- `{variable}`: {fact.type or 'any type'} ({shape}){unit} {_cell(fact.help)}".rstrip()
                    )
                lines.append("")
    return "\n".join(lines)


DATA_RULES = """What becomes of data that many programs do not write, and of each type. All programs that use
`workflow.stage` read by the same rules; what differs is declared in the `component.yaml` of each component. The tests
send all these data through the components, by BP5, BP4, HDF5, SST and shared memory, on one rank and several, and
compare the result with what ADIOS2 and h5py read by themselves.

*kept*: what the component writes is the same. *used*: its values go into what the component writes. *left out*: the
component does without it, and goes on. *refused*: the component ends, and its message has the name of the variable and
the number of the step. A variable that the first step lacks may still come: a note names it, with the most similar
name that is there. It is an error at once where a word of its name looks misspelt, and at the end of the stream where
it has come in no step.
"""
COPIES = """Components that copy, from a stream or a file to another one, keep every variable as what it is: scalars and
text, global arrays, arrays in local blocks with their order, those without elements too. Joined arrays, and values of
single ranks, are copied as the global arrays as which ADIOS2 shows them. A file in HDF5 has no local blocks: a copy to
one is refused. Two things ADIOS2 itself (2.12.1) cannot read from BP4: an array of one dimension without elements in
its first step, which is refused, and a step without variables, at which the reader dies.
"""


def data_types_page() -> str:
    """What becomes of unusual data and of each type."""
    from workflow.spec.component_files import known_components, load_component
    from workflow.spec.models.component import UnusualData
    from workflow.stage import data_kinds

    lines = ["# Data and types", MADE, DATA_RULES, "## Unusual data: the same for every program", ""]
    lines.append("| data | what a reader gets |\n|---|---|")
    lines += [f"| {kind.what} | {kind.rule} |" for kind in data_kinds.DATA_KINDS if kind.rule]
    own = [kind for kind in data_kinds.DATA_KINDS if not kind.rule]
    lines += ["", "## Unusual data: by component", ""]
    lines += [f"- *{kind.name.replace('_', ' ')}*: {kind.what}" for kind in own]
    lines += ["", f"| component | {' | '.join(kind.name.replace('_', ' ') for kind in own)} |"]
    lines.append("|---" * (len(own) + 1) + "|")

    def row(name: str, takes: UnusualData) -> str:
        return f"| {name} | {' | '.join(getattr(takes, kind.name) for kind in own)} |"

    for name in known_components():
        component = load_component(name)
        formats = component.file_formats.formats if component.file_formats else {}
        ports = [port.takes for port in (*component.reads.values(), *component.writes.values()) if port.takes]
        lines += [row(name, takes) for takes in ports]
        lines += [row(f"{name}, {key}", each.takes) for key, each in formats.items() if each.takes]
    lines += ["", COPIES, "## Types", ""]
    for title, rules in (
        ("Variables of ADIOS2", data_kinds.ADIOS2_TYPES),
        ("Datasets of HDF5 files", data_kinds.HDF5_TYPES),
        ("What programs write, by NumPy's name", data_kinds.WRITTEN_TYPES),
        ("Attributes", data_kinds.ATTRIBUTE_TYPES),
    ):
        if rules:
            lines += [f"### {title}", "", "| type | read and copied as | |\n|---|---|---|"]
            lines += [f"| {each.name} | {each.becomes or '*refused*'} | {_cell(each.why)} |" for each in rules]
            lines.append("")
    return "\n".join(lines)


def engines_page() -> str:
    """Each engine: couplings and the parameters that it really reads."""
    from workflow.spec.engine_presets import known_engines, load_engine

    lines = ["# Engines", MADE, "What `via:` may name, and what `parameters:` of a stream may hold for it.\n"]
    for name in known_engines():
        engine = load_engine(name)
        lines += [f"## {name}", "", f"ADIOS2 engine: {engine.engine}. {engine.summary}", ""]
        lines += [f"Coupling: {', '.join(engine.couplings)} (the first is the default).", ""]
        values = ", ".join(f"`{key}` = `{value}`" for key, value in {**engine.write, **engine.read}.items())
        if engine.based_on is not None:
            lines += [f"All else is that of [{engine.based_on}](#{engine.based_on}). It sets {values}.", ""]
        elif engine.parameters:
            lines += [f"wf sets {values}, where the pipeline does not.", ""] if values else []
            lines.append("| parameter | side | type | ADIOS2's default | meaning |\n|---|---|---|---|---|")
            for key, parameter in engine.parameters.items():
                kind = "/".join(parameter.choices) if parameter.choices else parameter.type
                default, meaning = _value(parameter.default), _cell(_meaning(parameter))
                lines.append(f"| `{key}` | {parameter.side} | {_cell(kind)} | {default} | {meaning} |")
            lines.append("")
    return "\n".join(lines)


def json_page() -> str:
    """What `--json` prints: every field of every document, from the models."""
    from workflow.campaign.changes.changes_model import CampaignChanges
    from workflow.campaign.results.results_model import CampaignList, CampaignResults, CampaignStatus
    from workflow.cli.json_output import (
        CampaignPlan,
        CheckResult,
        CleanResult,
        ComponentList,
        NoteList,
        RunList,
        SiteList,
    )
    from workflow.compare.comparison import Comparison
    from workflow.forecast.calibration_model import Calibration
    from workflow.provenance.provenance_model import Provenance

    documents: list[tuple[str, type[BaseModel]]] = [
        ("wf check --json", CheckResult), ("wf components --json", ComponentList),
        ("wf sites --json", SiteList), ("wf runs --json", RunList), ("wf note --json", NoteList),
        ("wf clean --json", CleanResult),
        ("wf compare --json", Comparison),
        ("wf calibrate --json, calibration/SITE.json", Calibration),
        ("wf campaign plan --json", CampaignPlan),
        ("wf campaign status --json", CampaignStatus), ("wf campaign list --json", CampaignList),
        ("wf campaign report --json", CampaignResults),
        ("wf campaign compare --json", CampaignChanges),
        ("provenance.json of a run", Provenance),
    ]  # fmt: skip
    lines = ["# JSON output", MADE, JSON_RULES]
    for title, model in documents:
        schema = model.model_json_schema(by_alias=True, mode="serialization")
        lines.append(f"## {title}\n\n{schema.get('description', '').strip()}\n")
        lines += _fields(schema)
        for name, part in schema.get("$defs", {}).items():
            lines.append(f"### {name}\n\n{part.get('description', '').strip()}\n")
            lines += _fields(part)
    return "\n".join(lines)


def _fields(part: dict[str, Any]) -> list[str]:
    lines = ["| field | type | meaning |\n|---|---|---|"]
    for key, field in part.get("properties", {}).items():
        kind, about = _type(field) + _or_null(field), _cell(field.get("description", ""))
        lines.append(f"| `{key}` | {kind} | {about.replace('None', 'null')} |")
    return [*lines, ""]


def _or_null(field: dict[str, Any]) -> str:
    return " or null" if any(each.get("type") == "null" for each in field.get("anyOf", [])) else ""


def commands_page() -> str:
    """`--help` of every verb."""
    from workflow.cli.main import wf

    lines = ["# Commands", MADE, "The output of `--help` for each command, and their exit codes.\n", EXIT_CODES]
    verbs = dict(wf.commands)
    for name, group in wf.commands.items():
        verbs |= {f"{name} {each}": verb for each, verb in getattr(group, "commands", {}).items()}
    for name, command in sorted(verbs.items()):
        context = click.Context(command, info_name=f"wf {name}", max_content_width=100)
        lines += [f"## wf {name}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(lines)


def report_page() -> str:
    """Every field of report.json, a table per part."""
    from workflow.report.report_model import Report
    from workflow.run.state.stream_rates import THROUGHPUT, TRANSFER_RATE

    schema = Report.model_json_schema()
    version = schema["properties"]["report_version"]["const"]
    lines = ["# The report: report.json and the tables of pandas", MADE]
    lines.append(
        f"Version {version}. Times are Unix seconds, durations seconds, sizes bytes, rates bytes per second; null: not "
        "known. The tables of `workflow.report_tables` have the fields of StagePart, StreamPart and ReaderPart.\n"
    )
    lines += ["Rates have one meaning everywhere:\n", f"- {THROUGHPUT}", f"- {TRANSFER_RATE}\n"]
    for name, part in [("The file", schema), *schema["$defs"].items()]:
        lines.append(f"## {name}\n\n{part.get('description', '').strip() if name != 'The file' else ''}\n")
        lines.append("| field | type | meaning |\n|---|---|---|")
        for key, field in part["properties"].items():
            lines.append(f"| `{key}` | {_type(field)} | {_cell(field.get('description', ''))} |")
        lines.append("")
    return "\n".join(lines)


def events_page() -> str:
    """Every event of a run with its fields."""
    from workflow.run.records.events_file import LONGEST_INTERVAL_S, NAMES
    from workflow.run.state import events, lifecycle_events

    rules = EVENT_RULES.format(version=events.EVENTS_VERSION, interval=LONGEST_INTERVAL_S)
    lines = ["# The events of a run: events.jsonl", MADE, rules]
    for title, module in (("What the supervisor observes", events), ("What it decides", lifecycle_events)):
        lines += [f"## {title}", ""]
        for kind, name in NAMES.items():
            if kind.stored and kind.__module__ == module.__name__:
                lines += [f"### {name}", "", _as_json(inspect.getdoc(kind) or ""), "", "| field | type |\n|---|---|"]
                properties = TypeAdapter(kind).json_schema()["properties"]
                own = {key: field for key, field in properties.items() if key != "t"}
                lines += [f"| `{key}` | {_type(field) + _or_null(field)} |" for key, field in own.items()]
                lines.append("")
    return "\n".join(lines)


def _as_json(text: str) -> str:
    """A docstring with the values as they are in a line."""
    for python, json in (("None", "null"), ("True", "true"), ("False", "false")):
        text = re.sub(rf"\b{python}\b", json, text)
    return text


def _meaning(parameter: EngineParameter) -> str:
    if parameter.managed:
        return f"{parameter.help}. Set by wf: {parameter.managed}"
    return f"{parameter.help}. Refused: {parameter.useless}" if parameter.useless else parameter.help


def _type(field: dict[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The type of a value; `titles`: of the sections about models, where these are not their names."""
    if field.get("title") == "cores":
        return "cores"
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        title = (titles or {}).get(name, name)
        return f"[{title}](#{title.lower().replace('.', '')})"
    if "allOf" in field:
        return _type(field["allOf"][0], titles)
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each, titles) for each in field["anyOf"] if each.get("type") != "null"))
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" if value != "" else '`""`' for value in field.get("enum", [field.get("const")]))
    if "prefixItems" in field:
        return f"[{', '.join(_type(each, titles) for each in field['prefixItems'])}]"
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}), titles)}"
    if field.get("type") == "object":
        inner = field.get("additionalProperties") or next(iter(field.get("patternProperties", {}).values()), None)
        return f"name → {_type(inner, titles)}" if isinstance(inner, dict) else "mapping"
    return str(field.get("type", "any"))


def _written(field: dict[str, Any]) -> Any:
    """The default, as it is written: a duration with its unit."""
    default = field.get("default")
    if field.get("type") == "string" and isinstance(default, float):
        return in_one_unit(default)
    return default


def _value(value: Any) -> str:
    return "" if value is None or value == "" or value == {} else f"`{_as_yaml(value)}`"


def _as_yaml(value: Any) -> str:
    """As a user writes it: `false`, `[line, slice]`."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{', '.join(map(_as_yaml, value))}]" if isinstance(value, list | tuple) else str(value)


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
