"""Lists of hosts as schedulers write them."""

from __future__ import annotations

import pytest

from workflow.launch.host_lists import expand_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[3,1-2]", ["n3", "n1", "n2"]),
        ("frontier[00009-00011]", ["frontier00009", "frontier00010", "frontier00011"]),
        ("nid[001998-001999,002004],login1", ["nid001998", "nid001999", "nid002004", "login1"]),
        ("r[0-1]n[8-9]", ["r0n8", "r0n9", "r1n8", "r1n9"]),
        ("x1000c[0-1]s0b0n0.hsn", ["x1000c0s0b0n0.hsn", "x1000c1s0b0n0.hsn"]),
    ],
)
def test_hosts(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    "text", ["", "n[1-", "n1]", "n[[1-2]]", "n[2-1]", "n[]", "n[1-9999999]", "a,,b", "n 1", "n[a]"]
)
def test_what_is_no_list_of_hosts(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of hosts"):
        expand_hosts(text)


def test_a_whole_machine() -> None:
    hosts = expand_hosts("frontier[00001-09472]")
    assert (len(hosts), hosts[-1]) == (9472, "frontier09472")
