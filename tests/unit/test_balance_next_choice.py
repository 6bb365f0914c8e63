"""Which settings the next part of a run has, when this one took longer than `wf balance` promised: a pure decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.imagined_balances import VIA, balance, candidate, write_balance
from workflow.balance.balance_model import Balance, BalancedCandidate, FailedCandidate
from workflow.balance.next_choice import changes_text, next_choice, took_text, with_choice
from workflow.balance.promise import balance_of, promise_of, set_keys

TODAY = candidate(20, 20, 20)
SHM = candidate(10, 10, 10, via="shm")
TCP = candidate(11, via="sst-tcp")


def found(
    *others: BalancedCandidate, chosen: BalancedCandidate = SHM, today: BalancedCandidate = TODAY, **more: Any
) -> Balance:
    return balance(chosen, *others, today=today, **more)


def test_a_promise_that_was_kept_changes_nothing() -> None:
    # Inside its bounds, though another one has been faster than that.
    assert next_choice(found(candidate(9.9, via="sst-tcp")), 0.0105) is None
    assert next_choice(found(TCP), 0.008) is None


def test_after_a_broken_promise_the_one_that_is_faster_now_is_chosen() -> None:
    other = candidate(12, share="sim")
    assert next_choice(found(other, TCP), 0.015) == TCP
    # The pipeline as it is, too, and from it to another one.
    assert next_choice(found(TCP), 0.030) == TCP
    assert next_choice(found(), 0.030) == TODAY
    assert next_choice(found(TCP, chosen=candidate(10, 10, 10)), 0.015) == TCP


def test_what_gains_no_more_than_the_tolerance_is_not_chosen() -> None:
    assert next_choice(found(TCP), 0.0115) is None
    assert next_choice(found(TCP), 0.0117) == TCP
    assert next_choice(found(candidate(30, via="sst-tcp")), 0.015) is None


@pytest.mark.parametrize(
    "other",
    [
        candidate(11, via="shm", ranks=2),
        candidate(11, ranks=2),
        candidate(11, via="shm", **{"stages.sim.with.size": 16}),
        candidate(via="sst-tcp"),
        candidate(11, via="sst-tcp", nodes=2),
    ],
    ids=["other ranks", "other ranks and another engine", "other data", "never ran", "more nodes"],
)
def test_one_that_the_part_cannot_go_on_with_is_not_chosen(other: BalancedCandidate) -> None:
    assert next_choice(found(other), 0.015) is None


def test_ranks_that_were_chosen_stay_what_they_are() -> None:
    chosen, other = candidate(10, via="shm", ranks=2), candidate(11, via="sst-tcp", ranks=2)
    assert next_choice(found(TCP, other, chosen=chosen), 0.015) == other


@pytest.mark.parametrize("given", [VIA, "streams.*.via"])
def test_a_key_that_an_option_sets_stays_as_it_is(given: str, tmp_path: Path) -> None:
    assert next_choice(found(TCP), 0.015, ["stages.sim.with.steps"]) == TCP
    assert next_choice(found(TCP), 0.015, [given]) is None
    overlay = write_balance(tmp_path / "found", found(TCP))
    options = ["--profile", str(overlay), "--set", "stages.sim.with.steps=9"]
    assert balance_of(options) == found(TCP) and set_keys(options) == ["stages.sim.with.steps"]
    assert balance_of([*options, "--set", f"{given}=sst"]) is None


def test_one_that_has_failed_once_is_not_chosen() -> None:
    failed = FailedCandidate(settings=TCP.settings, reason="look has failed")
    assert next_choice(found(TCP, failed=[failed]), 0.015) is None


def test_node_hours_count_where_they_are_the_goal() -> None:
    chosen = candidate(10, via="shm", nodes=2)
    one_node = candidate(22, via="shm", share="sim")
    slow = candidate(40, 40, 40)
    assert next_choice(found(one_node, chosen=chosen, today=slow), 0.013) is None
    assert next_choice(found(one_node, chosen=chosen, today=slow, goal="node-hours"), 0.013) == one_node


def test_the_new_choice_promises_what_it_took_and_the_one_before_is_known_as_what_it_was() -> None:
    now = with_choice(found(TCP), 0.015, TCP)
    assert now.chosen == TCP and now.today == TODAY
    assert [(each.settings, each.took_s) for each in now.others] == [(SHM.settings, 0.015)]
    assert promise_of(now).median == pytest.approx(0.011)
    # It keeps what it promises, or it does not, but less badly.
    assert next_choice(now, 0.0112) is None
    assert next_choice(now, 0.0155) is None
    back = next_choice(now, 0.019)
    assert back is not None and back.settings == SHM.settings
    again = with_choice(now, 0.019, back)
    assert promise_of(again).median == pytest.approx(0.015), "what it has taken, not what was promised first"
    assert promise_of(again).high == pytest.approx(1.05 * 0.015)
    assert next_choice(again, 0.0155) is None


def test_the_pipeline_as_it_is_is_known_as_what_it_was() -> None:
    today = candidate(10, 10, 10)
    now = with_choice(found(TCP, chosen=today, today=today), 0.015, TCP)
    assert now.today.took_s == 0.015 and now.others == []
    back = next_choice(now, 0.019)
    assert back is not None and back.settings == {}
    assert promise_of(with_choice(now, 0.019, back)).median == pytest.approx(0.015)


def test_where_everything_has_become_slower_not_all_candidates_are_tried() -> None:
    """All take 1.5 times as long as their probes: after the second one, that is known of the others."""
    truth = {"shm": 15.0, "sst-tcp": 16.5, "a": 18.0, "b": 19.5}
    known = found(TCP, candidate(12, via="a"), candidate(13, via="b"))
    used = []
    for _ in range(6):
        used.append(via := known.chosen.settings[VIA])
        took_s = truth[via] / 1000
        if (choice := next_choice(known, took_s)) is not None:
            known = with_choice(known, took_s, choice)
    assert used == ["shm", "sst-tcp", "shm", "shm", "shm", "shm"]


def test_it_is_said_in_a_line() -> None:
    assert changes_text(found(), TCP) == "streams.field.via=sst-tcp in place of shm"
    assert changes_text(found(), TODAY) == "streams.field.via=sst in place of shm"
    chosen = candidate(10, via="shm", share="sim")
    said = changes_text(found(chosen=chosen), TCP)
    assert said == "stages.mean.place.share=none in place of sim, streams.field.via=sst-tcp in place of shm"
    assert took_text(2, 0.0121, SHM.seconds) == "part 2 took 12.1 ms per step, promised 9.50 ms to 10.5 ms"
