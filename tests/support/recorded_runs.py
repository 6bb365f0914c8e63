"""Real runs in tests/recorded: the plan, and what the supervisor found at each look, as it gave it to the lifecycle.

    python -m tests.support.recorded_runs NAME...      records these runs anew, or all that need one machine only

Those of `ON_NODES` are recorded inside a job of three nodes of the test cluster, by a Python with an ADIOS2 with MPI.

Of this machine nothing is kept: paths, process ids and its name are replaced, and the run begins at `START`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.chains import PROGRAMS, ROOT, chain, make_end, make_plan, make_stage, make_stream
from tests.support.watching import Condition, run_and_hurt, run_whole, stepped
from workflow.api import plans
from workflow.plan.plan_model import EndPlan, Plan, StagePlan
from workflow.plan.read_plan import read_plan
from workflow.run import lifecycle, run_loop
from workflow.run.actions import Action, RecordEvent
from workflow.run.records.events_file import from_record, to_line
from workflow.run.state.events import (
    AllocationReceived,
    Event,
    RunStarted,
    StageExited,
    StageStarted,
    StopPlanned,
    Tick,
)
from workflow.run.state.lifecycle_events import StopRequested
from workflow.run.state.run_state import RunState, initial_state
from workflow.spec.load import load_pipeline

FOLDER = ROOT / "tests/recorded"
START = 1_000_000_000.0
Batch = list[Event]


def names() -> list[str]:
    """The runs that are recorded."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def load(name: str) -> tuple[Plan, list[Batch]]:
    """The plan of a run and its events, in the batches in which they were found."""
    plan = read_plan((FOLDER / name / "plan.json").read_bytes(), name)
    lines = (FOLDER / name / "batches.jsonl").read_text().splitlines()
    batches = [[from_record(record) for record in json.loads(line)] for line in lines]
    return plan, [[event for event in batch if event is not None] for batch in batches]


def shuffled(batches: list[Batch], seed: int, jitter_s: float = 0.2) -> list[Batch]:
    """The same run as another supervisor may have seen it: what one stage does keeps its order, but is found up to
    `jitter_s` later, with other events, and ticks come at other times."""
    chance = random.Random(seed)
    found: list[tuple[float, int, Event]] = []
    latest: dict[str, float] = {}
    end = batches[-1][-1].t
    for batch in batches:
        t = max(event.t for event in batch)
        delays: dict[str, float] = {}
        for event in batch:
            if isinstance(event, Tick):
                continue
            stage = getattr(event, "stage", "")
            delay = 0.0 if isinstance(event, RunStarted) else delays.setdefault(stage, chance.uniform(0, jitter_s))
            latest[stage] = arrival = max(latest.get(stage, 0.0), t + delay)
            found.append((arrival, len(found), event))
    tick = START
    while tick < end + 10:
        tick += chance.uniform(0.05, 0.3)
        found.append((tick, len(found), Tick(tick)))
    merged: list[Batch] = [[]]
    for arrival, _, event in sorted(found, key=lambda each: each[:2]):
        # An exit has the time at which it was found; what the stage itself reports has the stage's time.
        merged[-1].append(dataclasses.replace(event, t=arrival) if isinstance(event, StageExited) else event)
        if isinstance(event, Tick | RunStarted):
            merged.append([])
    return [batch for batch in merged if batch]


def replay(plan: Plan, batches: list[Batch]) -> tuple[RunState, list[Event]]:
    """(the state after these batches, or when the run is stopped; what was decided)."""
    state, decided = initial_state(plan), list[Event]()
    for batch in batches:
        state, actions = lifecycle.step(state, *batch)
        decided += [action.event for action in actions if isinstance(action, RecordEvent)]
        if state.stopping is not None:
            break
    return state, decided


def _stage(name: str, arguments: list[str], ends: list[EndPlan]) -> StagePlan:
    argv = [sys.executable, str(PROGRAMS / "waiting.py"), *arguments]
    return make_stage(name, argv, ends, env={"SstVerbose": "2", "PYTHONPATH": str(ROOT)})


