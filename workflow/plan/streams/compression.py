"""`output.compression` of a stage → the operators of each stream that it writes. Pure.

What each operator can do: workflow.operators. Their parameters: source/adios2/operator/compress/Compress*.cpp of
ADIOS2 2.12.1. ADIOS2 aborts the process that names an operator which it was not built with, so that is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workflow.operators import EVERY, LOSSY, refusal
from workflow.plan.making import Making
from workflow.plan.plan_model import OperatorPlan
from workflow.plan.streams.transports import BUILD
from workflow.plan.topology.ports import StagePort
from workflow.plan.topology.variable_contracts import Contract
from workflow.spec.models.config_dialect import OPENPMD
from workflow.spec.models.engine import Engine
from workflow.spec.models.output import Compressor
from workflow.spec.models.pipeline import Variable
from workflow.spec.suggest import did_you_mean, listing

# SST hands compressed blocks over whole; HDF5 and files that wf only hands over have no operators of ADIOS2.
ENGINES = ("BP5", "BP4", "SST")
_SHUFFLES = {"none": "BLOSC_NOSHUFFLE", "shuffle": "BLOSC_SHUFFLE", "bitshuffle": "BLOSC_BITSHUFFLE"}


def decide_operators(
    port: StagePort, stream: str, engine: Engine, contract: Contract | None, making: Making
) -> dict[str, OperatorPlan]:
    """Variable → operator of one writing end. Notes what cannot be."""
    output = making.loaded.spec.stages[port.stage].output
    wanted = output.compression
    if not wanted or (output.async_ == "pipe" and stream in making.loaded.implicit_streams):
        return {}  # to the pipe, which compresses
    key = f"stages.{port.stage}.output.compression"
    if engine.engine not in ENGINES:
        making.notes.why(key, f"no effect on stream {stream}: {engine.engine} has no operators")
        making.notes.advise(f"{key} has no effect on stream {stream}: {engine.engine} has no operators of ADIOS2")
        return {}
    known: dict[str, Variable] = {**(port.variables or {}), **(contract.writer if contract is not None else {})}
    _check_built(port, wanted.values(), key, making)
    found: dict[str, OperatorPlan] = {}
    for name, compressor in wanted.items():
        if name == EVERY:
            found |= _every(port, known, set(wanted), compressor, making)
        elif port.variables is None or name in port.variables:
            _check_variable(name, compressor, known.get(name), key, making)
            found[name] = to_operator(compressor)
    _check_dialect(port, found, key, making)
    for name, operator in found.items():
        making.notes.why(f"streams.{stream}.write.operators.{name}", _why(operator, key, making))
    _advise(port, stream, engine, found, making)
    return found


def to_operator(compressor: Compressor) -> OperatorPlan:
    """The operator as ADIOS2 takes it."""
    parameters: dict[str, str] = {}
    bound = 0.0
    if compressor.blosc is not None:
        each = compressor.blosc
        parameters = {
            "compressor": each.codec, "clevel": str(each.level),
            "doshuffle": _SHUFFLES[each.shuffle], "nthreads": str(each.threads),
        }  # fmt: skip
    elif compressor.zfp is not None:
        bound = compressor.zfp.accuracy if compressor.bound is None else compressor.bound
        parameters = {"accuracy": f"{compressor.zfp.accuracy:.12g}"}
    elif compressor.bzip2 is not None:
        parameters = {"blockSize100k": str(compressor.bzip2.level)}
    return OperatorPlan(type=compressor.operator, parameters=parameters, bound=bound)


def check_names(stage: str, ports: Iterable[StagePort], making: Making) -> None:
    """Notes variables that no port of the stage writes."""
    declared = [port.variables for port in ports]
    if not declared or any(variables is None for variables in declared):
        return
    names = [name for variables in declared for name in variables or {}]
    for name in making.loaded.spec.stages[stage].output.compression:
        if name != EVERY and name not in names:
            hint = did_you_mean(name, names) or f"{stage} writes: {listing(names)}"
            making.problems.add(f"stages.{stage}.output.compression.{name}", f"{stage} writes no `{name}`", hint)


def _check_built(port: StagePort, wanted: Iterable[Compressor], key: str, making: Making) -> None:
    site = making.site
    built = making.built.get(port.stage) if site.operators is None else list(site.operators)
    if built is None:
        making.notes.advise(
            f"stage {port.stage}: it is not known which operators its ADIOS2 was built with; one that is missing "
            "ends the program: `wf doctor` and `bpls -vV` show them"
        )
        return
    for operator in dict.fromkeys(each.operator for each in wanted):
        if operator not in built:
            has = f"it has {', '.join(built)}" if built else "it has none"
            making.problems.add(
                key,
                f"the ADIOS2 of stage {port.stage} is built without {operator}: {has}",
                f"{BUILD.format('blosc, bzip2 and zfp')}; or use another operator",
            )


def _check_variable(name: str, compressor: Compressor, known: Variable | None, key: str, making: Making) -> None:
    if known is None:
        return
    dimensions = None if known.shape is None else len(known.shape)
    why = refusal(compressor.operator, known.type, dimensions)
    if why:
        hint = "remove it" if dimensions == 0 or known.type == "string" else "use `blosc`, which changes no bit"
        making.problems.add(f"{key}.{name}", f"{compressor.operator} cannot compress `{name}`: {why}", hint)


def _every(
    port: StagePort, known: Mapping[str, Variable], named: set[str], compressor: Compressor, making: Making
) -> dict[str, OperatorPlan]:
    """What `*` stands for: workflow.stage and openPMD find it out themselves, ADIOS2's files need names."""
    if making.loaded.spec.stages[port.stage].uses_stage or port.dialect in OPENPMD:
        return {EVERY: to_operator(compressor)}
    return {
        name: to_operator(compressor)
        for name, variable in known.items()
        if name not in named and variable.type is not None and variable.shape
        and not refusal(compressor.operator, variable.type, len(variable.shape))
    }  # fmt: skip


