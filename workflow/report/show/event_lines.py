"""The events of a run in words, a line each: for `wf events`, and words for the progress of a run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.errors import to_message
from workflow.formats.sides import Side
from workflow.formatting import duration, one_line, plural, size
from workflow.plan.plan_model import Plan, StagePlan
from workflow.report.build.steering_notes import steered_text, units_of, values_text
from workflow.run.state.events import (
    AllocationReceived,
    Cleaned,
    Event,
    Fault,
    Interrupted,
    NodeLost,
    NoRankStarted,
    ProofTaken,
    RanksEnded,
    RecordsLost,
    Requested,
    RunStarted,
    RunWarning,
    SchedulerSaid,
    StageCpu,
    StageCut,
    StageExited,
    StageKilled,
    StagesRestarted,
    StageStarted,
    StageSteered,
    StageSuspended,
    SteeringAsked,
    SteeringRefused,
    StepsDropped,
    StopPlanned,
    StreamClosed,
    StreamHint,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTransport,
    StreamTrouble,
    TransportFault,
)
from workflow.run.state.lifecycle_events import (
    CheckpointRequested,
    DeadlinePassed,
    DeadlockFound,
    NodeReplaced,
    Outcome,
    RestartDecided,
    RunFinished,
    StageFailed,
    StageIgnored,
    StageOpen,
    StageStopped,
    StageSucceeded,
    StopRequested,
)
from workflow.run.verdict.end_causes import kill_cause, loss_text, quoted, signal_text

# They come all the time while a run goes on, and say how far it is, not that something has happened.
SAMPLES = (StreamProgress, StageCpu)
_ENDS: dict[Outcome, str] = {
    "succeeded": "succeeded", "failed": "failed", "interrupted": "was interrupted", "stopped": "was stopped cleanly",
}  # fmt: skip
_FAULTS: dict[Fault, str] = {
    "misdirected": "got a message for another process",
    "unreachable": "could not fetch data from the memory of its writer",
}
_WAYS: dict[Side, str] = {"write": "for writing", "read": "for reading"}
OPEN_TEXT = "its streams are open"
STOPPING_TEXT = "stopping all stages"


def line_at(seconds: float, text: str) -> str:
    """A line with the time since the start of the run."""
    return f"{seconds:8.1f} s  {text}"


def event_line(event: Event, begin: float, plan: Plan) -> str:
    """One line of `wf events`; `begin`: when the run was started, in Unix seconds."""
    return line_at(event.t - begin, one_line(event_text(event, plan)))


def event_text(event: Event, plan: Plan) -> str:
    """What has happened, after the name of the stage or stream that it has happened to."""
    return _of_run(event) or _of_stage(event, plan) or _of_stream(event) or type(event).__name__


def started_text(stage: str, pid: int | None, plan: Plan) -> str:
    """`md: started, 2 ranks, process 7`."""
    ranks = next((each.ranks for each in plan.stages if each.name == stage), None)
    return ", ".join([f"{stage}: started", *([] if ranks is None else [plural(ranks, "rank")]), f"process {pid}"])


def repeats_text(stage: StagePlan) -> str:
    """`sim: computes steps 0 to 47 again; step 48 is the first new one`, of a stage of a run that goes on; else ""."""
    ends = [end for end in stage.ends if end.side == "write" and end.repeated]
    if not ends:
        return ""
    end = max(ends, key=lambda end: end.repeated)
    steps = f"step {end.begin}" if end.repeated == 1 else f"steps {end.begin} to {end.first_step - 1}"
    return f"{stage.name}: computes {steps} again; step {end.first_step} is the first new one"


def restart_text(restart: RestartDecided) -> str:
    """Which stage has failed, why, and which ones are started again with it."""
    others = [each for each in restart.stages if each != restart.stage]
    together = f", together with {' and '.join(others)}" if others else ""
    wait = f" in {duration(restart.at - restart.t)}" if restart.at > restart.t else ""
    twice = "" if restart.skips is None else f", a second time at step {restart.skips}"
    without = "" if restart.skips is None else ", without this step"
    return f"{restart.stage}: {restart.reason}{twice}; it is started again{wait}{together}{without}"


def move_text(moved: NodeReplaced) -> str:
    """Which node takes the place of which."""
    return f"node {moved.by_host}, which was spare, takes the place of {moved.host}"


def attempt_text(begun: StagesRestarted) -> str:
    """`md and saxs: attempt 3, from step 12 on; saxs skips step 14`."""
    skips = [f"; {name} skips {_steps_text(steps)}" for name, steps in begun.skipped.items()]
    return f"{' and '.join(begun.stages)}: attempt {begun.attempt}, from step {begun.first_step} on{''.join(skips)}"


def _steps_text(steps: Sequence[int]) -> str:
    """`step 14`, or `steps 14, 60`."""
    return f"step{'' if len(steps) == 1 else 's'} {', '.join(map(str, steps))}"


def proof_lines(proof: ProofTaken) -> list[str]:
    """What the proof of the placement has found. A refusal is the verdict, which is printed at the end."""
    if proof.state == "proved":
        return [
            f"placement proved: {plural(proof.nodes, 'node')}, {plural(proof.ranks, 'rank')}, {proof.seconds:.1f} s"
        ]
    return [_warning(text) for text in proof.differences] if proof.state == "differs" else []


def _warning(text: str) -> str:
    return str(to_message("warning", text))


def _of(stage: str, text: str) -> str:
    return f"{stage}: {text}" if stage else text


def _of_run(event: Event) -> str:
    """What is about the run as a whole, its job and its nodes."""
    match event:
        case RunStarted():
            return f"run {event.run} started on {event.host}, process {event.pid}"
        case ProofTaken():
            refused = f"placement refused: {'; '.join(event.differences)}"
            return "; ".join(proof_lines(event)) or refused
        case AllocationReceived():
            job = f"{event.source} job {event.job}: " if event.job else ""
            limit = "" if event.end_time is None else f" for {duration(event.end_time - event.t)}"
            return "; ".join([f"{job}it has {plural(event.hosts, 'host')}{limit}", *event.notes])
        case NodeLost():
            return loss_text([event]) + (f"; it ran {event.last}" if event.last else "")
        case NodeReplaced():
            return move_text(event)
        case NoRankStarted():
            return f"{event.stage}: {event.launcher} has started no rank"
        case RecordsLost():
            return _warning(_of(event.stage, event.text))
        case RunWarning():
            return _warning(event.text) if event.warns else event.text
        case SchedulerSaid():
            return f"job {event.job}: {quoted(event)}"
        case StopPlanned():
            return f"the job ends in {duration(event.end - event.t)}; the run stops in {duration(event.at - event.t)}"
        case Interrupted():
            return f"interrupted by {event.signal}"
        case Requested():
            return f"{event.by} asks to {'stop' if event.request == 'stop' else 'kill'} the run"
        case StepsDropped():
            return f"the spool of {event.stream} keeps step {event.first} and those after it"
        case Cleaned():
            return f"cleaned: {', '.join(event.paths)}"
        case DeadlockFound():
            return _of(event.stage, f"deadlock: {event.diagnosis}")
        case DeadlinePassed():
            return _of(event.stage, f"deadline `{event.deadline}` has passed: {event.diagnosis}")
        case StopRequested():
            return STOPPING_TEXT + (f": {event.reason}" if event.reason else "")
        case RunFinished():
            more = f", {event.lacks}" if event.lacks else ""
            return f"the run {_ENDS[event.state]}{more}" + (f": {event.reason}" if event.reason else "")
    return ""


def _of_stage(event: Event, plan: Plan) -> str:
    match event:
        case StageStarted():
            return started_text(event.stage, event.pid, plan)
        case StagesRestarted():
            return attempt_text(event)
        case RestartDecided():
            return restart_text(event)
        case StageCpu():
            ready = f", ready without a core for {duration(event.ready_s)}" if event.ready_s else ""
            return f"{event.stage}: {duration(event.cpu_s)} of CPU time{ready}"
        case StageOpen():
            return f"{event.stage}: {OPEN_TEXT}"
        case StageCut():
            return f"{event.stage}: ends early, because the run is to be stopped"
        case CheckpointRequested():
            return f"{event.stage}: is asked for a checkpoint"
        case SteeringAsked():
            at = "" if event.step is None else f" at step {event.step}"
            return f"{event.stage}: {event.by} asks for {values_text(event.values, units_of(plan, event.stage))}{at}"
        case StageSteered():
            units = units_of(plan, event.stage)
            changes = steered_text(event.stage, event.old, event.new, event.step, units, is_exact=event.exact)
            return f"{changes}, by {event.by}"
        case SteeringRefused():
            values = values_text(event.values, units_of(plan, event.stage))
            return f"{event.stage}: refuses {values}, asked for by {event.by}: {event.reason}"
        case StageExited():
            code = "an unknown exit code" if event.code is None else f"exit code {event.code}"
            how = f"ended with {code}" if event.signal is None else signal_text(event.signal)
            return f"{event.stage}: {how}" + (f": {event.note}" if event.note else "")
        case StageSuspended():
            what = "has been stopped by a signal (SIGSTOP)" if event.suspended else "has been continued"
            return f"{event.stage}: {what}"
        case StageKilled():
            return f"{event.stage}: was killed{kill_cause(event)}"
        case RanksEnded():
            return f"{event.stage}: its launcher says `{event.words}`"
        case StageSucceeded():
            return f"{event.stage}: succeeded"
        case StageFailed():
            through = f" (because of {event.through})" if event.through else ""
            return f"{event.stage}: failed: {event.reason}{through}"
        case StageIgnored():
            why = f"; it was not started again: {event.why}" if event.why else ""
            return f"{event.stage}: the others go on without it{why}"
        case StageStopped():
            return f"{event.stage}: stopped"
        case TransportFault():
            return f"{event.stage}: {_FAULTS[event.fault]}: `{event.line}`"
    return ""


def _of_stream(event: Event) -> str:
    match event:
        case StreamOpening():
            return f"{event.stream}: {event.stage} opens it {_WAYS[event.side]}"
        case StreamOffered():
            return f"{event.stream}: {event.stage} waits for its readers"
        case StreamTransport():
            why = f" ({event.why})" if event.why else ""
            return f"{event.stream}: {event.stage} uses transport {event.plane}{why}"
        case StreamOpened():
            return f"{event.stream}: {event.stage} has opened it {_WAYS[event.side]}"
        case StreamProgress():
            return f"{event.stream}: {event.stage} has {_moved(event)}"
        case StreamHint():
            return f"{event.stream}: {event.stage}: {event.text}"
        case StreamTrouble():
            return f"{event.stream}: trouble at {event.stage} ({event.trouble}): {event.text}"
        case StreamClosed():
            early = "" if event.complete else ", before its end"
            return f"{event.stream}: {event.stage} has {_moved(event)}, and closed it{early}"
    return ""


def _moved(event: StreamProgress | StreamClosed) -> str:
    done = "written" if event.side == "write" else "read"
    return f"{done} {plural(event.steps, 'step')}" + (f", {size(event.bytes)}" if event.bytes else "")
