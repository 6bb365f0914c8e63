"""A loaded pipeline: complete parameters, files found, engines read; and nothing but SpecError for anything wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from workflow.errors import SpecError
from workflow.spec import load as load_module
from workflow.spec import shipped
from workflow.spec.check import Library
from workflow.spec.load import load_pipeline
from workflow.spec.yaml_tree.node import Node, plain, walk
from workflow.spec.yaml_tree.parse import read_yaml

SPECS = Path(__file__).parents[1] / "specs"
CHAIN = SPECS / "good" / "chain.yaml"


@pytest.fixture(autouse=True)
def test_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [SPECS / "components"])
    monkeypatch.delenv("WF_CONFIGS", raising=False)


def pipeline(folder: Path, stage: str) -> Path:
    path = folder / "p.yaml"
    path.write_text(f"wf: 1\nname: small\nstages:\n  one: {stage}\n")
    return path


def test_the_whole_of_a_pipeline() -> None:
    loaded = load_pipeline(CHAIN)
    assert loaded.path == CHAIN.absolute() and loaded.text == CHAIN.read_bytes()
    assert loaded.spec.deadlines.start == 60.0 and loaded.spec.streams["positions"].queue.limit == 3
    assert loaded.spec.stages["walk"].output.async_ == "off"
    assert list(loaded.components) == ["walker", "tally", "keep"]
    assert loaded.component_dirs["walker"] == SPECS.absolute() / "components" / "walker"
    assert {name: engine.engine for name, engine in loaded.engines.items()} == {"positions": "SST", "counts": "BP5"}


def test_parameters_are_complete_and_in_base_units() -> None:
    parameters = load_pipeline(CHAIN).parameters
    assert parameters["walk"] == {
        "walkers": 50, "step_length": 0.1, "box": [1.0, 2.5, 10.0], "boundary": "open", "pace": 0.01, "start": None,
        "script": str(SPECS.absolute() / "components" / "walker" / "walk.txt"), "labels": [],
    }  # fmt: skip
    assert parameters["count"] == {"variable": "position", "bins": 16, "memory": 16_000_000}
    assert parameters["keep"] == {"path": "counts.bp", "all": True}


def test_files_are_found_beside_the_pipeline_file_and_then_beside_the_component(tmp_path: Path) -> None:
    path = pipeline(tmp_path, "{component: walker, with: {script: walk.txt}}")
    own = SPECS.absolute() / "components" / "walker" / "walk.txt"
    assert load_pipeline(path).parameters["one"]["script"] == str(own)
    (tmp_path / "walk.txt").write_text("mine")
    assert load_pipeline(path).parameters["one"]["script"] == str(tmp_path / "walk.txt")


def test_paths_do_not_depend_on_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "data.txt").write_text("1")
    path = pipeline(tmp_path / "here", "{component: walker, with: {start: data.txt}}")
    monkeypatch.chdir(tmp_path)
    loaded = load_pipeline(path.relative_to(tmp_path))
    assert loaded.parameters["one"]["start"] == str(tmp_path / "here" / "data.txt")
    assert loaded.origins.of("name") == "here/p.yaml:2:7"


def test_texts_of_files_are_read_and_data_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.json").write_bytes(b'{"path": "${{ streams.a.path }}"}\r\n')
    (tmp_path / "data.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.txt").write_text("x" * 200)
    monkeypatch.setattr(load_module, "MAX_TEMPLATE_BYTES", 100)
    files = "{a.json: in.json, b.bin: data.bin, c.txt: large.txt}"
    loaded = load_pipeline(pipeline(tmp_path, f"{{command: [./x], files: {files}}}"))
    assert loaded.templates == {"one": {"a.json": '{"path": "${{ streams.a.path }}"}\r\n'}}


def test_a_wrong_default_is_the_components_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "components" / "odd"
    folder.mkdir(parents=True)
    (folder / "component.yaml").write_text(
        "component: odd\nkind: sink\nsummary: s\nparameters:\n  n: {type: int, default: 0, min: 1, help: h}\n"
    )
    (folder / "program.py").write_text("")
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [tmp_path / "components"])
    with pytest.raises(SpecError, match=r"odd/component.yaml: parameters.n.default: expected at least 1, got 0"):
        load_pipeline(pipeline(tmp_path, "{component: odd}"))


def test_a_broken_component_file_is_told_once_and_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "components" / "odd"
    folder.mkdir(parents=True)
    (folder / "component.yaml").write_text("component: odd\nkind: sinks\nsummary: s\n")
    monkeypatch.setattr(shipped, "COMPONENT_DIRS", [tmp_path / "components"])
    path = pipeline(tmp_path, "{component: odd, ranks: 0}")
    path.write_text(path.read_text() + "  two: {component: odd}\n")
    with pytest.raises(SpecError) as caught:
        load_pipeline(path)
    assert [(Path(each.source).name, each.line, each.key) for each in caught.value.problems] == [
        ("component.yaml", 2, "kind"), ("p.yaml", 4, "stages.one.ranks"),
    ]  # fmt: skip


def wrong_trees(root: Node) -> Iterator[Node]:
    """The tree with each of its values exchanged for some odd ones, or left out."""
    odd: list[object] = [None, True, -1, 0.5, "", "x y", "*", [], [None], {}, {"a": {}}, "${{ x }}", 10**30]

    def changed(node: Node, path: tuple[str | int, ...], value: object) -> Node:
        if not path:
            return node._replace(value=value if not isinstance(value, dict | list) else _tree(value, node))
        children = dict(node.children)
        if len(path) == 1 and value is KeyError:
            del children[path[0]]
        else:
            children[path[0]] = changed(children[path[0]], path[1:], value)
        inside = list(children.values()) if isinstance(node.value, list) else children
        return node._replace(value=inside)

    for number, (path, _) in enumerate(walk(root)):
        # A few for each place, others for its neighbours: all together would take a quarter of a minute.
        for value in [KeyError, *odd[number % 4 :: 4]] if path else []:
            yield changed(root, path, value)


def _tree(value: object, at: Node) -> object:
    if isinstance(value, dict):
        return {key: Node(_tree(child, at), at.place) for key, child in value.items()}
    return [Node(_tree(child, at), at.place) for child in value] if isinstance(value, list) else value


def test_whatever_is_wrong_is_a_spec_error(tmp_path: Path) -> None:
    root, _ = read_yaml(CHAIN)
    trees = list(wrong_trees(root))
    assert len(trees) > 200
    refused = 0
    for tree in trees:
        file = tmp_path / "p.yaml"
        try:
            load_pipeline(file, library=Library(tmp_path, pipelines={file: (tree, b"")}))
        except SpecError as error:
            refused += 1
            assert all(problem.message for problem in error.problems)
    assert refused > len(trees) / 2


def test_loading_imports_nothing_heavy_but_pydantic_and_yaml() -> None:
    program = (
        "import sys; before = set(sys.modules); from workflow.spec.load import load_pipeline;"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before if not name.startswith('_')}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    foreign = set(done.stdout.split()) - set(sys.stdlib_module_names)
    assert foreign <= {
        "workflow", "pydantic", "pydantic_core", "yaml", "annotated_types", "typing_extensions", "typing_inspection",
        "cython_runtime",
    }  # fmt: skip


def test_our_yaml_agrees_with_pyyaml_where_the_versions_of_yaml_do() -> None:
    for path in [*SPECS.glob("components/*/component.yaml"), CHAIN]:
        assert yaml.safe_load(path.read_text().replace("async: off", "async: 'off'").replace("1e1", "10.0")) == plain(
            read_yaml(path)[0]
        )


def test_a_component_of_ones_own_is_a_folder_beside_the_pipeline(tmp_path: Path) -> None:
    own = tmp_path / "mine" / "spectrum"
    own.mkdir(parents=True)
    (own / "program.py").write_text("")
    (own / "component.yaml").write_text(
        "component: spectrum\nkind: simulation\nsummary: x\nwrites: {out: {any: true}}\n"
        "parameters: {bins: {type: int, default: 3, help: h}}\n"
    )
    (tmp_path / "p.yaml").write_text(
        "wf: 1\nname: p\nstages: {a: {component: mine/spectrum}, b: {component: keep}}\n"
        "streams: {s: {from: a, to: b}}\n"
    )
    loaded = load_pipeline(tmp_path / "p.yaml")
    assert loaded.component_dirs["mine/spectrum"] == own
    assert loaded.parameters["a"] == {"bins": 3}


def test_a_parameter_beside_with_is_told_where_it_belongs(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_pipeline(pipeline(tmp_path, "{component: walker, walkers: 3}"))
    problem = next(each for each in caught.value.problems if each.key == "stages.one.walkers")
    assert problem.message == "unknown key"
    assert problem.hint == "a parameter of component walker: write it under `with`"
