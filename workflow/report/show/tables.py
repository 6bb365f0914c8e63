"""Figures as tables of text: the same for the terminal and the page. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from workflow.compare.comparison import Comparison, Difference
from workflow.formatting import NOTHING, duration, number, percent, plural, rate, size
from workflow.launch.launchers import launch_line
from workflow.plan.launch_requests import group_request, node_names, stage_request
from workflow.plan.plan_model import RUN_DIR, OperatorPlan, Plan, StagePlan, StreamPlan
from workflow.report.report_model import Report, StagePart, StreamPart
from workflow.spec.models.component import Component, Port

# What a rate is: not the data ÷ the time of the run.
PERCEIVED = "data ÷ the time that this end itself spent moving it (writers: and waiting for room in the queue)"


class Table(NamedTuple):
    """A head of (title, is a number), and rows of as many texts; the first column holds names."""

    head: list[tuple[str, bool]]
    rows: list[list[str]]


def text(title: str) -> tuple[str, bool]:
    """The head of a column of text."""
    return title, False


def figure(title: str) -> tuple[str, bool]:
    """The head of a column of numbers."""
    return title, True


def report_stages(report: Report) -> Table:
    """What each stage did."""
    head = [
        text("stage"), text("program"), figure("ranks"), text("state"), figure("exit"), figure("time"),
        figure("computing"), figure("moving data"), figure("waiting"), figure("steps in"), figure("steps out"),
    ]  # fmt: skip
    return Table(head, [_report_stage(stage) for stage in report.stages])


def _report_stage(stage: StagePart) -> list[str]:
    return [
        stage.name, stage.program, str(stage.ranks), stage.state, exit_text(stage), duration(stage.wall_s),
        *(_with_share(stage, part) for part in ("compute", "io", "wait")),
        number(stage.steps_in), number(stage.steps_out),
    ]  # fmt: skip


def report_stages_short(report: Report) -> Table:
    """What each stage did, narrow enough for a terminal: shares of its time instead of seconds."""
    head = [
        text("stage"), figure("ranks"), text("state"), figure("exit"), figure("time"), figure("computing"),
        figure("moving"), figure("waiting"), figure("in"), figure("out"),
    ]  # fmt: skip
    rows = [
        [
            stage.name, str(stage.ranks), stage.state, exit_text(stage), duration(stage.wall_s),
            percent(stage.share("compute")), percent(stage.share("io")), percent(stage.share("wait")),
            number(stage.steps_in), number(stage.steps_out),
        ]
        for stage in report.stages
    ]  # fmt: skip
    return Table(head, rows)


def _with_share(stage: StagePart, part: str) -> str:
    share = stage.share(part)  # type: ignore[arg-type]
    seconds = duration(getattr(stage, f"{part}_s"))
    return seconds if share is None else f"{seconds} ({percent(share)})"


def launch_lines(plan: Plan) -> list[tuple[str, list[str]]]:
    """(stages, what is executed): one line for stages that are started together, and what each of them then runs.

    A line that names hosts has `node[0]` in place of the first host of the allocation.
    """
    lines, hosts = [], node_names(plan)
    for stage in plan.stages:
        group = plan.group_of(stage.name)
        if group is None:
            lines.append((stage.name, launch_line(stage_request(stage, hosts=hosts)).argv))
        elif stage.name == group.stages[0]:
            request = group_request(group, plan, hosts=hosts)
            lines.append((", ".join(group.stages), launch_line(request).argv))
            lines += [(f"  {name} there", plan.stage(name).program) for name in group.stages]
    return lines


def exit_text(stage: StagePart) -> str:
    """`0`, `signal 9`, or `-`."""
    return f"signal {stage.signal}" if stage.signal else number(stage.exit_code)


def report_streams(report: Report) -> Table:
    """What went through each stream; a row per reader, the stream's own figures only in the first."""
    head = [
        text("stream"), text("from, to"), text("engine"), figure("steps"), figure("data"), figure("written at"),
        figure("writer waits"), figure("read"), figure("read at"), text("limited by"),
    ]  # fmt: skip
    rows = []
    for stream in report.streams:
        for place, reader in enumerate(stream.readers):
            own = [
                f"{engine_text(stream)}, {stream.coupling}", number(stream.steps), size(stream.bytes),
                rate(stream.throughput), percent(stream.idle),
            ]  # fmt: skip
            lost = f" ({reader.dropped} not read)" if reader.dropped else ""
            rows.append(
                [
                    stream.name, f"{stream.writer} → {reader.stage}", *([""] * len(own) if place else own),
                    f"{number(reader.steps)}{lost}", rate(reader.throughput),
                    "" if place else stream.limited_by or NOTHING,
                ]
            )  # fmt: skip
    return Table(head, rows)


