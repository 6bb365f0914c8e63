"""`stage.json`: what a stage program has to know about the run. The run writes it, `workflow.stage` reads it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow.engines import EngineTraits, queue_settings, traits_of
from workflow.formats.read_json import read_json
from workflow.formats.sides import OnNode, Side
from workflow.formats.stage_waits import OPEN_TIMEOUT_S, STEP_TIMEOUT_S
from workflow.formats.versions import check_version

STAGE_FILE = "stage.json"
STAGE_FILE_VERSION = 2
VERSION_KEY = "stage_file_version"
# Of BP5: how many steps of a file to keep that is written on.
APPEND_AFTER = "AppendAfterSteps"


@dataclass(frozen=True)
class StreamEnd:
    """One end of a stream, as this stage opens it. `variables` is the contract: name → {type, shape}; `units`: name →
    unit, of variables whose data have none.

    `share`, of an end that reads: the strategy, and the ranks of `writers` and `readers` by node.
    `operators`: variable → {type, parameters, bound}, of a writing end; `*` is every other array.
    `silence_limit_s`: of a writing end, how long the other side of a connection may answer nothing until it is given
    up.
    `first_step`: the index of the first step of this attempt of the stage, 0 unless it was started again.
    `repeated`: how many steps before that it writes first, which its readers or the file already have.
    `part_step`: the index of the first step of this part of the run, 0 unless it goes on with an earlier one.
    `before`: how many steps come before the first one at `path`; `earlier`: the file that holds them, if it is read.
    `skipped`: the steps that the program does not get; `skips_now`: the one of them that no attempt has
    left out yet.
    `declared`: of a reading end, variable → the key by which the pipeline file says that its writer writes it.
    `on_node`: of a spool, where on its node the file is; `path` is then a link to it, which the writer makes.
    """

    stream: str
    port: str
    side: Side
    engine: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    open_timeout_s: float = OPEN_TIMEOUT_S
    step_timeout_s: float | None = STEP_TIMEOUT_S  # None: no limit, wait as long as the writer lives
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)
    share: Mapping[str, Any] | None = None
    operators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    silence_limit_s: float | None = None
    first_step: int = 0
    repeated: int = 0
    part_step: int = 0
    before: int = 0
    earlier: str = ""
    skipped: Sequence[int] = ()
    skips_now: int | None = None
    on_node: OnNode = ""

    @property
    def traits(self) -> EngineTraits:
        """What its engine is like."""
        return traits_of(self.engine)

    @property
    def queue(self) -> tuple[int, bool]:
        """Of a writing end: how many finished steps it holds, 0 for any number; whether it drops those beyond."""
        return queue_settings(self.parameters)


@dataclass(frozen=True)
class StageSettings:
    """This stage of the pipeline. Without a run: no name, no metrics, only the ends given by hand."""

    stage: str = ""
    ranks: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: str | None = None
    ends: Sequence[StreamEnd] = ()
    component: str | None = None  # None: a command of the user's own
    run_dir: str = ""
    # Whether it ends by itself when the run is to be stopped: nothing that it reads ends then.
    stops_itself: bool = False
    # Whether it is started again when it fails: the files that it leaves behind then are not at their end.
    restarts: bool = False
    # At most so often it saves its state, for a later attempt or part of the run; None: never.
    save_every_s: float | None = None
    # Stream that it writes, or a stage behind it, and of which nothing is kept → the stages that read it: with their
    # states its own have to fit. `written`: stage behind it → those of these streams that it writes.
    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Values that can be changed while it runs → those at the start; and the changes that are known before the start, as
    # records of `steering_files`.
    steer: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    changes: Sequence[Mapping[str, Any]] = ()

    @property
    def by_hand(self) -> bool:
        """True when no run started this program."""
        return self.ranks is None


def to_json(settings: StageSettings) -> str:
    """The text of the file."""
    data = {VERSION_KEY: STAGE_FILE_VERSION, **dataclasses.asdict(settings)}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def read_stage_file(path: Path) -> StageSettings:
    """The settings in a file. Fields of an end that this version does not have are ignored.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a stage file, or of another version.
    """
    data = read_json(path.read_bytes())
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    check_version(data, VERSION_KEY, STAGE_FILE_VERSION, path)
    try:
        ends = tuple(to_end(end) for end in data["ends"])
        return StageSettings(
            data["stage"], data["ranks"], data["parameters"], data["metrics"], ends,
            data.get("component"), data.get("run_dir", ""), data.get("stops_itself", False),
            data.get("restarts", False), data.get("save_every_s"),
            data.get("readers", {}), data.get("written", {}), data.get("steer", {}), tuple(data.get("changes", ())),
        )  # fmt: skip
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a stage file: {error}") from error


def to_end(fields: Mapping[str, Any]) -> StreamEnd:
    """The end with these fields; others, which only the plan needs, are left out. Raises TypeError."""
    known = StreamEnd.__dataclass_fields__
    end = StreamEnd(**{key: value for key, value in fields.items() if key in known})
    return dataclasses.replace(end, skipped=tuple(end.skipped))
