"""Checks engine parameters against the engine's list, and converts them to the text that ADIOS2 takes.

ADIOS2 ignores names that it does not know (SST even when only the case differs) and throws at Open, in
the middle of an allocation, for values that it cannot read. So everything is refused here first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from workflow.formats.step_files import NUMBERED_NAME
from workflow.plan.plan_model import Coupling, Placement
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.streams.aggregation import advise_aggregation, aggregation_parameters
from workflow.plan.streams.compression import check_names
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StagePorts
from workflow.site.site_model import Site
from workflow.spec.models.engine import Engine, EngineParameter
from workflow.spec.models.pipeline import Scalar, StreamSpec
from workflow.spec.models.units import to_bytes
from workflow.spec.suggest import did_you_mean, listing

EngineSettings = dict[str, tuple[str, str]]  # engine parameter → (value, reason)
# choices that YAML 1.1 readers turn into booleans
_TRUE_WORDS, _FALSE_WORDS = ("on", "true", "yes"), ("off", "false", "no")


class ParameterError(ValueError):
    """One engine parameter that cannot be used; `hint` is what to do instead."""

    def __init__(self, message: str, hint: str = "", unknown: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.unknown = unknown


def known_name(engine: Engine, name: str) -> str:
    """The engine's own spelling of `name`. Raises ParameterError when there is none.

    Engines that lower-case names before they look take any case; others compare exactly.
    """
    if name in engine.parameters:
        return name
    if engine.traits.any_case:
        for known in engine.parameters:
            if known.lower() == name.lower():
                return known
    if not engine.parameters:
        raise ParameterError(f"engine {engine.engine} takes no parameters", "remove it", unknown=True)
    useful = [known for known, info in engine.parameters.items() if not (info.managed or info.useless)]
    hint = did_you_mean(name, engine.parameters) or f"{engine.engine} takes: {listing(useful, 40)}"
    raise ParameterError(
        f"engine {engine.engine} has no parameter `{name}` (it would ignore it silently)", hint, unknown=True
    )


def user_parameter(engine: Engine, name: str, value: Scalar) -> tuple[str, str]:
    """(name, value) as ADIOS2 takes them. Raises ParameterError for anything but a useful setting."""
    name = known_name(engine, name)
    known = engine.parameters[name]
    if known.managed:
        raise ParameterError(f"{name} is set by wf", known.managed)
    if known.useless:
        raise ParameterError(f"{name} is of no use here", known.useless)
    return name, to_text(name, known, value)


def to_text(name: str, known: EngineParameter, value: Scalar) -> str:
    """`value` as text that ADIOS2 reads. Raises ParameterError for a wrong type, choice or range."""
    if known.type == "bool":
        return _bool(name, known, value)
    if known.type == "choice":
        return _choice(name, known, value)
    if known.type == "string":
        return _word(value)
    return _number(name, known, value)


def _word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bool(name: str, known: EngineParameter, value: Scalar) -> str:
    word = _word(value).lower()
    if word in _TRUE_WORDS or word in _FALSE_WORDS:
        return "true" if word in _TRUE_WORDS else "false"
    raise ParameterError(f"expected true or false, got {value!r}", f"{name}: {known.help}")


def _choice(name: str, known: EngineParameter, value: Scalar) -> str:
    wanted, choices = [_word(value).lower()], known.choices or []
    if isinstance(value, bool):
        wanted += _TRUE_WORDS if value else _FALSE_WORDS
    for choice in choices:
        if choice.lower() in wanted:
            return choice
    hint = did_you_mean(str(value), choices) or f"{name}: {known.help}"
    raise ParameterError(f"expected one of {', '.join(choices)}, got {value!r}", hint)


def _number(name: str, known: EngineParameter, value: Scalar) -> str:
    expected = {"int": "a whole number", "size": "a size such as 16 MB", "float": "a number"}[known.type]
    if known.min is not None:
        expected += f" of at least {known.min:g}"
    if known.max is not None:
        expected += f"{' and' if known.min is not None else ' of'} at most {known.max:.12g}"
    wrong = ParameterError(f"expected {expected}, got {value!r}", f"{name}: {known.help}")
    number: Scalar = value
    if known.type == "size":
        try:
            number = to_bytes(value)
        except ValueError:
            raise wrong from None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise wrong
    if known.type != "float" and number != int(number):
        raise wrong
    if (known.min is not None and number < known.min) or (known.max is not None and number > known.max):
        raise wrong
    return f"{number:.12g}" if known.type == "float" else str(int(number))


# A stage's output policies (aggregation, async) as engine parameters of the file streams that it writes.
#
# BP5 parameters: source/adios2/engine/bp5/BP5Engine.h of ADIOS2 2.12.1.


def check_output_policies(
    stages: Mapping[str, DeclaredStage],
    ports: Mapping[str, StagePorts],
    streams: Iterable[StreamSpec],
    problems: Problems,
) -> None:
    """Notes a policy of a stage that writes no stream, or of variables that it does not write."""
    writers = {stream.from_.partition(".")[0] for stream in streams}
    for name, stage in stages.items():
        policy = stage.spec.output
        check_names(stage, ports[name].write.values(), problems)
        plain = policy.aggregation is None and policy.async_ == "off" and policy.files == "one"
        if plain and not policy.compression:
            continue
        if name not in writers:
            message = f"stage {name} writes no stream, and `output` is about streams"
            problems.add(f"stages.{name}.output", message, "remove it")


def output_parameters(
    writer: DeclaredStage, stream: JoinedStream, coupling: Coupling, placement: Placement, site: Site, notes: Notes
) -> EngineSettings:
    """The engine parameters that the writing stage's `output:` gives this stream."""
    policy, engine = writer.spec.output, stream.engine
    found: EngineSettings = {}
    if policy.async_ == "pipe" and stream.into_pipe:
        return {}  # the pipe, which writes the file, has the policies
    if policy.aggregation is not None:
        if "NumAggregators" in engine.parameters:
            found.update(aggregation_parameters(writer, policy.aggregation, stream, placement, site, notes))
        else:
            _note_no_effect(f"stages.{writer.name}.output.aggregation", stream, notes)
    elif "NumAggregators" in engine.parameters:
        advise_aggregation(stream.name, placement, site, notes)
    if policy.async_ == "pipe":
        _note_no_effect(f"stages.{writer.name}.output.async", stream, notes)
    elif policy.async_ != "off":
        if "AsyncWrite" in engine.parameters:
            found["AsyncWrite"] = _async(writer.name, stream, policy.async_, coupling, notes)
        else:
            _note_no_effect(f"stages.{writer.name}.output.async", stream, notes)
    return found


