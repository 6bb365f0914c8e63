"""What is said of the members of an ensemble: each mistake once, and what is without effect."""

from __future__ import annotations

import pytest

from tests.support.planner import Planner, walkers
from workflow.errors import Problem, SpecError
from workflow.plan.plan_notes import located
from workflow.plan.topology.implicit_stages import complete_pipeline


def problems(plan_of: Planner, text: str) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        plan_of(text)
    return caught.value.problems


@pytest.mark.parametrize(
    ("values", "which"),
    [
        ([0, -1, -2], "all 3 members"),
        ([0, -1], "both members"),
        ([0], ""),
        ([5, 0, 6], "walk-1"),
        ([0, 5, 0, 0, 0], "4 of 5 members: walk-0, walk-2, walk-3, … (1 more)"),
    ],
)
def test_a_value_that_is_wrong_is_said_once_with_the_members_that_have_it(
    values: list[int], which: str, plan_of: Planner
) -> None:
    (problem,) = problems(plan_of, walkers(str([{"n": value} for value in values]).replace("'", "")))
    assert problem.key == "stages.walk.with.walkers"
    assert problem.message == "expected at least 1, got 0 (from member.n)" + (f" ({which})" if which else "")


def test_two_mistakes_stay_two(plan_of: Planner) -> None:
    found = problems(plan_of, walkers("[{n: 0}, {n: 2}]", ", rankz: 2, on_failure: {do: restart, times: 0}"))
    assert [(each.key, each.message.rpartition(" (")[2]) for each in found] == [
        ("stages.walk.with.walkers", "walk-0)"),
        ("stages.walk.rankz", "both members)"),
        ("stages.walk.on_failure.times", "both members)"),
    ]


def test_a_mistake_that_names_members_and_their_streams_is_said_of_the_first_one(plan_of: Planner) -> None:
    text = walkers("[{n: 1}, {n: 2}, {n: 3}]", ", on_failure: ignore").replace("any}", "any, via: sst}")
    (problem,) = problems(plan_of, text)
    assert problem.key == "stages.walk.on_failure"
    assert "without walk-0: positions-merge reads its stream positions-0" in problem.message
    assert problem.message.endswith(" (all 3 members)")
    assert problem.hint == "use `via: bp5` for positions, or `restart`"  # what can be typed


def test_a_note_on_all_members_is_said_once(plan_of: Planner) -> None:
    text = walkers("[{n: 1}, {n: 2}, {n: 3}]").replace("any}", "any, queue: {limit: 4}}")
    loaded, plan = plan_of.load(text), plan_of(text)
    texts = [each.message for each in located(plan.advice, complete_pipeline(loaded).origins)]
    assert not [each for each in texts if "positions-1" in each or "walk-1" in each]


DRAWN = "{count: 3, draw: {n: {from: 1, to: 9, whole: true}, m: {from: 0.1, to: 0.5}}}"


def test_a_drawn_value_that_nothing_uses_is_a_warning(plan_of: Planner) -> None:
    (warning,) = plan_of.load(walkers(DRAWN)).warnings
    assert (warning.level, warning.key, warning.message) == ("warning", "stages.walk.members.draw.m", "is not used")
    assert warning.hint == "write `${{ member.m }}` where its value belongs, or remove it"
    assert plan_of.load(walkers(DRAWN, ', env: {M: "m is ${{ member.m }}"}')).warnings == ()


@pytest.mark.parametrize(("members", "unused"), [("{matrix: {n: [1, 2], m: [3, 4]}}", ["m"]), ("[{n: 1, m: 2}]", [])])
def test_a_value_of_a_matrix_that_nothing_uses_is_a_warning_and_a_label_is_none(
    members: str, unused: list[str], plan_of: Planner
) -> None:
    """Two members of such a matrix would be the same run."""
    found = plan_of.load(walkers(members)).warnings
    assert [each.key for each in found] == [f"stages.walk.members.matrix.{name}" for name in unused]


EACH = """
stages:
  walk: {component: walker, members: {count: 2, draw: {b: {from: 2, to: 9, whole: true}}}}
  count: {component: tally, with: {variable: position, bins: "${{ member.b }}"}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: count, collect: each}
  counts: {from: count, to: keep, collect: any}
"""


def test_a_drawn_value_may_be_used_in_a_file_and_by_who_reads_a_member(plan_of: Planner) -> None:
    (plan_of.folder / "deck").write_text("mass = ${{ member.m }}\n")
    assert plan_of.load(walkers(DRAWN, ", files: {deck.in: deck}")).warnings == ()
    assert plan_of.load(EACH).warnings == ()
    (warning,) = plan_of.load(EACH.replace('"${{ member.b }}"', "7")).warnings
    assert warning.key == "stages.walk.members.draw.b"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ("{values: [{n: 1}, {n: 2}], at_once: 2}", []),
        (
            "{values: [{n: 1}, {n: 2}], at_once: 3}",
            ["3 at once, of 2 members: all run at the same time", "use fewer than 2, or remove it"],
        ),
        (
            "{matrix: {n: [7]}, at_once: 2}",
            ["2 at once, of 1 member: all run at the same time", "remove it"],
        ),
    ],
)
def test_more_at_once_than_there_are_is_a_warning(members: str, said: list[str], plan_of: Planner) -> None:
    found = plan_of.load(walkers(members)).warnings
    assert [text for each in found for text in (each.message, each.hint)] == said
    assert all((each.level, each.key) == ("warning", "stages.walk.members.at_once") for each in found)
    assert [stage.starts_after for stage in plan_of(walkers(members)).stages][:1] == [[]]
