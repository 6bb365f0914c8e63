"""The drawing of a pipeline: who joins whom is read back out of what was drawn.

After a deliberate change: `pytest tests/unit/test_graph.py --bless`, then read the difference and look at the
drawings.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.drawings import DrawnPipeline, overlaps, read_rails, read_svg
from tests.support.planner import CHAIN, Planner
from tests.support.sample_run import make_end, make_stage
from tests.support.sample_run import make_plan as sample_plan
from workflow.cli.main import wf
from workflow.plan.make import make_plan
from workflow.report.graph.graph_mermaid import make_mermaid
from workflow.report.graph.graph_svg import draw_pipeline
from workflow.report.graph.graph_text import graph_lines
from workflow.report.graph.layered_layout import spread
from workflow.report.graph.pipeline_graph import GraphStage, GraphStream, PipelineGraph, make_pipeline_graph
from workflow.report.html.page_sections import MOST_STAGES, pipeline_drawing
from workflow.report.show.folded_members import fold_plan
from workflow.site.load_site import launcher_options
from workflow.site.site_model import Site
from workflow.spec.load import load_pipeline

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/graphs"
# With the profile that adds a stage.
PROFILES = {"examples/campaigns/adios-at-scale/offloading/pipeline.yaml": ["offloaded"]}
PIPELINES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("pipeline.yaml"))
# Not this machine: what is drawn must not depend on it.
LAPTOP = Site(
    site="laptop", summary="8 cores", nodes=1, cores_per_node=8, memory_per_node=2**34,
    operators=["blosc", "bzip2", "zfp"], launcher_options=launcher_options("mpiexec"),
)  # fmt: skip


def graph_of(pipeline: str, monkeypatch: pytest.MonkeyPatch) -> PipelineGraph:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("WF_CONFIGS", raising=False)
    loaded = load_pipeline(pipeline, profiles=PROFILES.get(pipeline, []))
    return make_pipeline_graph(make_plan(loaded, LAPTOP, python="/env/bin/python", wf_version="0"))


def golden_name(pipeline: str) -> str:
    return str(Path(pipeline).parent.relative_to("examples")).replace("/", ".")


def check_drawing(graph: PipelineGraph, down: bool = True) -> DrawnPipeline:
    """What holds of every drawing: nothing overlaps or is cut off, and the arrows join what the graph joins."""
    drawn = read_svg(draw_pipeline(graph, down).element())
    for index, one in enumerate(drawn.figures):
        assert one.box[0] >= 0 and one.box[2] <= drawn.size[0], f"{one.key} is cut off"
        assert one.box[1] >= 0 and one.box[3] <= drawn.size[1], f"{one.key} is cut off"
        for other in drawn.figures[index + 1 :]:
            assert not overlaps(one.box, other.box), f"{one.key} lies on {other.key}"
    wanted = [(f"stage {stream.writer}", f"stream {stream.name}") for stream in graph.streams]
    wanted += [(f"stream {stream.name}", f"stage {reader}") for stream in graph.streams for reader in stream.readers]
    wanted += [(f"stage {stage.name}", f"file {file}") for stage in graph.stages for file in stage.writes]
    wanted += [(f"file {file}", f"stage {stage.name}") for stage in graph.stages for file in stage.reads]
    assert sorted(drawn.joins) == sorted(wanted)
    assert len(set(drawn.tips)) == len(drawn.tips), "two arrows end at the same point"
    along = 1 if down else 0
    box_of = {figure.key: figure.box for figure in drawn.figures}
    turned = {(f"stream {stream}", f"stage {reader}") for stream, reader in graph.backwards}
    for stream in graph.streams:
        if stream.readers and graph.backwards >= {(stream.name, reader) for reader in stream.readers}:
            turned.add((f"stage {stream.writer}", f"stream {stream.name}"))
    for join in drawn.joins:
        first, last = join[::-1] if join in turned else join
        assert box_of[first][along + 2] < box_of[last][along], f"the arrow {join} has the wrong direction"
    return drawn


def check_text(graph: PipelineGraph, width: int = 80) -> list[str]:
    lines = graph_lines(graph, width)
    assert read_rails(lines) == sorted((stream.name, reader) for stream in graph.streams for reader in stream.readers)
    return lines


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_examples_and_studies(pipeline: str, bless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(pipeline, monkeypatch)
    drawn = check_drawing(graph)
    check_drawing(graph, down=False)
    structure: dict[str, Any] = {
        "title": drawn.title,
        "figures": {figure.key: [figure.role, *figure.lines] for figure in drawn.figures},
        "joins": sorted(f"{one} → {other}" for one, other in drawn.joins),
        "dashed": sorted(f"{one} → {other}" for one, other in drawn.dashed),
    }
    lines = check_text(graph)
    assert max(map(len, lines)) <= 80
    for suffix, text in (
        ("json", json.dumps(structure, indent=1, ensure_ascii=False) + "\n"),
        ("txt", "\n".join(lines) + "\n"),
        ("mmd", make_mermaid(graph)),
    ):
        golden = GOLDEN / f"{golden_name(pipeline)}.{suffix}"
        if bless:
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(text, encoding="utf-8")
        assert golden.is_file(), f"no {golden.name}: run with --bless, then read it"
        assert text == golden.read_text(encoding="utf-8")


def test_the_picture_of_the_readme_is_that_of_its_pipeline(bless: bool, tmp_path: Path) -> None:
    found = re.search(
        r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found
    (tmp_path / "pipeline.yaml").write_text(found[1], encoding="utf-8")
    (tmp_path / "in.shock").touch()
    plan = make_plan(load_pipeline(tmp_path / "pipeline.yaml"), LAPTOP, python="/env/bin/python", wf_version="0")
    svg = draw_pipeline(make_pipeline_graph(plan)).element()
    picture = ROOT / "docs/pictures/pipeline.svg"
    if bless:
        picture.write_text(svg, encoding="utf-8")
    assert svg == picture.read_text(encoding="utf-8"), "run with --bless, then look at it"


BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/how-to/taps-and-pipes.md"])
def test_the_docs_show_what_is_drawn(page: str, bless: bool, tmp_path: Path) -> None:
    """Of the last pipeline before it, at first the starter."""
    text = (ROOT / page).read_text(encoding="utf-8")
    pipelines = [(ROOT / "examples/00-starter/pipeline.yaml").read_text(encoding="utf-8")]
    drawn: list[list[str]] = []

    def redrawn(found: re.Match[str]) -> str:
        language, block = found.groups()
        if language == "yaml" and block.startswith("# pipeline"):
            pipelines.append(block)
        if language != "console" or not block.startswith("$ wf graph "):
            return found[0]
        (tmp_path / "pipeline.yaml").write_text(pipelines[-1], encoding="utf-8")
        plan = make_plan(load_pipeline(tmp_path / "pipeline.yaml"), LAPTOP, python="python", wf_version="0")
        drawn.append(graph_lines(make_pipeline_graph(plan)))
        return "\n".join(["```console", block.splitlines()[0], *drawn[-1], "```"])

    shown = BLOCK.sub(redrawn, text)
    if bless:
        (ROOT / page).write_text(shown, encoding="utf-8")
    assert drawn
    assert (ROOT / page).read_text(encoding="utf-8") == shown


def test_nothing_is_kept_of_pipelines_that_are_gone() -> None:
    expected = {f"{golden_name(pipeline)}.{suffix}" for pipeline in PIPELINES for suffix in ("json", "txt", "mmd")}
    assert {path.name for path in GOLDEN.iterdir()} == expected


def random_graph(seed: int) -> PipelineGraph:
    """Any shape: chains, fan-out, fan-in, diamonds, circles, streams over several layers, stages alone."""
    chance = random.Random(seed)
    count = chance.randint(1, 14)
    stages = tuple(
        GraphStage(f"s{number}", chance.choice(["simulation", "analysis", "sink"]), chance.choice(["", "", "tap"]),
                   "p" * chance.randint(1, 70), "1 rank, node 0", writes=("a.bp",) * chance.randint(0, 1))
        for number in range(count)
    )  # fmt: skip
    streams = []
    for number in range(chance.randint(0, 2 * count) if count > 1 else 0):
        writer = chance.randrange(count - 1)
        # One in five may lead back.
        others = [each for each in range(count) if each > writer or (each < writer and chance.random() < 0.2)]
        readers = tuple(f"s{each}" for each in sorted(chance.sample(others, min(len(others), chance.randint(1, 4)))))
        held = "queue 2, block" if chance.random() < 0.8 else ""
        streams.append(
            GraphStream(f"x{number}", f"s{writer}", readers, chance.choice(["live", "after"]), "SST tcp", held)
        )
    return PipelineGraph("random", stages, tuple(streams))


@pytest.mark.parametrize("seed", range(40))
def test_any_shape_can_be_drawn(seed: int) -> None:
    graph = random_graph(seed)
    stages = tuple(
        # One file of each name: a drawing is read back by names.
        GraphStage(
            each.name,
            each.kind,
            each.added,
            each.program,
            each.where,
            (),
            tuple(f"{each.name}.bp" for _ in each.writes),
        )
        for each in graph.stages
    )
    graph = PipelineGraph(graph.pipeline, stages, graph.streams)
    check_drawing(graph)
    check_drawing(graph, down=False)
    check_text(graph)


def test_fan_in_is_ordered_so_that_nothing_crosses() -> None:
    """Three chains that are given mixed up: the layers are ordered until no arrow crosses another."""
    stages = [
        GraphStage(name, "simulation", "", "p", "1 rank, node 0") for name in ("c2", "a1", "b1", "c1", "b2", "a2")
    ]
    streams = [GraphStream(f"x{name}", f"{name}1", (f"{name}2",), "live", "SST", "") for name in "abc"]
    drawn = check_drawing(PipelineGraph("chains", tuple(stages), tuple(streams)))
    middle = {figure.key: (figure.box[0] + figure.box[2]) / 2 for figure in drawn.figures}
    for name in "abc":
        assert middle[f"stage {name}1"] == pytest.approx(middle[f"stream x{name}"], abs=0.2)
        assert middle[f"stage {name}1"] == pytest.approx(middle[f"stage {name}2"], abs=0.2)


def test_places_are_spread_as_little_as_the_gaps_ask_for() -> None:
    assert spread([0, 10, 20], [1, 1, 1], [5, 5]) == [0, 10, 20]
    assert spread([0, 0, 0], [1, 1, 1], [6, 6]) == [-6, 0, 6]
    assert spread([0, 0, 100], [3, 1, 1], [8, 8]) == [-2, 6, 100]


ADDED = """
stages:
  walk: {component: walker, output: {async: pipe}}
  count: {component: tally, with: {variable: position}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: count, via: bp5, keep: false}
  counts: {from: count, to: keep, tap: {look: {component: keep, every: 10, with: {path: look.bp}}}}
