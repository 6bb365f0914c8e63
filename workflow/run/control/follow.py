"""Follows a run from another process, by its events and its lease, on any host that sees its directory: as states, or
as the events themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

from workflow.formats.json_lines import Tail
from workflow.formats.lease_file import DEAD_S, SILENCE_S
from workflow.plan.plan_model import Plan
from workflow.run.control.lease import LeaseWatch, Liveness, has_lease
from workflow.run.records.events_file import EVENTS_FILE, StoredEvent, reserved_verdict, to_stored
from workflow.run.state.events import NodesUnwatched, Tick
from workflow.run.state.lifecycle_events import RunFinished
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import RunState, initial_state

POLL_S = 0.5
LEASE_LOOK_S = 1.0
# So long the guard of a run may need to end what is left of it and to write the verdict.
GUARD_S = 5.0


def follow(run_dir: Path, plan: Plan) -> Generator[RunState, None, None]:
    """The states of a run from now on, one every POLL_S, until it has a verdict or its supervisor has died. While
    nothing is heard of the supervisor, as where its file system stalls, they say so.

    `plan` has its run directory filled in. A run that nobody has started yields its first state until somebody does:
    the caller decides for how long. The time of a state goes on between events. Raises RunError for events of a newer
    version.
    """
    state = initial_state(plan)
    taken = time.monotonic()
    silence: NodesUnwatched | None = None

    def note(lives: Liveness) -> None:
        nonlocal silence
        said = lives.silence_text
        silence = (silence or NodesUnwatched(state.t, f"{said}: this command waits on")) if said else None

    for new in follow_events(run_dir, note):
        now = time.monotonic()
        if new:
            taken = now
            state = fold(state, [stored.event for stored in new])
        if state.finished is not None or state.started is None:
            yield state
        else:
            shown = fold(state, [Tick(state.t + now - taken)])
            yield shown if silence is None else replace(shown, warnings=(*shown.warnings, silence))


def follow_events(
    run_dir: Path, note: Callable[[Liveness], None] = lambda _: None
) -> Generator[list[StoredEvent], None, None]:
    """The events of a run from its beginning on: every POLL_S those that are new, often none, until the verdict is
    among them or its supervisor has died.

    As with `follow`, the caller decides how long to wait for somebody who starts the run. `note` gets each look at its
    lease. Raises RunError for events of a newer version.
    """
    tail = Tail(run_dir / EVENTS_FILE)
    looked = time.monotonic()
    watch = LeaseWatch(run_dir, looked, DEAD_S)
    lives = watch.look(looked)
    died: float | None = None
    while True:
        now = time.monotonic()
        if now - looked >= LEASE_LOOK_S:
            looked, lives = now, watch.look(now)
            note(lives)
        # Asked before the events are read: what a supervisor wrote before it died is then read in the last round.
        # A lease that cannot be read for so long is damaged, and nobody renews it.
        awaited = lives.lease is None and (lives.silent_s < SILENCE_S or not has_lease(run_dir))
        died = None if lives.alive or awaited else died or now
        new = list(to_stored(tail.read(fresh=True), tail.path))
        # The process of a run that has ended may live on, in a notebook: on a full disk its verdict is in the reserve.
        is_silent = died is not None or lives.silent_s >= SILENCE_S
        if not new and is_silent and (verdict := reserved_verdict(run_dir)) is not None:
            new = [StoredEvent.of(verdict)]
        yield new
        if any(isinstance(stored.event, RunFinished) for stored in new):
            return
        if died is not None and now - died >= GUARD_S:
            return
        time.sleep(POLL_S)
