"""What the stages of a pipeline need and this machine lacks: the same for `wf check`, `wf run` and `wf doctor`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.planner import HEAD, SITE, Planner
from workflow.api import run_pipeline
from workflow.cli.main import wf
from workflow.errors import Problem, SpecError
from workflow.preflight import preflight, start_preflight
from workflow.site.availability import other_machine
from workflow.site.interpreters import is_own_python
from workflow.site.load_site import load_site
from workflow.site.site_model import Site

HERE = SITE.model_copy(update={"cores_per_node": 1, "launcher_path": sys.executable})


def found(plan_of: Planner, text: str, site: Site = HERE) -> list[Problem]:
    """What is missing here for a pipeline of this text."""
    loaded = plan_of.load("oversubscribe: true\n" + text)
    return preflight(loaded, plan_of("oversubscribe: true\n" + text, site=site), site)


def one(plan_of: Planner, text: str, site: Site = HERE) -> str:
    """The one thing that is missing, without its place."""
    (problem,) = found(plan_of, text, site)
    return f"{problem.key}: {problem.message}\n{problem.hint}"


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o755)
    return path


def fake_python(folder: Path, lacks: str = "") -> Path:
    """An interpreter that is not that of wf, has all modules but `lacks`, and writes a line for each of its starts."""
    code = f"import json, sys; print(json.dumps([n for n in sys.argv[1:] if n in {json.dumps(lacks.split())}]))"
    script = f"#!/bin/sh\necho started >> '{folder}/starts'\nshift 2\nexec '{sys.executable}' -c '{code}' \"$@\"\n"
    return executable(folder / "bin/python3", script)


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


def test_a_program_that_is_not_executable(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plan_of.folder)
    (plan_of.folder / "waves.py").write_text("#!/usr/bin/env python3\n")
    assert one(plan_of, "stages: {one: {command: [./waves.py]}}\n") == (
        "stages.one.command[0]: `./waves.py` is not executable\n"
        '`chmod +x waves.py`, or `command: ["${{ wf.python }}", "${{ pipeline.dir }}/waves.py"]`'
    )
    (plan_of.folder / "waves.py").chmod(0o755)
    assert found(plan_of, "stages: {one: {command: [./waves.py]}}\n") == []


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("import os", "`./waves.py` has no first line `#!INTERPRETER`, so that it cannot be started"),
        ("#!/no/such/python", "`./waves.py` begins with `#!/no/such/python`, and there is no `/no/such/python`"),
        ("#!/bin/sh\r", "`./waves.py` has line ends of Windows, so that its interpreter is not found"),
        ("#!/usr/bin/env pythn7", "`./waves.py` begins with `#!/usr/bin/env pythn7`, and there is no `pythn7`"),
        ("#!/usr/bin/env python3\nimport no_such_module", "waves.py needs the Python module no_such_module (line 2)"),
    ],
)
def test_an_executable_script_that_cannot_start(plan_of: Planner, first: str, message: str) -> None:
    executable(plan_of.folder / "waves.py", first + "\n")
    assert message in one(plan_of, "stages: {one: {command: [./waves.py]}}\n")


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
    loaded = plan_of.load(text)
    plan = plan_of(text, site=site)
    note, problem = start_preflight(loaded, plan, site, run=True)()
    assert note.level == "note"
    assert (problem.level, problem.key) == ("error", "stages.one.ranks")
    assert "the launcher `no-such-srun` is not on PATH" in problem.message
    assert len(start_preflight(loaded, plan, site)()) == 1, "a check may be made elsewhere"


def test_modules_of_a_script_are_searched_in_the_python_that_executes_it(plan_of: Planner) -> None:
    python = fake_python(plan_of.folder, "numpy openpmd_api")
    (plan_of.folder / "beside.py").write_text("")
    (plan_of.folder / "a.py").write_text(
        "from __future__ import annotations\nimport os.path\nimport numpy as np, beside\n"
        "try:\n    import scipy\nexcept ImportError:\n    pass\ndef late():\n    import cupy\n"
    )
    (plan_of.folder / "b.py").write_text("from openpmd_api import io\n")
    text = "".join(f'  {name}: {{command: [{python}, "${{{{ pipeline.dir }}}}/{name}.py"]}}\n' for name in "ab")
    first, second = found(plan_of, "stages:\n" + text)
    assert first.message == f"a.py needs the Python module numpy (line 3), which {python} does not have"
    assert first.hint == f"`{python} -m pip install numpy`"
    assert first.key == "stages.a.command[1]"
    assert second.hint == f"`{python} -m pip install openpmd-api`"
    assert (plan_of.folder / "starts").read_text() == "started\n", "one process for all questions"


def test_the_python_of_wf_is_asked_without_a_process(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    (plan_of.folder / "a.py").write_text("import json, no_such_module, pytest\n")
    monkeypatch.setattr("subprocess.Popen", None)
    text = f'stages: {{one: {{command: [{sys.executable}, "${{{{ pipeline.dir }}}}/a.py"]}}}}\n'
    assert "module no_such_module (line 1), which" in one(plan_of, text)
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
        ("#!/bin/sh\nexit 3\n", "ended with exit code 3 when it was asked"),
        (
            "#!/bin/sh\necho one >&2; echo No module named util >&2; exit 1\n",
            "exit code 1 when it was asked: No module",
        ),
        ("#!/bin/sh\nkill -9 $$\n", "was ended by SIGKILL when it was asked"),
        ("#!/no/such/sh\n", "cannot be started: No such file or directory"),
        ("#!/bin/sh\necho hello\n", "printed no answer"),
    ],
)
def test_of_a_python_without_an_answer_the_note_states_how_it_ended(plan_of: Planner, program: str, how: str) -> None:
    (plan_of.folder / "a.py").write_text("import numpy\n")
    python = executable(plan_of.folder / "bin/python3", program)
    problems = found(plan_of, f'stages: {{one: {{command: [{python}, "${{{{ pipeline.dir }}}}/a.py"]}}}}\n')
    (note,) = [each for each in problems if each.level == "note"]
    assert f"not checked: numpy: {python} " in note.message
    assert how in note.message
    assert note.hint == f"`{python} -c 'import numpy'` shows why"


def test_a_python_that_hangs_is_ended_with_its_processes(plan_of: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflow.site.python_modules.DEADLINE_S", 2.0)
    folder = plan_of.folder
    os.mkfifo(folder / "held")
    end = os.open(folder / "held", os.O_RDONLY | os.O_NONBLOCK)
    python = executable(
        folder / "bin/python3", f"#!/bin/sh\nexec 9> '{folder}/held'\necho started >&9\nsleep 600 &\nwait\n"
    )
    (folder / "a.py").write_text("import numpy\n")
    (note,) = found(plan_of, f'stages: {{one: {{command: [{python}, "${{{{ pipeline.dir }}}}/a.py"]}}}}\n')
    assert (note.level, note.message) == ("note", f"not checked: numpy: {python} did not answer within 2 s")
    os.set_blocking(end, True)
    assert os.read(end, 100) == b"started\n"
    assert os.read(end, 100) == b"", "no process holds the file any more"
    os.close(end)


def test_a_script_with_a_syntax_error_or_a_search_path_of_its_own(plan_of: Planner) -> None:
    text = f'stages: {{one: {{command: [{sys.executable}, "${{{{ pipeline.dir }}}}/a.py"]}}}}\n'
    (plan_of.folder / "a.py").write_text("x = 1\nif x\n    pass\n")
    assert "a.py:2 is not valid Python: expected ':'" in one(plan_of, text)
    (plan_of.folder / "a.py").write_text("import sys\nsys.path.insert(0, 'x')\nimport no_such_module\n")
    assert found(plan_of, text) == []


def test_a_script_in_files_is_the_source(plan_of: Planner) -> None:
    (plan_of.folder / "mine.py").write_text("import no_such_module\nranks = ${{ stage.ranks }}\n")
    text = f"stages: {{one: {{command: [{sys.executable}, a.py], files: {{a.py: mine.py}}}}}}\n"
    assert found(plan_of, text) == [], "placeholders are no Python"
    (plan_of.folder / "mine.py").write_text("import no_such_module\n")
    assert "mine.py needs the Python module no_such_module" in one(plan_of, text)
    (plan_of.folder / "other.py").write_text("")
    beside = text.replace("mine.py}", "mine.py, no_such_module.py: other.py}")
    assert found(plan_of, beside) == [], "the module will be beside the copy"
    (plan_of.folder / "mine.py").write_text("import other\n")
    assert "mine.py needs the Python module other" in one(plan_of, text), "it is not beside the copy"


def test_the_search_path_of_the_stage(plan_of: Planner) -> None:
    (plan_of.folder / "a.py").write_text("import lib_of_mine\n")
    (plan_of.folder / "lib").mkdir()
    (plan_of.folder / "lib/lib_of_mine.py").write_text("")
    head = f'stages: {{one: {{command: [{sys.executable}, "${{{{ pipeline.dir }}}}/a.py"]'
    assert "lib_of_mine (line 1)" in one(plan_of, head + "}}\n")
    assert found(plan_of, head + ', env: {PYTHONPATH: "${{ pipeline.dir }}/lib"}}}\n') == []
    assert found(plan_of, head + ', env: {PYTHONPATH: "${{ stage.dir }}"}}}\n') == [], "the run may create it"
    as_module = f"stages: {{one: {{command: [{sys.executable}, -um, lib_of_mine.main]"
    assert "`-m lib_of_mine.main` needs the Python module lib_of_mine" in one(plan_of, as_module + "}}\n")
    assert found(plan_of, as_module + ', env: {PYTHONPATH: "${{ pipeline.dir }}/lib"}}}\n') == []


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


SCRIPT = f'command: [{sys.executable}, "${{{{ pipeline.dir }}}}/a.py"]'
HANDED = """  gen: {{command: [sh, -c, true], writes: {{x: {{}}}}}}
  use: {{command: {command}, reads: {{x: {{}}}}}}
