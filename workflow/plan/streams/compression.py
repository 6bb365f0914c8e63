"""`output.compression` of a stage → the operators of each stream that it writes. Pure.

What each operator can do: workflow.operators. Their parameters: workflow.spec.models.stage_policies. ADIOS2 aborts the
process that names an operator which it was not built with, so that is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workflow.operators import EVERY, IN_WORDS, LOSSY, refusal
from workflow.plan.plan_model import OperatorPlan
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.streams.transports import better_adios2
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StagePort
from workflow.plan.topology.variable_contracts import Contract
from workflow.site.site_model import Site
from workflow.spec.models.pipeline import TypeAndShape
from workflow.spec.models.stage_policies import OPENPMD, Compressor
from workflow.spec.origins import Origins
from workflow.spec.suggest import did_you_mean, listing


def decide_operators(
    port: StagePort,
    stream: JoinedStream,
    stage: DeclaredStage,
    contract: Contract | None,
    site: Site,
    origins: Origins,
    notes: Notes,
) -> dict[str, OperatorPlan]:
    """Variable → operator of one writing end. Notes what cannot be compressed so."""
    wanted = stage.spec.output.compression
    if not wanted or (stage.spec.output.async_ == "pipe" and stream.into_pipe):
        return {}  # the pipe, which writes the file, compresses
    key, engine = f"stages.{stage.name}.output.compression", stream.engine.engine
    if not stream.engine.traits.compresses:
        notes.why(key, f"no effect on stream {stream.name}: {engine} has no operators")
        notes.advise(f"{key} has no effect on stream {stream.name}: {engine} has no operators of ADIOS2")
        return {}
    known: dict[str, TypeAndShape] = {**(port.variables or {}), **(contract.writer if contract is not None else {})}
    _check_built(stage, wanted.values(), key, site, notes)
    found: dict[str, OperatorPlan] = {}
    for name, compressor in wanted.items():
        if name == EVERY:
            found |= _every(port, stage, known, set(wanted), compressor)
        elif port.variables is None or name in port.variables:
            _check_variable(name, compressor, known.get(name), key, notes.problems)
            found[name] = to_operator(compressor)
    _check_dialect(port, stage, found, key, notes.problems)
    for name, operator in found.items():
        notes.why(f"streams.{stream.name}.write.operators.{name}", _why(operator, origins.of(key)))
    _advise(stage, stream, found, notes)
    return found


def to_operator(compressor: Compressor) -> OperatorPlan:
    """The operator as ADIOS2 takes it."""
    settings = compressor.settings
    bound = settings.largest_error if compressor.bound is None else compressor.bound
    return OperatorPlan(type=compressor.operator, parameters=settings.parameters, bound=bound)


def check_names(stage: DeclaredStage, ports: Iterable[StagePort], problems: Problems) -> None:
    """Notes variables that no port of the stage writes."""
    declared = [port.variables for port in ports]
    if not declared or any(variables is None for variables in declared):
        return
    names = [name for variables in declared for name in variables or {}]
    for name in stage.spec.output.compression:
        if name != EVERY and name not in names:
            hint = did_you_mean(name, names) or f"{stage.name} writes: {listing(names)}"
            key = f"stages.{stage.name}.output.compression.{name}"
            problems.add(key, f"{stage.name} writes no `{name}`", hint)


def _check_built(stage: DeclaredStage, wanted: Iterable[Compressor], key: str, site: Site, notes: Notes) -> None:
    built = stage.operators if site.operators is None else list(site.operators)
    if built is None:
        notes.advise(
            f"stage {stage.name}: it is not known which operators its ADIOS2 was built with; one that is missing "
            f"aborts the program: `wf doctor` and `bpls -vV` show them; write them as `operators:` of site {site.site}"
        )
        return
    for operator in dict.fromkeys(each.operator for each in wanted):
        if operator not in built:
            has = f"it has {', '.join(built)}" if built else "it has none"
            notes.problems.add(
                key,
                f"the ADIOS2 of stage {stage.name} is built without {operator}: {has}",
                f"{better_adios2(site, [operator], IN_WORDS)}; or use another operator",
            )


def _check_variable(
    name: str, compressor: Compressor, known: TypeAndShape | None, key: str, problems: Problems
) -> None:
    if known is None:
        return
    dimensions = None if known.shape is None else len(known.shape)
    why = refusal(compressor.operator, known.type, dimensions)
    if why:
        hint = "remove it" if dimensions == 0 or known.type == "string" else "use `blosc`, which is lossless"
        problems.add(f"{key}.{name}", f"{compressor.operator} cannot compress `{name}`: {why}", hint)


def _every(
    port: StagePort, stage: DeclaredStage, known: Mapping[str, TypeAndShape], named: set[str], compressor: Compressor
) -> dict[str, OperatorPlan]:
    """What `*` stands for: workflow.stage and openPMD resolve it themselves, ADIOS2's files need names."""
    if stage.spec.uses_stage or port.dialect in OPENPMD:
        return {EVERY: to_operator(compressor)}
    return {
        name: to_operator(compressor)
        for name, variable in known.items()
        if name not in named and variable.type is not None and variable.shape
        and not refusal(compressor.operator, variable.type, len(variable.shape))
    }  # fmt: skip


def _check_dialect(
    port: StagePort, stage: DeclaredStage, found: Mapping[str, OperatorPlan], key: str, problems: Problems
) -> None:
    if stage.spec.uses_stage:
        return
    wanted = stage.spec.output.compression
    if port.dialect is None:
        problems.add(
            key,
            f"stage {port.stage} gets no config for port {port.name}, so its operators cannot be set",
            f"let it read a config file: `writes: {{{port.name}: {{config: adios2.xml}}}}`",
        )
    elif port.dialect == "env":
        problems.add(
            key, "openPMD-api has no environment variable for operators", "let it read a file: `config: openpmd.json`"
        )
    elif port.dialect in OPENPMD:
        if names := [name for name in wanted if name != EVERY]:
            problems.add(
                f"{key}.{names[0]}", "openPMD programs use one operator for all datasets", 'name them all: `"*"`'
            )
    elif EVERY in wanted and not found:
        problems.add(
            f"{key}.{EVERY}",
            f"ADIOS2's config files name every variable, and the variables of {port.stage} are not declared",
            f"write the names instead of `*`, or declare them: `writes: {{{port.name}: {{variables: …}}}}`",
        )


def _why(operator: OperatorPlan, where: str) -> str:
    said = " ".join(f"{name}={value}" for name, value in operator.parameters.items())
    kept = f"errors of at most {operator.bound:g}" if operator.type in LOSSY else "no bit is changed"
    return f"{operator.type} {said}: {kept} ({where})"


def _advise(stage: DeclaredStage, stream: JoinedStream, found: Mapping[str, OperatorPlan], notes: Notes) -> None:
    if found and not stage.spec.uses_stage:
        notes.advise(
            f"stream {stream.name}: what compression does to its values is not checked, {stage.name} does not use "
            "workflow.stage"
        )
    if found and stream.engine.traits.in_memory:  # it is handed over whole
        notes.advise(
            f"stream {stream.name}: a reader of part of a compressed block receives and decompresses the whole block"
        )
