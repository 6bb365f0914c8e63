"""Does a step contain the variables that the pipeline declares for its stream?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from workflow.formats.stage_file import StreamEnd
from workflow.stage.data.variables import Info
from workflow.stage.stage_errors import ContractError

FAMILIES = {"float": (np.floating,), "int": (np.integer,), "number": (np.floating, np.integer)}


def check_contract(end: StreamEnd, stage: str, found: Mapping[str, Info]) -> None:
    """Raise ContractError, listing every difference, unless `found` has all variables of the end's contract.

    Additional variables are allowed. A dimension given by a name may have any size, but the same size wherever that
    name is used.
    """
    sizes: dict[str, tuple[int, str]] = {}
    wrong = [line for name, declared in end.variables.items() for line in _differences(name, declared, found, sizes)]
    if wrong:
        who = f"stage {stage}" if stage else "this program"
        needs = f"does not contain what {who} needs"
        what = needs if end.side == "read" else f"of {who} does not contain what is declared for it"
        lines = f" {wrong[0]}" if len(wrong) == 1 else "".join(f"\n  {line}" for line in wrong)
        raise ContractError(f"stream {end.stream} {what}:{lines}")


def near(name: str, names: Iterable[str]) -> str:
    """`; did you mean …?` where a similar name exists, else the list of names."""
    from difflib import get_close_matches  # only mistakes pay for the import

    known = sorted(names)
    similar = get_close_matches(name, known, n=1)
    if similar:
        return f"; did you mean {similar[0]!r}?"
    return f"; there is {', '.join(known)}" if known else "; there is nothing"


def _differences(
    name: str, declared: Mapping[str, Any], found: Mapping[str, Info], sizes: dict[str, tuple[int, str]]
) -> list[str]:
    info = found.get(name)
    if info is None:
        return [] if declared.get("optional") else [f"variable {name} is missing{near(name, found)}"]
    wrong = []
    kind, shape = declared.get("type"), declared.get("shape")
    if kind is not None and not _is_of(info.type, kind):
        wrong.append(f"variable {name}: expected type {kind}, found {info.type}")
    if shape is not None:
        expected, problem = f"[{', '.join(map(str, shape))}]", ""
        if len(shape) != len(info.shape):
            problem = f"{len(info.shape)} dimensions instead of {len(shape)}"
        for length, wanted in zip(info.shape, shape, strict=False):
            if isinstance(wanted, int):
                problem = problem or ("" if length == wanted else f"{length} is not {wanted}")
            else:
                size, first = sizes.setdefault(wanted, (length, name))
                problem = problem or ("" if length == size else f"{wanted} is {size} in {first}")
        if problem:
            wrong.append(f"variable {name}: expected shape {expected}, found {list(info.shape)} ({problem})")
    return wrong


def _is_of(kind: str, declared: str) -> bool:
    if declared in FAMILIES:
        return kind != "string" and issubclass(np.dtype(kind).type, FAMILIES[declared])
    return kind == declared
