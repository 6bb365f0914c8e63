"""The settings of this stage: from the run (the file named in WF_STAGE), or from the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workflow.engines import ANY_BP, BP_SUFFIXES, HDF5_SUFFIXES, engine_of_data, engine_of_suffix, traits_of
from workflow.formats.sides import Side
from workflow.formats.stage_file import StageSettings, StreamEnd, read_stage_file
from workflow.formats.versions import OtherVersionError
from workflow.stage.stage_errors import StageError

# As a plan would choose: a bounded queue, and no data sent to readers before they request it.
_BY_HAND = {
    "write": {"QueueLimit": "2"},
    "read": {"SpeculativePreloadMode": "Off"},
    "follow": {"OpenTimeoutSecs": "10", "BeginStepPollingFrequencySecs": "0.1"},
}

_current: StageSettings | None = None


def current() -> StageSettings:
    """The settings of this process, read once from the file named by WF_STAGE."""
    global _current
    if _current is None:
        path = os.environ.get("WF_STAGE")
        _current = read_settings(Path(path)) if path else StageSettings()
    return _current


def use(settings: StageSettings) -> None:
    """Use these settings from now on: `arguments()` calls this for streams given on the command line."""
    global _current
    _current = settings


def read_settings(path: Path) -> StageSettings:
    """The `stage.json` that a run wrote. Raises StageError when it cannot be read."""
    try:
        return read_stage_file(path)
    except OtherVersionError as error:
        raise StageError(str(error)) from error
    except (OSError, ValueError) as error:
        raise StageError(f"WF_STAGE names {path}, which cannot be read ({error}); unset it to run by hand") from error


def find_end(settings: StageSettings, name: str | None, side: Side) -> StreamEnd:
    """The end on this side with the port `name`, else with the stream `name`, else the only one.

    The only end is also found under its name with another number, `field` for `field-2`: members of an ensemble have
    one program. Without a run it is found under any name but a misspelling of its own. Raises StageError with the known
    names.
    """
    ends = [end for end in settings.ends if end.side == side]
    named = [end for end in ends if end.port == name] or [end for end in ends if end.stream == name]
    matches = named or (ends if name is None or (len(ends) == 1 and _is_only(settings, name, ends[0])) else [])
    if len(matches) == 1:
        return matches[0]
    who = f"stage {settings.stage}" if settings.stage else "this program"
    doing = "reads" if side == "read" else "writes"
    if matches:
        several = ", ".join(sorted(end.stream for end in matches))
        raise StageError(f"{who} {doing} several streams{f' at port {name}' if name else ''}: name one of {several}")
    ports = sorted(end.port for end in ends)
    raise StageError(
        f"{who} {doing} {', '.join(ports) or 'no stream'}, not {name!r}; {_hint(settings, name or '', side, ports)}"
    )


def _is_only(settings: StageSettings, name: str, end: StreamEnd) -> bool:
    """Whether the program means its only end by this name."""
    known = (end.port, end.stream)
    if settings.by_hand:
        return not is_misspelt(name, known)
    return _NUMBER.sub("", name) in [_NUMBER.sub("", each) for each in known]


_NUMBER = re.compile(r"[-_]?\d+$")
_ALIKE = 0.8


def is_misspelt(name: str, known: Iterable[str]) -> bool:
    """Whether one of the known names was probably meant. One with another number at its end is another name.

    >>> is_misspelt("fieldd", ["field"]), is_misspelt("field", ["field-2"]), is_misspelt("input", ["atoms"])
    (True, False, False)
    """
    from difflib import SequenceMatcher  # only names that are not known pay for the import

    bare = [(_NUMBER.sub("", name), _NUMBER.sub("", each)) for each in known]
    return any(one != other and SequenceMatcher(None, one, other).ratio() >= _ALIKE for one, other in bare)


def _hint(settings: StageSettings, name: str, side: Side, ports: Sequence[str]) -> str:
    """What to type next."""
    if settings.by_hand:
        return f"add --{side} {name or 'NAME'}=PATH to the command line"
    near = _nearest(name, ports)
    if settings.component is not None:
        return f"{near}see its component.yaml and `streams:`"
    return f"{near}its ports are named by `{side}s:` of the stage, and by `streams:`, in the pipeline file"


def _nearest(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches  # only mistakes pay for the import

    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def is_joined(port: str, side: Side | None = None) -> bool:
    """Whether a stream is connected to this port, on `side` if given; for programs with optional ports."""
    return any(end.port == port and side in (None, end.side) for end in current().ends)


def end_by_path(
    side: Side, path: str | os.PathLike[str], engine: str | None = None, port: str = "", **given: Any
) -> StreamEnd:
    """An end given by its path. The engine follows from the suffix unless given: .bp BP5, .h5 HDF5, otherwise SST.

    Files are read without waiting for a writer; a stream's queue is bounded. `given`: fields of StreamEnd to override.
    """
    target = Path(path)
    if (
        engine is None
        and side == "read"
        and target.suffix.lower() in (*HDF5_SUFFIXES, *BP_SUFFIXES)
        and target.is_file()
    ):
        engine = engine_of_data(target)  # also BP3, which is one file
    chosen = engine or engine_of_suffix(target)
    traits = traits_of(chosen)
    text = str(target)
    defaults: dict[str, Any] = {}
    if traits.in_memory:
        # ADIOS2 adds the suffix to the name; users complete the name of the contact file in the shell.
        text = text.removesuffix(traits.contact_suffix)
        defaults = {"parameters": _BY_HAND[side]}
    elif side == "read":
        # With BPFile ADIOS2 detects BP4 or BP5 of an existing file; without a file its guess can be wrong.
        index = target / "md.idx"
        chosen = ANY_BP if engine is None and index.exists() and index.stat().st_size else chosen
        defaults = {"open_timeout_s": 0.0, "step_timeout_s": 0.0, "parameters": _BY_HAND["follow"]}
    name = port or target.name
    settings = {**defaults, **{key: value for key, value in given.items() if value is not None}}
    return StreamEnd(stream=name, port=name, side=side, engine=chosen, path=text, **settings)
