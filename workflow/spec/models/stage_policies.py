"""Policies of a stage as the user states them: aggregation and compression of what it writes, and its memory."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from workflow.formats.sides import TMPDIR
from workflow.operators import LOSSY, OPERATORS
from workflow.spec.models.units import (
    MOST_CORES,
    MOST_REPETITIONS,
    MOST_STEPS,
    Duration,
    RankCount,
    Scalar,
    Size,
    Spec,
)
from workflow.spec.placeholder_syntax import Placeholder, PlaceholderError, parse

# BP5's AggregationType (engine/bp5/BP5Engine.h of ADIOS2 2.12.1)
AggregationStrategy = Literal["TwoLevelShm", "EveryoneWrites", "EveryoneWritesSerial", "DataSizeBased"]
Positive = RankCount
_COUNTS = ("per_node", "per_gpu", "count", "ratio")


class OrShort:
    """What editors and the reference learn of the short forms of a mapping: their schemas."""

    def __init__(self, *forms: dict[str, Any]) -> None:
        self._forms = forms

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [*self._forms, handler(schema)]}


def _folder_of_node(text: str) -> str:
    if text and not text.startswith("/") and text != TMPDIR:
        raise ValueError(f'expected the path of a folder of the node, got "{text}"; for example `/dev/shm`')
    return text


class Keep(Spec):
    """What is kept of the steps of a stream. `true`: all steps; `false`: none. A file of a stream has all its steps;
    of a stream in memory a stage that wf adds receives them, and writes them to a BP5 file."""

    steps: Literal["all"] | Annotated[int, Field(ge=0, le=MOST_STEPS)] = Field(
        "all",
        examples=[64],
        description="the newest steps, at least so many; older ones are removed once every stage that may be started "
        "again has finished them, and the file is removed after the run. 0: none, as `false`",
    )
    where: Annotated[str, AfterValidator(_folder_of_node)] = Field(
        "",
        examples=["/dev/shm"],
        description="a folder of the node of its readers: /dev/shm, a local disk, or `$TMPDIR`. What is there is gone "
        "after the run, and all readers that are started again must be there (default: the run directory)",
    )


def _keep_word(value: Any) -> Any:
    """`true` → all steps, `false` → none."""
    if isinstance(value, bool):
        return {} if value else {"steps": 0}
    if not isinstance(value, dict | Keep):
        form = "write `true` or `false`, without quotes, or `{steps: 64}`"
        raise ValueError(f'expected true, false or a mapping, got "{value}"; {form}')
    return value


KeepOrBool = Annotated[Keep, BeforeValidator(_keep_word), OrShort({"type": "boolean"})]


class Aggregation(Spec):
    """How many ranks of a stage write files for the others: `auto`, or one of per_node, per_gpu, count, ratio."""

    auto: bool = Field(False, description="true: the same as `aggregation: auto`")
    per_node: Positive | None = Field(None, description="this many aggregators on each node")
    per_gpu: Positive | None = Field(None, description="this many aggregators for each GPU of the site's nodes")
    count: Positive | None = Field(None, description="this many aggregators in all")
    ratio: Positive | None = Field(None, description="one aggregator for this many ranks")
    strategy: AggregationStrategy | None = Field(
        None,
        description="how BP5 moves the data: to the aggregators through shared memory of MPI (TwoLevelShm, its "
        "default), all ranks at once or in turn into the file of its aggregator (EveryoneWrites, "
        "EveryoneWritesSerial), or in turn into files of equal size (DataSizeBased)",
    )
    subfiles: Positive | None = Field(
        None,
        description="number of data files; several aggregators can share one (TwoLevelShm). Default: one for each "
        "aggregator",
    )

    @model_validator(mode="after")
    def _one_way(self) -> "Aggregation":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        given = [key for key in ("auto", *_COUNTS) if getattr(self, key)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both given; keep one of them")
        if not given and self.strategy is None and self.subfiles is None:
            raise ValueError(f"expected one of {', '.join(_COUNTS)}; for example `{{per_node: 1}}`, or the word `auto`")
        if self.subfiles is not None and self.strategy not in (None, "TwoLevelShm"):
            raise ValueError(f"with {self.strategy} every aggregator has its own file; write `count: {self.subfiles}`")
        return self


def _word(value: Any) -> Any:
    """`auto` stands for `{auto: true}`."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f'expected `auto` or a mapping, got "{value}"; for example `{{per_node: 1}}`')
    return {"auto": True} if value == "auto" else value


