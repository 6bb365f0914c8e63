"""What a verb imports: `wf plan` is typed often, and what it does not use costs its user a wait each time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import workflow

PACKAGE = Path(workflow.__file__).parent
EXAMPLE = Path(__file__).parents[2] / "examples" / "02-gray-scott" / "pipeline.yaml"
# What other verbs need: reports and their pages, the supervisor, jobs, campaigns, and what computes.
OF_OTHERS = {"workflow.report.report_model", "workflow.run.supervisor", "workflow.submit", "workflow.campaign.ledger"}
LIBRARIES = {"numpy", "adios2", "psij", "parsl", "matplotlib", "plotly", "rich"}
# `wf doctor` asks for versions and starts programs: not at the start of every verb.
OF_DOCTOR = {"importlib.metadata", "subprocess", "email", "zipfile"}


def imported(*arguments: str) -> set[str]:
    program = (
        "import sys\nfrom workflow.cli.main import main\nsys.argv[0] = 'wf'\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print('\\nmodules', *sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(("arguments", "most"), [(("--help",), 25), (("plan", str(EXAMPLE)), 142)])
def test_a_verb_imports_what_it_uses(arguments: tuple[str, ...], most: int) -> None:
    names = imported(*arguments)
    assert names & (OF_OTHERS | LIBRARIES) == set()
    own = sorted(name for name in names if name.startswith("workflow."))
    assert len(own) <= most, own


def test_a_run_on_this_machine_imports_nothing_for_others(tmp_path: Path) -> None:
    """No proof of the placement, no guard of other nodes, no forecast, and one launcher of many."""
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("wf: 1\nname: one\nstages: {one: {command: ['true']}}\n")
    names = imported("run", str(pipeline), "--run-dir", str(tmp_path / "run"), "--quiet")
    assert "workflow.run.run_loop" in names
    unused = {"workflow.run.proof.proof_model", "workflow.run.guard.node_guard", "workflow.forecast.calibration_model"}
    assert names & (unused | LIBRARIES | {"workflow.launch.srun"}) == set()
    own = sorted(name for name in names if name.startswith("workflow."))
    assert len(own) <= 280, own


def test_help_imports_nothing_of_a_verb() -> None:
    assert imported("--help") & OF_DOCTOR == set()


def test_annotations_of_models_are_no_text() -> None:
    """pydantic compiles each annotation that is a text, one by one, at every start: 3 % of `wf plan`."""
    models = [*PACKAGE.rglob("*_model.py"), *PACKAGE.glob("spec/models/*.py")]
    texts = {path.name: path.read_text() for path in models}
    of_pydantic = [name for name, text in texts.items() if "pydantic" in text]
    assert len(of_pydantic) > 10
    assert [name for name in of_pydantic if "from __future__ import annotations" in texts[name]] == []
