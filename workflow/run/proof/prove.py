"""Runs the proof: probes under the stages' own launch lines, and smoke streams, all at once, in a thread."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from workflow.formats.json_lines import to_record
from workflow.launch.launchers import LAUNCHERS, make_process
from workflow.plan.launch_requests import GrantedNodes
from workflow.plan.plan_model import Plan, StagePlan
from workflow.run.proof import rank_probe
from workflow.run.proof.compare_placement import PlacementDifference, Weight, compare_placement, under_policy
from workflow.run.proof.directory_check import DirectoryCheck
from workflow.run.proof.placement_probe import (
    ConcurrentStages,
    NodeFound,
    ProbeLine,
    RankFound,
    parse_answer,
    probe_lines,
)
from workflow.run.proof.proof_model import Proof, ProofState, StreamTried
from workflow.run.proof.proof_processes import ANSWER_S, ProofDeadlines, ShortProcess, run_short
from workflow.run.proof.smoke_streams import (
    SmokeOutput,
    SmokeStream,
    judge_smoke,
    other_transport,
    plan_smoke,
    untested,
)
from workflow.run.records.run_directory import PROOF_FILE
from workflow.spec.models.pipeline import proof_policy

# Until what is left of a proof has ended: launchers get a second for it.
_CLOSE_S = 5.0
# A smoke stream gives up before its deadline, so that it can say why.
_PATIENCE_S = 0.8 * ANSWER_S
FOLDER = "proof"


class Prover:
    """Takes the proof of one run in a thread of its own. `finished` is a descriptor that can be read at its end."""

    def __init__(self, run_dir: Path, plan: Plan, received: GrantedNodes) -> None:
        self._run_dir, self._plan, self._received = run_dir, plan, received
        self._folder = run_dir / FOLDER
        self._give_up = threading.Event()
        self._proof: Proof | None = None
        self._error: Exception | None = None
        self.finished, self._finish = os.pipe()
        self._thread = threading.Thread(target=self._work, name="proof", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take(self) -> Proof | None:
        """The proof, once it is there. Raises what went wrong in taking it."""
        if self._error is not None:
            raise self._error
        return self._proof

    def close(self) -> None:
        """Kill what is left of it."""
        self._give_up.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_S)
        if self._thread.is_alive():  # a file system that hangs; it ends with this process, which needs no descriptor
            return
        os.close(self.finished)
        os.close(self._finish)

    def _work(self) -> None:
        try:
            proof = take_proof(self._run_dir, self._plan, self._received, self._give_up)
            # A record for readers: a disk that is full ends no run.
            with contextlib.suppress(OSError):
                (self._run_dir / PROOF_FILE).write_text(proof.to_json())
            if proof.state in ("proved", "differs"):
                shutil.rmtree(self._folder, ignore_errors=True)
            self._proof = proof
        except OSError as error:  # a full disk: nothing is known against the placement
            self._proof = Proof("differs", 0.0, 0.0, 0.0, (PlacementDifference("warning", "", f"not proved: {error}"),))
        except Exception as error:
            self._error = error
        finally:
            os.write(self._finish, b"x")


class _ProofProgress:
    """Takes what the probes and the smoke streams say, and knows when nothing more is to be expected."""

    def __init__(
        self,
        directory: DirectoryCheck,
        deadlines: ProofDeadlines,
        streams: Sequence[tuple[SmokeStream, Sequence[ShortProcess]]],
    ) -> None:
        self.found = list[RankFound]()
        self.nodes = dict[str, NodeFound]()
        self._directory, self._deadlines, self._streams = directory, deadlines, streams
        self._keys = {end.name: f"stream {stream.stream}" for stream, its in streams for end in its}

    def note_answer(self, process: ShortProcess, _: float, line: bytes) -> None:
        """A line of a process."""
        answer = parse_answer(line)
        if answer is None:
            return
        now = time.monotonic()
        self._deadlines.note_answer(process.name, now)
        if isinstance(answer, RankFound):
            self.found.append(answer)
        elif isinstance(answer, NodeFound):
            self.nodes.setdefault(answer.host, answer)
        else:
            self._directory.take(answer, now)

    def is_enough(self, running: Sequence[ShortProcess]) -> bool:
        """Whether none of those that run has time left."""
        now = time.monotonic()
        self._directory.beat(now)
        for stream, ends in self._streams:
            self._deadlines.reach(f"stream {stream.stream}", min(map(_mark, ends)), now)
        for process in running:
            self._deadlines.begin(self._keys.get(process.name, process.name), now)
        return all(self._deadlines.is_over(self._keys.get(each.name, each.name), now) for each in running)


def take_proof(run_dir: Path, plan: Plan, received: GrantedNodes, give_up: threading.Event) -> Proof:
    """Start all probes and smoke streams, and compare. Waits as `ProofDeadlines` says."""
    folder = run_dir / FOLDER
    for part in (rank_probe.ANSWERS, "streams", "ends", "logs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    lines = [(line, _probe_process(line, folder)) for line in probe_lines(plan, folder, received)]
    smoke, untried = plan_smoke(plan, folder, received, sys.executable, _PATIENCE_S)
    if proof_policy(plan.proof, "streams") == "off":
        smoke, untried = [], {each.stream: "`proof: {streams: off}`" for each in smoke} | untried
    streams = [(stream, _smoke_processes(stream, folder)) for stream in smoke]
    ends = [end for _, its in streams for end in its]
    directory = DirectoryCheck(folder, secrets.token_hex(8))
    progress = _ProofProgress(directory, ProofDeadlines(plan.deadlines.start), streams)
    units = [*([process] for _, process in lines), *(its for _, its in streams)]
    run_short(units, run_dir, give_up, progress.note_answer, progress.is_enough)
    planned = [line.planned for line, _ in lines]
    lookers = {(line.planned.stage, rank) for line, _ in lines for rank in line.lookers}
    differences = [
        *_not_started(lines, progress.found, plan.deadlines.start),
        *compare_placement(planned, progress.found, progress.nodes, ConcurrentStages.of(plan)),
        *directory.differences(run_dir, {rank.host for rank in progress.found if (rank.stage, rank.rank) in lookers}),
    ]
    tried = []
    for stream, processes in streams:
        outputs = _outputs(plan, stream, processes, received.hosts)
        if reason := untested(outputs):
            untried[stream.stream] = reason
        else:
            tried.append(judge_smoke(stream.stream, stream.transport, outputs, ANSWER_S))
    differences += [
        PlacementDifference("error", plan.stream(each.stream).writer, each.text, "streams")
        for each in tried
        if each.seconds is None
    ]
    differences += _other_transports(plan, tried)
    differences = under_policy(differences, plan.proof)
    seconds = time.monotonic() - begin
    return Proof(
        state=_state(differences),
        seconds=seconds,
        probe_s=max((process.ended_s or seconds for _, process in lines), default=0.0),
        streams_s=max((process.ended_s or seconds for process in ends), default=0.0),
        differences=tuple(differences),
        planned=tuple(planned),
        ranks=tuple(progress.found),
        nodes=progress.nodes,
        streams=tuple(tried),
        untried=untried,
        directory=tuple(directory.seen()),
    )


def _probe_process(line: ProbeLine, folder: Path) -> ShortProcess:
    stage = line.planned.stage
    return ShortProcess(stage, make_process(line.request), folder / "logs" / f"{stage}.err")


def _other_transports(plan: Plan, tried: Sequence[StreamTried]) -> Iterator[PlacementDifference]:
    """A transport that was asked for is not to be replaced; one that the plan has chosen may be."""
    for each in tried:
        stream = plan.stream(each.stream)
        level: Weight = "warning" if stream.fallback or plan.proof == "warn" else "error"
        if text := other_transport(each, stream.transport):
            yield PlacementDifference(level, stream.writer, text, "streams")


def _not_started(
    lines: Sequence[tuple[ProbeLine, ShortProcess]], found: Sequence[RankFound], start_s: float
) -> list[PlacementDifference]:
    """Launch lines of which no rank has answered, with what they said."""
    answered = {rank.stage for rank in found}
    differences = []
    for line, process in lines:
        if line.planned.stage not in answered:
            ended = f"no answer within {start_s:.0f} s" if process.code is None else f"exit code {process.code}"
            said = process.last_error_line()
            text = f"the launch line of {process.name} started no rank ({ended})" + (f": {said}" if said else "")
            differences.append(PlacementDifference("error", line.planned.stage, text))
    return differences


def _mark(end: ShortProcess) -> int:
    """How far an end has come: 1, it runs; 2, the stream is open, or the end has ended."""
    if end.ended_s is not None or end.code is not None:
        return 2
    said = {key for _, line in end.lines for key in (to_record(line) or ())}
    return 2 if "opened" in said else 1 if "ready" in said else 0


def _smoke_processes(stream: SmokeStream, folder: Path) -> list[ShortProcess]:
    processes = []
    for end in stream.ends:
        end.file.write_text(end.text)
        log = folder / "logs" / f"{stream.stream}.{end.stage}.err"
        processes.append(ShortProcess(f"{stream.stream} {end.stage}", make_process(end.request), log))
    return processes


def _outputs(
    plan: Plan, stream: SmokeStream, processes: Sequence[ShortProcess], hosts: Sequence[str]
) -> list[SmokeOutput]:
    return [
        SmokeOutput(
            host=_host(plan.stage(end.stage), hosts),
            lines=process.lines,
            log=process.log.read_text(errors="replace") if process.log.exists() else "",
            ended="" if process.code is None else f"exit code {process.code}",
        )
        for end, process in zip(stream.ends, processes, strict=True)
    ]


def _host(stage: StagePlan, hosts: Sequence[str]) -> str:
    """Where the first rank of a stage runs."""
    first = stage.placement.nodes[0][0]
    launched = LAUNCHERS[stage.launch.launcher].starts_ranks
    return hosts[first] if launched and first < len(hosts) else rank_probe.node_name()


def _state(differences: Sequence[PlacementDifference]) -> ProofState:
    if any(difference.level == "error" for difference in differences):
        return "refused"
    return "differs" if differences else "proved"
