"""The page of a running run: `wf look RUN --live`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workflow.api.attachments import find_kept, stream_names
from workflow.api.runs import find_running
from workflow.errors import RunError, named_if_missing

if TYPE_CHECKING:
    from pathlib import Path

    from workflow.look.live_look import LiveLook
    from workflow.look.read_live import FollowedStream
    from workflow.plan.plan_model import Plan


def live_look(
    run: str | os.PathLike[str] | None = None, streams: Sequence[str] = (), *, limit: int | None = None, port: int = 0
) -> LiveLook:
    """A page that follows the newest steps of a running run, served at an address of this machine's loopback.

    A context manager: the page is served inside `with`, at `url`, which has a token that stands nowhere else; `wait`
    returns when the run has ended. The run does not notice.

    Args:
        run: as for `read_report`.
        streams: those that are shown; by default all that the run keeps, where this process can read them.
        limit: bytes of numbers that the page carries (default: 20 MB): the newest steps that fit, thinned if need be.
        port: by default a free one.

    Raises:
        RunError: the run is not running, or keeps no steps of a stream.
        WfError: a library is not installed: plotly, numpy; and, on entering, the port is not free.
    """
    from workflow.run.records.find_runs import typed_name
    from workflow.run.records.run_directory import LATEST

    run_dir, plan = find_running(LATEST if run is None else run, "look at what it has archived: wf look")
    with named_if_missing("the page", "look"):
        from workflow.look.live_look import LiveLook

        followed = [_followed(run_dir, plan, name) for name in dict.fromkeys(streams)] or _all_kept(run_dir, plan)
        return LiveLook(run_dir, typed_name(run_dir), plan.pipeline, followed, limit, port)


def _all_kept(run_dir: Path, plan: Plan) -> list[FollowedStream]:
    found, problems = [], []
    for name in stream_names(plan):
        try:
            found.append(_followed(run_dir, plan, name))
        except RunError as error:
            problems.append(error)
    if not found:
        raise problems[0] if problems else RunError(f"{run_dir.name} has no streams")
    return found


def _followed(run_dir: Path, plan: Plan, name: str) -> FollowedStream:
    from workflow.look.read_live import FollowedStream
    from workflow.run.records.events_file import EVENTS_FILE

    kept = find_kept(run_dir, plan, name)
    title = f"stream {name} of {plan.stream(name).writer}"
    return FollowedStream(name, title, kept.path, run_dir / EVENTS_FILE, kept.before)
