"""The newest state of a run, from the thread that supervises it to the one that shows it."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator

from workflow.run.state.run_state import RunState


class NewestState:
    """One state, which is replaced before it is taken where the one who shows it is slow."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._changed = threading.Condition()
        self._state: RunState | None = None
        self._over = False
        # Can be read once the caller has left.
        self.left, self._leave = os.pipe()

    def put(self, state: RunState) -> None:
        """Replace the state. Never waits for the one who takes it."""
        with self._changed:
            self._state = state
            self._changed.notify()

    def end(self) -> None:
        """No state follows."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def states(self) -> Generator[RunState, None, None]:
        """Wait for each next state, until the last one."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._state is not None or self._over)
                state, self._state = self._state, None
            if state is None:
                return
            yield state

    def leave(self) -> None:
        """Let the supervisor know that nobody takes the states any more."""
        os.write(self._leave, b"x")

    def close(self) -> None:
        """Close the pipe, when the supervisor has ended."""
        os.close(self.left)
        os.close(self._leave)