"""


def test_stages_that_wf_adds_are_dashed_and_files_of_streams_are_named(plan_of: Planner) -> None:
    graph = make_pipeline_graph(plan_of(ADDED))
    drawn = check_drawing(graph)
    figures = {figure.key: figure for figure in drawn.figures}
    assert {key for key, figure in figures.items() if figure.dashed} == {
        "stage positions-pipe", "stage counts-relay", "stage look",
    }  # fmt: skip
    assert figures["stage look"].lines[1] == "sink (tap): keep"
    assert figures["stream positions"].lines == [
        "positions", "BP5, after", "streams/positions…ved after the run)",
    ]  # fmt: skip
    assert drawn.dashed == [("stage positions-pipe", "stream positions"), ("stream positions", "stage count")]
    text = "\n".join(check_text(graph))
    assert "╎" in text
    assert "streams/positions.bp (removed after the run)" in text, "the terminal has room for all of it"
    mermaid = make_mermaid(graph)
    assert mermaid.count("-.->") == 1
    assert mermaid.count("class stage") == 3


def test_what_is_a_file_and_who_writes_it_says_the_component(plan_of: Planner, tmp_path: Path) -> None:
    """An absolute path is written by the parameters of type `output`, in any kind of stage; a text is no file."""
    own = plan_of.folder / "code"
    own.mkdir()
    (own / "program.py").touch()
    (own / "component.yaml").write_text(
        "component: code\nkind: simulation\nsummary: s\n"
        "parameters: {restart: {type: output, help: h}, mesh: {type: file, help: h}, tag: {type: string, help: h}}\n"
        "writes: {out: {help: h, any: true}}\n"
    )
    (tmp_path / "box.msh").touch()
    given = f"{{restart: /scratch/out/restart.bp, mesh: {tmp_path}/box.msh, tag: /group/name.x}}"
    graph = make_pipeline_graph(
        plan_of(
            f"stages:\n  sim: {{component: ./code, with: {given}}}\n"
            "  keep: {component: keep, with: {path: /scratch/out/field.bp}}\nstreams: {field: {from: sim, to: keep}}\n"
        )
    )
    files = {stage.name: (stage.reads, stage.writes) for stage in graph.stages}
    assert files == {"sim": (("box.msh",), ("restart.bp",)), "keep": ((), ("field.bp",))}
    drawn = check_drawing(graph).joins
    assert ("stage keep", "file field.bp") in drawn and ("file box.msh", "stage sim") in drawn
    assert "writes field.bp" in "\n".join(check_text(graph))


def test_what_users_write_cannot_change_a_drawing() -> None:
    stage = GraphStage("end", "simulation", "", '</svg><script>"#`&', "1 rank, node 0", writes=('a"b<c>.bp',))
    graph = PipelineGraph("evil", (stage,), ())
    drawn = read_svg(draw_pipeline(graph).element())
    assert drawn.figures[0].lines[1] == 'simulation: </svg><script>"#`&'
    labels = [line for line in make_mermaid(graph).splitlines() if ":::" in line]
    assert all(line.count('"') == 2 and "<script" not in line for line in labels)


def test_the_verb_writes_what_the_suffix_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = str(ROOT / "examples/00-starter/pipeline.yaml")

    def graph(*options: str, code: int = 0) -> str:
        result = CliRunner().invoke(wf, ["graph", pipeline, *options], catch_exceptions=True)
        if code == 0:
            assert result.exit_code == 0, f"{result.output}\n{result.exception}"
        return result.stdout if code == 0 else f"{result.output}{result.exception}"

    assert "field: SHM" in graph()
    assert graph("--format", "mermaid").startswith("flowchart TB")
    for name in ("a.svg", "a.mmd", "a.txt"):
        graph("--output", name)
    assert read_svg(Path("a.svg").read_text()).title == "starter: 4 stages, 2 streams"
    files = read_svg(graph("--format", "svg", "--via", "bp5"))
    assert len(files.dashed) == len(files.joins) - 2, "streams by files are dashed, the arrows to the archives are not"
    assert "a.jpg" in graph("-o", "a.jpg", code=2)
    assert "which format is a.png?" in graph("-o", "a.png", code=2)
    assert "did you mean" in graph("--set", "stages.sim.rank=2", code=2)
    assert "cannot write" in graph("-o", "missing/a.svg", code=2)


def test_the_report_has_a_drawing_for_wide_and_one_for_narrow_windows() -> None:
    plan = sample_plan()
    drawing = pipeline_drawing(plan)
    assert drawing is not None and drawing.narrow is not None
    assert "xmlns" not in drawing.wide, "a page of a report has no address in it"
    assert drawing.wide.count('class="arrow"') == drawing.narrow.count('class="arrow"') == 4
    names = [f"keep{number}" for number in range(MOST_STAGES)]
    sinks = [make_stage(name, "sink", [make_end("pattern", "read")]) for name in names]
    fan = plan.streams[1].model_copy(update={"readers": names[:8]})
    wide = plan.model_copy(update={"stages": [*plan.stages[:2], *sinks[:8]], "streams": [plan.streams[0], fan]})
    drawing = pipeline_drawing(wide)
    assert drawing is not None and drawing.narrow is None, "from left to right is narrower, too"
    assert pipeline_drawing(plan.model_copy(update={"stages": [*plan.stages, *sinks]})) is None
    assert pipeline_drawing(plan.model_copy(update={"streams": []})) is None


CIRCLE = """
stages:
  fluid: {command: ["true"], writes: {mine: {}}, reads: {yours: {}}}
  solid: {command: ["true"], writes: {mine: {}}, reads: {yours: {}}}
