"""Comparing what is in a step with what the pipeline promised about the stream."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from workflow.formats.stage_file import StreamEnd
from workflow.stage.data.variables import Info
from workflow.stage.stage_errors import ContractError

FAMILIES = {"float": (np.floating,), "int": (np.integer,), "number": (np.floating, np.integer)}


def check_contract(end: StreamEnd, stage: str, found: Mapping[str, Info]) -> None:
    """Raise ContractError, naming everything that differs, unless `found` has all that the contract asks for.

    More variables than promised are welcome. A dimension that is a name may have any size, but the same
    size wherever the name stands.
    """
    sizes: dict[str, tuple[int, str]] = {}
    wrong = [complaint for name, asked in end.variables.items() for complaint in _complaints(name, asked, found, sizes)]
    if wrong:
        who = f"stage {stage}" if stage else "this program"
        what = f"is not what {who} needs" if end.side == "read" else f"of {who} is not what its component promises"
        lines = f" {wrong[0]}" if len(wrong) == 1 else "".join(f"\n  {line}" for line in wrong)
        raise ContractError(f"stream {end.stream} {what}:{lines}")


def near(name: str, names: Iterable[str]) -> str:
    """`; did you mean …?` where something similar exists, else what there is."""
    known = sorted(names)
    similar = difflib.get_close_matches(name, known, n=1)
    if similar:
        return f"; did you mean {similar[0]!r}?"
    return f"; there is {', '.join(known)}" if known else "; there is nothing"


def _complaints(
    name: str, asked: Mapping[str, Any], found: Mapping[str, Info], sizes: dict[str, tuple[int, str]]
) -> list[str]:
    info = found.get(name)
    if info is None:
        return [] if asked.get("optional") else [f"variable {name} is missing{near(name, found)}"]
    wrong = []
    kind, shape = asked.get("type"), asked.get("shape")
    if kind is not None and not _is_of(info.type, kind):
        wrong.append(f"variable {name}: expected type {kind}, found {info.type}")
    if shape is not None:
        expected, problem = f"[{', '.join(map(str, shape))}]", ""
        if len(shape) != len(info.shape):
            problem = "other dimensions"
        for length, wanted in zip(info.shape, shape, strict=False):
            if isinstance(wanted, int):
                problem = problem or ("" if length == wanted else f"{length} is not {wanted}")
            else:
                size, first = sizes.setdefault(wanted, (length, name))
                problem = problem or ("" if length == size else f"{wanted} is {size} in {first}")
        if problem:
            wrong.append(f"variable {name}: expected shape {expected}, found {list(info.shape)} ({problem})")
    return wrong


def _is_of(kind: str, asked: str) -> bool:
    if asked in FAMILIES:
        return kind != "string" and issubclass(np.dtype(kind).type, FAMILIES[asked])
    return kind == asked