def _one_of_two(order: list[str]) -> Plan:
    """wave → corr by two streams, of which corr asks for one; corr → keep. `order` is that of the streams."""

    def ends(own: dict[str, Any]) -> list[EndPlan]:
        return [make_end(name, own[name]) for name in order if name in own]

    stages = [
        _stage("wave", ["write_two", "field", "forcing"], ends({"field": "write", "forcing": "write"})),
        _stage("corr", ["forward", "field", "out"], ends({"field": "read", "forcing": "read", "out": "write"})),
        _stage("keep", ["read", "out"], ends({"out": "read"})),
    ]
    joined = {"field": ("wave", "corr"), "forcing": ("wave", "corr"), "out": ("corr", "keep")}
    return make_plan(stages, [make_stream(name, joined[name][0], [joined[name][1]]) for name in order])


def _pair(one: list[str], other: list[str]) -> Plan:
    """Two stages that write to each other."""
    stages = [
        _stage("one", one, [make_end("ab", "write"), make_end("ba", "read")]),
        _stage("two", other, [make_end("ab", "read"), make_end("ba", "write")]),
    ]
    return make_plan(stages, [make_stream("ab", "one", ["two"]), make_stream("ba", "two", ["one"])])


def _long_chain() -> Plan:
    """wave → a → b → c → keep."""
    stages = [_stage("wave", ["write_two", "x0", "side"], [make_end("x0", "write"), make_end("side", "write")])]
    for name, read, write in (("a", "x0", "x1"), ("b", "x1", "x2"), ("c", "x2", "x3")):
        stages.append(_stage(name, ["forward", read, write], [make_end(read, "read"), make_end(write, "write")]))
    stages.append(_stage("keep", ["read", "x3", "0.2"], [make_end("x3", "read")]))
    stages.append(_stage("rest", ["read", "side"], [make_end("side", "read")]))
    streams = [make_stream("x0", "wave", ["a"]), make_stream("side", "wave", ["rest"]), make_stream("x1", "a", ["b"])]
    streams += [make_stream("x2", "b", ["c"]), make_stream("x3", "c", ["keep"])]
    return make_plan(stages, streams, step=8)


def _slow_reader() -> Plan:
    """md → keep, which takes longer for each step than it takes to call a deadlock."""
    plan = chain("sst", steps=5, sink=False)
    keep = _stage("saxs", ["read", "atoms", "6"], [make_end("atoms", "read")])
    return plan.model_copy(update={"stages": [plan.stages[0], keep]})


def _timeouts() -> Plan:
    plan = chain("sst", steps=50, options={"md": ["--hold", "step:5"]})
    ends = [[end.model_copy(update={"step_timeout_s": 3.0}) for end in stage.ends] for stage in plan.stages]
    stages = [stage.model_copy(update={"ends": own}) for stage, own in zip(plan.stages, ends, strict=True)]
    return plan.model_copy(update={"stages": stages})


def _send(name: str, number: int) -> Callable[[RunState], object]:
    return lambda state: os.kill(state.stages[name].pid or 0, number)


RUNS: dict[str, tuple[Plan, Condition | None, Callable[[RunState], object] | None]] = {
    "opens-one-of-two": (_one_of_two(["field", "out", "forcing"]), None, None),
    "reads-one-of-two": (_one_of_two(["field", "forcing", "out"]), None, None),
    "circle": (_pair(["forward", "ba", "ab"], ["forward", "ab", "ba"]), None, None),
    "stopped-last": (_long_chain(), stepped("keep", 3), _send("keep", signal.SIGSTOP)),
    "slow-reader": (_slow_reader(), None, None),
    "slow-exchange": (
        _pair(["exchange", "yes", "ba", "ab", "2", "5"], ["exchange", "no", "ab", "ba", "2", "5"]), None, None,
    ),
    "killed-writer": (chain("sst", steps=400), stepped("md", 20), _send("md", signal.SIGKILL)),
    "reported-timeouts": (_timeouts(), None, None),
}  # fmt: skip


