"""Labels and units of variables: from the stream's attributes, openPMD's, or the pipeline's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adios2
import numpy as np
import pytest

from workflow import stage
from workflow.formats.stage_file import StageSettings, StreamEnd
from workflow.stage import settings
from workflow.stage.variables import label_of, unit_of

MOMENTUM = "/data/particles/electrons/momentum/x"
OPENPMD: dict[str, Any] = {
    "/openPMD": "1.1.0",
    "/data/timeUnitSI": 1.5e-10,
    f"{MOMENTUM}/unitSI": 5.5e-24,
    "/data/particles/electrons/momentum/unitDimension": np.array([1.0, 1, -1, 0, 0, 0, 0]),
    "/data/meshes/rho/unitSI": 1.0,
    "/data/meshes/rho/unitDimension": np.array([-3.0, 0, 1, 1, 0, 0, 0]),
}


@pytest.mark.parametrize(
    ("variable", "attributes", "label", "unit"),
    [
        ("V", {}, "V", ""),
        ("V", {"V/long_name": "speed", "V/unit": "m/s"}, "speed", "m/s"),
        (MOMENTUM, OPENPMD, "momentum x of electrons", "5.5e-24 kg*m/s"),
        ("/data/100/particles/ions/id", OPENPMD, "id of ions", ""),
        ("/data/meshes/rho", OPENPMD, "rho", "C/m^3"),
        ("/data/meshes/E/x", OPENPMD, "E x", ""),
        ("/data/time", OPENPMD, "time", "1.5e-10 s"),
        (MOMENTUM, {**OPENPMD, f"{MOMENTUM}/unit": "MeV"}, "momentum x of electrons", "MeV"),
        (MOMENTUM, {}, MOMENTUM, ""),
    ],
)
def test_what_attributes_say(variable: str, attributes: dict[str, Any], label: str, unit: str) -> None:
    assert (label_of(variable, attributes), unit_of(variable, attributes)) == (label, unit)


def test_units_of_the_pipeline_reach_files_and_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, units = str(tmp_path / "field.bp"), {"T": "K", "v": "m/s", "x": "1", "absent": "s"}
    write = StreamEnd("field", "field", "write", "BP5", path, units=units)
    monkeypatch.setattr(settings, "_current", StageSettings(ends=(write,)))
    with stage.open_writer("field") as out:
        out.attribute("unit", "km/s", variable="v")
        out.attribute("unitSI", 1e-9, variable="x")
        out.attribute("unitDimension", np.array([1.0, 0, 0, 0, 0, 0, 0]), variable="x")
        with out.step():
            for name in ("T", "v", "w", "x"):
                out.write(name, np.arange(3.0))
    with adios2.FileReader(path) as file:
        found = {name: info["Value"].strip('"') for name, info in file.available_attributes().items()}
    said = {"T/unit": "K", "v/unit": "km/s", **{name: text for name, text in found.items() if name[0] == "x"}}
    assert "x/unitSI" in said and "x/unit" not in said
    assert found == said, "what the program itself says comes first"

    # A program that does not use workflow.stage writes no units: its readers know them all the same.
    read = StreamEnd("field", "field", "read", "BP5", path, units={"w": "eV", "T": "mK"}, open_timeout_s=0.0)
    monkeypatch.setattr(settings, "_current", StageSettings(ends=(read,)))
    copied: dict[str, Any] = {}

    class Copy:
        def attribute(self, name: str, value: Any) -> None:
            copied[name] = str(value)

    with stage.open_reader("field") as field:
        for step in field:
            assert [step.unit(name) for name in ("T", "v", "w")] == ["K", "km/s", "eV"]
            assert step.attributes("w") == {"unit": "eV"} and step.label("w") == "w"
            step.copy_attributes_to(Copy())
    assert copied.keys() == {*said, "w/unit"} and copied["w/unit"] == "eV"
