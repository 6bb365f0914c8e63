"""What `wf components` and `wf sites` print: tables and their columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from workflow.core_set import format_cores
from workflow.formatting import NOTHING, duration, plural, size
from workflow.report.show.text_table import Column, Table, make_table, prose_column, text_column
from workflow.spec.shipped import SHIPPED

if TYPE_CHECKING:
    from pathlib import Path

    from workflow.site.load_site import KnownSite
    from workflow.site.queue_model import SiteQueue, Workaround
    from workflow.site.site_model import SiteFile
    from workflow.spec.models.component import Component, Parameter, Port, PortVariable

COMPONENT_COLUMNS: list[Column[Component]] = [
    text_column("component", lambda component: component.component),
    text_column("kind", lambda component: component.kind, gives_way=1),
    text_column("reads", lambda component: ", ".join(component.reads) or NOTHING),
    text_column("writes", lambda component: ", ".join(component.writes) or NOTHING),
    prose_column("what it does", lambda component: component.summary),
]


class ParameterRow(NamedTuple):
    """A parameter of a component."""

    name: str
    parameter: Parameter


PARAMETER_COLUMNS: list[Column[ParameterRow]] = [
    text_column("parameter", lambda row: row.name),
    text_column("type", lambda row: type_text(row.parameter)),
    text_column("default", lambda row: default_text(row.parameter)),
    prose_column("what it is", lambda row: row.parameter.help + unit_text(row.parameter.unit)),
]


class PortRow(NamedTuple):
    """A variable of a port; None stands for all variables of a port that takes any."""

    port: str
    help: str
    name: str
    variable: PortVariable | None


PORT_COLUMNS: list[Column[PortRow]] = [
    text_column("port", lambda row: row.port),
    text_column("variable", lambda row: row.name),
    text_column("type", lambda row: (row.variable and row.variable.type) or "any"),
    text_column("shape", lambda row: shape_text(row.variable)),
    prose_column("what it is", lambda row: row.help if row.variable is None else variable_text(row.variable)),
]


def component_table(components: Sequence[Component]) -> Table:
    """All components, one a row."""
    return make_table(COMPONENT_COLUMNS, components)


def parameter_table(component: Component) -> Table:
    """The parameters of a component."""
    return make_table(
        PARAMETER_COLUMNS, [ParameterRow(*item) for item in component.parameters.items()], title="parameters"
    )


def port_table(ports: dict[str, Port], title: str) -> Table:
    """The variables of a component's ports: what it `reads`, or what it `writes`."""
    rows = []
    for name, port in ports.items():
        rows += [PortRow(name, port.help, "any", None)] if port.any else []
        rows += [PortRow(name, port.help, *item) for item in port.variables.items()]
    return make_table(PORT_COLUMNS, rows, title=title)


def type_text(parameter: Parameter) -> str:
    """`int[3]`, `str (coarse, fine)`."""
    choices = ", ".join(map(str, parameter.choices or ()))
    return f"{parameter.type} ({choices})" if choices else parameter.type


def default_text(parameter: Parameter) -> str:
    """`required`, `-`, or the value."""
    if parameter.required:
        return "required"
    return NOTHING if parameter.default is None else str(parameter.default)


def shape_text(variable: PortVariable | None) -> str:
    """`[N, 3]`, or `any`."""
    return "any" if variable is None or variable.shape is None else f"[{', '.join(map(str, variable.shape))}]"


def variable_text(variable: PortVariable) -> str:
    """`position of each atom [Å] (optional)`."""
    about = (variable.help + unit_text(variable.unit)).strip()
    return about + (" (optional)" if variable.optional else "")


def unit_text(unit: str) -> str:
    """` [Å]`, or nothing."""
    return f" [{unit}]" if unit else ""


SITE_COLUMNS: list[Column[KnownSite]] = [
    text_column("site", lambda site: site.name),
    text_column("here", lambda site: "yes" if site.is_here else ""),
    text_column("nodes × cores", lambda site: nodes_text(site.file)),
    text_column("GPUs", lambda site: str(site.file.gpus_per_node or NOTHING) if site.file else NOTHING, gives_way=2),
    text_column("scheduler", lambda site: (site.file and site.file.scheduler) or NOTHING, gives_way=3),
    prose_column("what it is", lambda site: site.file.summary if site.file else "its file is wrong"),
    text_column("file", lambda site: file_text(site.files[0]), gives_way=1),
]


