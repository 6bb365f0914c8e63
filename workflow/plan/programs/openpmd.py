"""Programs that write or read through openPMD-api: how each kind gets its engine and parameters.

Facts, of openPMD-api 0.17: a later one of these wins: defaults, file name extension, environment, JSON/TOML,
calls in the program (docs, "Backend-specific configuration"). The extension `.sst` is stripped from the name of
the ADIOS2 stream. WarpX: Source/Diagnostics/WarpXOpenPMD.cpp and FlushFormatOpenPMD.cpp; PIConGPU:
docs/source/usage/plugins/openPMD.rst.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath

from workflow.formatting import plural
from workflow.plan.plan_model import EndPlan
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import KEY_OF_SIDE, JoinedStream, StagePort
from workflow.spec.models.engine import Engine
from workflow.spec.models.stage_policies import OPENPMD
from workflow.spec.placeholder_syntax import scalar_text
from workflow.spec.suggest import did_you_mean, listing

# WarpX calls its series so, in the directory that it is given.
WARPX_SERIES = "openpmd"
MEBIBYTE = 1 << 20
# ADIOS2 parameter → openPMD-api's environment variable (src/IO/ADIOS/ADIOS2File.cpp)
_VARIABLES = {
    "NumAggregators": "OPENPMD_ADIOS2_BP5_NumAgg",
    "NumSubFiles": "OPENPMD_ADIOS2_BP5_NumSubFiles",
    "AggregationType": "OPENPMD_ADIOS2_BP5_TypeAgg",
    "StatsLevel": "OPENPMD_ADIOS2_STATS_LEVEL",
}
_MEBIBYTE_VARIABLES = {
    "BufferChunkSize": "OPENPMD_ADIOS2_BP5_BufferChunkMB",
    "MaxShmSize": "OPENPMD_ADIOS2_BP5_MaxShmMB",
}
_ASYNC = {"Guided": "1", "Sync": "0"}
# What openPMD-api sets where nobody else does (src/IO/ADIOS/ADIOS2File.cpp); all else has the default of its engine.
_BY_OPENPMD = {"QueueLimit": "2"}
# Settings that change speed, memory or timeouts, not results.
_BETTER = {
    "QueueLimit", "OpenTimeoutSecs", "BeginStepPollingFrequencySecs", "SpeculativePreloadMode", "ControlModule",
    "NetworkInterface",
}  # fmt: skip


def series_name(end: EndPlan) -> str:
    """What an openPMD program opens: it strips `.sst` where ADIOS2 adds it."""
    return end.path + end.traits.contact_suffix


def name_by_writer(stream: JoinedStream) -> str:
    """The name that the writer of a stream gives it inside of a directory; empty for most writers."""
    by_warpx = stream.writer is not None and stream.writer.dialect == "warpx"
    return WARPX_SERIES if by_warpx and stream.engine.traits.by_openpmd else ""


def configuration(end: EndPlan) -> dict[str, object]:
    """The options of a series, as openPMD-api takes them.

    Written are: one name per variable for all steps (readers of plain ADIOS2 find it in every step); the hosts of the
    ranks, without which a reader that distributes chunks by host gets none, silently; attributes by one rank.
    """
    engine = {"type": end.engine.lower(), **({"parameters": dict(end.parameters)} if end.parameters else {})}
    if end.side == "read":
        return {"backend": "adios2", "adios2": {"engine": engine}}
    return {
        "backend": "adios2",
        "iteration_encoding": "variable_based",
        "rank_table": "hostname",
        "adios2": {"attribute_writing_ranks": 0, "engine": engine, **_dataset(end)},
    }


def _dataset(end: EndPlan) -> dict[str, object]:
    """openPMD-api takes operators for all datasets of a series."""
    found = [{"type": each.type, "parameters": dict(each.parameters)} for each in end.operators.values()]
    return {"dataset": {"operators": found}} if found else {}


def environment(end: EndPlan) -> dict[str, str]:
    """openPMD-api's environment variables for what they can set; `check_ends` refuses the rest."""
    said = {name: _variable(name, value) for name, value in end.parameters.items()}
    return {"OPENPMD_ADIOS2_ENGINE": end.engine.lower(), **dict(pair for pair in said.values() if pair)}


