"""Damages a file as disks, crashes, editors and other programs do: bytes, lines, and the values of JSON records."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

HUGE = "9" * 20_000
_HUGE_MARK = "@an integer of many digits@"
_EXPONENT_MARK = "@a float beyond all@"
NUMBERS: list[Any] = [
    0, -1, 1, 2, 7, 2**31, 2**63, 2**64, 10**30, 10**99, 10**400, -(10**30), 0.0, -1.5, 1e-300, 1e308, -1e308,
    float("inf"), float("-inf"), float("nan"), _HUGE_MARK, _EXPONENT_MARK, True,
]  # fmt: skip
TEXTS: list[Any] = [
    "", " ", "a", "a/b", "../..", "/", "x" * 10_000, "a/" * 5_000, "\0", "a\0b", "\x85", "a\u2028b", "\ud800",
    "🦈" * 80, "\x1b[2J", "${{ run.dir }}", "{0}", "%s", "NaN", "run_finished", "succeeded", "local",
    "\n", "-", "1e999", "\u202e",
]  # fmt: skip
OTHERS: list[Any] = [None, True, False, [], [[]], {}, [None], {"a": 1}, {"": ""}, [1] * 1000, ["a", 5], {"event": []}]
PIECES = [
    b"\0", b"\xff", b"\xc3", b"\n", b"\r", b"\x85", b"\xe2\x80\xa8", b"\xc2\x85", b"{", b"}", b"[", b"]", b'"', b",",
    b":", b"NaN", b"Infinity", b"1e999", b"null", b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"\xef\xbb\xbf",
    b"\\ud800",
    b"\\u0000", b"-", b"1" * 30,
]  # fmt: skip
Mutation = Callable[[bytes, random.Random], bytes]


def mutate(data: bytes, dice: random.Random) -> bytes:
    """One way of damage, chosen by the dice."""
    chosen = dice.choice([_flip, _cut, _pieces, _lines, _values, _values, _values, _nest])
    return chosen(data, dice)


def _flip(data: bytes, dice: random.Random) -> bytes:
    """Some bits."""
    found = bytearray(data or b"\0")
    for _ in range(dice.choice([1, 1, 3, 20])):
        found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
    return bytes(found)


def _cut(data: bytes, dice: random.Random) -> bytes:
    """The end, the beginning, or something in between."""
    a, b = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    return dice.choice([data[:a], data[a:], data[:a] + data[b:], data[:a] + b"\0" * (b - a) + data[b:]])


def _pieces(data: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.randint(1, 3)):
        at, piece = dice.randrange(len(data) + 1), dice.choice(PIECES)
        data = data[:at] + piece + data[at + dice.choice([0, 0, 1, len(piece)]) :]
    return data


def _lines(data: bytes, dice: random.Random) -> bytes:
    """Lines removed, repeated, or in another order."""
    lines = data.split(b"\n")
    for _ in range(dice.randint(1, 4)):
        a, b = dice.randrange(len(lines)), dice.randrange(len(lines))
        match dice.randrange(4):
            case 0 if len(lines) > 1:
                del lines[a]
            case 1:
                lines.insert(b, lines[a])
            case 2:
                lines[a] = lines[a] + lines[b]
            case _:
                lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def _values(data: bytes, dice: random.Random) -> bytes:
    """Values of a JSON document, or of one line of many, become others, are renamed or removed."""
    lines, number, tree = _some_json(data, dice)
    if tree is None:
        return _numbers_of_text(data, dice)
    for _ in range(dice.choice([1, 1, 2, 5])):
        known = list(_paths(tree))
        if not known:
            break
        path = dice.choice(known)
        parent = tree
        for key in path[:-1]:
            parent = parent[key]
        old, value = parent[path[-1]], copy.deepcopy(dice.choice(NUMBERS + TEXTS + OTHERS))
        alike = NUMBERS if isinstance(old, int | float) else TEXTS if isinstance(old, str) else OTHERS
        match dice.randrange(5):
            case 0 | 1:
                parent[path[-1]] = copy.deepcopy(dice.choice(alike))
            case 2:
                parent[path[-1]] = value
            case 3:
                del parent[path[-1]]
            case _ if isinstance(parent, dict):
                parent[dice.choice(["", "x" * 300, "\0", f"{path[-1]}x"])] = parent.pop(path[-1])
    return _with(lines, number, _to_text(tree, dice))


def _nest(data: bytes, dice: random.Random) -> bytes:
    """One value deep inside of others."""
    lines, number, tree = _some_json(data, dice)
    known = list(_paths(tree))
    if not known:
        return data + b"[" * 10_000
    parent, path = tree, dice.choice(known)
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = "@deep@"
    depth = dice.choice([50, 99, 150, 500, 990, 100_000])
    before, after = dice.choice([("[", "]"), ('{"a":', "}")])
    text = _to_text(tree, dice).replace('"@deep@"', before * depth + "1" + after * depth)
    return _with(lines, number, text)


def _some_json(data: bytes, dice: random.Random) -> tuple[list[bytes], int | None, Any]:
    """(lines, which of them, its value); the number is None for a document of several lines, the value for no JSON."""
    lines = data.split(b"\n")
    try:
        return lines, None, json.loads(data)
    except (ValueError, RecursionError):
        pass
    number = dice.randrange(len(lines))
    try:
        return lines, number, json.loads(lines[number])
    except (ValueError, RecursionError):
        return lines, number, None


def _with(lines: list[bytes], number: int | None, text: str) -> bytes:
    written = text.encode("utf-8", "surrogatepass")
    return written if number is None else b"\n".join([*lines[:number], written, *lines[number + 1 :]])


def _numbers_of_text(data: bytes, dice: random.Random) -> bytes:
    """A number of YAML, or of any other text, becomes another."""
    words = data.split(b" ")
    places = [place for place, word in enumerate(words) if word.strip(b",[]{}\n").isdigit()]
    for place in dice.sample(places, min(len(places), dice.randint(1, 2))):
        new = _to_text(dice.choice(NUMBERS + TEXTS[:14]), dice).encode("utf-8", "surrogatepass")
        words[place] = words[place].replace(words[place].strip(b",[]{}\n"), new)
    return b" ".join(words)


def _to_text(tree: Any, dice: random.Random) -> str:
    text = json.dumps(tree, ensure_ascii=dice.random() < 0.5)
    return text.replace(f'"{_HUGE_MARK}"', HUGE).replace(f'"{_EXPONENT_MARK}"', "1e999")


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield (*at, key)
        yield from _paths(child, (*at, key))