class QueueRow(NamedTuple):
    """A queue with its name."""

    name: str
    queue: SiteQueue


QUEUE_COLUMNS: list[Column[QueueRow]] = [
    text_column("queue", lambda row: row.name + (" (default)" if row.queue.default else "")),
    text_column("nodes", lambda row: f"{row.queue.nodes[0]} to {row.queue.nodes[1]}" if row.queue.nodes else NOTHING),
    text_column("walltime", lambda row: limits_text(row.queue)),
    prose_column("note", lambda row: note_text(row.queue)),
]
_STAGES = {
    "always": "all stages", "mpi": "stages of several ranks", "stream": "stages with SST",
    "symptom": "not set: for those who see it",
}  # fmt: skip
WORKAROUND_COLUMNS: list[Column[Workaround]] = [
    prose_column("workaround", lambda each: " ".join(f"{key}={value}" for key, value in each.env.items())),
    text_column("for", lambda each: _STAGES[each.when]),
    prose_column("why", lambda each: each.reason),
    prose_column("source", lambda each: each.source or NOTHING),
]


def site_table(sites: Sequence[KnownSite]) -> Table:
    """All sites, one a row."""
    return make_table(SITE_COLUMNS, sites)


def queue_table(queues: Mapping[str, SiteQueue]) -> Table:
    """The queues of a site."""
    return make_table(QUEUE_COLUMNS, [QueueRow(*item) for item in queues.items()])


def workaround_table(workarounds: Sequence[Workaround]) -> Table:
    """The workarounds of a site."""
    return make_table(WORKAROUND_COLUMNS, workarounds)


def nodes_text(file: SiteFile | None) -> str:
    """`9472 × 56 of 64`, where the site keeps some cores."""
    if file is None:
        return NOTHING
    cores, kept = file.cores_per_node, len(file.reserved_cores)
    own = f"{cores - kept} of {cores}" if kept and isinstance(cores, int) else str(cores)
    return f"{file.nodes} × {own}"


def file_text(path: Path) -> str:
    """The path of a user's own file; of a shipped one that it is shipped."""
    return "comes with wf" if path.is_relative_to(SHIPPED) else str(path)


def fact_lines(file: SiteFile) -> list[str]:
    """The node in a few lines."""
    lines = [f"{nodes_text(file)} cores, {plural(file.threads_per_core, 'hardware thread')} a core"]
    if file.reserved_cores:
        lines.append(f"kept by the system: cores {format_cores(file.reserved_cores)}")
    if isinstance(file.memory_per_node, int):
        lines.append(f"memory of a node: {size(file.memory_per_node)}")
    for name, domains in (("NUMA domains", file.numa), ("L3 caches", file.l3)):
        if domains:
            lines.append(f"{name}: {' | '.join(format_cores(each) for each in domains)}")
    for index, gpu in enumerate(file.gpus):
        near = f"cores {format_cores(gpu.cores)}" if gpu.cores else "cores not known"
        lines.append(f"GPU {index}: {near}" + (f", {gpu.nic}" if gpu.nic else ""))
    version = f" {file.launcher_version}" if file.launcher_version else ""
    lines.append(f"launcher: {file.launcher}{version}; scheduler: {file.scheduler or 'none'}")
    return lines


def limits_text(queue: SiteQueue) -> str:
    """`12 h; 1 to 91 nodes 2 h`."""
    whole = [duration(queue.walltime)] if queue.walltime is not None else []
    return "; ".join([*whole, *(f"{a} to {b} nodes {duration(t)}" for a, b, t in _limits(queue))]) or NOTHING


def _limits(queue: SiteQueue) -> list[tuple[int, int, float]]:
    return [(*limit.nodes, limit.walltime) for limit in queue.limits]


def note_text(queue: SiteQueue) -> str:
    """What users should know of a queue."""
    return ("routing; " if queue.routing else "") + (queue.note or ("" if queue.routing else NOTHING))
