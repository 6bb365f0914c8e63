"""Joining a running run: a run of its own, whose streams come from files that the other run writes anyway.

Neither the simulation nor the supervisor of the run has anything to do with it: what is attached may be slow, crash, be
stopped or leave.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from workflow.api.runs import find_running
from workflow.engines import ENGINES
from workflow.errors import Problem, RunError, SpecError, WfError
from workflow.spec.suggest import did_you_mean, listing, shortened

if TYPE_CHECKING:
    from workflow.api.runs import PlannedRun
    from workflow.api.set_values import Steered
    from workflow.formats.steering_files import Value
    from workflow.plan.plan_model import Plan, StreamPlan
    from workflow.spec.load import Loaded
    from workflow.spec.yaml_tree.node import Node
    from workflow.stage import Reader

# The first step that what is attached gets: a number counted from 0, the newest one, or the oldest that is kept.
BeginAt = int | Literal["newest", "beginning"]
_SELECT = "select"  # the component that `--when` puts before what is attached


_WHEN = re.compile(r"\s*(?:(\S+)\s+(max|min|mean)|step)\s*(\S.*?)\s*")


class KeptStream(NamedTuple):
    """The steps that a running run keeps of a stream: their file, and how many steps come before its first one."""

    name: str
    path: Path
    before: int


class AttachedRun(NamedTuple):
    """What joins a run, planned; `directory` is made when it starts."""

    planned: PlannedRun
    directory: Path


class Trigger(NamedTuple):
    """Which steps something attached gets: those at which a condition holds, and some around each.

    `when`: `VARIABLE max|min|mean CONDITION` or `step CONDITION`, for example `V max > 0.9`. `before`, `after`: how
    many steps around it; `once`: the first event only.
    """

    when: str
    before: int = 0
    after: int = 0
    once: bool = False

    def parameters(self) -> dict[str, Any]:
        """Those of the component `select`. Raises RunError where `when` is none; the condition is checked later."""
        found = _WHEN.fullmatch(self.when)
        if found is None:
            text = f"`{shortened(self.when)}` is not an event"
            raise RunError(text, 'for example `--when "V max > 0.9"`; also `min`, `mean`, or `"step >= 100"`')
        variable, statistic, condition = found.groups()
        values = {"variable": variable, statistic: condition} if variable else {"step": condition}
        return {**values, "before": self.before, "after": self.after, "times": "once" if self.once else "each"}


class Attachment:
    """A running run, for a notebook or a script that reads its streams or steers it. See `attach`."""

    def __init__(self, run_dir: Path, plan: Plan) -> None:
        self.run_dir, self._plan = run_dir, plan

    def stream(self, name: str, first: BeginAt = "newest", *, step_timeout_s: float | None = None) -> Reader:
        """The steps of a stream as they come, from the newest on; iterate over it, and close it or use `with`.

        Args:
            name: of the stream.
            first: the number of the first step counted from 0, `newest`, or `beginning`: the oldest that is kept.
            step_timeout_s: how long to wait for each step, in seconds; by default as long as the run goes on.

        Raises:
            RunError: there is no such stream, its steps are not kept, or not where this process is.
            StageError: as `workflow.stage.open_reader` raises it.
        """
        from workflow import stage
        from workflow.run.records.events_file import EVENTS_FILE

        kept = find_kept(self.run_dir, self._plan, name)
        return stage.follow(
            kept.path, self.run_dir / EVENTS_FILE, name, first=_first(first, kept), before=kept.before,
            step_timeout_s=step_timeout_s,
        )  # fmt: skip

    def set(self, stage: str, /, *, at_step: int | None = None, **values: Value) -> Steered | None:
        """Change values of a stage that declares them by `steer:`, as `wf set` does; waits until it has taken them.

        Args:
            stage: its name.
            at_step: the first step that is computed with them, counted from 0; by default the next one.
            values: the new values, by name.

        Returns:
            From which step on it computes with them, and the old ones; None: it takes them later.

        Raises:
            RunError: a value is unknown or out of bounds, the step has passed, or the run has ended. Nothing changes.
        """
        from workflow.api.set_values import set_values

        return set_values(self.run_dir, self._plan, stage, values, at_step)


def attach(run: str | os.PathLike[str] | None = None) -> Attachment:
    """Join a running run from a notebook or a script: `attach("latest").stream("field")` gives its steps.

    The run does not notice: this process reads what the run keeps of a stream, in its file or its spool.

    Raises RunError when there is no such run, or it is not running.
    """
    return Attachment(*find_running(run))


def plan_attached(
    run: str | os.PathLike[str] | None,
    given: str | os.PathLike[str] | None = None,
    *,
    component: str | None = None,
    streams: Sequence[str] = (),
    parameters: Sequence[str] = (),
    trigger: Trigger | None = None,
    first: BeginAt = "newest",
    name: str | None = None,
    sets: Sequence[str] = (),
    site: str | None = None,
) -> AttachedRun:
    """Plan stages that join a running run.

    Args:
        run: the run, as for `find_run`.
        given: a pipeline file in which streams without `from` are those of the run, or a Python script.
        component: instead of it: a component, with `parameters` as `KEY=VALUE`.
        streams: what a script or a component reads.
        trigger: the steps that it gets; by default all.
        first: the first step: see `Attachment.stream`.
        name: of what is attached; by default that of the file or the component.
        sets: `KEY=VALUE`, as for `load_pipeline`.
        site: the machine; by default this one.

    Raises:
        RunError: the run is not running, or keeps no steps of a stream.
        SpecError: mistakes in the file, or there are too few free cores.
    """
    from workflow.api.runs import plan_run
    from workflow.run.records.run_directory import ATTACHED
    from workflow.spec.validation_messages import to_name

    run_dir, plan = find_running(run)
    is_written = component is not None or Path(str(given)).suffix == ".py"
    if trigger is not None and not is_written:
        hint = f"write a stage of the component `{_SELECT}` into it; or attach a component, or a script"
        raise RunError(f"{given}: the stages of a file have no `--when`", hint)
    if is_written and component is None and not Path(str(given)).exists():
        near = did_you_mean(Path(str(given)).name, (each.name for each in Path(str(given)).parent.glob("*.py")))
        raise RunError(f"there is no file `{shortened(str(given))}`", near or "write it, or correct its name")
    # The stage has the name of its program: `--set stages.plot.ranks=2` means it, however often a plot is attached.
    stage = to_name(component or Path(str(given)).stem)
    directory = _claim(run_dir / ATTACHED, name, stage)
    file = directory.with_suffix(".yaml") if is_written else Path(str(given))
    try:
        if is_written:
            file.write_text(
                _pipeline_text(stage, plan, component, Path(str(given)), streams, trigger), encoding="utf-8"
            )
        sets = [*(f"stages.{stage}.with.{each}" for each in parameters), *sets]
        loaded = _load(file, run_dir, plan, first, sets, site)
        return AttachedRun(plan_run(loaded, others=_cores_in_use(run_dir, plan)), directory)
    except WfError as error:
        if is_written:
            file.unlink(missing_ok=True)
        directory.rmdir()
        if is_written and isinstance(error, SpecError):
            typed = f"--component {component}" if component is not None else str(given)
            raise SpecError([_as_typed(each, str(file), typed, stage, parameters) for each in error.problems]) from None
        raise


def _as_typed(problem: Problem, file: str, typed: str, stage: str, parameters: Sequence[str]) -> Problem:
    """A problem with the pipeline that was written for a component or a script, at what the user has typed."""
    before, _, parameter = problem.source.partition(f"--set stages.{stage}.with.")
    if not before and parameter in parameters:
        return problem._replace(source=f"--with {parameter}", key="")
    if problem.source != file:
        return problem
    is_meant = problem.key in (f"stages.{stage}.component", f"stages.{stage}.command[1]")
    return problem._replace(source=typed, line=0, column=0, key="" if is_meant else problem.key)


def _load(file: Path, run_dir: Path, plan: Plan, first: BeginAt, sets: Sequence[str], site: str | None) -> Loaded:
    """The pipeline of what is attached, in which the streams of the run have a writer."""
    from workflow.spec.check import Library
    from workflow.spec.load import load_pipeline

    library = Library(file.absolute().parent)
    root, text = library.pipeline(file, os.fspath(file))
    for stream in _streams_of_run(root, plan, run_dir):
        root = _with_follower(root, stream, _follower(run_dir, plan, stream, first))
    library.pipelines[file] = root, text
    if site is None and "site" not in root.mapping():
        site = "local"  # also where the site of this machine has a scheduler: nothing is submitted
    return load_pipeline(file, sets=sets, site=site, library=library)


def _follower(run_dir: Path, plan: Plan, stream: str, first: BeginAt) -> dict[str, Any]:
    """The stage that reads a stream of the run for what is attached."""
    from workflow.plan.plan_model import FOLLOW
    from workflow.run.records.events_file import EVENTS_FILE

    kept = find_kept(run_dir, plan, stream)
    begin = _first(first, kept)
    values = {
        "path": str(kept.path), "events": str(run_dir / EVENTS_FILE), "stream": stream,
        "first": -1 if begin is None else begin, "before": kept.before,
    }  # fmt: skip
    # It waits most of the time.
    return {"component": FOLLOW, "place": {"cores_per_rank": 0}, "with": values}


def _with_follower(root: Node, stream: str, follower: dict[str, Any]) -> Node:
    """The pipeline in which this stage writes the stream."""
    from workflow.plan.plan_model import FOLLOW
    from workflow.spec.overlay import with_value
    from workflow.spec.yaml_tree.node import Node, relabelled
    from workflow.spec.yaml_tree.parse import parse_yaml

    name, place = f"{stream}-{FOLLOW}", root.mapping()["streams"].mapping()[stream].place
    stage = relabelled(parse_yaml(json.dumps(follower), place.source), "wf attach", place)
    root = with_value(root, ("stages", name), stage)
    return with_value(root, ("streams", stream, "from"), Node(name, place, place, "wf attach"))


def find_kept(run_dir: Path, plan: Plan, name: str) -> KeptStream:
    """Where a running run keeps the steps of a stream. Raises RunError where there are none that can be read here."""
    if name not in stream_names(plan):
        raise RunError(*_no_stream(run_dir, plan, name))
    stream = plan.stream(name)
    file = plan.holder(stream)
    if not file.is_kept:
        hint = f"start the run with `--set streams.{name}.keep=true`"
        if not stream.traits.in_memory:
            readable = [name for name, engine in ENGINES.items() if engine.in_memory or engine.resumable]
            hint = f"others can read only streams by {listing(readable)}"
        raise RunError(f"{run_dir.name} keeps no steps of {name}, so nothing can be attached to it", hint)
    if stream.spool_where:
        _check_on_node(run_dir, stream, Path(file.path))
    return KeptStream(name, Path(file.path), plan.stage(file.writer).end(file.name, "write").before)


def _check_on_node(run_dir: Path, stream: StreamPlan, path: Path) -> None:
    """Raise RunError where the spool of a stream is on another node, or not ours."""
    who = "another node"
    try:
        if not path.is_symlink() or path.exists():
            return
    except PermissionError:
        who = "a node, where others cannot read them"
    text = f"{run_dir.name} keeps the steps of {stream.name} in {stream.spool_where} of {who}"
    raise RunError(text, f"attach there, or start the run with `--set streams.{stream.name}.keep=true`")


def _claim(folder: Path, wanted: str | None, stage: str) -> Path:
    """A new directory below `attached` of a run: of the name that is wanted, else of the stage, with a number where
    there is one. `mkdir` is atomic: of several that draw the same name one gets it."""
    from workflow.spec.models.pipeline import NAME
    from workflow.spec.validation_messages import to_name

    if wanted is not None and not re.fullmatch(NAME, wanted):
        text = f"`{wanted}` is no name"
        raise RunError(text, f"letters, digits, `_` and `-`, a letter first: `--name {to_name(wanted)}`")
    try:
        folder.mkdir(exist_ok=True)
        for number in range(1, 10_000):
            name = (wanted or stage) + (f"-{number}" if number > 1 else "")
            with contextlib.suppress(FileExistsError):
                (folder / name).mkdir(mode=0o700)
                return folder / name
            if wanted is not None:
                break
    except OSError as error:
        raise RunError(f"cannot write in {folder}: {error.strerror}; only who owns a run can attach to it") from error
    raise RunError(f"the name {wanted or stage} is already used by an attachment", "give another `--name`, or none")


def _pipeline_text(
    name: str, plan: Plan, component: str | None, script: Path, streams: Sequence[str], trigger: Trigger | None
) -> str:
    """The pipeline file of a component or of a script. YAML takes JSON."""
    known = stream_names(plan)
    if not streams and len(known) > 1:
        raise RunError("which stream is to be read?", f"name it: `--to STREAM`, one of {listing(known)}")
    read = list(streams) or known
    if component is not None:
        stage: dict[str, Any] = {"component": component}
    else:
        stage = {"command": ["${{ wf.python }}", str(script.absolute())], "reads": {stream: {} for stream in read}}
    stages, joined = {name: stage}, {stream: {"to": name} for stream in read}
    if trigger is not None:
        if len(read) > 1:
            raise RunError(f"`--when` takes one stream, not {listing(read)}", "attach one of them")
        selecting, selected = f"{name}-{_SELECT}", f"{read[0]}-selected"
        # It waits most of the time, as what it reads from does.
        stages[selecting] = {
            "component": _SELECT, "place": {"cores_per_rank": 0}, "with": trigger.parameters(),
        }  # fmt: skip
        to = name if component is not None else f"{name}.{read[0]}"
        joined = {read[0]: {"to": selecting}, selected: {"from": selecting, "to": to}}
    lines = ["# Written by `wf attach`. Streams without `from` are those of the run.", "wf: 1"]
    # Quoted: the component `null` is one.
    lines += [f"name: {json.dumps(name)}", "stages:", *_lines(stages), "streams:", *_lines(joined)]
    return "\n".join(lines) + "\n"


def _lines(entries: Mapping[str, Any]) -> list[str]:
    return [f"  {json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in entries.items()]


def _streams_of_run(root: Node, plan: Plan, run_dir: Path) -> list[str]:
    """The streams of a file that name no writer: those of the run. Raises SpecError where the run has none of them."""
    from workflow.spec.validation_messages import problem_at

    streams = root.child("streams")
    found = [name for name, each in ({} if streams is None else streams.mapping()).items() if not _writer(each)]
    unknown = [name for name in found if name not in stream_names(plan)]
    problems = [problem_at(root, ("streams", name), *_no_stream(run_dir, plan, name), at_key=True) for name in unknown]
    if not found:
        text, at = "no stream is read from the run: leave `from` out of one", () if streams is None else ("streams",)
        problems.append(problem_at(root, at, text, "for example `field: {to: view}`"))
    if problems:
        raise SpecError(problems)
    return found


def _writer(stream: Node) -> Any:
    """What is written after `from`; nothing counts like no `from`."""
    return None if (given := stream.child("from")) is None else given.value


def stream_names(plan: Plan) -> list[str]:
    """The streams of a run, without those that wf has added."""
    spools = {stream.spool for stream in plan.streams}
    return [stream.name for stream in plan.streams if stream.name not in spools]


def _no_stream(run_dir: Path, plan: Plan, name: str) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    known = stream_names(plan)
    return f"{run_dir.name} has no stream `{name}`", did_you_mean(name, known) or f"it has {listing(known)}"


def _first(first: BeginAt, kept: KeptStream) -> int | None:
    """The number of the first step; None: the newest. Raises RunError for what is none of these."""
    if first == "newest":
        return None
    if first == "beginning":
        return kept.before
    if not isinstance(first, int) or first < 0:
        raise RunError(f"first: {first!r}: expected `newest`, `beginning` or the number of a step")
    return max(first, kept.before)


def _cores_in_use(run_dir: Path, plan: Plan) -> list[int]:
    """The cores of this machine to which stages of the run are bound, and those of what is attached to it."""
    from workflow.launch.host_lists import is_same_host
    from workflow.report.read.run_states import list_runs
    from workflow.run.records.attached_runs import attached_runs
    from workflow.run.records.run_directory import read_allocation, read_filled_plan

    here, used, others = platform.node(), set(), attached_runs(run_dir)
    running = [each for each, line in zip(others, list_runs(others), strict=True) if line.state == "running"]
    for each, bound in [(run_dir, plan), *((other, read_filled_plan(other)) for other in running)]:
        hosts = () if (allocation := read_allocation(each)) is None else allocation.hosts
        nodes = [node for node, host in enumerate(hosts) if is_same_host(host.name, here)]
        used |= {core for node in nodes for core in bound.used_cores(node)}
    return sorted(used)
