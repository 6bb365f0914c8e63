"""Labels and units of variables: from the stream's attributes, openPMD's, or the pipeline's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workflow.stage.data.quantities import label_of, unit_of

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
