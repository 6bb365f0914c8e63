"""What the stages of a pipeline need and this machine lacks: programs, interpreters, and their modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.missing_here import HERE, executable, fake_python, found, one
from tests.support.planner import SITE, Planner
from workflow.errors import Problem
from workflow.plan.topology.implicit_stages import complete_pipeline
from workflow.preflight import Answers, other_machine, start_preflight
from workflow.site import adios2_library
from workflow.site.interpreters import is_own_python
from workflow.site.load_site import load_site


def test_nothing_is_missing_where_all_is_here(plan_of: Planner) -> None:
    assert found(plan_of, "stages: {one: {command: [sh, -c, 'true']}}\n") == []


def test_a_script_beside_the_pipeline_with_a_typing_error_in_its_name(plan_of: Planner) -> None:
    (plan_of.folder / "waves.py").write_text("print(1)\n")
    text = 'stages: {one: {command: ["${{ wf.python }}", -u, "${{ pipeline.dir }}/wavs.py"]}}\n'
    # The plan of the tests has a Python that is nowhere.
    (problem,) = found(plan_of, text.replace("${{ wf.python }}", "python3"))
    assert (problem.line, problem.column, problem.key) == (4, 41, "stages.one.command[2]")
    assert problem.message == "there is no file `${{ pipeline.dir }}/wavs.py`"
    assert problem.hint == "did you mean `${{ pipeline.dir }}/waves.py`?"
    assert problem.level == "error"


def test_a_program_that_opens_an_engine_which_its_adios2_lacks(
    plan_of: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a stage of `workflow.stage`, which reads and writes these files by h5py."""
    library = plan_of.folder / "libadios2_core.so"
    monkeypatch.setattr(adios2_library, "core_library", lambda: library)
    (plan_of.folder / "mean.py").write_text("import sys\n")
    program = f'command: [{sys.executable}, "${{{{ pipeline.dir }}}}/mean.py"]'
    text = (
        f"stages:\n  walk: {{{program}, writes: {{positions: {{}}}}}}\n"
        f"  mean: {{{program}, reads: {{positions: {{io: positions, config: adios2.xml}}}}}}\n"
        "streams:\n  positions: {from: walk, to: mean, via: hdf5}\n"
    )
    library.write_bytes(b"ERROR: this version didn't compile with HDF5 library, can't use HDF5 engine\n")
    assert one(plan_of, text) == (
        f"streams.positions.via: mean opens it through ADIOS2, and {library} was built without HDF5\n"
        "use `via: bp5`; or let the program open it by `workflow.stage`, which needs h5py only"
    )
    assert found(plan_of, text.replace("via: hdf5", "via: bp5")) == []
    assert found(plan_of, text.replace("io: positions, config: adios2.xml", "")) == []
    library.write_bytes(b"11HDF5WriterP")
    assert found(plan_of, text) == []
    assert found(plan_of, text.replace(sys.executable, "sh")) == [], "which ADIOS2 that has is not known"


def test_a_script_that_reads_another_config_than_the_pipeline_names(plan_of: Planner) -> None:
    script = plan_of.folder / "mean.py"
    script.write_text('import os\nadios = os.Adios("adios2.xml")\n')
    program = f'command: [{sys.executable}, "${{{{ pipeline.dir }}}}/mean.py"]'
    text = (
        f"stages:\n  walk: {{component: walker}}\n"
        f"  mean: {{{program}, reads: {{positions: {{io: a, config: adios2.yaml}}}}}}\n"
        "streams:\n  positions: {from: walk, to: mean}\n"
    )
    (problem,) = [each for each in found(plan_of, text) if "config" in each.key]
    assert (problem.level, problem.key) == ("warning", "stages.mean.reads.positions.config")
    assert problem.message == "mean.py reads adios2.xml, and the pipeline names adios2.yaml, which is made for it"
    assert problem.hint == "write `config: adios2.xml`, or let the program read adios2.yaml"
    for source in ('a.Adios("adios2.yaml")', "a.Adios(comm)", "a.Adios(sys.argv[1])", "# Adios"):
        script.write_text(f"{source}\n")
        assert not [each for each in found(plan_of, text) if "config" in each.key], source


