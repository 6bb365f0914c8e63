"""The fragments of docs/how-to/policies.md, put where they belong: they plan, and become what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from workflow.plan.make_plan import make_plan
from workflow.plan.plan_model import EndPlan
from workflow.site.site_model import Site
from workflow.spec.load import load_pipeline

PAGE = Path(__file__).parents[2] / "docs/how-to/policies.md"
SITE = Site(
    site="test", summary="8 cores, 2 GPUs", cores_per_node=8, memory_per_node=2**34, gpus_per_node=2,
    operators=["blosc", "zfp"], parallel_adios2=True,
)  # fmt: skip
BASE = """
wf: 1
name: page
stages:
  make: {component: synthetic}
  drop: {component: "null"}
streams:
  data: {from: make, to: drop, via: bp5}
"""


def planned(fragment: str, folder: Path) -> EndPlan:
    (text,) = re.findall(rf"^```yaml\n# fragment: {fragment}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    pipeline = yaml.safe_load(BASE)
    pipeline["stages"]["make"] |= yaml.safe_load(text.replace("1e-3", "0.001"))["stages"]["make"]
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline))
    return (
        make_plan(load_pipeline(folder / "pipeline.yaml"), SITE, python="python", wf_version="0").stage("make").ends[0]
    )


@pytest.mark.parametrize(
    ("fragment", "parameters"),
    [("aggregation", {"NumAggregators": "2"}), ("async", {"AsyncWrite": "Guided"}), ("compression", {})],
)
def test_fragments(fragment: str, parameters: dict[str, str], tmp_path: Path) -> None:
    end = planned(fragment, tmp_path)
    assert end.parameters == parameters
    assert sorted(end.operators) == (["*", "particles"] if fragment == "compression" else [])