def _check_dialect(port: StagePort, found: Mapping[str, OperatorPlan], key: str, making: Making) -> None:
    if making.loaded.spec.stages[port.stage].uses_stage:
        return
    wanted = making.loaded.spec.stages[port.stage].output.compression
    if port.dialect is None:
        making.problems.add(
            key,
            f"stage {port.stage} is told nothing of port {port.name}, so neither what to compress it with",
            f"let it read a config file: `writes: {{{port.name}: {{config: adios2.xml}}}}`",
        )
    elif port.dialect == "env":
        making.problems.add(
            key, "openPMD-api has no environment variable for operators", "let it read a file: `config: openpmd.json`"
        )
    elif port.dialect in OPENPMD:
        if names := [name for name in wanted if name != EVERY]:
            making.problems.add(
                f"{key}.{names[0]}", "openPMD programs are told one operator for all datasets", 'name them all: `"*"`'
            )
    elif EVERY in wanted and not found:
        making.problems.add(
            f"{key}.{EVERY}",
            f"ADIOS2's config files name every variable, and what {port.stage} writes is not declared",
            f"write the names instead of `*`, or declare them: `writes: {{{port.name}: {{variables: …}}}}`",
        )


def _why(operator: OperatorPlan, key: str, making: Making) -> str:
    said = " ".join(f"{name}={value}" for name, value in operator.parameters.items())
    kept = f"errors of at most {operator.bound:g}" if operator.type in LOSSY else "no bit is changed"
    return f"{operator.type} {said}: {kept} ({making.loaded.origins.of(key)})"


def _advise(port: StagePort, stream: str, engine: Engine, found: Mapping[str, OperatorPlan], making: Making) -> None:
    if found and not making.loaded.spec.stages[port.stage].uses_stage:
        making.notes.advise(
            f"stream {stream}: what compression does to its values is not checked, {port.stage} does not use "
            "workflow.stage"
        )
    if found and engine.engine == "SST":
        making.notes.advise(
            f"stream {stream}: a reader of part of a compressed block gets and decompresses the whole of it"
        )
