"""The table of engines: complete, the only place that names them, and enough to add one."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import workflow
from tests.support.planner import Planner
from workflow.engines import DEFAULT_VIA, ENGINES, EngineTraits, engine_of_suffix, traits_of
from workflow.formats.stage_file import StreamEnd
from workflow.plan.visible_steps import visibility
from workflow.run.observe.followed_stages import Follower
from workflow.run.observe.stream_evidence import IndexFollower
from workflow.spec.engine_presets import known_engines, load_engine
from workflow.spec.models.engine import Engine
from workflow.stage.timeouts import contact_file

SOURCE = Path(workflow.__file__).parent
ONLY_READ = {"BP3", "BPFile"}  # of older files, by path: no stream is written so
ALLOWED = {
    "engines.py": "the table",
    "sst_transports.py": "libfabric has a provider of this name",
    "stage/adios/probe.py": "tries what this ADIOS2 can do, engine by engine",
    "stage/adios/sst_end.py": "a program that opens a stream of one engine",
}
PIPELINE = """
stages:
  walk: {component: walker, ranks: 4, output: {aggregation: {count: 2}, compression: {"*": {blosc: {}}}, files: FILES}}
  see: {component: keep}
streams:
  positions: {from: walk, to: see, via: VIA}
"""


@pytest.fixture(scope="module")
def presets() -> list[Engine]:
    return [load_engine(name) for name in known_engines()]


def test_every_preset_is_of_an_engine_of_the_table(presets: list[Engine]) -> None:
    assert {each.engine for each in presets} == ENGINES.keys() - ONLY_READ
    assert load_engine(DEFAULT_VIA).traits.in_memory


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda each: each.name)
def test_every_engine_answers_every_question(engine: EngineTraits) -> None:
    assert ENGINES[engine.name] is traits_of(engine.name)
    assert None not in engine
    for suffix in engine.suffixes:
        assert engine_of_suffix(Path(f"data{suffix.upper()}")) == engine.name


@pytest.mark.parametrize("name", sorted(ENGINES.keys() - ONLY_READ))
def test_traits_agree_with_the_parameters_of_the_engine(name: str, presets: list[Engine]) -> None:
    engine, preset = ENGINES[name], next(each for each in presets if each.engine == name)
    assert engine.in_memory is ("QueueLimit" in preset.parameters)
    assert engine.over_network is ("DataTransport" in preset.parameters)
    assert (engine.aggregators != "none") is ("NumAggregators" in preset.parameters)
    assert (engine.aggregators == "two levels") is ("AggregationType" in preset.parameters)
    assert (preset.couplings == ["live"]) is engine.in_memory
    assert (engine.library == "none") is not engine.has_steps
    if not engine.has_steps:
        assert not preset.parameters and not engine.records_blocks
    assert bool(engine.contact_suffix) is engine.in_memory


def test_an_unknown_engine_is_a_file_of_adios2() -> None:
    assert traits_of("DataMan") == EngineTraits("DataMan")
    assert traits_of("sst") is ENGINES["SST"]


def named_engines(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of each literal that names an engine: `"SST"`, `"bp5"`, programs as text that name one, and `"file"`
    where an engine is compared with it. Docstrings name them as they like."""
    words = {word for name in (*ENGINES, "BP") if name != "file" for word in (name, name.lower())}
    quoted = re.compile(r"[\"'](" + "|".join(words) + r")[\"']")
    documented = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            if node.value in words or quoted.search(node.value):
                yield node.lineno, node.value.strip()
        elif isinstance(node, ast.Compare) and re.search(r"engine|traits|\bvia\b", ast.unparse(node)):
            sides = [each for side in (node.left, *node.comparators) for each in ast.walk(side)]
            if any(isinstance(each, ast.Constant) and each.value == "file" for each in sides):
                yield node.lineno, ast.unparse(node)


def test_no_other_file_names_an_engine() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): list(named_engines(ast.parse(path.read_text())))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    named = {path: names for path, names in found.items() if names}
    unexpected = {path: names for path, names in named.items() if path not in ALLOWED}
    assert not unexpected, "ask for the trait that is meant: workflow/engines.py"
    assert named.keys() == ALLOWED.keys(), "files that name none need not be allowed to"


@pytest.mark.parametrize(
    "line", ['end.engine.upper() == "SST"', 'name in ("BP5", "BP4")', 'engine != "file"', 'run("""open(\'sst\')""")']
)
def test_names_are_found(line: str) -> None:
    assert list(named_engines(ast.parse(f"x = {line}")))


@pytest.fixture
def new_engine(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> str:
    """An engine that is like BP4: one line in the table, one file with its parameters."""
    monkeypatch.setitem(ENGINES, "BP6", ENGINES["BP4"]._replace(name="BP6", suffixes=(".bp6",)))
    (plan_of.folder / "engines").mkdir()
    (plan_of.folder / "engines" / "bp6.yaml").write_text("engine: BP6\nbased_on: bp4\nsummary: like BP4\n")
    monkeypatch.setenv("WF_CONFIGS", str(plan_of.folder))
    return "bp6"


@pytest.mark.parametrize(("files", "coupling"), [("one", "after"), ("one", "live"), ("each_step", "after")])
def test_an_engine_is_added_by_a_line_and_a_file(files: str, coupling: str, new_engine: str, plan_of: Planner) -> None:
    def planned(via: str) -> str:
        text = PIPELINE.replace("VIA", f"{via}, coupling: {coupling}").replace("FILES", files)
        return plan_of(text).model_dump_json()

    like, new = planned("bp4"), planned(new_engine)
    assert "BP6" in new and json.loads(new) == json.loads(like.replace("BP4", "BP6").replace("bp4", "bp6"))


def test_an_engine_that_was_added_is_followed_like_its_kind(new_engine: str, plan_of: Planner, tmp_path: Path) -> None:
    text = """
stages:
  make: {command: [make], writes: {data: {io: Data, config: adios2.xml}}}
  take: {command: [take], reads: {data: {io: Data, config: adios2.xml}}}
streams:
  data: {from: make, to: take, via: VIA}
"""
    stage = plan_of(text.replace("VIA", new_engine)).stage("make")
    assert visibility(stage, stage.ends[0]) == (True, True)
    follows = [getattr(poll, "__self__", None) for poll in Follower(stage, tmp_path)._polls]
    assert any(isinstance(each, IndexFollower) for each in follows)
    path = contact_file(StreamEnd("data", "data", "read", "BP6", "streams/data.bp"))
    assert path == Path("streams/data.bp/md.idx") and engine_of_suffix(Path("data.bp6")) == "SST"