def test_a_script_that_declares_another_io_than_that_of_its_port(plan_of: Planner) -> None:
    script = plan_of.folder / "mean.py"
    text = (
        f"stages:\n  walk: {{component: walker}}\n  mean: {{command: [{sys.executable}, "
        '"${{ pipeline.dir }}/mean.py"], reads: {positions: {io: Out, config: adios2.xml}}}\n'
        "streams:\n  positions: {from: walk, to: mean}\n"
    )
    script.write_text('a.declare_io("Outt"); a.declare_io("Checkpoint")\n')
    (problem,) = [each for each in found(plan_of, text) if each.key == "stages.mean.reads.positions.io"]
    assert (problem.level, problem.line) == ("warning", 6)
    assert problem.message.startswith("mean.py declares the IO Outt and Checkpoint, and not `Out`")
    assert problem.hint == "did you mean `Outt`?"
    for source in ('a.declare_io("Out")', "a.declare_io(name)", 'a.declare_io("Else"); a.declare_io(name)', "pass"):
        script.write_text(f"{source}\n")
        assert not [each for each in found(plan_of, text) if each.key.endswith(".io")], source


def test_a_script_that_opens_its_stream_by_adios2_though_its_port_names_no_io(plan_of: Planner) -> None:
    script = plan_of.folder / "mean.py"
    program = f'command: [{sys.executable}, "${{{{ pipeline.dir }}}}/mean.py"]'
    text = (
        f"stages:\n  walk: {{component: walker}}\n  mean: {{{program}, reads: {{positions: {{}}}}}}\n"
        "streams:\n  positions: {from: walk, to: mean}\n"
    )

    def said(text: str) -> list[Problem]:
        return [each for each in found(plan_of, text) if each.key == "stages.mean.reads.positions"]

    imports = ("import adios2", "import sys, adios2", "import adios2 as a", "import adios2.bindings as b",
               "from adios2 import Stream", "if True:\n    import adios2", "import os; import adios2",
               "def f():\n    from adios2.stream import Stream")  # fmt: skip
    for source in imports:
        script.write_text(f"{source}\n")
        (problem,) = said(text)
        assert problem.level == "warning"
        assert problem.message.startswith("mean.py imports adios2 and not workflow.stage")
    assert said(text.replace("{positions: {}}", "{positions: {io: a, config: adios2.xml}}")) == []
    for source in ("import adios2\nfrom workflow import stage\n", "import numpy\n", "# import adios2\n"):
        script.write_text(source)
        assert said(text) == [], source


