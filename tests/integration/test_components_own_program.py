"""The two programs of example 03 alone: without wf, with config files as anybody would write them."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import adios2
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/03-your-own-program"
XML = '<?xml version="1.0"?><adios-config><io name="SimulationOutput"><engine type="BP5"/></io></adios-config>'
YAML = "- IO: FieldInput\n  Engine: {Type: BP5}\n- IO: Fringes\n  Engine: {Type: BP5}\n"


@pytest.fixture(scope="module")
def program() -> Path:
    subprocess.run(["make", f"PYTHON={sys.executable}"], cwd=EXAMPLE, check=True, capture_output=True, timeout=120)
    return EXAMPLE / "build/double_slit"


def run(*argv: object, cwd: Path, code: int = 0) -> str:
    answer = subprocess.run([str(word) for word in argv], cwd=cwd, capture_output=True, text=True, timeout=100)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


def write_settings(folder: Path, **changes: object) -> None:
    text = (EXAMPLE / "settings.in").read_text().replace("${{ streams.field.path }}", "field.bp")
    for name, value in changes.items():
        text, found = re.subn(rf"^{name} = \S+", f"{name} = {value}", text, flags=re.MULTILINE)
        assert found == 1
    (folder / "settings.ini").write_text(text)
    (folder / "adios2.xml").write_text(XML)
    (folder / "adios2.yaml").write_text(YAML)


# 8 outputs, 20 time steps apart, make 5 periods of a wave of length 16; 7 do so for 14
@pytest.mark.parametrize(("wavelength", "slits", "average"), [(16, 64, 8), (14, 64, 7), (16, 80, 8)])
def test_the_fringes_are_where_geometry_wants_them(
    program: Path, wavelength: int, slits: int, average: int, tmp_path: Path
) -> None:
    write_settings(tmp_path, wavelength=wavelength, slit_distance=slits)
    assert "60 steps written to field.bp" in run(program, "settings.ini", cwd=tmp_path)
    said = run(sys.executable, EXAMPLE / "fringes.py", "field.bp", "fringes.bp", "--average", average, cwd=tmp_path)
    found = re.search(r"fringes: ([\d.]+) cells apart on the screen, ([\d.]+) expected", said)
    assert found is not None, said
    # sin θ = λ / d; the screen stands 240 cells behind the slits
    assert float(found[2]) == pytest.approx(240 * math.tan(math.asin(wavelength / slits)), rel=0.05)
    assert float(found[1]) == pytest.approx(float(found[2]), rel=0.05)
    with adios2.FileReader(str(tmp_path / "fringes.bp")) as file:
        assert file.num_steps() == 60
        screen = file.read("screen", step_selection=[59, 1]).reshape(-1)
    assert screen == pytest.approx(screen[::-1], abs=1e-6), "the picture is not symmetric"


@pytest.mark.parametrize(
    ("text", "message"),
    [("nx = 400\n", "the settings lack ny"), (None, "cannot read settings.ini")],
)
def test_mistakes_in_the_settings_are_told(program: Path, text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "settings.ini").write_text(text)
    assert message in run(program, "settings.ini", code=1, cwd=tmp_path)