streams: {{x: {{from: gen, to: use, via: file}}}}
"""


@pytest.mark.parametrize(
    ("files", "text", "warns"),
    [
        pytest.param(
            {"a.py": "import setup\nimport no_such_module\n", "setup.py": "import sys\nsys.path[:0] = ['x']\n"},
            f"  one: {{{SCRIPT}}}\n", "no_such_module", id="a module beside the script changes the search path",
        ),
        pytest.param({"a.py": "if x\n"}, f"  one: {{{SCRIPT}}}\n", "not valid Python", id="a script that may change"),
        pytest.param(
            {}, f"  one: {{command: [{sys.executable}, -m, no_such_module]}}\n", "no_such_module", id="python -m",
        ),
        pytest.param(
            {}, HANDED.format(command='[sh, "${{ pipeline.dir }}/made.sh"]'), "made.sh",
            id="an earlier stage writes the script",
        ),
        pytest.param(
            {}, HANDED.format(command='["${{ pipeline.dir }}/made"]'), "made", id="an earlier stage builds the program",
        ),
        pytest.param(
            {"a.py": ""}, HANDED.format(command='[PYTHON, "${{ pipeline.dir }}/a.py"]'), "",
            id="a file that is handed over needs no workflow.stage",
        ),
        pytest.param(
            {"a.py": ""},
            "  one: {command: [PYTHON, '${{ pipeline.dir }}/a.py'], writes: {x: {config: openpmd.toml}}}\n"
            "  two: {command: [sh, '${{ streams.x.path }}']}\nstreams: {x: {from: one, to: two, via: bp5}}\n",
            "", id="a driver of a C++ code does not import openpmd_api",
        ),
        pytest.param(
            {"a.py": "import no_such_module\n", "mods/z.py": ""},
            f"  one: {{{SCRIPT}, env: {{PYTHONPATH: lib}}, files: {{lib/no_such_module.py: mods/z.py}}}}\n", "",
            id="a relative PYTHONPATH is in the directory of the stage",
        ),
        pytest.param(
            {"tool.sh": "#!/bin/sh\n"},
            "  one: {command: [no-such-tool], env: {PATH: 'bin:/bin'}, files: {bin/no-such-tool: tool.sh}}\n", "",
            id="a relative PATH is in the directory of the stage",
        ),
        pytest.param(
            {"tool.sh": "#!/usr/bin/env no-such-tool\n"},
            "  one: {command: ['${{ pipeline.dir }}/tool.sh'], env: {PATH: 'bin:/bin'}}\n", "",
            id="an interpreter on a relative PATH",
        ),
        pytest.param({"a.py/__main__.py": ""}, f"  one: {{{SCRIPT}}}\n", "", id="python FOLDER"),
        pytest.param({"a.py": "#!/usr/bin/env python3\nPK\0"}, f"  one: {{{SCRIPT}}}\n", "", id="python ZIP"),
        pytest.param(
            {"tool.sh": "echo\n"}, "  one: {command: ['${{ pipeline.dir }}/tool.sh'], ranks: 2}\n", "",
            id="a launcher starts a script without #!",
        ),
    ],
)  # fmt: skip
def test_what_ran_before_is_not_refused_by_run(plan_of: Planner, files: dict[str, str], text: str, warns: str) -> None:
    for name, content in files.items():
        executable(plan_of.folder / name, content)
    python = fake_python(plan_of.folder, "workflow numpy adios2 openpmd_api")
    problems = found(plan_of, "stages:\n" + text.replace("PYTHON, ", f"{python}, "))
    assert [problem.level for problem in problems] == ["warning"] * bool(warns)
    assert all(warns in problem.message for problem in problems)


def test_what_is_missing_for_certain_is_an_error(plan_of: Planner) -> None:
    python = fake_python(plan_of.folder, "openpmd_api")
    (plan_of.folder / "a.py").write_text("import openpmd_api\n")
    executable(plan_of.folder / "tool.sh", "echo\n")
    (plan_of.folder / "folder").mkdir()

    def level(command: str) -> tuple[str, str]:
        (problem,) = found(plan_of, f"stages: {{one: {{command: {command}}}}}\n")
        return problem.level, problem.hint

    assert level(f'[{python}, "${{{{ pipeline.dir }}}}/a.py"]')[0] == "warning", "the script imports it"
    assert level("[./tool.sh]") == ("error", "begin it with `#!/usr/bin/env sh`")
    assert level("[no-such-program]")[0] == "error"
    hint = "add `__main__.py` to it, or name a script in it"
    assert level(f'[{python}, "${{{{ pipeline.dir }}}}/folder"]') == ("error", hint)
    (plan_of.folder / "dangling.py").symlink_to("nowhere")
    assert "did you mean `${{ pipeline.dir }}/dangling.py`" not in level('[sh, "${{ pipeline.dir }}/dangling.py"]')[1]


def test_run_prints_warnings_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is there when the script starts, by a module beside it that changes the search path."""
    monkeypatch.chdir(tmp_path)
    executable(tmp_path / "a.py", "import setup_paths\nimport module_of_mine\n")
    executable(tmp_path / "setup_paths.py", "import sys\nsys.path.insert(0, sys.path[0] + '/other')\n")
    executable(tmp_path / "other/module_of_mine.py", "")
    Path("p.yaml").write_text(HEAD + f"stages: {{one: {{{SCRIPT}}}}}\n")
    run = CliRunner().invoke(wf, ["run", "p.yaml"])
    assert run.exit_code == 0
    assert "warning: p.yaml:3:" in run.output
    assert "a.py needs the Python module module_of_mine (line 2)" in run.output
    assert CliRunner().invoke(wf, ["check", "p.yaml"]).exit_code == 0
    strict = CliRunner().invoke(wf, ["check", "--strict", "p.yaml"])
    assert "error: p.yaml:3:" in str(strict.exception)


