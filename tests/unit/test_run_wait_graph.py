"""The wait-for graph by itself."""

from __future__ import annotations

import itertools

from workflow.run.verdict.wait_graph import Link, Wait, circle_of, find_deadlock, find_path, turn_to_cause


def graph(text: str, proven: str = "") -> dict[str, list[Wait]]:
    """`a-b` is: a waits for b; `proven` are the waits that are certain."""
    found: dict[str, list[Wait]] = {}
    for pair in text.split():
        waiter, stage = pair.split("-")
        found.setdefault(waiter, []).append(Wait(stage, f"for {stage}", proven=pair in proven.split()))
    return found


def text(path: tuple[Link, ...] | None) -> str:
    return " ".join(f"{link.waiter}-{link.wait.stage}" for link in path or ())


def test_a_stage_that_waits_for_nobody_is_the_cause_itself() -> None:
    assert find_path({}, "a") == ((), "a")
    assert find_path({"a": []}, "a") == ((), "a")


def test_a_chain_leads_to_its_end() -> None:
    path, root = find_path(graph("a-b b-c c-d x-a"), "a")
    assert (text(path), root) == ("a-b b-c c-d", "d")
    assert [link.wait.text for link in path] == ["for b", "for c", "for d"]


def test_of_several_waits_the_first_is_followed() -> None:
    path, root = find_path(graph("a-b a-c b-d"), "a")
    assert (text(path), root) == ("a-b b-d", "d")


def test_a_stage_that_waits_for_nobody_is_found_beside_a_circle() -> None:
    path, root = find_path(graph("a-b b-a b-c c-d"), "a")
    assert (text(path), root) == ("a-b b-c c-d", "d")
    path, root = find_path(graph("a-b b-c c-b a-d d-e"), "a")
    assert (text(path), root) == ("a-d d-e", "e")


def test_a_stage_that_was_left_is_not_entered_again() -> None:
    path, root = find_path(graph("a-b b-b a-c c-b c-d"), "a")
    assert (text(path), root) == ("a-c c-d", "d")


def test_the_path_is_taken_back_where_it_led_into_a_circle() -> None:
    path, root = find_path(graph("a-b b-c c-b b-d"), "a")
    assert (text(path), root) == ("a-b b-d", "d")


def test_a_circle_has_no_end() -> None:
    path, root = find_path(graph("a-b b-c c-d d-b"), "a")
    assert (text(path), root) == ("a-b b-c c-d d-b", None)
    assert text(circle_of(path)) == "b-c c-d d-b"
    assert text(find_path(graph("a-b b-a a-c c-a"), "a")[0]) == "a-b b-a", "the first circle"


def test_a_long_chain_needs_no_deep_recursion() -> None:
    waits = {str(n): [Wait(str(n + 1), "", proven=True)] for n in range(5000)}
    assert find_path(waits, "0")[1] == "5000"
    assert find_deadlock(waits, [str(n) for n in range(5001)]) is None


def test_the_cause_of_a_circle_is_the_same_from_wherever_it_is_entered() -> None:
    circle = (Link("a", Wait("b", "", rank=2)), Link("b", Wait("c", "", rank=1)), Link("c", Wait("a", "", rank=2)))
    for turn in range(3):
        assert text(turn_to_cause(circle[turn:] + circle[:turn], [*"abc"])) == "c-a a-b b-c"
    level = tuple(Link(link.waiter, Wait(link.wait.stage, "", rank=1)) for link in circle)
    for turn in range(3):
        assert text(turn_to_cause(level[turn:] + level[:turn], [*"bca"])) == "b-c c-a a-b"


def test_a_deadlock_needs_a_proof_of_each_wait() -> None:
    waits = "a-b b-c c-a d-a"
    for count in range(4):
        for proven in itertools.combinations(waits.split(), count):
            found = find_deadlock(graph(waits, " ".join(proven)), [*"abcd"])
            assert text(found) == ("a-b b-c c-a" if set(proven) == {"a-b", "b-c", "c-a"} else "")


def test_a_circle_is_a_deadlock_even_if_its_stages_wait_for_others_too() -> None:
    """A stage that waits for two needs both."""
    waits = "a-x a-b b-a"
    for order in ("xab", "abx"):
        assert text(find_deadlock(graph(waits, waits), [*order])) == "a-b b-a"


def test_of_two_deadlocks_the_first_stage_in_the_order_decides() -> None:
    waits = graph("a-b b-a c-d d-c", "a-b b-a c-d d-c")
    assert text(find_deadlock(waits, [*"abcd"])) == "a-b b-a"
    assert {link.waiter for link in find_deadlock(waits, [*"dcba"]) or ()} == {"c", "d"}


def test_stages_that_wait_for_a_deadlock_are_not_part_of_it() -> None:
    waits = graph("x-a a-b b-a", "x-a a-b b-a")
    assert {link.waiter for link in find_deadlock(waits, [*"xab"]) or ()} == {"a", "b"}
    assert find_deadlock(graph("x-a a-b x-b", "x-a a-b x-b"), [*"xab"]) is None
