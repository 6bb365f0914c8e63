"""`wf plan --explain KEY`: a value, where it was written, or why the plan chose it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from workflow.engines import NODE_VIA
from workflow.errors import WfError
from workflow.formatting import duration
from workflow.plan.plan_model import Plan
from workflow.plan.topology.declared_stages import CompletePipeline
from workflow.spec.models.allocation_request import AllocationRequest
from workflow.spec.suggest import did_you_mean, listing, nearest_name


def explain_key(pipeline: CompletePipeline, plan: Plan, key: str) -> str:
    """The explanation of one key: of the pipeline file, or of the plan (`streams.atoms.write.QueueLimit`).

    Raises:
        WfError: there is no such key; the message names near ones.
    """
    lines = []
    data = _with_defaults_of_components(pipeline)
    if plan.allocation is not None and data["allocation"] is None:
        data["allocation"] = AllocationRequest().model_dump(mode="json", by_alias=True)
    found, value, known = _find(data, key.split("."))
    if found:
        lines.append(f"{key} = {json.dumps(_given(value))}\n  from {_source(pipeline, key)}")
        in_force = _in_force(key, plan)
        if in_force is not None and in_force != value and not (isinstance(value, float) and isinstance(in_force, str)):
            lines.append(f"  in force: {in_force if isinstance(in_force, str) else json.dumps(in_force)}")
        lines += [f"  because {plan.reasons[key]}"] if key in plan.reasons else []
        lines += _queue_of_plan(key, plan)
    decided = _decided(plan)
    policy = key.split(".")
    if found and policy[0] == "stages" and policy[2:3] == ["output"]:
        lines += _policy_of_plan(policy[1], policy[3] if policy[3:] else "", plan, decided)
    lines += [
        f"{each} = {decided[each]}"
        + (f"\n  because {plan.reasons[each]}" if each in plan.reasons else "\n  given as it is")
        for each in decided
        if each == key or each.startswith(key + ".")
    ]
    alike: dict[str, list[str]] = {}
    for each, why in plan.reasons.items():
        if each not in decided and ((each == key and not found) or each.startswith(key + ".")):
            alike.setdefault(why, []).append(each)
    lines += [f"{', '.join(keys)}\n  because {why}" for why, keys in alike.items()]
    if not lines:
        near = _near(data, key) or did_you_mean(key, [*decided, *plan.reasons])
        hint = near or f"known here: {listing(known)}"
        raise WfError(f"the pipeline and its plan have no key `{key}`", hint)
    return "\n".join(lines)


def _with_defaults_of_components(pipeline: CompletePipeline) -> dict[str, Any]:
    """The pipeline as data; `with` of a stage holds all parameters of its component."""
    data: dict[str, Any] = pipeline.spec.model_dump(mode="json", by_alias=True)
    for name, values in pipeline.parameters.items():
        if name in data["stages"]:
            data["stages"][name]["with"] = {
                **json.loads(json.dumps(values, default=str)),
                **data["stages"][name]["with"],
            }
    return data


def _source(pipeline: CompletePipeline, key: str) -> str:
    """Where a value was written; for a parameter that was not, the component whose default it is."""
    source, parts = pipeline.origins.of(key), key.split(".")
    if source == "default" and parts[0] == "stages" and parts[2:3] == ["with"] and parts[3:]:
        return f"default of component {pipeline.spec.stages[parts[1]].component}"
    return source


def _in_force(key: str, plan: Plan) -> Any:
    """What the plan has for a key that may be left open (null, `auto`); None where the plan has nothing else."""
    match key.split("."):
        case ["streams", name, "coupling" | "transport" as word]:
            stream = plan.stream(name)
            return stream.coupling if word == "coupling" else stream.transport_word or None
        case ["streams", name, "via"] if (stream := plan.stream(name)).traits.one_node:
            return NODE_VIA
        case ["stages", name, "place", "nodes"]:
            return sum(end - start for start, end in plan.stage(name).placement.nodes)
        case ["stages", name, "place", "cores_per_rank" | "ranks_per_node" as word]:
            return getattr(plan.stage(name).placement, word)
        case ["stages", name, "memory", "huge_pages"]:
            memory = plan.stage(name).memory
            return memory is not None and memory.huge_pages
        case ["stages", name, "memory", "keep_freed"]:
            memory = plan.stage(name).memory
            return memory.keep_freed if memory is not None else 0
        case ["allocation", "walltime" | "grace" as word] if plan.allocation is not None:
            return duration(getattr(plan.allocation, f"{word}_s"))
        case ["allocation", "nodes" | "queue" | "account" | "constraints" as word] if plan.allocation is not None:
            return getattr(plan.allocation, word)
        case ["deadlines", "step" | "run" as word] if getattr(plan.deadlines, word) is None:
            return "no limit"
    return None


def _policy_of_plan(stage: str, policy: str, plan: Plan, decided: Mapping[str, str]) -> Iterator[str]:
    """What follows from `output` of a stage, or from one policy of it, for the streams that it writes, and why."""
    for stream in plan.streams:
        if stream.writer == stage:
            for key, why in plan.reasons.items():
                if key.startswith(f"streams.{stream.name}.write.operators."):
                    if policy in ("", "compression"):
                        yield f"{key}\n  because {why}"
                elif key in decided and key.startswith(f"streams.{stream.name}.write.") and f"output.{policy}" in why:
                    yield f"{key} = {decided[key]}\n  because {why}"


def _queue_of_plan(key: str, plan: Plan) -> list[str]:
    """What holds instead of a stream's `queue`, where its engine has none."""
    parts = key.split(".")
    if parts[0] != "streams" or parts[2:3] != ["queue"]:
        return []
    stream = plan.stream(parts[1])
    return [f"  not used with `via: {stream.via}`: {stream.engine} has no queue"] if stream.queue is None else []


def _near(data: Any, key: str) -> str:
    """The key of the pipeline file that was meant; empty when none is near."""
    parts, done = key.split("."), 0
    while done < len(parts):
        found, _, known = _find(data, parts[: done + 1])
        if not found:
            meant = nearest_name(parts[done], known)
            if meant is None:
                return ""
            parts[done] = meant
        done += 1
    return f"did you mean `{'.'.join(parts)}`?"


def _given(value: Any) -> Any:
    """Without the keys that are not given."""
    if isinstance(value, dict):
        return {key: _given(each) for key, each in value.items() if each is not None}
    return value


def _find(data: Any, parts: list[str]) -> tuple[bool, Any, list[str]]:
    """(found, value, the keys known where the search ended)."""
    for part in parts:
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, list) and part.isdigit() and int(part) < len(data):
            data = data[int(part)]
        else:
            return False, None, list(data) if isinstance(data, dict) else []
    return True, data, []


def _decided(plan: Plan) -> dict[str, str]:
    """Of every end its parameters, `streams.NAME.write.PARAMETER`, `.read.STAGE.PARAMETER` of readers, and strategy."""
    values = {}
    for stage in plan.stages:
        for end in stage.ends:
            prefix = f"streams.{end.stream}.write" if end.side == "write" else f"streams.{end.stream}.read.{stage.name}"
            for name, value in end.parameters.items():
                values[f"{prefix}.{name}"] = value
            if end.share is not None:
                values[f"{prefix}.strategy"] = end.share.strategy
    return values
