"""The arguments of a component's program: from the run that started it, or from its own command line.

In a run this module imports neither yaml nor pydantic. Without a run the command line is built from the component.yaml
beside the program: `python program.py --help` lists the parameters of the pipeline file, and values are checked the
same way.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from workflow.formats.sides import Side
from workflow.formats.stage_file import StageSettings, StreamEnd
from workflow.stage import settings

if TYPE_CHECKING:
    from workflow.spec.models.component import Component, Parameter

_STREAMS = """NAME is a port of the component; it may be left out where there is only one. The suffix of PATH selects
the engine: .bp BP5, .h5 HDF5, otherwise a live stream by SST. :ENGINE names another, as in --write atoms=dump:BP4."""


def arguments(program: str | os.PathLike[str], argv: Sequence[str] | None = None) -> SimpleNamespace:
    """The parameters of the component whose program file this is (`__file__`), by name, with defaults filled in.

    Without a run the command line is read. `stage.open_reader` and `stage.open_writer` then open the streams given by
    `--read` and `--write`. Mistakes end the program with a message and exit code 2.
    """
    if "WF_STAGE" in os.environ:
        return SimpleNamespace(**settings.current().parameters)
    folder = Path(program).resolve().parent
    parameters, by_hand = read_command_line(folder, sys.argv[1:] if argv is None else argv)
    settings.use(by_hand)
    return SimpleNamespace(**parameters)


def read_command_line(folder: Path, argv: Sequence[str]) -> tuple[dict[str, Any], StageSettings]:
    """(parameters, settings with the streams) of the component in `folder`. Raises SystemExit with a message."""
    from workflow.errors import EXIT_BAD_INPUT, WfError
    from workflow.messages import to_text
    from workflow.spec.component_files import check_parameters, load_component_file, parameters_model
    from workflow.spec.yaml_tree.node import Node, SourcePosition

    try:
        component = load_component_file(folder / "component.yaml")
    except WfError as error:
        sys.stderr.write(to_text(error.problems))
        raise SystemExit(error.exit_code) from None
    parser = make_parser(component)
    found = vars(parser.parse_args([_with_hyphens(word) for word in argv]))
    ends = [*found.pop("read streams", ()), *found.pop("write streams", ())]
    here = SourcePosition("command line")

    def to_node(value: Any) -> Node:
        return Node([Node(item, here) for item in value] if isinstance(value, list) else value, here)

    given = Node({name: to_node(value) for name, value in found.items()}, here)
    model = parameters_model(component)
    parameters, problems = check_parameters(component, model, folder, given, (), given, Path.cwd())
    if problems:
        sys.stderr.write(to_text(sorted(problems)))
        raise SystemExit(EXIT_BAD_INPUT)
    return parameters, StageSettings(stage=component.component, parameters=parameters, ends=ends)


class _CommandLine(argparse.ArgumentParser):
    """Mistakes on its command line are messages of the same form as all others."""

    def error(self, message: str) -> NoReturn:
        """Print the mistake and exit."""
        from workflow.errors import EXIT_BAD_INPUT, to_message
        from workflow.messages import to_text

        sys.stderr.write(to_text([to_message("error", message, self.format_usage().rstrip())]))
        raise SystemExit(EXIT_BAD_INPUT)


def make_parser(component: Component) -> argparse.ArgumentParser:
    """The command line of a component. The result has only the options that are given; values are not checked yet."""
    parser = _CommandLine(
        description=component.summary, epilog=_STREAMS, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for name, parameter in component.parameters.items():
        _add_parameter(parser, name, parameter)
    _add_streams(parser, "read", sorted(component.reads))
    _add_streams(parser, "write", sorted(component.writes))
    return parser


def _add_parameter(parser: argparse.ArgumentParser, name: str, parameter: Parameter) -> None:
    kind, _, lengths = parameter.type.rstrip("]").partition("[")
    about = [parameter.help, f"[{parameter.unit}]" if parameter.unit else ""]
    if parameter.required:
        about.append("(required)")
    elif parameter.default not in (None, [], ""):
        default = parameter.default
        about.append(f"(default: {' '.join(map(str, default)) if isinstance(default, list) else default})")
    parser.add_argument(
        _with_hyphens(f"--{name}"),
        dest=name,
        type=_converter(kind, parameter),
        metavar="{" + ",".join(map(str, parameter.choices)) + "}" if parameter.choices else kind.upper(),
        nargs=(int(lengths) if lengths.isdigit() else "*") if "[" in parameter.type else None,
        help=" ".join(part for part in about if part).replace("%", "%%"),
    )


def _converter(kind: str, parameter: Parameter) -> Any:
    """From text to the value that the same text has in a pipeline file, where numbers need no quotes."""
    from workflow.spec.yaml_tree.parse import plain_scalar

    if kind == "choice":
        return lambda text: next((choice for choice in parameter.choices or () if str(choice) == text), text)
    return str if kind in ("string", "file", "output") else plain_scalar


def _add_streams(parser: argparse.ArgumentParser, side: Side, ports: list[str]) -> None:
    if not ports:
        return

    def to_end(text: str) -> StreamEnd:
        port, equals, place = text.partition("=")
        if not equals and len(ports) == 1:
            port, place = ports[0], text
        if port not in ports or not place:
            raise argparse.ArgumentTypeError(f"expected NAME=PATH, where NAME is {' or '.join(ports)}; got {text!r}")
        path, colon, engine = place.rpartition(":")
        return settings.end_by_path(side, path if colon else place, engine if colon else None, port)

    parser.add_argument(
        f"--{side}",
        dest=f"{side} streams",
        type=to_end,
        action="append",
        metavar="NAME=PATH[:ENGINE]",
        help=f"a stream to {side}; NAME: {', '.join(ports)}",
    )


def _with_hyphens(word: str) -> str:
    """`--run_steps=3` → `--run-steps=3`: both spellings of an option are accepted."""
    if not word.startswith("--"):
        return word
    option, equals, value = word.partition("=")
    return option.replace("_", "-") + equals + value
