"""What a pipeline needs and this machine lacks, as the verbs tell it: `run` stops, `check` warns, `doctor` lists."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.missing_here import SCRIPT, executable, fake_python, found
from tests.support.planner import HEAD, Planner
from workflow.api.runs import plan_run, run_pipeline
from workflow.cli.main import wf
from workflow.errors import SpecError
from workflow.spec.load import load_pipeline

HANDED = """  gen: {{command: [sh, -c, true], writes: {{x: {{}}}}}}
  use: {{command: {command}, reads: {{x: {{}}}}}}
streams: {{x: {{from: gen, to: use, via: file}}}}
"""


@pytest.mark.parametrize(
    ("files", "text", "warns"),
    [
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
            {"mods/z.py": ""},
            f"  one: {{command: [{sys.executable}, -m, no_such_module], env: {{PYTHONPATH: lib}}, "
            "files: {lib/no_such_module.py: mods/z.py}}\n", "",
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
        pytest.param(
            {"tool.sh": "echo\n"}, "  one: {command: ['${{ pipeline.dir }}/tool.sh'], ranks: 2}\n", "",
            id="a launcher starts a script without #!",
        ),
        pytest.param({"a.py": "import no_such_module\n"}, f"  one: {{{SCRIPT}}}\n", "", id="imports of a script"),
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

    def level(command: str) -> tuple[str, str]:
        (problem,) = found(plan_of, f"stages: {{one: {{command: {command}}}}}\n")
        return problem.level, problem.hint

    assert level(f"[{python}, -m, openpmd_api]")[0] == "warning", "Python may find it elsewhere"
    assert level("[no-such-program]")[0] == "error"
    (plan_of.folder / "dangling.py").symlink_to("nowhere")
    assert "did you mean `${{ pipeline.dir }}/dangling.py`" not in level('[sh, "${{ pipeline.dir }}/dangling.py"]')[1]


def test_run_prints_warnings_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is there when the program starts, by another search path than `PYTHONPATH`."""
    monkeypatch.chdir(tmp_path)
    python = fake_python(tmp_path, "module_of_mine")
    python.write_text(python.read_text().replace("shift 2", '[ "$1" = -m ] && exit; shift 2'))
    Path("p.yaml").write_text(HEAD + f"stages: {{one: {{command: [{python}, -m, module_of_mine]}}}}\n")
    run = CliRunner().invoke(wf, ["run", "p.yaml"])
    assert run.exit_code == 0
    assert "warning: p.yaml:3:" in run.output
    assert "`-m module_of_mine` needs the Python module module_of_mine" in run.output
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
        "workflow.preflight.ask_modules", lambda _python, names, _env: lambda: sorted({"h5py"} & {*names})
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
    """Declared ones, also of a component of one's own, and that of the archive's format."""
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/component.yaml").write_text(
        "component: mine\nkind: sink\nsummary: s\nreads: {input: {any: true}}\nparameters: {}\n"
        "needs: [no_such_module]\n"
    )
    Path("mine/program.py").write_text("import no_such_module\n")
    Path("p.yaml").write_text(
        HEAD + "oversubscribe: true\nstages:\n  sim: {component: gray_scott, with: {size: [8]}}\n"
        "  keep: {component: archive, with: {path: out.h5}}\n  own: {component: ./mine}\n"
        "streams: {field: {from: sim, to: [keep, own]}}\n"
    )
    monkeypatch.setattr(
        "workflow.preflight.ask_modules",
        lambda _python, names, _env: lambda: sorted({"h5py", "no_such_module"} & {*names}),
    )
    check = CliRunner().invoke(wf, ["check", "p.yaml"])
    assert "stages.keep.component: component archive needs the Python module h5py" in check.output
    assert "stages.own.component: component mine needs the Python module no_such_module" in check.output
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
    """Not `ok /usr/bin/srun`, where the site uses mpiexec."""
    monkeypatch.chdir(tmp_path)
    executable(tmp_path / "bin/srun", "")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.setattr("workflow.site.this_machine.launcher_path", lambda launcher: f"no-such-{launcher.executable}")
    doctor = CliRunner().invoke(wf, ["doctor", "--json"])
    (launcher,) = [each for each in json.loads(doctor.output) if each["name"] == "MPI launcher"]
    assert (launcher["state"], launcher["detail"]) == (
        "missing", "required by stages of several ranks; site local has `launcher: mpiexec`",
    )  # fmt: skip
    assert "`launcher: srun`" in launcher["hint"]


def test_what_the_plan_notes_is_said_before_a_run(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: p\nstages:\n  sim: {component: synthetic, output: {async: guided}}\n"
        "  sink: {component: 'null'}\nstreams: {field: {from: sim, to: sink}}\n"
    )
    planned = plan_run(load_pipeline(tmp_path / "pipeline.yaml"))
    for said in (planned.check_here(), planned.check_before_job()):
        (note,) = [each for each in said if "has no effect on stream field" in each.message]
        assert (note.level, note.line, note.key) == ("note", 4, "stages.sim.output.async")
