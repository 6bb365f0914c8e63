"""What the user wrote about ensembles and triggers: `members:`, `collect:` and `when:`, as frozen models."""

import hashlib
import math
from collections.abc import Iterable
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from workflow.spec.models.stage_policies import OrShort
from workflow.spec.models.units import MOST_MEMBERS, MOST_STEPS, MemberCount, Name, Scalar, Spec


class DrawnValue(Spec):
    """A range from which each member of an ensemble draws a value of its own."""

    from_: int | Annotated[float, Field(allow_inf_nan=False)] = Field(alias="from", description="the smallest value")
    to: int | Annotated[float, Field(allow_inf_nan=False)] = Field(description="the largest value")
    scale: Literal["linear", "log"] = Field(
        "linear", description="log: all ratios are alike, so that 1 to 10 is drawn as often as 10 to 100"
    )
    whole: bool = Field(False, description="whole numbers only, both ends included")

    @model_validator(mode="after")
    def _is_range(self) -> "DrawnValue":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        if self.from_ >= self.to:
            turned = f"`{{from: {self.to}, to: {self.from_}}}`" if self.from_ > self.to else "a larger `to`"
            raise ValueError(f"nothing can be drawn from {self.from_} to {self.to}; use {turned}")
        if self.scale == "log" and self.from_ <= 0:
            raise ValueError(f"a log scale has no {self.from_}; use `scale: linear`, or a `from` that is more than 0")
        if self.whole and not (isinstance(self.from_, int) and isinstance(self.to, int)):
            raise ValueError("the ends of a range of whole numbers are whole numbers; change them, or remove `whole`")
        return self

    def at(self, share: float) -> int | float:
        """The value at this share of the range, from 0 to 1 exclusive.

        Rounded to 12 digits: the last bits of a logarithm are not the same on each machine.
        """
        begin, end = self.from_, self.to + 1 if self.whole else self.to
        if self.scale == "log":
            value = math.exp(math.log(begin) + share * (math.log(end) - math.log(begin)))
        else:
            value = begin + share * (end - begin)
        rounded = float(f"{value:.12g}")
        return min(max(math.floor(rounded) if self.whole else rounded, self.from_), self.to)


def _range_of(values: Iterable[Any]) -> str:
    """`from: 1, to: 2`, of two different numbers; else empty."""
    values = list(values)
    numbers = [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]
    is_range = len(numbers) == len(values) == 2 and numbers[0] != numbers[1]
    return f"from: {min(numbers)}, to: {max(numbers)}" if is_range else ""


def _range(value: Any) -> Any:
    """What is no mapping is no range, nor is one that calls its ends otherwise."""
    # What follows `; ` is what to type (workflow.spec.validation_messages).
    if isinstance(value, dict):
        ends = {key: each for key, each in value.items() if key not in ("scale", "whole")}
        if {"from", "to"} <= ends.keys() or not ends.keys() - {"from", "to"}:
            return value  # what is wrong with it is said of its keys
        found = _range_of(ends.values())
        more = "".join(f", {key}: {str(each).lower()}" for key, each in value.items() if key not in ends)
        meant = f"did you mean `{{{found}{more}}}`?" if found else "for example `{from: 0.03, to: 0.05}`"
        raise ValueError(f"expected a range by `from` and `to`, got {', '.join(f'`{key}`' for key in ends)}; {meant}")
    if not isinstance(value, list):
        raise ValueError("expected the range to draw from; for example `{from: 0.03, to: 0.05}`")
    text = f"[{', '.join(map(str, value))}]"
    if found := _range_of(value):
        meant = f"did you mean `{{{found}}}`?"
        raise ValueError(f"expected a range, got the list {text}; {meant} A `matrix` has all values of lists")
    raise ValueError(
        f"expected a range, got a list of {len(value)}; write `{{from: 0.03, to: 0.05}}`. A `matrix` has all values of "
        "lists: `members: {matrix: {NAME: [VALUE, …]}}`"
    )


# What the ends of a range may be called where somebody has left out the name of the value.
_ENDS = {"from", "to", "min", "max", "low", "high", "lower", "upper", "start", "stop", "begin", "end"}