def test_modules_of_components_stop_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(
        HEAD + "oversubscribe: true\nstages:\n  sim: {component: gray_scott, with: {size: [8]}}\n"
        "  keep: {component: archive, with: {path: out.h5}}\nstreams: {field: {from: sim, to: keep}}\n"
    )
    monkeypatch.setattr(
        "workflow.site.availability.ask_modules", lambda _python, names, _env: lambda: sorted({"h5py"} & {*names})
    )
    run = CliRunner().invoke(wf, ["run", "p.yaml"])
    assert "error: p.yaml:6:21: stages.keep.component: component archive needs the Python module h5py" in str(
        run.exception
    )
    assert not Path("runs").exists()


def test_run_check_and_doctor_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error for `run`; a warning for `check`, an error with --strict; `doctor` lists everything."""
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(HEAD + "stages: {one: {command: [./sim]}}\n")
    message = "p.yaml:3:26: stages.one.command[0]: there is no program `./sim`"
    check = CliRunner().invoke(wf, ["check", "p.yaml"])
    assert check.exit_code == 0
    assert f"warning: {message}" in check.output
    assert "p.yaml: ok (1 stage, 0 streams, 1 warning)" in check.output
    strict = CliRunner().invoke(wf, ["check", "--strict", "p.yaml"])
    assert isinstance(strict.exception, SpecError)
    assert strict.exception.exit_code == 2
    assert f"error: {message}" in str(strict.exception)
    run = CliRunner().invoke(wf, ["run", "p.yaml"])
    assert str(run.exception) == str(strict.exception)
    assert not Path("runs").exists()
    with pytest.raises(SpecError, match="there is no program"):
        run_pipeline("p.yaml")
    doctor = CliRunner().invoke(wf, ["doctor", "p.yaml", "--json"])
    assert doctor.exit_code == 2
    (row,) = [each for each in json.loads(doctor.output) if each["name"] == "stage one"]
    assert (row["state"], row["place"]) == ("missing", "p.yaml:3:26")


def test_modules_of_components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared ones, that of the archive's format, and of a component of one's own those that its program imports."""
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/component.yaml").write_text(
        "component: mine\nkind: sink\nsummary: s\nreads: {input: {any: true}}\nparameters: {}\n"
    )
    Path("mine/program.py").write_text("import no_such_module\n")
    Path("p.yaml").write_text(
        HEAD + "oversubscribe: true\nstages:\n  sim: {component: gray_scott, with: {size: [8]}}\n"
        "  keep: {component: archive, with: {path: out.h5}}\n  own: {component: ./mine}\n"
        "streams: {field: {from: sim, to: [keep, own]}}\n"
    )
    monkeypatch.setattr(
        "workflow.site.availability.ask_modules",
        lambda _python, names, _env: lambda: sorted({"h5py", "no_such_module"} & {*names}),
    )
    check = CliRunner().invoke(wf, ["check", "p.yaml"])
    assert "stages.keep.component: component archive needs the Python module h5py" in check.output
    assert "stages.own.component: program.py needs the Python module no_such_module (line 1)" in check.output
    check = CliRunner().invoke(wf, ["check", "p.yaml", "--set", "stages.keep.with.path=out.bp"])
    assert "h5py" not in check.output


