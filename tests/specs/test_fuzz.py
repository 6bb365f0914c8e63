"""Thousands of mutated pipeline files: each is planned, or refused with problems that have a place. Nothing else.

The seeds are fixed, so that a failure comes back. A failing file is kept in pytest's temporary folder, and its path is
in the message.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.site.site_model import Site
from workflow.spec import shipped
from workflow.spec.load import load_pipeline

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SITE = Site(
    site="test", summary="16 cores", nodes=2, cores_per_node=8, memory_per_node=2**33, launcher="srun",
    planes=["tcp", "mpi"], operators=["blosc", "zfp"],
)  # fmt: skip
SOURCES = sorted([*ROOT.glob("examples/*/pipeline.yaml"), *(HERE / "good").glob("*.yaml")])
MUTANTS = [120, pytest.param(2_000, marks=pytest.mark.reliability)]  # of each source and kind

LONG = "x" * 10_000
NUMBERS: list[Any] = [
    0, -1, 1, 2, 7, 2**31, 2**63, 10**99, -(2**64), 0.0, -1.5, 1e-300, 1e308, float("inf"), float("nan"),
]  # fmt: skip
TEXTS: list[Any] = [
    "", " ", "0", "*", "~", "a", "a/b", "../..", "/", "./", "~nobody/x", "a.b", "%s%n", "{0}", "{x}", "x" * 300, LONG,
    f"./{LONG}", "a/" * 5_000, "\0", "a/\0b", "\u202e", "ﬀ", "🦈" * 80, "é́", "\ud7ff", "\ufeff", "\x7f", "\x85",
    "\u2028", "${{", "}}", "$${{ x }}", "${{ run.dir }}", "${{ streams.field.path }}",
    "${{ streams.positions.config }}", "${{ wf.python }}", "10 min", "2 GiB", "1e400 GiB", "-1 s", "auto",
    "pipe", "off", "after", "live", "sst", "bp5", "shm", "hdf5",
    "file", "adios2.xml", "openpmd.json", "env", "warpx", "keep", "walk", "positions", "sim.field", "walk.nothing",
]  # fmt: skip
OTHERS: list[Any] = [
    None, True, False, [], [[]], {}, [None], ["a", 5], {"a": 1}, {"": ""}, {"*": {}}, {LONG: "x"}, {"\0": "\0"},
    [1] * 1_000, {"component": "null"}, {"limit": 0}, {"from": "a", "to": "b"}, {"async": "pipe"},
    {"more": {"component": "keep"}},
]  # fmt: skip
BYTES = [
    b"\0", b"\xff", b"\xc3", b"\t", b"\r", b"\n", b":", b": ", b"- ", b"{", b"}", b"[", b"]", b"'", b'"', b"#", b"&a ",
    b"*a ", b"<<: *a\n", b"!!int ", b"!x ", b"|\n", b">", b"---\n", b"...\n", b"%YAML 1.1\n", b"? ", b"@", b"`", b"0x",
    b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x85", b"9" * 5_000, LONG.encode(), b"{a: " * 100, b"[" * 500, b"\\x",
    b"&a [*a]", b"1_000", b'"\\ud800"', b'"\\0"',
]  # fmt: skip
KEYS = ["x" * 300, "\0", "", "*", "<<", "ünï", "a.b", "from_", "with", "tap", "output", "async", "queue", "env"]
SETS = [
    "streams.*.via=bp5", "stages.*.ranks=2", "stages.*.output={async: pipe}", "streams.*.tap={t: {component: 'null'}}",
    "name=&a [*a]", f"name={LONG}", f"{LONG}=1", "a.b.c=[", "=", "stages.\0=1", "wf=.nan", "streams=5",
    "stages.*.place.share=x",
]  # fmt: skip


def paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value inside, but not of the whole."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield (*at, key)
        yield from paths(child, (*at, key))


def parent_of(tree: Any, path: tuple[str | int, ...]) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree


def mutate_tree(text: bytes, dice: random.Random) -> bytes:
    """One to three changes of the structure: values replaced, keys removed, renamed, repeated or moved."""
    tree = yaml.safe_load(text)
    for _ in range(dice.randint(1, 3)):
        known = list(paths(tree))
        path, other = dice.choice(known), dice.choice(known)
        parent, value = parent_of(tree, path), dice.choice(NUMBERS + TEXTS + OTHERS)
        match dice.randrange(6):
            case 0 | 1:
                parent[path[-1]] = copy.deepcopy(value)
            case 2:
                del parent[path[-1]]
            case 3 if isinstance(parent, dict):
                new = dice.choice([f"{path[-1]}x", str(path[-1]).upper(), *KEYS])
                parent[new] = parent.pop(path[-1])
            case 4:
                parent_of(tree, other)[other[-1]] = copy.deepcopy(parent[path[-1]])
            case _:
                for _ in range(dice.choice([1, 5, 70])):
                    parent[path[-1]] = {"a": parent[path[-1]]} if dice.random() < 0.5 else [parent[path[-1]]]
        if not list(paths(tree)):
            break
    return as_json(tree, dice)


def mutate_values(text: bytes, dice: random.Random) -> bytes:
    """One or two values replaced by others of the same kind, which more often pass the schema."""
    tree = yaml.safe_load(text)
    leaves = [path for path in paths(tree) if not isinstance(parent_of(tree, path)[path[-1]], dict | list)]
    for path in dice.sample(leaves, dice.randint(1, 2)):
        parent = parent_of(tree, path)
        kinds = TEXTS if isinstance(parent[path[-1]], str) else NUMBERS
        parent[path[-1]] = dice.choice(kinds)
    return as_json(tree, dice)


def as_json(tree: Any, dice: random.Random) -> bytes:
    """JSON, in ASCII or not, is YAML too; it keeps texts that look like numbers."""
    return json.dumps(tree, indent=1, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")


def mutate_lines(text: bytes, dice: random.Random) -> bytes:
    """One to four lines removed, repeated, moved, indented, anchored or merged."""
    lines = text.splitlines(keepends=True)
    for _ in range(dice.randint(1, 4)):
        index, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        match dice.randrange(6):
            case 0 if len(lines) > 1:
                del lines[index]
            case 1:
                lines.insert(other, lines[index])
            case 2:
                lines[index], lines[other] = lines[other], lines[index]
            case 3:
                lines[index] = b" " * dice.randint(1, 4) + lines[index]
            case 4:
                lines[index] = lines[index].replace(b": ", b": &a ", 1)
                lines.insert(other, b"  <<: *a\n" if dice.random() < 0.5 else b"  more: *a\n")
            case _:
                lines[index] = lines[index].lstrip()
    return b"".join(lines)


def mutate_bytes(text: bytes, dice: random.Random) -> bytes:
    """One to three pieces of bytes put in, taken out or replaced; or the end cut off."""
    for _ in range(dice.randint(1, 3)):
        at, piece = dice.randrange(len(text) + 1), dice.choice(BYTES)
        match dice.randrange(4):
            case 0:
                text = text[:at] + piece + text[at:]
            case 1:
                text = text[:at] + text[at + dice.randint(1, 20) :]
            case 2:
                text = text[:at] + piece + text[at + len(piece) :]
            case _:
                text = text[:at] if dice.random() < 0.3 else text[:at] + bytes([dice.randrange(256)]) + text[at + 1 :]
    return text


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [mutate_tree, mutate_values, mutate_lines, mutate_bytes]


def why_not(file: Path, dice: random.Random) -> str:
    """What is wrong with how a file is planned or refused, with overlays or without; empty when all is well."""
    profiles = dice.sample(["live", "post-hoc", "fine", "nothing"], dice.choice([0, 0, 0, 1, 2]))
    sets, via = dice.sample(SETS, dice.choice([0, 0, 0, 1, 2])), dice.choice([None, None, None, "bp5", "sst", LONG])
    try:
        loaded = load_pipeline(file, profiles=profiles, sets=sets, via=via)
        make_plan(loaded, SITE, python="/python", wf_version="0")
    except SpecError as error:
        if not error.problems:
            return "refused without a problem"
        nowhere = [str(each) for each in error.problems if not each.source or not each.message]
        return f"problems without a place: {nowhere}" if nowhere else ""
    except Exception as error:
        frames = [f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_tb(error.__traceback__)]
        return "\n".join([*frames[-6:], f"{type(error).__name__}: {str(error)[:100]}"])
    return ""


def fuzz(source: Path, mutate: Callable[[bytes, random.Random], bytes], folder: Path, mutants: int) -> dict[str, str]:
    """What went wrong → the mutant that shows it, of so many mutants of one source."""
    inside = folder / "pipeline"
    shutil.copytree(source.parent, inside, ignore=shutil.ignore_patterns("runs", "build", "__pycache__"))
    text, dice = source.read_bytes(), random.Random(f"{source.parent.name} {source.name} {mutate.__name__}")
    failed: dict[str, str] = {}
    for number in range(mutants):
        file = inside / "mutant.yaml"
        file.write_bytes(mutate(text, dice))
        if (wrong := why_not(file, dice)) and wrong not in failed:
            failed[wrong] = str(shutil.copy(file, folder / f"mutant-{number}.yaml"))
    return failed


@pytest.mark.parametrize("mutants", MUTANTS)
@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.parent.name}-{source.stem}")
def test_mutants_are_planned_or_refused_with_a_place(
    source: Path,
    mutate: Callable[[bytes, random.Random], bytes],
    mutants: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    if source.parent.name == "good":
        monkeypatch.setattr(shipped, "COMPONENT_DIRS", [HERE / "components"])
    failed = fuzz(source, mutate, tmp_path, mutants)
    assert not failed, "\n\n".join(f"{file}\n{wrong}" for wrong, file in failed.items())