def _async(stage: str, stream: JoinedStream, wanted: str, coupling: Coupling, notes: Notes) -> tuple[str, str]:
    if coupling == "live":
        notes.advise(
            f"stream {stream.name}: with `async: {wanted}` a live reader sees each step only when the next one begins, "
            f"and a killed writer loses its last step; `stages.{stage}.output.async: off` avoids both"
        )
    return to_text("AsyncWrite", stream.engine.parameters["AsyncWrite"], wanted), f"output.async: {wanted}"


def _note_no_effect(key: str, stream: JoinedStream, notes: Notes) -> None:
    """Advice, not a mistake: the policy may stay in the file for runs with `--via bp5`."""
    engine = stream.engine
    why = "hands steps from memory to memory" if engine.traits.in_memory else "has no such setting"
    notes.why(key, f"no effect on stream {stream.name}: {engine.engine} {why}")
    notes.advise(f"{key} has no effect on stream {stream.name}: {engine.engine} {why}; it has with `--via bp5`")


# `output.files: each_step`: a BP stream as one output per step. Pure.
#
# Only `workflow.stage` writes and reads it (`workflow.formats.step_files`): a program that opens an engine itself opens
# one path.


def name_in_directory(stream: JoinedStream, stages: Mapping[str, DeclaredStage]) -> str:
    """The name of the files of a stream that has one per step; empty for other streams."""
    return NUMBERED_NAME if _asked(stream, stages) and stream.engine.traits.counted_by == "index" else ""


def check_step_outputs(
    stream: JoinedStream, coupling: Coupling, stages: Mapping[str, DeclaredStage], notes: Notes
) -> None:
    """Notes who cannot write or read such a stream, and what has no effect on it."""
    if not _asked(stream, stages) or stream.writer is None:
        return
    writer, engine = stages[stream.writer.stage], stream.engine
    key = f"stages.{writer.name}.output.files"
    # What is read must tell that a file is whole: only those with an index do.
    if engine.traits.counted_by != "index":
        if not stream.into_pipe:
            why = "hands steps from memory to memory" if engine.traits.in_memory else "has no steps in files of its own"
            notes.why(key, f"no effect on stream {stream.name}: {engine.engine} {why}")
            notes.advise(f"{key} has no effect on stream {stream.name}: {engine.engine} {why}; it has with `--via bp5`")
        return
    notes.why(f"streams.{stream.name}.path", f"`files: each_step` of stage {writer.name}: one output per step")
    if coupling == "live":
        notes.problems.add(
            key,
            f"a live reader cannot follow stream {stream.name} from output to output",
            f"write `files: one`, or `coupling: after` in streams.{stream.name}",
        )
    for port in stream.ports:
        if not stages[port.stage].spec.uses_stage:
            notes.problems.add(
                key,
                f"stage {port.stage} {port.side}s stream {stream.name} without workflow.stage: it opens one output",
                "write `files: one`",
            )
    if writer.spec.output.async_ in ("guided", "naive"):
        notes.advise(
            f"stages.{writer.name}.output.async hides little of stream {stream.name}: with `files: each_step` every "
            "step ends with closing its output, which waits until it is written"
        )


def _asked(stream: JoinedStream, stages: Mapping[str, DeclaredStage]) -> bool:
    return stream.writer is not None and stages[stream.writer.stage].spec.output.files == "each_step"
