"""The figures of a report by their names, and whether a run met what its pipeline expects of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from workflow.conditions import COMPARATORS
from workflow.errors import EXIT_VIOLATED
from workflow.plan.plan_model import ExpectationPlan
from workflow.report.report_model import (
    ExpectationPart,
    ExpectationState,
    RankSpread,
    Report,
    StagePart,
    StepTimes,
    StreamPart,
)
from workflow.report_figures import OWN, RUN, STAGE, STREAM, to_figure_name
from workflow.run.records.run_directory import OWN_FIGURES_FILE
from workflow.spec.suggest import did_you_mean, listing


def figures_of(report: Report) -> dict[str, float]:
    """All figures of a run that are known, by name."""
    found: dict[str, float | None] = {f"run.{field}": getattr(report.run, field) for field in RUN}
    for stage in report.stages:
        found |= {f"stages.{stage.name}.{field}": _stage_figure(stage, field) for field in STAGE}
        found |= {f"stages.{stage.name}.{OWN}{name}": value for name, value in stage.figures.items()}
    for stream in report.streams:
        found |= {f"streams.{stream.name}.{field}": _stream_figure(stream, field) for field in STREAM}
    return {name: value for name, value in found.items() if value is not None}


def _stage_figure(stage: StagePart, field: str) -> float | None:
    """A field of the report, or what follows from two of them."""
    match field:
        case "step_rate":
            return stage.steps_out / stage.wall_s if stage.steps_out and stage.wall_s else None
        case "step_s":
            parts = stage.compute_s, stage.device_s, stage.io_s, stage.wait_s
            steps = max(stage.steps_out or 0, stage.steps_in or 0)
            return sum(part or 0.0 for part in parts) / steps if steps and stage.compute_s is not None else None
        case "step_p50_s" | "step_p95_s" | "step_max_s":
            return _of_steps(stage.step_times, field)
        case "compute_imbalance":
            return _imbalance(stage.compute_ranks)
        case "compute_share":
            return stage.share("compute")
        case "device_s":
            return _device_s(stage)
        case "device_share":
            device_s = _device_s(stage)
            return None if device_s is None or not stage.wall_s else device_s / stage.wall_s
        case "io_share":
            return stage.share("io")
        case "wait_share":
            return stage.share("wait")
    value: float | None = getattr(stage, field)
    return value


def _device_s(stage: StagePart) -> float | None:
    """0 for a stage with metrics that copied nothing: it does meet what is expected of it."""
    return 0.0 if stage.device_s is None and stage.compute_s is not None else stage.device_s


def _stream_figure(stream: StreamPart, field: str) -> float | None:
    """A field of the report; of its readers, that of the slowest, or of the one that dropped most."""
    match field:
        case "write_p50_s" | "write_p95_s" | "write_max_s":
            return _of_steps(stream.write_times, field)
        case "write_imbalance":
            return _imbalance(stream.write_ranks)
        case "load_s":
            return _largest(each.io_s for each in stream.readers)
        case "load_p50_s" | "load_p95_s" | "load_max_s":
            return _largest(_of_steps(each.load_times, field) for each in stream.readers)
        case "load_imbalance":
            return _largest(_imbalance(each.load_ranks) for each in stream.readers)
        case "load_rate":
            return min((each.transfer_rate for each in stream.readers if each.transfer_rate is not None), default=None)
        case "dropped":
            counts = [each.dropped for each in stream.readers]
            known = [count for count in counts if count is not None]
            return max(known) if known and len(known) == len(counts) else None
    value: float | None = getattr(stream, field)
    return value


def _of_steps(times: StepTimes | None, field: str) -> float | None:
    """The value of `NAME_p95_s` and so on."""
    value: float | None = getattr(times, field.split("_")[1], None)
    return value


def _imbalance(ranks: RankSpread | None) -> float | None:
    return None if ranks is None else ranks.imbalance


def _largest(values: Iterable[float | None]) -> float | None:
    """Of the values that are known."""
    return max((value for value in values if value is not None), default=None)


def with_expectations(
    report: Report,
    expected: Sequence[ExpectationPlan],
    figures: Mapping[str, float],
    judged: Sequence[ExpectationPart] | None = None,
) -> Report:
    """The report with what was expected beside what was measured, `figures`, and the exit code that follows.

    `judged`: what was found when the run ended, where that was kept.
    """
    over = report.run.state == "succeeded"
    found = list(judged) if over and judged is not None else judge(expected, figures, over=over)
    changed: dict[str, object] = {"expectations": found}
    if violations(found):
        changed["run"] = report.run.model_copy(update={"exit_code": EXIT_VIOLATED})
    return report.model_copy(update=changed) if found else report


def judge(
    expected: Sequence[ExpectationPlan], figures: Mapping[str, float], *, over: bool = True
) -> list[ExpectationPart]:
    """Each expectation, beside the figure that was measured. `over`: whether the run has succeeded."""
    return [_judged(each, figures.get(each.figure), over) for each in expected]


def violations(judged: Sequence[ExpectationPart]) -> list[ExpectationPart]:
    """Those that were not kept."""
    return [each for each in judged if each.is_violated]


def why_not_measured(figure: str, known: Collection[str], problem: str) -> str:
    """Why a figure that the program of a stage was to measure is not known, and what was meant; empty for others.

    Args:
        figure: its whole name, `stages.one.figures.bandwidth`.
        known: names of the figures that the stage has.
        problem: what is wrong with its figures.json, or with some of them.
    """
    name = to_figure_name(figure)
    if name is None or not name.is_own:
        return ""
    own = name.field.removeprefix(OWN)
    if problem and (not known or f"`{own}`" in problem):
        return f"{name.name}: {problem}"
    if not known:
        return f"{name.name} wrote no {OWN_FIGURES_FILE}"
    hint = did_you_mean(own, known) or f"figures of {name.name}: {listing(known)}"
    return f"{name.name} measured no `{own}`; {hint}"


def _judged(each: ExpectationPlan, measured: float | None, over: bool) -> ExpectationPart:
    state: ExpectationState = "not_checked"
    if over and measured is None:
        state = "not_measured"
    elif over and measured is not None:
        state = "met" if COMPARATORS[each.comparator](measured, each.value) else "violated"
    place = f"{each.source}:{each.line}:{each.column}" if each.line else each.source
    return ExpectationPart(
        figure=each.figure, expected=each.expected, limit=each.value, unit=each.unit, measured=measured, state=state,
        key=each.key, place=place,
    )  # fmt: skip
