"""Tests of one stage without its pipeline: it is fed with steps, recorded or made up, and what it writes is returned.

    from workflow.testing import run_component

    def test_every_value_is_counted():
        result = run_component("histogram", reads={"input": [{"V": values}]}, parameters={"variable": "V"})
        assert result["histogram"][0]["counts"].sum() == values.size

`pytest_plugins = ["workflow.testing.pytest_plugin"]` in conftest.py gives the fixture of the same name, which puts the
runs into the temporary folder of the test.
"""

from __future__ import annotations

from workflow.testing.component_run import ComponentResult, ComponentRunFailed, StepData, run_component

__all__ = ["ComponentResult", "ComponentRunFailed", "StepData", "run_component"]
