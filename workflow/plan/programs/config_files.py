"""The files that are written into a stage's directory before it starts: configurations, and `files:` of the user."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from workflow.plan.placeholders import work_dir
from workflow.plan.plan_model import RUN_DIR, EndPlan, StagePlan, StreamPlan
from workflow.plan.plan_notes import Problems
from workflow.plan.programs.edited_configs import EDITORS, ConfigError, EditedConfig, xml_operator
from workflow.plan.programs.openpmd import check_deck, configuration, warpx_lines
from workflow.plan.programs.placeholder_expansion import Filler
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import KEY_OF_SIDE, StagePort, StagePorts
from workflow.spec.models.stage_policies import NAMELESS, OPENPMD, WRITE_ONLY, Dialect, endings_of
from workflow.spec.placeholder_syntax import literal
from workflow.spec.suggest import did_you_mean, shortened

# The config files of programs of the user's own: ADIOS2's two formats, and openPMD-api's two.
#
# ADIOS2: source/adios2/helper/adiosXML.cpp and adiosYAML.cpp of 2.12.1, docs "Runtime configuration".
# openPMD-api: docs "JSON/TOML configuration" of 0.17. Strings are quoted by the XML rules, by tomli-w, and as JSON,
# which every YAML parser reads.


def adios2_xml(ends: Sequence[EndPlan]) -> str:
    """One `<io>` with its engine per end."""
    lines = ['<?xml version="1.0"?>', "<adios-config>"]
    for end in ends:
        lines.append(f"  <io name={_quoted(end.io)}>")
        lines.append(f"    <engine type={_quoted(end.engine)}>")
        lines += [
            f"      <parameter key={_quoted(key)} value={_quoted(value)}/>" for key, value in end.parameters.items()
        ]
        operators = [f"    {line}" for each in end.operators.items() for line in xml_operator(*each)]
        lines += ["    </engine>", *operators, "  </io>"]
    return "\n".join([*lines, "</adios-config>", ""])


def _quoted(text: str) -> str:
    from xml.sax.saxutils import quoteattr  # here, as it loads the network's modules; most plans have no XML

    return quoteattr(text)


def adios2_yaml(ends: Sequence[EndPlan]) -> str:
    """One list item with its engine per end. Keywords are case-exact."""
    lines = ["---"]
    for end in ends:
        lines.append(f"- IO: {json.dumps(end.io)}")
        lines.append("  Engine:")
        lines.append(f"    Type: {json.dumps(end.engine)}")
        lines += [f"    {key}: {json.dumps(value)}" for key, value in end.parameters.items()]
        lines += ["  Variables:"] if end.operators else []
        for name, operator in end.operators.items():
            lines += [f"    - Variable: {json.dumps(name)}", "      Operations:"]
            lines += [f"        - Type: {json.dumps(operator.type)}"]
            lines += [f"          {key}: {json.dumps(value)}" for key, value in operator.parameters.items()]
    return "\n".join([*lines, ""])


def openpmd_json(ends: Sequence[EndPlan]) -> str:
    """The options of one series, as JSON."""
    return json.dumps(configuration(ends[0]), indent=2, ensure_ascii=False) + "\n"


def openpmd_toml(ends: Sequence[EndPlan]) -> str:
    """The options of one series, as TOML."""
    import tomli_w  # here, as most plans have no TOML

    return tomli_w.dumps(configuration(ends[0]))


# The dialects that are a whole file, which wf writes.
FILES: dict[Dialect, Callable[[Sequence[EndPlan]], str]] = {
    "adios2.xml": adios2_xml,
    "adios2.yaml": adios2_yaml,
    "openpmd.json": openpmd_json,
    "openpmd.toml": openpmd_toml,
    "picongpu": openpmd_json,
}


def check_configs(stage: DeclaredStage, ports: StagePorts, problems: Problems) -> None:
    """Config names that the program's library would ignore, and ports that one file cannot serve together."""
    seen: dict[tuple[str, str], str] = {}
    _check_paths(stage, ports, problems)
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
                f"{port.config} is also the config of port `{first}`, and openPMD-api reads one series from a file",
                "give each port its own config file",
            )
        elif first != port.name:
            problems.add(
                f"{key}.io",
                f"io `{port.io}` is also the io of port `{first}`: in {port.config} an io has one engine",
                "give each port its own io, or its own config file",
            )


def _check_paths(stage: DeclaredStage, ports: StagePorts, problems: Problems) -> None:
    """Names that a program opens by itself: each leads to one stream, and stands for nothing else in its directory."""
    every = [*ports.write.values(), *ports.read.values()]
    taken = {posixpath.normpath(name): f"a file of `files:` of stage {stage.name}" for name in stage.sources}
    taken |= {posixpath.normpath(port.config): "a config that wf writes" for port in every if port.config}
    for port in every:
        if not port.path:
            continue
        key, place = f"stages.{port.stage}.{KEY_OF_SIDE[port.side]}.{port.name}.path", posixpath.normpath(port.path)
        _check_inside(key, port.path, problems)
        if place in taken:
            problems.add(key, f"`{port.path}` is also {taken[place]}", "name what the program opens there")
        taken[place] = f"the path of port `{port.name}`"


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


def config_files(ends: Sequence[EndPlan]) -> dict[str, str]:
    """Plan path → text of every config that wf writes for a stage; several ios may be in one file."""
    return {path: FILES[dialect](each) for path, (dialect, each) in _by_config(ends).items()}


def edited_again(path: str, text: str, ends: Sequence[EndPlan]) -> str:
    """A config of the user that wf has edited, for ends with other settings. Raises ConfigError."""
    dialect, its = _by_config(ends)[path]
    return EDITORS[dialect](text, its).text