# Run → what its simulation, of two ranks on two nodes, does wrong; its readers are on a third one.
ON_NODES = {"killed-rank": ["--exit", "step:20:-9", "--rank", "1"]}


def _on_nodes(name: str, folder: Path) -> Plan:
    """md on two nodes → saxs → keep, planned for the test cluster."""
    program = [sys.executable, str(PROGRAMS / "staged.py")]
    atoms: dict[str, Any] = {"atoms": {}}
    pattern: dict[str, Any] = {"pattern": {}}
    stages: dict[str, Any] = {
        "md": {"command": [*program, "--steps", 400, "--step-s", 0.02, *ON_NODES[name]], "writes": atoms},
        "saxs": {"command": program, "reads": atoms, "writes": pattern},
        "keep": {"command": program, "reads": pattern},
    }
    stages["md"] |= {"ranks": 2, "place": {"nodes": 2}}
    for stage in stages.values():
        stage["env"] = {"PYTHONPATH": str(ROOT)}
    streams = {"atoms": {"from": "md", "to": "saxs"}, "pattern": {"from": "saxs", "to": "keep"}}
    pipeline = {"wf": 1, "name": name, "site": "test-slurm", "stages": stages, "streams": streams}
    (folder / "pipeline.yaml").write_text(json.dumps(pipeline))
    return plans.make_plan(load_pipeline(folder / "pipeline.yaml"))


def record(name: str) -> None:
    """Run it, and write what the supervisor found."""
    seen: list[Batch] = []

    def step(state: RunState, *events: Event) -> tuple[RunState, list[Action]]:
        seen.append(list(events))
        return lifecycle.step(state, *events)

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(run_loop, "step", step):
        plan, when, hurt = (_on_nodes(name, Path(folder)), None, None) if name in ON_NODES else RUNS[name]
        if when is None or hurt is None:
            run_whole(plan, Path(folder))
        else:
            run_and_hurt(plan, Path(folder), when, hurt)
        texts = {folder: "/runs", str(ROOT): "/tree", sys.executable: "/env/bin/python"}
        offset = START - seen[0][0].t
        lines = [json.dumps([_anonymous(event, offset) for event in batch]) for batch in _until_stop(plan, seen)]
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
        for file, text in {"plan.json": plan.to_json(), "batches.jsonl": "\n".join(lines) + "\n"}.items():
            for old, new in texts.items():
                text = text.replace(old, new)
            (FOLDER / name / file).write_text(text)


def _until_stop(plan: Plan, batches: list[Batch]) -> Iterator[Batch]:
    """What happened before the run was stopped: what follows is the answer to the stop."""
    state = initial_state(plan)
    for batch in batches:
        yield batch
        state, actions = lifecycle.step(state, *batch)
        if any(isinstance(action, RecordEvent) and isinstance(action.event, StopRequested) for action in actions):
            return


def _anonymous(event: Event, offset: float) -> dict[str, Any]:
    event = dataclasses.replace(event, t=round(event.t + offset, 6))
    if isinstance(event, RunStarted):
        event = dataclasses.replace(event, pid=1, host="host", run="run", clock_offset_s=0.0, boot="")
    elif isinstance(event, AllocationReceived):
        event = dataclasses.replace(event, end_time=None)
    elif isinstance(event, StopPlanned):
        event = dataclasses.replace(event, at=round(event.at + offset, 6), end=round(event.end + offset, 6))
    elif isinstance(event, StageStarted):
        event = dataclasses.replace(event, pid=1)
    found: dict[str, Any] = json.loads(to_line(event))
    return found


if __name__ == "__main__":
    for chosen in sys.argv[1:] or RUNS:
        record(chosen)