def _by_name(value: Any) -> Any:
    """Ranges by the names of the values: not one range alone."""
    is_named = isinstance(value, dict) and not (value.keys() <= _ENDS and _range_of(value.values()))
    if is_named:
        return value
    found = _range_of(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    meant = f"write `{{NAME: {{{found}}}}}`" if found else "for example `{F: {from: 0.03, to: 0.05}}`"
    raise ValueError(f"expected the range of each value by its name; {meant}")


class Ensemble(Spec):
    """Members of an ensemble: the same stage several times, each with values of its own."""

    count: MemberCount | None = Field(None, description="how many, where they have no other values, or drawn ones")
    values: list[dict[Name, Scalar]] = Field(
        [], examples=[[{"F": 0.03}, {"F": 0.04}]], description="the values of each member, by name"
    )
    matrix: dict[Name, Annotated[list[Scalar], Field(min_length=1)]] = Field(
        {}, examples=[{"F": [0.03, 0.04]}], description="values by name: one member for each combination"
    )
    draw: Annotated[dict[Name, Annotated[DrawnValue, BeforeValidator(_range)]], BeforeValidator(_by_name)] = Field(
        {},
        examples=[{"F": {"from": 0.03, "to": 0.05}}],
        description="with `count`: values by name, of which each member draws one at random. They follow from `seed`, "
        "from the name and from the number of the member: the same on each machine",
    )
    seed: int = Field(0, description="with `draw`: another number draws other values")
    at_once: MemberCount | None = Field(
        None,
        description="how many run at the same time: each of the others starts when one has ended, on its cores "
        "(default: all)",
    )

    @model_validator(mode="after")
    def _one_way(self) -> "Ensemble":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        given = [key for key in ("draw" if self.draw else "count", "values", "matrix") if getattr(self, key)]
        if not given:
            raise ValueError("the members are missing; write `members: 16`, a list of their values, or a `matrix`")
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both given; keep one of them")
        many = len(self.values) or math.prod(map(len, self.matrix.values()))
        if many > MOST_MEMBERS:
            raise ValueError(f"{many} members: an ensemble has at most {MOST_MEMBERS}; give fewer values")
        if any(each.keys() != self.values[0].keys() for each in self.values):
            raise ValueError("the members have values of different names; give each member the same names")
        if self.draw and self.count is None:
            raise ValueError("count is missing; say how many members draw their values: `count: 16`")
        if "seed" in self.model_fields_set and not self.draw:
            raise ValueError("seed is for values that are drawn; add `draw: {F: {from: 0.03, to: 0.05}}`, or remove it")
        if "index" in [*self.matrix, *self.draw, *(self.values[0] if self.values else ())]:
            raise ValueError("`index` is the number of a member, from 0; give the value another name")
        return self

    @property
    def each(self) -> list[dict[str, Scalar]]:
        """The values of each member."""
        if self.count is not None:
            return [self._drawn(index) for index in range(self.count)]
        if self.values:
            return self.values
        return [dict(zip(self.matrix, chosen, strict=True)) for chosen in product(*self.matrix.values())]

    def _drawn(self, index: int) -> dict[str, Scalar]:
        """The values that a member draws. Each follows from 53 bits of a SHA-256, which is the same everywhere and
        always."""
        found: dict[str, Scalar] = {}
        for name, values in self.draw.items():
            digest = hashlib.sha256(f"{self.seed}/{name}/{index}".encode()).digest()
            found[name] = values.at((int.from_bytes(digest[:8], "big") >> 11) * 2.0**-53)
        return found


def _members(value: Any) -> Any:
    """A number and a list stand for mappings."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"count": value}
    if isinstance(value, list) and not all(isinstance(each, dict) for each in value):
        raise ValueError("expected the values of each member by name; for example `[{F: 0.03}, {F: 0.04}]`")
    return {"values": value} if isinstance(value, list) else value


EnsembleOrShort = Annotated[
    Ensemble,
    BeforeValidator(_members),
    OrShort({"type": "integer", "minimum": 1}, {"type": "array", "items": {"type": "object"}, "minItems": 1}),
]


class NumberedCollect(Spec):
    """How streams of members are collected, by a number: in so many groups, or by neighbours so far away."""

    groups: MemberCount | None = Field(
        None, description="how many: as many readers, each with the steps of its members as they come"
    )
    neighbour: int | None = Field(
        None,
        examples=[1],
        description="member i is read by member i + so many, in a circle; 0: the same as the word `neighbour`",
    )


def _one_number(value: Any) -> Any:
    """A mapping has one key, with a value."""
    if isinstance(value, dict) and ([*value] not in (["groups"], ["neighbour"]) or None in value.values()):
        words = "`each`, `any`, `all`, `neighbour`, `{groups: N}` or `{neighbour: N}`"
        raise ValueError(f"expected {words}; for example `collect: {{groups: 4}}`")
    return value


# How the streams of the members of an ensemble reach their readers.
Collect = Annotated[Literal["each", "any", "all", "neighbour"] | NumberedCollect, BeforeValidator(_one_number)]

# An operator and a number. It is read as the parameters of the component that compares are.
_Condition = Annotated[
    Scalar, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}], "examples": ["> 0.9"]})
]


class When(Spec):
    """Which steps of a stream a stage gets: those at which all conditions hold, and some around each.

    wf adds a stage of the component `select` between the stream and the stage, `STAGE-when`, and a stream of that name
    between the two. That has the `via`, `coupling`, `transport`, `interface`, `strategy`, `step_size`, `keep` and
    `queue.limit` of the stream that is selected from, and its `spool` if the stage is started again by `on_failure`.
    Its queue blocks: what was selected is not discarded. All other keys are those of the stream with all steps.
    """

    stream: Name = Field(description="a stream that the stage reads")
    variable: str = Field("", description="the variable of `max`, `min` and `mean`")
    max: _Condition | None = Field(
        None, description='a condition on the largest finite value of the variable: `"> 0.9"`, as in `expect:`'
    )
    min: _Condition | None = Field(None, description="a condition on the smallest finite value of the variable")
    mean: _Condition | None = Field(None, description="a condition on the mean of the finite values of the variable")
    step: _Condition | None = Field(
        None, description='a condition on the number of the step, counted from 0: `">= 100"`'
    )
    before: int = Field(
        0,
        ge=0,
        le=MOST_STEPS,
        description="how many steps before each event the stage gets, too; so many are kept in memory",
    )
    after: int = Field(0, ge=0, le=MOST_STEPS, description="how many steps after each event the stage gets, too")
    times: Literal["each", "once"] = Field(
        "each", description="each: every step at which all conditions hold is an event; once: the first one only"
    )

    @model_validator(mode="after")
    def _whole(self) -> "When":
        # What follows `; ` is what to type (workflow.spec.validation_messages).
        on_values = [name for name in ("max", "min", "mean") if getattr(self, name) is not None]
        if on_values and not self.variable:
            raise ValueError(f"{' and '.join(on_values)} of what? the variable is missing; add `variable: NAME`")
        if self.variable and not on_values:
            raise ValueError('variable needs a condition on it; add `max: "> 0.9"`, or `min`, or `mean`')
        if not on_values and self.step is None:
            raise ValueError('there is no condition; add `variable: NAME, max: "> 0.9"`, or `step: ">= 100"`')
        return self