streams:
  force: {from: fluid.mine, to: solid.yours}
  shape: {from: solid.mine, to: fluid.yours}
"""


def test_a_circle_of_streams_is_drawn(plan_of: Planner) -> None:
    plan = plan_of(CIRCLE)
    graph = make_pipeline_graph(plan)
    assert graph.backwards == {("shape", "fluid")}
    drawn = check_drawing(graph)
    check_drawing(graph, down=False)
    box_of = {figure.key: figure.box for figure in drawn.figures}
    assert box_of["stream shape"][1] == pytest.approx(box_of["stream force"][1]), "they stand beside each other"
    lines = check_text(graph)
    assert re.match(" ┌─+►│ fluid", lines[2]) and re.match(" └─+┘ shape: SST", lines[-1]), lines
    assert pipeline_drawing(plan) is not None
    assert all(name in make_mermaid(graph) for name in ("fluid", "solid", "force", "shape"))


@pytest.mark.parametrize("down", [True, False])
def test_a_stream_that_nobody_reads_yet_is_behind_its_writer(plan_of: Planner, down: bool) -> None:
    """That of a spool has readers after a restart only."""
    plan = plan_of(CHAIN.replace("to: count}", "to: count, keep: true}"))
    assert not plan.stream("positions-spool").readers
    check_drawing(make_pipeline_graph(plan), down)


def test_members_that_read_each_other_are_one_figure_with_one_line(plan_of: Planner) -> None:
    ring = fold_plan(
        plan_of("""
