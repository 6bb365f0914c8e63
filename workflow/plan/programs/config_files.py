"""What is written into a stage's directory before it starts: configs, and the user's own files."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import PurePosixPath

from workflow.plan.plan_model import RUN_DIR, EndPlan, StagePlan
from workflow.plan.problems import Problems
from workflow.plan.programs.config_dialects import FILES
from workflow.plan.programs.openpmd import check_deck, warpx_lines
from workflow.plan.programs.placeholder_expansion import Filler
from workflow.plan.run_paths import work_dir
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import KEY_OF_SIDE, StagePort, StagePorts
from workflow.spec.models.config_dialect import NAMELESS, OPENPMD, WRITE_ONLY, Dialect, endings_of
from workflow.spec.placeholder_syntax import literal
from workflow.spec.suggest import did_you_mean


def check_configs(stage: DeclaredStage, ports: StagePorts, problems: Problems) -> None:
    """Config names that the program's library would ignore, and ports that one file cannot serve together."""
    seen: dict[tuple[str, str], str] = {}
    for port in [*ports.write.values(), *ports.read.values()]:
        key = f"stages.{port.stage}.{KEY_OF_SIDE[port.side]}.{port.name}"
        if port.side == "read" and port.dialect in WRITE_ONLY:
            hint = "use `config: openpmd.json`, or what the program takes"
            problems.add(f"{key}.dialect", f"{port.dialect} streams are written, not read", hint)
        if port.config is None:
            continue
        _check_name(f"{key}.config", port.config, port.dialect, problems)
        if port.dialect == "warpx":
            _check_deck(key, port, stage, problems)
        # openPMD-api's file is about one series, ADIOS2's about as many ios as it names
        one_series = port.dialect in NAMELESS
        first = seen.setdefault((port.config, "" if one_series else port.io), port.name)
        if first != port.name and one_series:
            problems.add(
                f"{key}.config",
                f"{port.config} is also that of port `{first}`, and openPMD-api reads one series from a file",
                "give each port its own config file",
            )
        elif first != port.name:
            problems.add(
                f"{key}.io",
                f"io `{port.io}` is also that of port `{first}`: in {port.config} an io has one engine",
                "give each port its own io, or its own config file",
            )


def _check_name(key: str, config: str, dialect: Dialect | None, problems: Problems) -> None:
    _check_inside(key, config, problems)
    if dialect is None:
        problems.add(
            key,
            f"the name `{config}` shows no kind of config: ADIOS2 ignores files that do not end in .xml or .yaml",
            "call it `adios2.xml`, `adios2.yaml`, `openpmd.json` or `openpmd.toml`, or add `dialect:`",
        )
    elif (endings := endings_of(dialect)) and not config.endswith(tuple(endings)):
        problems.add(
            key,
            f"`{config}`: {'openPMD-api' if dialect in OPENPMD else 'ADIOS2'} takes a config file for {dialect} only "
            f"when its name ends in {' or '.join(endings)}",
            f"call it `{dialect}`",
        )


def _check_deck(key: str, port: StagePort, stage: DeclaredStage, problems: Problems) -> None:
    files = stage.sources
    deck = stage.templates.get(port.config or "")
    if port.config not in files:
        problems.add(
            f"{key}.config",
            f"there is no `{port.config}` among the files of stage {port.stage}, to which wf could add its lines",
            did_you_mean(port.config or "", files) or f"add `files: {{{port.config}: YOUR-DECK}}` to the stage",
        )
    elif deck is None:
        problems.add(f"{key}.config", f"`{port.config}` is not text", "name the deck of `files:`")
    else:
        check_deck(key, deck, port.io, problems)


def config_files(ends: list[EndPlan]) -> dict[str, str]:
    """Plan path → text of every config that wf writes for a stage; several ios may be in one file."""
    by_path: dict[str, list[EndPlan]] = {}
    for end in ends:
        if end.config is not None and end.dialect in FILES:
            by_path.setdefault(end.config, []).append(end)
    return {path: FILES[each[0].dialect](each) for path, each in by_path.items() if each[0].dialect is not None}


def user_files(
    stage: DeclaredStage, filler: Filler, configs: dict[str, str], ends: list[EndPlan], problems: Problems
) -> tuple[dict[str, str], dict[str, str]]:
    """(plan path → text, plan path → file to copy unchanged) for the `files:` of a stage."""
    written: dict[str, str] = {}
    copied: dict[str, str] = {}
    for target, source in stage.sources.items():
        key, path = f"stages.{stage.name}.files.{target}", f"{work_dir(stage.name)}/{literal(target)}"
        _check_inside(key, target, problems)
        if path in configs:
            problems.add(key, f"wf writes the config {target} itself", "rename one of the two")
        if target in stage.templates:
            added = [warpx_lines(end) for end in ends if end.dialect == "warpx" and end.config == path]
            written[path] = "\n".join([filler.fill_file(target, stage.templates[target]), *added])
        else:  # not text, so there is nothing to fill
            copied[path] = literal(str(source))
    return written, copied


def check_outputs(stages: list[StagePlan], declared: Mapping[str, DeclaredStage], problems: Problems) -> None:
    """Two components that would write the same file. A name without an ending is a directory, which may be shared."""
    seen: dict[str, str] = {}
    for stage in stages:
        component = declared[stage.name].component
        for key, parameter in component.parameters.items() if component is not None else ():
            path = stage.parameters.get(key)
            if parameter.type != "output" or not isinstance(path, str) or not PurePosixPath(path).suffix:
                continue
            first = seen.setdefault(posixpath.normpath(path), stage.name)
            if first != stage.name:
                problems.add(
                    f"stages.{stage.name}.with.{key}",
                    f"stage {first} writes the same file, {path.removeprefix(RUN_DIR + '/')}",
                    f"give another `{key}:` here",
                )


def _check_inside(key: str, name: str, problems: Problems) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        problems.add(key, f"`{name}` is not inside the stage's own directory", "give a relative name without `..`")