AggregationPolicy = Annotated[Aggregation, BeforeValidator(_word), OrShort({"const": "auto"})]


class OperatorSettings(Spec):
    """The settings of an operator. As ADIOS2 takes them: source/adios2/operator/compress/Compress*.cpp (2.12.1)."""

    @property
    def parameters(self) -> dict[str, str]:
        """ADIOS2's parameters."""
        raise NotImplementedError

    @property
    def largest_error(self) -> float:
        """The largest absolute error of a value that they allow; 0: none, it is lossless."""
        return 0.0


_SHUFFLES = {"none": "BLOSC_NOSHUFFLE", "shuffle": "BLOSC_SHUFFLE", "bitshuffle": "BLOSC_BITSHUFFLE"}


class Blosc(OperatorSettings):
    """C-Blosc2: lossless, fast."""

    codec: Literal["blosclz", "lz4", "lz4hc", "zlib", "zstd"] = Field(
        "zstd", description="lz4 is the fastest, zstd smaller at a good speed"
    )
    level: int = Field(5, ge=0, le=9, description="0: none; 9: smallest and slowest")
    shuffle: Literal["none", "shuffle", "bitshuffle"] = Field(
        "bitshuffle",
        description="first group the bytes, or bits, of equal significance, so that numbers compress better",
    )
    threads: int = Field(1, ge=1, le=MOST_CORES, description="threads of each rank; more than one needs spare cores")

    @property
    def parameters(self) -> dict[str, str]:
        """ADIOS2's parameters."""
        return {
            "compressor": self.codec, "clevel": str(self.level),
            "doshuffle": _SHUFFLES[self.shuffle], "nthreads": str(self.threads),
        }  # fmt: skip


class Zfp(OperatorSettings):
    """zfp: lossy, for floating point."""

    accuracy: float = Field(gt=0, description="largest absolute error of a value", examples=[1e-3])

    @property
    def parameters(self) -> dict[str, str]:
        """ADIOS2's parameters."""
        return {"accuracy": f"{self.accuracy:.12g}"}

    @property
    def largest_error(self) -> float:
        """The accuracy."""
        return self.accuracy


class Bzip2(OperatorSettings):
    """bzip2: lossless, small and slow; fails on data that it cannot make smaller."""

    level: int = Field(9, ge=1, le=9, description="9: smallest, most memory")

    @property
    def parameters(self) -> dict[str, str]:
        """ADIOS2's parameters."""
        return {"blockSize100k": str(self.level)}


class Compressor(Spec):
    """What a variable is compressed with: one of the operators."""

    blosc: Blosc | None = Field(None, description="lossless and fast: `{codec: zstd, level: 5}`")
    zfp: Zfp | None = Field(None, description="lossy, for floating point: `{accuracy: 1e-3}`")
    bzip2: Bzip2 | None = Field(None, description="lossless, small and slow; fails on data that does not get smaller")
    bound: float | None = Field(
        None,
        ge=0,
        description="largest error allowed at the reader: the run fails if it is exceeded (default: the accuracy)",
    )

    @property
    def operator(self) -> str:
        """ADIOS2's name of it."""
        return next(name for name in OPERATORS if getattr(self, name) is not None)

    @property
    def settings(self) -> OperatorSettings:
        """What was written of it."""
        settings: OperatorSettings = getattr(self, self.operator)
        return settings

    @model_validator(mode="after")
    def _one_operator(self) -> "Compressor":
        given = [name for name in OPERATORS if getattr(self, name) is not None]
        if len(given) != 1:
            example = f"one of {', '.join(OPERATORS)}; for example `{{blosc: {{codec: zstd}}}}`"
            raise ValueError(
                f"{' and '.join(given)} are both given; keep one of them" if given else f"expected {example}"
            )
        if self.bound is not None and given[0] not in LOSSY:
            raise ValueError(f"{given[0]} is lossless, so every bit is checked; remove `bound`")
        return self


