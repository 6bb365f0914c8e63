"""The expectations of a pipeline in its plan; those that can never be measured are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflow.plan.plan_model import ExpectationPlan, StagePlan, StreamPlan
from workflow.plan.plan_notes import Problems
from workflow.report_figures import FigureName, to_figure_name
from workflow.spec.expectations import expectations_of
from workflow.spec.models.pipeline import PipelineSpec

# Of its readers, not of its writer.
_OF_READERS = ("load_s", "load_rate")


def plan_expectations(
    spec: PipelineSpec, stages: Sequence[StagePlan], streams: Sequence[StreamPlan], problems: Problems
) -> list[ExpectationPlan]:
    """All expectations of the run, its stages and its streams, in the order of the file."""
    by_stage, by_stream = {stage.name: stage for stage in stages}, {stream.name: stream for stream in streams}
    found = []
    for figure, key, condition in expectations_of(spec):
        name = to_figure_name(figure)
        assert name is not None, "the check of the file has let only such names pass"
        if why := _never_measured(name, by_stage, by_stream):
            problems.add(key, *why)
        source, line, column = problems.place(key)
        found.append(
            ExpectationPlan(
                figure=figure, comparator=condition.comparator, value=condition.value, unit=name.figure.unit,
                expected=condition.text, key=key, source=source, line=line, column=column,
            )
        )  # fmt: skip
    return found


def _never_measured(
    name: FigureName, stages: Mapping[str, StagePlan], streams: Mapping[str, StreamPlan]
) -> tuple[str, str] | None:
    """Message and hint, where no run of this plan can measure a figure: the expectation would always fail."""
    if name.section == "streams" and (stream := streams.get(name.name)) is not None:
        if name.field == "longest_queue" and stream.coupling == "after":
            return f"a stream with `via: {stream.via}` has no queue here: it is read afterwards", "remove it"
        if name.field == "stored" and stream.traits.in_memory:
            return f"a stream with `via: {stream.via}` has no file", "expect `bytes` instead"
    if (name.section, name.field) == ("run", "overlap") and len(stages) == 1:
        return "one stage overlaps with no other", "remove it"
    ends = _recorded_by(name, streams)
    # A stream without a writer is a mistake that is reported elsewhere.
    silent = [each for each in ends if each in stages and stages[each].observed == "evidence"]
    if name.is_own or name.figure.own_program or not ends or len(silent) < len(ends):
        return None
    listed = " and ".join(silent)
    hint = "only programs that use workflow.stage report it; `wall_s` of the run is known for all programs"
    return f"the program of {listed} does not report {name.field}", hint


def _recorded_by(name: FigureName, streams: Mapping[str, StreamPlan]) -> list[str]:
    """The stages one of which must keep metrics for this figure; [] of the run as a whole."""
    if name.section == "stages":
        return [name.name]
    if name.section == "streams" and (stream := streams.get(name.name)) is not None:
        return list(stream.readers) if name.field in _OF_READERS else [stream.writer]
    return []
