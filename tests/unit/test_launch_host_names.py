"""When two names mean one host."""

from __future__ import annotations

import pytest

from tests.support.chains import make_plan, make_stage
from workflow.launch.host_lists import is_same_host, short_host
from workflow.plan.plan_model import LaunchPlan
from workflow.run.proof.proof_need import must_prove


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("n1", "n1.cluster.org", True),
        ("N1", "n1", True),
        ("n1", "n11", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "10.0.0.1", True),
    ],
)
def test_domains_and_case_do_not_count(name: str, other: str, same: bool) -> None:
    assert is_same_host(name, other) is same
    assert (short_host(name) == short_host(other)) is same


def test_hosts_of_a_network_are_other_hosts() -> None:
    """Addresses have dots, too."""
    stage = make_stage("md", ["prog"], ranks=2, launch=LaunchPlan(launcher="mpiexec", executable="mpiexec"))
    plan = make_plan([stage]).model_copy(update={"proof": "strict"})
    assert must_prove(plan, ["10.0.0.1", "10.0.0.2"], "10.0.0.1")
    assert not must_prove(plan, ["N1", "n1.cluster.org"], "n1")