Compression = Annotated[
    dict[str, Compressor],
    Field(description="variable → operator; `*`: every other array that it can do"),
]


class Memory(Spec):
    """How the allocator of a stage's processes treats the large buffers that each step allocates and frees."""

    huge_pages: bool | None = Field(
        None,
        description="transparent huge pages for malloc (glibc 2.35 or newer). Default: if the site supports it",
    )
    keep_freed: bool | Size | None = Field(
        None,
        description="how much freed memory a rank keeps for its next step instead of giving it back to the system; "
        "true: its share of a quarter of the node's memory. Default: if the site supports it",
    )


def _memory_word(value: Any) -> Any:
    """`true` and `false` stand for both keys."""
    if isinstance(value, str):
        raise ValueError(f'expected true, false or a mapping, got "{value}"; for example `memory: false`')
    return {"huge_pages": value, "keep_freed": value} if isinstance(value, bool) else value


MemoryOrBool = Annotated[Memory, BeforeValidator(_memory_word), OrShort({"type": "boolean"})]


class FailureRule(Spec):
    """What follows when a stage fails, or hangs beyond its deadline."""

    do: Literal["stop", "restart", "ignore"] = Field(
        "stop",
        description="stop: the run is stopped; restart: the stage is started again and goes on at the step where it "
        "was, together with the stages that are joined to it by streams of which nothing is kept; ignore: the others "
        "go on without it",
    )
    times: int = Field(3, ge=1, le=MOST_REPETITIONS, description="restart: at most so many times")
    then: Literal["stop", "ignore"] = Field(
        "stop",
        description="restart: what follows when it is not started again any more. stop: the run is stopped; ignore: "
        "the others go on without it, as an ensemble does without one of its members",
    )
    within: Duration | None = Field(
        None,
        examples=["1 h"],
        description="restart: only the restarts of so long count for `times` (default: those of the whole run)",
    )
    backoff: Duration = Field(
        10.0, examples=["10 s"], description="restart: the pause before the second restart and each one that follows"
    )
    same_step: Literal["stop", "skip"] = Field(
        "stop",
        description="restart: what follows when it fails twice at the same step, and no signal from outside has ended "
        "it. stop: the run is stopped; skip: it is started again without this step, of which its output has nothing",
    )

    @model_validator(mode="after")
    def _only_again(self) -> "FailureRule":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        if self.same_step == "skip" and self.do != "restart":
            raise ValueError(
                f"same_step is for stages that are started again, not for `do: {self.do}`; use `do: restart`"
            )
        if self.then != "stop" and self.do != "restart":
            raise ValueError(
                f"then is for stages that are started again, not for `do: {self.do}`; use `on_failure: {self.then}`"
            )
        return self

    @property
    def may_ignore(self) -> bool:
        """Whether the others may have to go on without the stage."""
        return "ignore" in (self.do, self.then)


_RULES = ("stop", "restart", "ignore")


def _rule_word(value: Any) -> Any:
    """`restart` stands for `{do: restart}`."""
    if isinstance(value, str):
        if value not in _RULES:
            words = ", ".join(f"`{rule}`" for rule in _RULES)
            raise ValueError(f'expected {words} or a mapping, got "{value}"; for example `restart`')
        return {"do": value}
    return value


FailureRuleOrWord = Annotated[FailureRule, BeforeValidator(_rule_word), OrShort({"enum": [*_RULES]})]


