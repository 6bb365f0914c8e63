"""Configs of ADIOS2 that the user wrote: what wf changes in them, and that all else stays to the letter."""

from __future__ import annotations

from pathlib import Path

import adios2
import pytest

from tests.support.planner import HEAD, SITE
from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.plan.plan_model import EndPlan, OperatorPlan, Plan
from workflow.plan.programs.config_files import edited_again
from workflow.plan.programs.edited_configs import EDITORS, ConfigError
from workflow.run.records.run_directory import kept_plan
from workflow.spec.load import load_pipeline

XML = """<?xml version="1.0"?>
<!-- of the group: do not touch -->
<adios-config>
  <operator name="small" type="null"><parameter key="clevel" value="1"/></operator>
    <io name="Checkpoint"><engine type="BP4"><parameter key="Threads" value="2"/></engine></io>
  <io name="Out">   <!-- who reads this? ä > ö -->
    <engine type='BP5' >
      <parameter key="QueueLimit" value="7"/>   <parameter key="NumAggregators" value="2"/>
    </engine>
    <transport type="File"><parameter key="Library" value="POSIX"/></transport>
    <variable name="T"><operation operator="small"/></variable>
  </io>
  <io name='Bare'/>
  <adios-query><var name="T"><op value="AND"/></var></adios-query>
</adios-config>
"""
YAML = """# of the group
- IO: Checkpoint
  Engine: {Type: BP4, Threads: 2}   # fast
- Engine:
    Type: BP5      # for now
    QueueLimit: "7"
    NumAggregators: 2
  # who reads this?
  Transports:
    - {Type: File, Library: POSIX}
  Variables:
    - Variable: T
      Operations:
        - {Type: "null"}
  IO: "Out"

- IO: Bare
"""
TEXTS = {"adios2.xml": XML, "adios2.yaml": YAML}


def end(io: str, **operators: OperatorPlan) -> EndPlan:
    return EndPlan(
        stream=io, port="p", side="write", engine="SST", parameters={"QueueLimit": "2", "RendezvousReaderCount": "1"},
        path="x", open_timeout_s=1, step_timeout_s=1, io=io, operators=operators,
    )  # fmt: skip


def read(text: str, dialect: str, folder: Path) -> adios2.Adios:
    file = folder / dialect
    file.write_text(text, encoding="utf-8")
    return adios2.Adios(str(file))


@pytest.mark.parametrize("dialect", TEXTS)
def test_only_the_engine_of_the_coupled_io_is_replaced(dialect: str, tmp_path: Path) -> None:
    edited = EDITORS[dialect](TEXTS[dialect], [end("Out"), end("Bare")])
    assert edited.changes == [
        "io Out: engine BP5 → SST",
        "io Out: QueueLimit 7 → 2",
        "io Out: RendezvousReaderCount=1",
        "io Out: NumAggregators=2 is left out",
        "io Bare: engine none → SST",
        "io Bare: QueueLimit=2",
        "io Bare: RendezvousReaderCount=1",
    ]
    adios = read(edited.text, dialect, tmp_path)
    for name in ("Out", "Bare"):
        io = adios.declare_io(name)
        assert (io.engine_type(), io.parameters()) == ("SST", {"QueueLimit": "2", "RendezvousReaderCount": "1"})
    checkpoint = adios.declare_io("Checkpoint")
    assert (checkpoint.engine_type(), checkpoint.parameters()) == ("BP4", {"Threads": "2"})
    before = [line for line in TEXTS[dialect].splitlines() if "BP5" not in line]
    gone = {"QueueLimit", "NumAggregators", "Bare", "Type: BP5", "</engine>", "Engine:"}
    kept = [line for line in before if not any(word in line for word in gone)]
    assert [line for line in kept if line not in edited.text.splitlines()] == []


@pytest.mark.parametrize("dialect", TEXTS)
def test_a_config_that_is_as_wanted_stays_and_editing_twice_changes_nothing(dialect: str) -> None:
    once = EDITORS[dialect](TEXTS[dialect], [end("Out"), end("Bare")]).text
    assert EDITORS[dialect](once, [end("Out"), end("Bare")]) == (once, [])


@pytest.mark.parametrize("dialect", TEXTS)
def test_an_io_that_the_file_does_not_have_is_added(dialect: str, tmp_path: Path) -> None:
    edited = EDITORS[dialect](TEXTS[dialect], [end("PDFAnalysis")])
    assert edited.changes[0] == "io PDFAnalysis: added"
    io = read(edited.text, dialect, tmp_path).declare_io("PDFAnalysis")
    assert (io.engine_type(), io.parameters()["QueueLimit"]) == ("SST", "2")
    assert all(line in edited.text.splitlines() for line in TEXTS[dialect].splitlines())


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("adios2.xml", "<adios-config></adios-config>"),
        ("adios2.xml", "<adios-config/>"),
        ("adios2.yaml", "---\n"),
        ("adios2.yaml", "---\n...\n"),
        ("adios2.yaml", "- IO: Out\n  Engine:\n"),
        ("adios2.yaml", "- IO: Out\n  Engine: # of the group\n- IO: Other\n"),
        ("adios2.yaml", '[{IO: "Other", Engine: {Type: BP5}}]\n'),
        ("adios2.yaml", '[{IO: "Out"}]'),
        ("adios2.yaml", "- {IO: Out, Engine: {Type: BP5}}"),
        ("adios2.xml", "<adios-config><io name='Out'><engine type='BP5'/></io></adios-config>"),
    ],
)
def test_files_of_other_shapes(dialect: str, text: str, tmp_path: Path) -> None:
    io = read(EDITORS[dialect](text, [end("Out")]).text, dialect, tmp_path).declare_io("Out")
    assert (io.engine_type(), io.parameters()["RendezvousReaderCount"]) == ("SST", "1")


