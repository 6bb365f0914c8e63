"""An imagined run whose programs behave as real ones do when some of them fail: for tests of the lifecycle.

The programs open their streams as soon as they can, and end when all that they read has ended. A writer of a live
stream waits in open for as many readers as it was told; a reader whose writer dies ends with exit code 1; a writer does
not mind a reader that dies. A program that is killed or gets a signal ends.
"""

from __future__ import annotations

import signal
from typing import Literal, NamedTuple

from tests.support.imagined_run import Run
from workflow.plan.plan_model import Plan
from workflow.run.attempts import to_attempt
from workflow.run.lifecycle import wake_at
from workflow.run.state.events import Event, StageExited, StreamOffered, StreamOpened, StreamProgress, StreamTrouble
from workflow.run.state.run_state import EndState

Moment = Literal["at once", "unopened", "open"]
HowEnded = Literal["exit", "kill"]
STEPS = 100
# A round is one look at all programs; a run of a few stages needs a few of them.
_ROUNDS = 200


class Failure(NamedTuple):
    """How a stage fails.

    `when`: right after what came before; when all that was to be killed and started again is, but has not opened its
    streams; or when it has opened them. `readers_first`: that its readers end is seen before its own end.
    """

    stage: str
    when: Moment
    how: HowEnded = "exit"
    readers_first: bool = False

    def __str__(self) -> str:
        return f"{self.stage} {self.when} {self.how}{' readers first' * self.readers_first}"


class Stuck(AssertionError):
    """Nothing of a run can go on, and it has not ended."""