class CheckpointOutputs(Spec):
    """How many steps the streams of a program have when it writes a checkpoint."""

    every: int = Field(
        ge=1, le=MOST_STEPS, description="of its own steps: it writes a step of its streams after so many"
    )
    first: int = Field(1, ge=0, le=1, description="1: it writes a step before its first own step, too; 0: it does not")
    again: bool = Field(
        False,
        description="whether a program that begins at a checkpoint writes the step of that moment again, if it is one "
        "that it writes (LAMMPS does)",
    )


# Those that launchers pass on to all ranks, and that end no job.
CheckpointSignal = Literal["USR1", "USR2", "HUP", "ALRM", "URG"]
# More often no program can write one.
_LEAST_EVERY_S = 1.0


class Checkpoint(Spec):
    """What a program saves from time to time, so that the next part of its run can begin there."""

    every: Duration = Field(
        60.0,
        examples=["10 min"],
        description="of a program that saves its state by workflow.stage: at most so often; with `signal`: how often "
        "that is sent",
    )
    files: str | None = Field(
        None,
        examples=["restart.*"],
        description="of any other program: the checkpoints that it writes, a file or folder each, in the directory of "
        "the stage; `*` stands for the number of the program's own step",
    )
    signal: CheckpointSignal | None = Field(
        None,
        description="with `files`: the signal on which the program writes a checkpoint and goes on; it gets it as "
        "often as `every` says, from the opening of its streams, and when the run is stopped, unless `stop_signal` is "
        "another one",
    )
    outputs: CheckpointOutputs | None = Field(
        None, description="with `files`: which steps of its streams a checkpoint has behind it"
    )
    command: list[Scalar] | None = Field(
        None, description="with `files`: how the program is started from one, `${{ checkpoint.path }}`"
    )

    @model_validator(mode="after")
    def _whole(self) -> "Checkpoint":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        if self.files is None:
            if self.command is not None or self.outputs is not None or self.signal is not None:
                raise ValueError("files is missing; add the checkpoints that the program writes: `files: restart.*`")
            return self
        if "*" not in self.files.rpartition("/")[2] or self.files.count("*") > 1 or self.files.startswith(("/", "..")):
            raise ValueError(
                f"`{self.files}` must be a path in the directory of the stage, and its name must have one `*`, the "
                "step; for example `files: restart.*`"
            )
        if not self.command:
            raise ValueError(
                'command is missing; say how the program goes on: `command: [PROGRAM, "${{ checkpoint.path }}"]`'
            )
        if not any("checkpoint.path" in str(word) for word in self.command):
            raise ValueError(
                'command does not name the checkpoint; add "${{ checkpoint.path }}" where the program takes it'
            )
        if self.outputs is None:
            raise ValueError("outputs is missing; say how often a step is written: `outputs: {every: 100}`")
        if self.signal is None and "every" in self.model_fields_set:
            raise ValueError(
                "every is for programs that use workflow.stage, or that write a checkpoint on a signal; remove it, or "
                "add `signal: USR1`"
            )
        if self.signal is not None and "every" not in self.model_fields_set:
            raise ValueError("every is missing; say how often the signal is sent: `every: 10 min`")
        if self.signal is not None and self.every < _LEAST_EVERY_S:
            raise ValueError("every is too short for a signal; send it at most once a second: `every: 10 min`")
        return self


class SteeredAt(Spec):
    """A change of a value that is known before the start."""

    step: int = Field(
        ge=0, le=MOST_STEPS, description="the first step of the stage that is computed with it, counted from 0"
    )
    value: Scalar = Field(description="the value from then on")


def _is_file_below(path: str) -> bool:
    """Whether a path is that of a file in the folder that it is taken from, whatever links are there."""
    parts = path.split("/")
    return not path.startswith("/") and ".." not in parts and parts[-1] not in ("", ".")


def _has_value(text: str) -> bool:
    """Whether a text has a placeholder of `steer`; a wrong name is a mistake that the plan reports, with a hint."""
    try:
        return any(isinstance(part, Placeholder) and part.name.startswith("steer.") for part in parse(text))
    except PlaceholderError:
        return True  # as well