def test_a_program_beside_the_python_of_wf_is_found_there(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = plan_of.folder / "environment" / "bin"
    folder.mkdir(parents=True)
    (folder / "some-pipe").write_text("#!/bin/sh\n")
    (folder / "some-pipe").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    assert one(plan_of, "stages: {one: {command: [some-pipe]}}\n") == (
        "stages.one.command[0]: `some-pipe` is not on PATH\n"
        f"it is beside the Python of wf: activate that environment, or write `{folder}/some-pipe`"
    )


def test_a_program_that_is_not_executable(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plan_of.folder)
    (plan_of.folder / "waves.py").write_text("#!/usr/bin/env python3\n")
    assert one(plan_of, "stages: {one: {command: [./waves.py]}}\n") == (
        "stages.one.command[0]: `./waves.py` is not executable\n"
        '`chmod +x waves.py`, or `command: ["${{ wf.python }}", "${{ pipeline.dir }}/waves.py"]`'
    )
    (plan_of.folder / "waves.py").chmod(0o755)
    assert found(plan_of, "stages: {one: {command: [./waves.py]}}\n") == []


def test_a_program_that_was_not_built(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plan_of.folder)
    text = "stages: {one: {command: [./build/sim]}}\n"
    hint = "there is no folder `build`: build the program, or correct `command`"
    assert one(plan_of, text) == f"stages.one.command[0]: there is no program `./build/sim`\n{hint}"
    executable(plan_of.folder / "build/sin", "")
    assert one(plan_of, text).endswith("\ndid you mean `./build/sin`?")
    executable(plan_of.folder / "build/sim", "")
    assert found(plan_of, text) == []
    assert one(plan_of, "stages: {one: {command: [./build]}}\n").endswith("`./build` is a folder\nname a program in it")


def test_a_name_on_path_is_searched_where_the_stage_searches_it(plan_of: Planner) -> None:
    executable(plan_of.folder / "bin/simulator", "")
    text = "stages: {one: {command: [simulatr]}}\n"
    assert one(plan_of, text).startswith("stages.one.command[0]: `simulatr` is not on PATH\n")
    own = f"stages: {{one: {{command: [simulatr], env: {{PATH: {plan_of.folder}/bin}}}}}}\n"
    assert one(plan_of, own).endswith("\ndid you mean `simulator`?")
    assert found(plan_of, own.replace("simulatr", "simulator")) == []
    assert "${{ wf.python }}" in one(plan_of, "stages: {one: {command: [python9.9]}}\n")


def test_a_path_below_the_run_directory_is_not_known(plan_of: Planner) -> None:
    below = "stages: {one: {command: [mine], env: {PATH: '${{ run.dir }}/bin'}}}\n"
    assert found(plan_of, below) == []
    assert found(plan_of, 'stages: {one: {command: ["${{ stage.dir }}/mine"]}}\n') == []


def test_the_launcher_is_that_of_the_site(plan_of: Planner) -> None:
    text = "stages: {one: {command: [sh], ranks: 2}}\n"
    absent = HERE.model_copy(update={"launcher_path": "no-such-mpiexec"})
    said = one(plan_of, text, absent)
    assert said.startswith("stages.one.ranks: the launcher `no-such-mpiexec` is not on PATH\n")
    assert found(plan_of, text.replace("ranks: 2", "ranks: 1"), absent) == [], "one rank needs none"
    absent = HERE.model_copy(update={"launcher_path": "/no/such/mpiexec"})
    assert "there is no launcher /no/such/mpiexec" in one(plan_of, text, absent)


@pytest.mark.parametrize("update", [{"launcher": "srun"}, {"cores_per_node": 10_000}])
def test_another_machine_is_not_guessed(plan_of: Planner, update: dict[str, object]) -> None:
    (note,) = found(plan_of, "stages: {one: {command: [no-such-program], ranks: 2}}\n", SITE.model_copy(update=update))
    assert (note.level, note.key) == ("note", "site")
    assert "are not checked: site test is not this machine" in note.message


def test_a_run_needs_the_launcher_here_even_of_another_machine(plan_of: Planner) -> None:
    text = "stages: {one: {command: [no-such-program], ranks: 2}}\n"
    site = SITE.model_copy(update={"launcher": "srun", "launcher_path": "no-such-srun"})
    pipeline = complete_pipeline(plan_of.load(text))
    plan = plan_of(text, site=site)
    note, problem = start_preflight(pipeline, plan, site, run=True)()
    assert note.level == "note"
    assert (problem.level, problem.key) == ("error", "stages.one.ranks")
    assert "the launcher `no-such-srun` is not on PATH" in problem.message
    assert len(start_preflight(pipeline, plan, site)()) == 1, "a check may be made elsewhere"


def test_one_process_for_all_questions_about_a_python(plan_of: Planner) -> None:
    python = fake_python(plan_of.folder, "numpy openpmd_api")
    text = f"stages:\n  a: {{command: [{python}, -m, numpy.f2py]}}\n  b: {{command: [{python}, -um, openpmd_api]}}\n"
    text += f"  c: {{command: [{python}, -u, -m, openpmd_api.ls]}}\n"
    first, second = found(plan_of, text)
    assert first.message == f"`-m numpy.f2py` needs the Python module numpy, which {python} does not have"
    assert first.hint == f"`{python} -m pip install numpy`"
    assert first.key == "stages.a.command[2]"
    assert second.key == "stages.c.command[3]", "`-um` hides what is executed"
    assert second.hint == f"`{python} -m pip install openpmd-api`"
    assert (plan_of.folder / "starts").read_text() == "started\n"


def test_what_was_asked_for_an_earlier_plan_is_not_asked_again(plan_of: Planner) -> None:
    """Most trials of a campaign need the same."""
    python, answers = fake_python(plan_of.folder, "numpy"), Answers()
    for module in ("numpy.f2py", "numpy.testing", "scipy"):
        text = f"oversubscribe: true\nstages: {{a: {{command: [{python}, -m, {module}]}}}}\n"
        pipeline = complete_pipeline(plan_of.load(text))
        problems = start_preflight(pipeline, plan_of(text, site=HERE), HERE, answers=answers)()
        assert len(problems) == module.startswith("numpy")
    assert (plan_of.folder / "starts").read_text() == "started\n" * 2


def test_the_python_of_wf_is_asked_without_a_process(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", None)
    text = f"stages: {{one: {{command: [{sys.executable}, -m, no_such_module]}}}}\n"
    assert "module no_such_module, which" in one(plan_of, text)
    (plan_of.folder / "lib").mkdir()
    (plan_of.folder / "lib/no_such_module.py").write_text("")
    monkeypatch.syspath_prepend(str(plan_of.folder / "lib"))
    assert found(plan_of, text) == [], "the search path of this process"


def test_another_python_in_the_folder_of_that_of_wf_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = executable(tmp_path / "python3.12", ""), executable(tmp_path / "python2.7", "")
    (tmp_path / "python3").symlink_to(own)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/python3").symlink_to(own)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python3"))
    assert is_own_python(str(own))
    assert not is_own_python(str(other)), "another version"
    assert not is_own_python(str(tmp_path / "venv/python3")), "it has modules of its own"


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("#!/bin/sh\nexit 3\n", "ended without an answer when it was asked"),
        ("#!/bin/sh\necho one >&2; echo No module named util >&2; exit 1\n", "was asked: No module named util"),
        ("#!/no/such/sh\n", "cannot be started: No such file or directory"),
        ("#!/bin/sh\necho hello\n", "ended without an answer when it was asked"),
    ],
)
def test_of_a_python_without_an_answer_the_note_states_how_it_ended(plan_of: Planner, program: str, how: str) -> None:
    python = executable(plan_of.folder / "bin/python3", program)
    problems = found(plan_of, f"stages: {{one: {{command: [{python}, -m, numpy]}}}}\n")
    (note,) = [each for each in problems if each.level == "note"]
    assert f"not checked: numpy: {python} " in note.message
    assert how in note.message
    assert note.hint == f"`{python} -c 'import numpy'` shows why"