def _by_config(ends: Sequence[EndPlan]) -> dict[str, tuple[Dialect, list[EndPlan]]]:
    found: dict[str, tuple[Dialect, list[EndPlan]]] = {}
    for end in ends:
        if end.config is not None and end.dialect is not None and end.dialect in FILES:
            found.setdefault(end.config, (end.dialect, []))[1].append(end)
    return found


class UserFiles(NamedTuple):
    """The `files:` of a stage by plan path: their texts, what is copied unchanged, and of texts that are a config of
    one of its ends what wf has changed in it."""

    written: dict[str, str]
    copied: dict[str, str]
    edited: dict[str, list[str]]


def user_files(stage: DeclaredStage, filler: Filler, ends: Sequence[EndPlan], problems: Problems) -> UserFiles:
    """The `files:` of a stage. Notes those that wf cannot write, and configs that it cannot edit."""
    written: dict[str, str] = {}
    copied: dict[str, str] = {}
    edited: dict[str, list[str]] = {}
    configs = _by_config(ends)
    for target, source in stage.sources.items():
        key, path = f"stages.{stage.name}.files.{target}", f"{work_dir(stage.name)}/{literal(target)}"
        _check_inside(key, target, problems)
        if path in configs and (configs[path][0] not in EDITORS or target not in stage.templates):
            problems.add(key, f"wf writes the config {target} itself", "rename one of the two")
        elif path in configs:
            text = filler.fill_file(target, stage.templates[target])
            written[path], edited[path] = _edit(stage, target, text, *configs[path], problems)
        elif target in stage.templates:
            added = [warpx_lines(end) for end in ends if end.dialect == "warpx" and end.config == path]
            written[path] = "\n".join([filler.fill_file(target, stage.templates[target]), *added])
        else:  # not text, so there is nothing to fill
            copied[path] = literal(str(source))
    return UserFiles(written, copied, edited)


def _edit(
    stage: DeclaredStage, target: str, text: str, dialect: Dialect, ends: Sequence[EndPlan], problems: Problems
) -> EditedConfig:
    """A config of the user with the engines of wf. Notes why it cannot be edited."""
    source = stage.spec.files[target]
    try:
        return EDITORS[dialect](text, ends)
    except ConfigError as error:
        key = f"stages.{stage.name}.files.{target}"
        if error.end is not None:
            key = f"stages.{stage.name}.{KEY_OF_SIDE[error.end.side]}.{error.end.port}.io"
            problems.add(key, f"{source} {error}", error.hint)
        elif error.offset is None:
            problems.add(key, f"{source}: {error}", error.hint)
        else:
            before = text[: error.offset]
            line, column = before.count("\n") + 1, error.offset - (before.rfind("\n") + 1) + 1
            problems.add_in_file(source, line, column, key, str(error), error.hint)
        return EditedConfig(text, [])


def check_outputs(
    stages: Sequence[StagePlan],
    streams: Sequence[StreamPlan],
    declared: Mapping[str, DeclaredStage],
    problems: Problems,
) -> None:
    """Two stages that would write into one file, or one of them into what is another one's alone.

    A name without an ending is a folder, which stages may share unless the component says otherwise.
    """
    owners: dict[PurePosixPath, str] = {}  # place → who writes there
    for stream in streams:
        owners |= {PurePosixPath(posixpath.normpath(name)): f"stream {stream.name}" for name in stream.on_disk}
    alone = set(owners)  # the places where no other one may write
    inside = {folder: place for place in owners for folder in place.parents}  # folder → a place in it
    for stage in stages:
        its = [
            (key, PurePosixPath(posixpath.normpath(path)), is_own)
            for key, path, is_own in _outputs(stage, declared[stage.name])
        ]
        for key, path, is_own in its:
            what = next((each for each in (path, *path.parents) if each in alone), None)
            if what is None and is_own:
                what = path if path in owners else inside.get(path)
            if what is None:
                continue
            theirs = "the same place" if what == path else _in_run_dir(what)
            where = f"{theirs}, inside of it" if path in what.parents else theirs
            problems.add(
                f"stages.{stage.name}.with.{key}",
                f"{_in_run_dir(path)}: {owners[what]} writes {where}, and one could overwrite what the other one "
                "writes",
                f"give another `{key}:` here",
            )
        for _, path, is_own in its:
            owners.setdefault(path, f"stage {stage.name}")
            alone |= {path} if is_own else set()
            for folder in path.parents:
                inside.setdefault(folder, path)


def _outputs(stage: StagePlan, declared: DeclaredStage) -> Iterator[tuple[str, str, bool]]:
    """The parameters of a component that name what it writes, each with its value, and whether no other stage may
    write there."""
    for key, parameter in declared.component.parameters.items() if declared.component is not None else ():
        path, is_off = stage.parameters.get(key), stage.parameters.get(parameter.only_with) is False
        if parameter.type == "output" and isinstance(path, str) and path and not is_off:
            yield key, path, PurePosixPath(path).suffix != "" or parameter.exclusive


def _in_run_dir(path: PurePosixPath) -> str:
    return str(path).removeprefix(RUN_DIR + "/")


def _check_inside(key: str, name: str, problems: Problems) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() and key.endswith(".config"):
        text = f"wf writes a config into the stage's own directory, and leaves `{shortened(name)}` as it is"
        hint = f"write `config: {path.name}`, and let the program read {path.name}; `files: {{{path.name}: "
        problems.add(key, text, f"{hint}{shortened(name)}}}` keeps what else is in that file")
    elif path.is_absolute() or ".." in path.parts or not path.parts:
        problems.add(key, f"`{name}` is not inside the stage's own directory", "give a relative name without `..`")