class SteeredValue(Spec):
    """A value of a stage that can be changed while it runs, by `wf set`, a notebook or another stage."""

    value: Scalar | None = Field(
        None,
        description="at the start; a value that replaces it must have the same type. Of a component: its parameter",
    )
    minimum: int | float | None = Field(None, description="least value allowed, of a number")
    maximum: int | float | None = Field(None, description="largest value allowed, of a number")
    unit: str = Field("", examples=["m/s"], description="of the value, for people")
    at: list[SteeredAt] = Field([], description="changes that are known before the start: `[{step: 400, value: 0.04}]`")
    file: str | None = Field(
        None,
        examples=["control.txt"],
        description="of a program without workflow.stage: the file in the directory of the stage in which it finds the "
        "value; it is there from the start, and replaced as a whole",
    )
    text: str = Field(
        "${{ steer.value }}\n",
        examples=["feed = ${{ steer.value }}\n"],
        description="with `file`: what is written there, with `${{ steer.value }}` where the value belongs",
    )
    signal: CheckpointSignal | None = Field(
        None, description="with `file`: the signal that the program gets when the file has been replaced"
    )

    @model_validator(mode="after")
    def _whole(self) -> "SteeredValue":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if self.value is not None and not is_number and (self.minimum, self.maximum) != (None, None):
            raise ValueError("only numbers have bounds; give a number as `value`, or remove minimum and maximum")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}; exchange them")
        if self.file is None and (self.signal is not None or "text" in self.model_fields_set):
            raise ValueError("file is missing; name the file that the program reads: `file: control.txt`")
        if self.file is not None and not _is_file_below(self.file):
            raise ValueError(
                f"`{self.file}` must be a path in the directory of the stage; for example `file: control.txt`"
            )
        if self.file is not None and not _has_value(self.text):
            raise ValueError(
                "text does not have the value; add `${{ steer.value }}` where it belongs, as in "
                '`text: "feed = ${{ steer.value }}\\n"`'
            )
        if self.file is not None and self.at:
            raise ValueError(
                "a program that reads a file takes a value at a step that only it knows; remove `at`, and change the "
                "value by `wf set` while it runs"
            )
        return self


# Dialects: the formats in which wf passes engines to programs of the user, and the file names that imply them.

Dialect = Literal["adios2.xml", "adios2.yaml", "openpmd.json", "openpmd.toml", "env", "warpx", "picongpu"]
# By the end of a config file's name. ADIOS2 has no JSON and no TOML, so these can only be openPMD's.
ENDINGS: dict[str, Dialect] = {
    ".xml": "adios2.xml",
    ".yaml": "adios2.yaml",
    ".yml": "adios2.yaml",
    ".json": "openpmd.json",
    ".toml": "openpmd.toml",
}
OPENPMD: frozenset[Dialect] = frozenset({"openpmd.json", "openpmd.toml", "env", "warpx", "picongpu"})
# ADIOS2's own: files with any number of IOs, in which wf changes those of its streams.
EDITABLE: frozenset[Dialect] = frozenset({"adios2.xml", "adios2.yaml"})
# What these programs write they cannot read back, or not as a stream.
WRITE_ONLY: frozenset[Dialect] = frozenset({"warpx", "picongpu"})
NAMELESS: frozenset[Dialect] = OPENPMD - {"warpx"}  # openPMD gives its ADIOS2 ios names of its own


def dialect_of(config: str) -> Dialect | None:
    """The dialect that the name of a `config:` implies; None when it implies none."""
    if config == "env":
        return "env"
    return next((dialect for ending, dialect in ENDINGS.items() if config.endswith(ending)), None)


def endings_of(dialect: Dialect) -> list[str]:
    """The endings without which a library ignores a config file of this dialect, or misreads it; [] for any name."""
    return [] if dialect == "openpmd.json" else [ending for ending, each in ENDINGS.items() if each == dialect]