def test_a_python_that_hangs_is_ended_with_its_processes(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflow.site.interpreters.DEADLINE_S", 2.0)
    folder = plan_of.folder
    os.mkfifo(folder / "held")
    end = os.open(folder / "held", os.O_RDONLY | os.O_NONBLOCK)
    python = executable(
        folder / "bin/python3", f"#!/bin/sh\nexec 9> '{folder}/held'\necho started >&9\nsleep 600 &\nwait\n"
    )
    (note,) = found(plan_of, f"stages: {{one: {{command: [{python}, -m, numpy]}}}}\n")
    assert (note.level, note.message) == ("note", f"not checked: numpy: {python} did not answer within 2 s")
    os.set_blocking(end, True)
    assert os.read(end, 100) == b"started\n"
    assert os.read(end, 100) == b"", "no process holds the file any more"
    os.close(end)


def test_the_search_path_of_the_stage(plan_of: Planner) -> None:
    (plan_of.folder / "lib").mkdir()
    (plan_of.folder / "lib/lib_of_mine.py").write_text("")
    (plan_of.folder / "mine.py").write_text("")
    head = f"stages: {{one: {{command: [{sys.executable}, -m, lib_of_mine.main]"
    assert "`-m lib_of_mine.main` needs the Python module lib_of_mine" in one(plan_of, head + "}}\n")
    assert found(plan_of, head + ', env: {PYTHONPATH: "${{ pipeline.dir }}/lib"}}}\n') == []
    assert found(plan_of, head + ', env: {PYTHONPATH: "${{ stage.dir }}"}}}\n') == [], "the run may create it"
    assert found(plan_of, head + ", files: {lib_of_mine/main.py: mine.py}}}\n") == [], "it is in the stage's directory"


@pytest.mark.parametrize(
    ("ports", "modules"),
    [
        ("writes: {field: {}}", "numpy, adios2"),
        ("ranks: 2, writes: {field: {}}", "numpy, adios2, mpi4py"),
        ("writes: {field: {config: openpmd.json}}", ""),
        ("writes: {field: {io: f, config: adios2.xml}}", ""),
    ],
)
def test_ports_tell_of_modules(plan_of: Planner, ports: str, modules: str) -> None:
    python = fake_python(plan_of.folder, "adios2 numpy openpmd_api mpi4py h5py")
    (plan_of.folder / "a.py").write_text("")
    text = f"""stages:
  one: {{command: [{python}, "${{{{ pipeline.dir }}}}/a.py"], {ports}}}
  two: {{command: [sh, "${{{{ streams.field.path }}}}"]}}
streams: {{field: {{from: one, to: two, via: bp5}}}}
"""
    said = [problem.message for problem in found(plan_of, text)]
    assert [message for message in said if modules and modules in message] == said
    assert len(said) == bool(modules)


def test_a_file_with_what_resembles_a_placeholder_is_advice(plan_of: Planner) -> None:
    (plan_of.folder / "settings.in").write_text("dir = ${pipeline.dir}\nhome = ${HOME}\n")
    plan = plan_of("stages: {one: {command: [sh], files: {settings: settings.in}}}\n")
    said = "stage one: in settings.in `${pipeline.dir}` is not a placeholder; did you mean `${{ pipeline.dir }}`?"
    assert plan.advice == [said]


def test_a_site_that_this_machine_is_not_recognised_as(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PBS_JOBID", raising=False)
    small = load_site("polaris").model_copy(update={"cores_per_node": 1, "launcher": "mpiexec"})
    assert other_machine(small) == "this machine is not recognised as that one"
    monkeypatch.setenv("PBS_JOBID", "308834.polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov")
    assert other_machine(small) != "this machine is not recognised as that one"