stages:
  sim: {members: 3, command: [sim], writes: {right: {}}, reads: {left: {}}}
streams:
  edge: {from: sim.right, to: sim.left, collect: {neighbour: 1}, via: sst}
""")
    )
    graph = make_pipeline_graph(ring)
    assert graph.backwards == {("3 × edge", "3 × sim")}
    drawn = read_svg(draw_pipeline(graph).element())
    assert drawn.joins == [("stage 3 × sim", "stream 3 × edge"), ("stream 3 × edge", "stage 3 × sim")]
    svg = draw_pipeline(graph).inside
    there, back = (re.findall(r"[\d.]+,[\d.]+", curve) for curve in re.findall(r'class="curve" d="([^"]*)"', svg))
    assert there[0].partition(",")[0] == back[-1].partition(",")[0], "one line, there and back"
    assert svg.count('class="head"') == 1
    assert re.match(r" ┌─+►│ 3 × sim", graph_lines(graph)[2])


def test_files_of_a_run_are_named_from_its_directory(plan_of: Planner) -> None:
    plan = plan_of(ADDED)
    written = plan.model_copy(
        update={
            "streams": [each.model_copy(update={"path": f"/runs/x/streams/{each.name}.bp"}) for each in plan.streams]
        }
    )
    held = {stream.name: stream.held for stream in make_pipeline_graph(written).streams}
    assert held["positions"] == "streams/positions.bp (removed after the run)", held