@pytest.mark.parametrize("dialect", TEXTS)
def test_operators_of_the_pipeline_stand_beside_those_of_the_file(dialect: str, tmp_path: Path) -> None:
    zfp = OperatorPlan(type="zfp", parameters={"accuracy": "0.1"}, bound=0.1)
    edited = EDITORS[dialect](TEXTS[dialect], [end("Out", U=zfp), end("Bare", U=zfp)])
    assert edited.changes.count("io Out: variable U: zfp") == 1
    read(edited.text, dialect, tmp_path).declare_io("Out")
    assert all(word in edited.text for word in ("zfp", "accuracy", "small" if dialect == "adios2.xml" else "null"))
    with pytest.raises(ConfigError, match="the operators of `T` in IO Out are set here, and by"):
        EDITORS[dialect](TEXTS[dialect], [end("Out", T=zfp)])


SHARED = """- IO: A
  Engine: &e {Type: &t BP4}
  Variables: &v []
- IO: B
  Engine: *e
  Variables: *v
- IO: C
  Engine: {Type: *t}
- &d
  IO: D
"""


@pytest.mark.parametrize("name", "ABCD")
def test_what_a_yaml_file_shares_by_anchors_is_not_edited(name: str) -> None:
    with pytest.raises(ConfigError, match=r"alias, or has an anchor") as error:
        EDITORS["adios2.yaml"](SHARED, [end(name)])
    assert "write it out" in error.value.hint
    assert error.value.offset is not None
    zfp = OperatorPlan(type="zfp", parameters={"accuracy": "0.1"}, bound=0.1)
    with pytest.raises(ConfigError, match="the variables of IO A"):
        EDITORS["adios2.yaml"](SHARED.replace("&e", "").replace("&t", "").split("- IO: B")[0], [end("A", U=zfp)])


def test_an_io_beside_anchors_and_empty_variables_are_edited() -> None:
    zfp = OperatorPlan(type="zfp", parameters={"accuracy": "0.1"}, bound=0.1)
    text = SHARED + "- IO: Own\n  Variables:\n"
    edited = EDITORS["adios2.yaml"](text, [end("Own", U=zfp)]).text
    assert edited.startswith(SHARED)
    assert "\n  Variables: [{Variable: " in edited


PIPELINE = """
stages:
  sim: {command: [./sim], writes: {field: {io: Out, config: adios2.xml}}, files: {adios2.xml: mine.xml}}
  keep: {component: "null"}
streams:
  field: {from: sim, to: keep, via: bp5}
"""


def planned(folder: Path, config: str, text: str = PIPELINE) -> Plan:
    (folder / "mine.xml").write_text(config, encoding="utf-8")
    (folder / "pipeline.yaml").write_text(HEAD + text)
    loaded = load_pipeline(folder / "pipeline.yaml")
    return make_plan(loaded, SITE, python="/python", wf_version="0")


def test_the_plan_has_the_edited_file_and_the_run_keeps_none_of_its_text(tmp_path: Path) -> None:
    plan = planned(tmp_path, XML.replace("of the group", "of ${{ stage.name }}"))
    stage = plan.stage("sim")
    ((path, text),) = stage.files.items()
    assert path.endswith("/stages/sim/work/adios2.xml")
    assert "<!-- of sim: do not touch -->" in text
    assert stage.edited == {
        path: ["io Out: QueueLimit=7 is left out", "io Out: NumAggregators=2 is left out"],
    }
    assert kept_plan(plan).stage("sim").files == {}
    again = [each.model_copy(update={"parameters": {"AppendAfterSteps": "3"}}) for each in stage.ends]
    assert '"AppendAfterSteps" value="3"' in edited_again(path, text, again)
    assert 'key="Threads" value="2"' in edited_again(path, text, again)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (XML.replace('"Out"', '"Outt"'),
         ("stages.sim.writes.field.io", "mine.xml has no IO `Out`", "did you mean `Outt`?")),
        (XML.replace("</io>", "</oi>", 1), ("mine.xml:5", "not well-formed XML: mismatched tag", "check its tags")),
        ("<adios/>", ("mine.xml:1", "`<adios>` is no config of ADIOS2", "it begins with `<adios-config>`")),
        ("<!DOCTYPE x><adios-config/>", ("mine.xml:1", "it has a document type", "remove")),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_edited(config: str, said: tuple[str, str, str], tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        planned(tmp_path, config)
    (problem,) = caught.value.problems
    place = problem.key if said[0].startswith("stages") else f"{Path(problem.source).name}:{problem.line}"
    assert place == said[0]
    assert said[1] in problem.message
    assert said[2] in problem.hint


def test_a_config_beside_the_pipeline_file_that_is_not_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "adios2.xml").write_text(XML)
    (tmp_path / "mine.xml").write_text(XML)
    (tmp_path / "pipeline.yaml").write_text(HEAD + PIPELINE.replace(", files: {adios2.xml: mine.xml}", ""))
    (note,) = load_pipeline(tmp_path / "pipeline.yaml").warnings
    assert (note.level, note.key, note.line) == ("note", "stages.sim.writes.field.config", 5)
    assert note.message == "the adios2.xml beside the pipeline file is not read: wf writes one for sim"
    assert note.hint == "`files: {adios2.xml: adios2.xml}` keeps what is in it, and changes the engines of these IOs"
    (tmp_path / "pipeline.yaml").write_text(HEAD + PIPELINE)
    assert load_pipeline(tmp_path / "pipeline.yaml").warnings == ()