def report_streams_short(report: Report) -> Table:
    """What went through each stream, narrow enough for a terminal."""
    head = [
        text("stream"), text("from, to"), text("engine"), figure("written"), figure("read"), figure("data"),
        figure("rate"), text("limited by"),
    ]  # fmt: skip
    rows = [
        [
            stream.name, f"{stream.writer} → {reader.stage}", engine_text(stream),
            number(stream.steps), number(reader.steps), size(stream.bytes),
            rate(stream.throughput), stream.limited_by or NOTHING,
        ]
        for stream in report.streams
        for reader in stream.readers
    ]  # fmt: skip
    return Table(head, rows)


def engine_text(stream: StreamPart | StreamPlan) -> str:
    """`SST ucx`, `BP5`."""
    return f"{stream.engine} {stream.transport}" if stream.transport else stream.engine


def plan_stages(plan: Plan) -> Table:
    """What will be started, where and when."""
    head = [text("stage"), text("kind"), text("program"), figure("ranks"), text("nodes"), text("cores"), text("starts")]
    return Table(head, [_plan_stage(stage) for stage in plan.stages])


def _plan_stage(stage: StagePlan) -> list[str]:
    place = stage.placement
    starts = f"after {', '.join(stage.starts_after)}" if stage.starts_after else "at once"
    program = stage.component or shlex.join(stage.program)
    kind = f"{stage.kind} ({stage.added})" if stage.added else stage.kind
    return [stage.name, kind, program, str(stage.ranks), ranges(place.nodes), cores_text(place.cores), starts]


def plan_streams(plan: Plan) -> Table:
    """How the stages will be joined."""
    head = [text("stream"), text("from, to"), text("engine"), text("coupling"), text("queue"), text("path")]
    rows = []
    for stream in plan.streams:
        queue = f"{stream.queue.limit}, {stream.queue.when_full} when full" if stream.queue else "all steps on disk"
        queue += f", up to {size(stream.queue_memory)}" if stream.queue_memory else ""
        queue += f", {plural(stream.subfiles, 'data file')}" if stream.subfiles else ""
        path = stream.path.removeprefix(f"{RUN_DIR}/") + ("" if stream.keep else " (removed after the run)")
        ends = f"{stream.writer} → {', '.join(stream.readers)}"
        rows.append([stream.name, ends, engine_text(stream), stream.coupling, queue, path])
    return Table(head, rows)


def plan_ends(plan: Plan) -> Table:
    """The engine parameters at each end."""
    head = [text("stream"), text("end"), text("engine parameters")]
    rows = []
    for stream in plan.streams:
        for stage in plan.stages:
            for end in stage.ends:
                if end.stream == stream.name:
                    settings = [", ".join(f"{key}={value}" for key, value in sorted(end.parameters.items()))]
                    settings += [f"{name}: {_operator_text(each)}" for name, each in end.operators.items()]
                    said = "; ".join(each for each in settings if each)
                    rows.append([stream.name, f"{stage.name} {end.side}s", said or NOTHING])
    return Table(head, rows)


def _operator_text(operator: OperatorPlan) -> str:
    return " ".join([operator.type, *(f"{key}={value}" for key, value in operator.parameters.items())])


def plan_added(plan: Plan) -> Table:
    """The stages that are not written in the pipeline file, and why they are there."""
    added = [stage for stage in plan.stages if stage.added]
    rows = [[stage.name, plan.reasons.get(f"stages.{stage.name}", "")] for stage in added]
    return Table([text("added"), text("because")], rows)


def plan_environment(plan: Plan) -> Table:
    """What the processes of the stages are told by their environment, where that has a reason, and the reason."""
    stages: dict[tuple[str, str], list[str]] = {}
    for stage in plan.stages:
        for name, value in stage.env.items():
            why = plan.reasons.get(f"stages.{stage.name}.env.{name}")
            if why and name not in ("SstVerbose", "OMP_NUM_THREADS"):
                stages.setdefault((f"{name}={value}", why), []).append(stage.name)
    head = [text("stages"), text("environment"), text("because")]
    return Table(head, [[", ".join(names), *told] for told, names in stages.items()])


