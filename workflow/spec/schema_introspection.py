"""What the models accept: the keys at a place of the file, and the places where a key belongs."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from workflow.spec.yaml_tree.node import KeyPath, Node, walk

Model = type[BaseModel]


def keys_of(model: Model) -> dict[str, FieldInfo]:
    """The keys that a model takes, as users write them (`from`, not `from_`)."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def model_at(model: Model, path: KeyPath) -> Model | None:
    """The model that a mapping at `path` is read into; None where keys are free."""
    found, _ = _at(model, path)
    return found if _is_model(found) else None


def field_at(model: Model, path: KeyPath) -> FieldInfo | None:
    """The innermost field on the way to `path`: for `streams.a.to[1]` that of `to`."""
    return _at(model, path)[1]


def homes_of(key: str, model: Model, prefix: str = "") -> Iterator[str]:
    """Where a key would be known: `place` for `nodes`, relative to `model`. `NAME` stands for any name."""
    for name, info in keys_of(model).items():
        annotation, steps = info.annotation, prefix + name
        while get_origin(inner := _unwrapped(annotation)) in (dict, list):
            is_dict = get_origin(inner) is dict
            annotation = get_args(inner)[-1]
            steps += ".NAME" if is_dict else ""
        if _is_model(inner):
            if key in keys_of(inner):
                yield steps
            yield from homes_of(key, inner, steps + ".")


def python_names(model: Model, node: Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Keys written by their Python name (`from_`), with the right one: pydantic would take them silently."""
    for at, _ in walk(node, path):
        # All of ours that differ end so; asking the model about every key would cost more than the validation.
        if at and isinstance(key := at[-1], str) and key.endswith("_"):
            here = model_at(model, at[:-1])
            if here is not None and key in here.model_fields and key not in keys_of(here):
                yield at, here.model_fields[key].alias or key


def _at(model: Model, path: KeyPath) -> tuple[Any, FieldInfo | None]:
    annotation: Any = model
    field: FieldInfo | None = None
    for part in path:
        annotation = _unwrapped(annotation)
        if _is_model(annotation):
            info = keys_of(annotation).get(str(part))
            if info is None:
                return None, None
            field, annotation = info, info.annotation
        elif get_origin(annotation) in (dict, list):
            annotation = get_args(annotation)[-1]
        else:
            return None, field
    return _unwrapped(annotation), field


def _unwrapped(annotation: Any) -> Any:
    """Without Annotated, and of `X | None` or `list | str` the alternative that has something inside."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    options = [_unwrapped(option) for option in get_args(annotation) if option is not type(None)]
    return next((option for option in options if get_origin(option) or _is_model(option)), options[0])


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