class Programs:
    """The programs of an imagined run."""

    def __init__(self, plan: Plan) -> None:
        self.run = Run(plan)
        self.step = 0

    def fail(self, failure: Failure) -> bool:
        """Let a stage fail. Returns whether it ran."""
        if failure.when != "at once":
            self.settle(opens=failure.when == "open")
        if failure.when == "open":
            self._go_on()
        stage = self.run.state.stages[failure.stage]
        if not stage.runs or self.run.state.stopping is not None:
            return False
        number = signal.SIGKILL if failure.how == "kill" else None
        t = self.run.t + 0.01
        # The kernel shows which stages are alive.
        alive = [name for name, other in self.run.state.stages.items() if other.runs and name != failure.stage]
        own = StageExited(t, failure.stage, None if number else 1, number, "", [] if number else alive)
        orphans = self._end_readers(failure.stage, t)
        self.run.feed(*([*orphans, own] if failure.readers_first else [own, *orphans]))
        return True

    def settle(self, *, opens: bool = True) -> None:
        """Let pass what passes by itself: kills, pauses, starts; with `opens`, programs open their streams."""
        ticked = False
        for _ in range(_ROUNDS):
            due = wake_at(self.run.state)
            if not (self._end_killed() or (opens and self._open())):
                if self.run.state.finished is not None or (due is None and ticked):
                    return
                self.run.tick(max(self.run.t, due or 0.0) + 1e-3)
                ticked = due is None
        raise Stuck(f"it does not settle: {self}")

    def end(self, said: str = "") -> None:
        """Let all programs do what they have to do. Raises Stuck; `said` is what is known of the failures."""
        for _ in range(_ROUNDS):
            self.settle()
            if self.run.state.finished is not None:
                return
            if not self._complete():
                raise Stuck(f"nothing goes on after {said}: {self}")
        raise Stuck(f"it does not end after {said}: {self}")

    def __str__(self) -> str:
        stages = self.run.state.stages.values()
        return ", ".join(f"{each.name} {each.status} {each.attempt}{' ignored' * each.ignored}" for each in stages)

    def _end_killed(self) -> bool:
        signalled = {name: t for t, names, _ in self.run.signals for name in names}
        ended = [
            name for name, stage in self.run.state.stages.items()
            if stage.runs and (stage.killed or signalled.get(name, -1.0) >= (stage.started or 0.0))
        ]  # fmt: skip
        for name in ended:
            self._exit(name, None, signal.SIGKILL)
        return bool(ended)

    def _exit(self, name: str, code: int | None, number: int | None) -> None:
        self.run.feed(StageExited(self.run.t, name, code, number))
        for event in self._end_readers(name, self.run.t):
            self.run.feed(event)

    def _end_readers(self, writer: str, t: float) -> list[Event]:
        """What becomes of those to which a stage sends: they lose it, and end."""
        events: list[Event] = []
        for end in self.run.state.ends_of(writer):
            if end.side == "write" and end.opened is not None and end.closed is None and self._is_live(end):
                for reader in self.run.state.readers(end.stream):
                    if self._reads_live(reader) and reader.opened is not None and reader.closed is None:
                        events.append(StreamTrouble(t, end.stream, reader.stage, "failed", "its writer has died"))
                        events.append(StageExited(t, reader.stage, 1, None))
        return events

    def _open(self) -> bool:
        """Open what can be opened; a live stream when all have come for which its writer waits."""
        state, opened = self.run.state, []
        for stream in state.plan.streams:
            writer = state.writer(stream.name)
            waits = self._runs(writer) and writer.opened is None
            if waits and self._is_live(writer):
                came = [end for end in state.readers(stream.name) if self._reads_live(end) and end.opened is None]
                instead = [name for name, streams in self.run.replaced if stream.name in streams]
                plan = state.plan.stage(writer.stage)
                if state.stages[writer.stage].attempt > 1:
                    plan, instead = to_attempt(plan, state, {}), self._since(writer.stage, stream.name)
                wanted = int(plan.end(stream.name, "write").parameters["RendezvousReaderCount"])
                if len(came) + len(instead) == wanted:
                    opened += [writer, *came]
                elif len(came) + len(instead) > wanted:
                    raise Stuck(f"{stream.name}: {len(came)} and {instead} come, {wanted} are awaited: {self}")
            elif waits:
                opened.append(writer)
            for end in state.readers(stream.name):
                if self._runs(end) and end.opened is None and not self._reads_live(end):
                    opened.append(end)
        for end in opened:
            if end.side == "write":
                self.run.feed(StreamOffered(self.run.t, end.stream, end.stage))
            self.run.feed(StreamOpened(self.run.t, end.stream, end.stage, end.side))
        return bool(opened)

    def _since(self, writer: str, stream: str) -> list[str]:
        """Those that open a stream in place of others since its writer has been started: those before are ended."""
        begun = self.run.begun[writer]
        return [name for name, streams in self.run.replaced[begun:] if stream in streams]

    def _go_on(self) -> None:
        """All that is open makes a few steps more."""
        self.step += 2
        for end in self.run.state.ends.values():
            if self._runs(end) and end.opened is not None and end.closed is None and end.steps < self.step:
                self.run.feed(StreamProgress(self.run.t, end.stream, end.stage, end.side, self.step, 8 * self.step))

    def _complete(self) -> bool:
        """End those programs whose work is done: all that they read has ended."""
        state = self.run.state
        for name, stage in state.stages.items():
            ends = state.ends_of(name)
            inputs = [state.writer(end.stream) for end in ends if end.side == "read"]
            if stage.runs and all(end.opened is not None for end in ends) and all(
                end.closed is not None or state.stages[end.stage].ignored for end in inputs
            ):  # fmt: skip
                lost = [state.writer(end.stream).steps for end in ends if end.side == "read" and self._is_cut(end)]
                self.run.feed(*self.run.done(name, min(lost, default=STEPS), self.run.t))
                return True
        return False

    def _is_cut(self, end: EndState) -> bool:
        """Whether what there is of a stream is all."""
        return self.run.state.stages[self.run.state.writer(end.stream).stage].ignored

    def _runs(self, end: EndState) -> bool:
        return self.run.state.stages[end.stage].runs and self.run.state.stages[end.stage].status != "restarting"

    def _is_live(self, end: EndState) -> bool:
        return self.run.state.plan.stream(end.stream).traits.in_memory

    def _reads_live(self, end: EndState) -> bool:
        return self._runs(end) and self._is_live(end) and not end.from_spool