def plan_transports(plan: Plan) -> Table:
    """How SST moves the data of each stream, and why that way."""
    head = [text("stream"), text("transport"), text("because")]
    why = {stream.name: plan.reasons.get(f"streams.{stream.name}.transport", "") for stream in plan.streams}
    rows = [[each.name, each.transport or NOTHING, why[each.name]] for each in plan.streams if why[each.name]]
    return Table(head, rows)


def placement(plan: Plan) -> Table:
    """Which stages run on which cores of which nodes; nodes with the same stages share a row."""
    edges = sorted({edge for stage in plan.stages for span in stage.placement.nodes for edge in span})
    rows: list[list[str]] = []
    for first, end in pairwise(edges):
        here = [stage for stage in plan.stages if any(low <= first < high for low, high in stage.placement.nodes)]
        if here:
            stages = [f"{stage.name}: {cores_text(stage.placement.cores)}" for stage in here]
            rows.append([ranges([(first, end)]), "; ".join(stages)])
    return Table([text("nodes"), text("cores")], rows)


def ranges(spans: Sequence[tuple[int, int]]) -> str:
    """Half-open ranges as people write them: `0`, `0-3, 8`."""
    return ", ".join(str(low) if high - low == 1 else f"{low}-{high - 1}" for low, high in spans) or NOTHING


def cores_text(cores: Sequence[int]) -> str:
    """`0-3`, or `not bound`."""
    spans: list[tuple[int, int]] = []
    for core in sorted(cores):
        if spans and spans[-1][1] == core:
            spans[-1] = (spans[-1][0], core + 1)
        else:
            spans.append((core, core + 1))
    return ranges(spans) if spans else "not bound"


def components(found: Sequence[Component]) -> Table:
    """All components, one a row."""
    head = [text("component"), text("kind"), text("reads"), text("writes"), text("what it does")]
    rows = [[each.component, each.kind, _ports(each.reads), _ports(each.writes), each.summary] for each in found]
    return Table(head, rows)


def _ports(ports: dict[str, Port]) -> str:
    return ", ".join(ports) or NOTHING


def parameters(component: Component) -> Table:
    """The parameters of a component."""
    head = [text("parameter"), text("type"), text("default"), text("what it is")]
    rows = []
    for name, each in component.parameters.items():
        kind = f"{each.type} ({', '.join(map(str, each.choices))})" if each.choices else each.type
        default = "required" if each.required else NOTHING if each.default is None else str(each.default)
        rows.append([name, kind, default, each.help + (f" [{each.unit}]" if each.unit else "")])
    return Table(head, rows)


def port_variables(ports: dict[str, Port]) -> Table:
    """The variables of a component's ports."""
    head = [text("port"), text("variable"), text("type"), text("shape"), text("what it is")]
    rows = []
    for name, port in ports.items():
        if port.any:
            rows.append([name, "any", "any", "any", port.help])
        for variable, each in port.variables.items():
            shape = "any" if each.shape is None else f"[{', '.join(map(str, each.shape))}]"
            about = " ".join(part for part in (each.help, f"[{each.unit}]" if each.unit else "") if part)
            rows.append([name, variable, each.type or "any", shape, about + (" (optional)" if each.optional else "")])
    return Table(head, rows)


def differences(comparison: Comparison) -> Table:
    """Every difference that was found."""
    head = [
        text("file"), text("variable"), figure("step"), text("what"), text("A and B"), text("at"),
        figure("values"), figure("largest"), figure("relative"),
    ]  # fmt: skip
    return Table(head, [_difference(file.path, each) for file in comparison.files for each in file.differences])


def _difference(path: str, found: Difference) -> list[str]:
    step = NOTHING if found.step is None else str(found.step) + (f" (+{found.steps - 1})" if found.steps > 1 else "")
    values = f"{found.values} of {found.of}" if found.of else NOTHING
    amounts = [NOTHING if each is None else f"{each:.3g}" for each in (found.max_abs, found.max_rel)]
    at = f"[{', '.join(map(str, found.where))}]" if found.where else NOTHING
    return [path, found.name or NOTHING, step, found.what, found.message, at, values, *amounts]