def _variable(name: str, value: str) -> tuple[str, str] | None:
    """(variable, value) for an engine parameter; None when there is no variable for it."""
    if name in _VARIABLES:
        return _VARIABLES[name], value
    if name in _MEBIBYTE_VARIABLES and int(value) % MEBIBYTE == 0:
        return _MEBIBYTE_VARIABLES[name], str(int(value) // MEBIBYTE)
    if name == "AsyncWrite" and value in _ASYNC:
        return "OPENPMD_ADIOS2_ASYNC_WRITE", _ASYNC[value]
    return None


def warpx_lines(end: EndPlan) -> str:
    """Lines for the end of a WarpX deck. AMReX takes the last of several values for one name."""
    path = PurePosixPath(end.path)
    values = {
        "format": "openpmd",
        "file_prefix": str(path.parent),
        "openpmd_backend": PurePosixPath(series_name(end)).suffix[1:],
        "openpmd_encoding": "v",
        "adios2_engine.type": end.engine.lower(),
        **{f"adios2_engine.parameters.{key}": value for key, value in end.parameters.items()},
        **_warpx_operator(end),
    }
    lines = [f"{end.io}.{key} = {_word(value)}" for key, value in values.items()]
    return "\n".join([f"# stream {end.stream}, set by wf: replaces what is said of it above", *lines, ""])


def _warpx_operator(end: EndPlan) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in end.operators.values():
        found |= {"adios2_operator.type": each.type}
        found |= {f"adios2_operator.parameters.{key}": value for key, value in each.parameters.items()}
    return found


def _word(value: str) -> str:
    return value if re.fullmatch(r"[\w.+-]+", value) else f'"{value}"'


def picongpu_arguments(ends: Iterable[EndPlan]) -> list[str]:
    """One instance of the openPMD plugin per stream: what is left to the user are `period` and `source`."""
    words: list[str] = []
    for end in ends:
        if end.dialect == "picongpu":
            path = PurePosixPath(series_name(end))
            words += ["--openPMD.file", str(path.with_suffix("")), "--openPMD.ext", path.suffix[1:]]
            # Without it every step would go to a file of its own.
            words += ["--openPMD.infix", "NULL", "--openPMD.json", f"@{end.config}"]
    return words


def check_ends(
    stream: JoinedStream, ends: Iterable[tuple[str, EndPlan]], stages: Mapping[str, DeclaredStage], notes: Notes
) -> None:
    """Notes what an openPMD program cannot be configured with, and what it cannot read. `ends`: (stage, its end)."""
    for port, (stage, end) in zip(stream.ports, ends, strict=True):
        if end.dialect not in OPENPMD or not end.traits.has_steps:
            continue
        if not end.traits.by_openpmd:
            notes.problems.add(
                f"streams.{stream.name}.via",
                f"openPMD programs ({stage}) do not write or read {end.engine} through ADIOS2",
                "use `via: sst` or `via: bp5`; or `via: file` for a file that openPMD programs hand to each other",
            )
        key = f"stages.{stage}.{KEY_OF_SIDE[end.side]}.{end.port}.config"
        if end.side == "read" and stream.writer is not None:
            _check_writer(stages[stream.writer.stage], key, notes.problems)
        if end.dialect == "env":
            _check_environment(port, end, key, _by_user(stream), stream.engine, notes)


def _check_writer(writer: DeclaredStage, key: str, problems: Problems) -> None:
    if writer.component is not None:
        problems.add(
            key,
            f"component {writer.spec.component} of stage {writer.name} writes plain variables, not openPMD",
            "read them with ADIOS2 (`config: adios2.xml`), or keep them with component archive, `format: openpmd`",
        )


def _by_user(stream: JoinedStream) -> set[str]:
    """The parameters that the file itself sets, in any case: BP engines ignore it."""
    return {name.lower() for name in stream.spec.parameters}


def _holds_anyway(parameter: str, value: str, engine: Engine) -> bool:
    default = _BY_OPENPMD.get(parameter, engine.parameters[parameter].default)
    return default is not None and value.lower() == scalar_text(default).lower()


def _check_environment(
    port: StagePort, end: EndPlan, key: str, by_user: Collection[str], engine: Engine, notes: Notes
) -> None:
    untold = [each for each, value in end.parameters.items() if _variable(each, value) is None]
    untold = [each for each in untold if not _holds_anyway(each, end.parameters[each], engine)]
    wrong = [each for each in untold if each.lower() in by_user or each not in _BETTER]
    if wrong:
        said = ", ".join(f"{each}={end.parameters[each]}" for each in wrong)
        notes.problems.add(
            key,
            f"openPMD-api has no environment variable for {said} of stream {end.stream}",
            "let the program read a file: `config: openpmd.json`",
        )
    elif untold:
        notes.advise(
            f"stage {port.stage}: openPMD-api has no environment variable for {plural(len(untold), 'setting')} of "
            f"stream {end.stream} ({', '.join(untold)}), so its defaults hold; `config: openpmd.json` can set "
            f"{'it' if len(untold) == 1 else 'them'}"
        )


_NAMES = re.compile(r"^[ \t]*diagnostics\.diags_names[ \t]*=[ \t]*([^#\n]*)", re.MULTILINE)


def check_deck(key: str, deck: str, diagnostic: str, problems: Problems) -> None:
    """A WarpX deck that does not name the diagnostic among its diagnostics."""
    found = _NAMES.findall(deck)
    names = found[-1].replace('"', " ").split() if found else []
    if found and diagnostic not in names:
        problems.add(
            f"{key}.io",
            f"the deck has no diagnostic `{diagnostic}`",
            did_you_mean(diagnostic, names) or f"diagnostics.diags_names has {listing(names)}",
        )