def test_a_file_that_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(
        HEAD + "stages:\n  sim: {component: gray_scott, with: {size: [8]}}\n"
        f"  keep: {{component: archive, with: {{path: {tmp_path}/out.bp}}}}\n"
        "streams: {field: {from: sim, to: keep}}\n"
    )
    assert "already exists" not in CliRunner().invoke(wf, ["check", "p.yaml"]).output
    Path("out.bp").mkdir()
    output = CliRunner().invoke(wf, ["check", "p.yaml"]).output
    assert f"stages.keep.with.path: {tmp_path}/out.bp already exists, and is not overwritten" in output


def test_doctor_names_the_launcher_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The issue: `ok /usr/bin/srun` where the site uses mpiexec."""
    monkeypatch.chdir(tmp_path)
    executable(tmp_path / "bin/srun", "")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.setattr("workflow.site.machine.launcher_path", lambda launcher: f"no-such-{launcher.executable}")
    doctor = CliRunner().invoke(wf, ["doctor", "--json"])
    (launcher,) = [each for each in json.loads(doctor.output) if each["name"] == "MPI launcher"]
    assert (launcher["state"], launcher["detail"]) == (
        "missing", "required by stages of several ranks; site local has `launcher: mpiexec`",
    )  # fmt: skip
    assert "`launcher: srun`" in launcher["hint"]


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
