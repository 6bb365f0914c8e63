"""pydantic's errors → problems with a place, a plain sentence and the next thing to type."""

from __future__ import annotations

import json
import re
import shlex
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, SchemaError

from workflow.engines import BP_SUFFIXES, CONTACT_SUFFIXES, HDF5_SUFFIXES
from workflow.errors import Problem
from workflow.redaction import shown_line
from workflow.spec.models.units import WRITTEN
from workflow.spec.placeholder_syntax import PLACEHOLDER
from workflow.spec.suggest import REMOVED, did_you_mean, listing, nearest_name
from workflow.spec.yaml_tree.node import KeyPath, Node, key_text, nearest, plain, walk
from workflow.spec.yaml_tree.parse import plain_scalar

M = TypeVar("M", bound=BaseModel)

_EXPECTED = {
    "int_type": "a whole number", "int_from_float": "a whole number", "int_parsing": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "finite_number": "a finite number",
    "bool_type": "true or false", "bool_parsing": "true or false",
    "string_type": "text", "list_type": "a list",
    "dict_type": "a mapping (`key: value` lines)", "model_type": "a mapping (`key: value` lines)",
}  # fmt: skip
_LIMITS = {
    "greater_than_equal": ("at least", "ge"), "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"), "less_than": ("less than", "lt"),
}  # fmt: skip
_DATA_SUFFIXES = (*BP_SUFFIXES, *HDF5_SUFFIXES, *CONTACT_SUFFIXES)
_NAME_HOLDS = "letters, digits, `_` and `-`, 63 at most"
_SCALAR = "text, a number, true or false"


class _Error(NamedTuple):
    path: KeyPath
    branch: bool  # reported by one of several alternatives of a union
    of_key: bool
    detail: ErrorDetails


def validated(model: type[M], node: Node, at: KeyPath = (), root: Node | None = None) -> tuple[M | None, list[Problem]]:
    """`node` as a model, or all that is wrong with it.

    `at` is the path of `node` in the whole file `root`, for the keys and places of messages.
    """
    root = root or node
    problems = [
        problem_at(root, at + path, "unknown key", f"did you mean `{name}`?", at_key=True)
        for path, name in python_names(model, node)
    ]
    try:
        # As JSON, because pydantic's strict mode (no `"4"` for 4, no `yes` for true) takes only JSON for nested models.
        instance = model.model_validate_json(json.dumps(plain(node)), strict=True, context=WRITTEN)
    except ValidationError as error:
        return None, problems + list(_problems_of(error, model, node, at, root))
    except SchemaError as error:
        # The schema is built when it is first needed; Ctrl-C meanwhile is an error of this type to pydantic.
        if "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error
        raise
    return (None if problems else instance), problems


def problem_at(root: Node, path: KeyPath, message: str, hint: str = "", *, at_key: bool = False) -> Problem:
    """A problem with the place of `path`: of its value, or (`at_key`) of the key itself.

    Of a value that was made of parameters the message names them.
    """
    found, node = nearest(root, path)
    message += node.from_parameters if found == path else ""
    place = node.key if node.key is not None and (at_key or found != path) else node.place
    return Problem(place.source, place.line, place.column, key_text(path), message, hint)


def _problems_of(error: ValidationError, model: Model, node: Node, at: KeyPath, root: Node) -> Iterator[Problem]:
    groups: dict[KeyPath, list[_Error]] = {}
    for detail in error.errors(include_url=False):
        each = _located(detail, model, node)
        groups.setdefault(each.path, []).append(each)
    meant = {_meant(model, path) for path, errors in groups.items() if errors[0].detail["type"] == "extra_forbidden"}
    for path, errors in groups.items():
        if path in meant and errors[0].detail["type"] == "missing":
            continue  # it is there, misspelt
        deeper = any(len(other) > len(path) and other[: len(path)] == path for other in groups)
        if deeper and all(each.branch for each in errors):
            continue  # `to: [a, 5]`: the list's error about 5 is more specific than "expected text"
        message, hint, at_key = _said(errors, model, node)
        yield problem_at(root, at + path, message, hint, at_key=at_key)


def _meant(model: Model, path: KeyPath) -> KeyPath:
    """The key that an unknown one may be meant for, else itself."""
    here, key = model_at(model, path[:-1]), str(path[-1])
    return (*path[:-1], nearest_name(key, keys_of(here) if here else {}) or key)


def _located(detail: ErrorDetails, model: Model, node: Node) -> _Error:
    """The path in the file; pydantic's `loc` has names of union members in between."""
    path: list[str | int] = []
    branch = of_key = False
    for part in detail["loc"]:
        if part in node.children:
            path.append(part)
            node = node.children[part]
        elif part == "[key]":
            of_key = True
        elif (key := _key_of(model, tuple(path), part)) is not None:
            path.append(key)  # a key that is missing, or whose default is wrong
            break
        else:
            branch = True
    return _Error(tuple(path), branch, of_key, detail)


def _key_of(model: Model, path: KeyPath, part: str | int) -> str | None:
    """The key that `part` of a `loc` means at `path`: pydantic calls a wrong default by its Python name."""
    here = model_at(model, path)
    if here is None or not isinstance(part, str):
        return None
    return part if part in keys_of(here) else getattr(here.model_fields.get(part), "alias", None)


def _said(errors: list[_Error], model: Model, node: Node) -> tuple[str, str, bool]:
    """Message, hint, and whether the place is that of the key."""
    first = errors[0]
    kind, path = first.detail["type"], first.path
    if kind == "extra_forbidden":
        return "unknown key", _where_to_go(model, path), True
    if kind == "missing":
        about, example = _about(model, path), _only_choice(model, path) or "…"
        return "is missing", f"add `{path[-1]}: {example}`{f' ({about})' if about else ''}", True
    if first.of_key:
        return f"names begin with a letter and contain only {_NAME_HOLDS}", _name_like(str(path[-1])), True
    telling = [each for each in errors if _expected(each.detail) is None]
    if telling:
        return *_one(telling[0].detail, model, path), False
    value = nearest(node, path)[1].value
    wanted = list(dict.fromkeys(_expected(each.detail) or "" for each in errors))
    if "text" in wanted and "a number" in wanted:
        wanted = [_SCALAR]
    return f"expected {' or '.join(wanted)}, got {shown(value)}", _retype(wanted, value, model, path), False


def _expected(detail: ErrorDetails) -> str | None:
    if detail["type"] == "literal_error":
        return str(detail.get("ctx", {}).get("expected", "")).replace("'", "`")
    return _EXPECTED.get(detail["type"])


def _one(detail: ErrorDetails, model: Model, path: KeyPath) -> tuple[str, str]:
    """An error other than of type."""
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "value_error":
        said = str(context["error"])
        said = said.replace(value, shown_line(value)) if isinstance(value, str) else said
        message, _, hint = said.partition("; ")
        return message, _near_choice(message, value) or hint or _example(model, path)
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        limit = context[key]
        text = str(limit) if isinstance(limit, int) else f"{limit:g}"
        return f"expected {words} {text}, got {shown(value)}", _example(model, path)
    if kind in ("too_short", "too_long"):
        count = context.get("min_length", context.get("max_length"))
        bound = "at least" if kind == "too_short" else "at most"
        entries = "entry" if count == 1 else "entries"
        return f"expected {bound} {count} {entries}, got {context['actual_length'] or 'none'}", _example(model, path)
    if kind == "string_pattern_mismatch" and r"\." in context["pattern"]:
        return f"expected a stage, or `stage.port`, got {shown(value)}", _example(model, path)
    if kind == "string_pattern_mismatch":
        return f"expected a name ({_NAME_HOLDS}), got {shown(value)}", _name_like(str(value))
    return detail["msg"], _example(model, path)


def _where_to_go(model: Model, path: KeyPath) -> str:
    """For an unknown key: a similar key, the place where the key belongs, or the known keys."""
    key, here = str(path[-1]), model_at(model, path[:-1])
    known = keys_of(here) if here else {}
    if key in REMOVED:
        return REMOVED[key]
    if near := did_you_mean(key, known):
        return near
    inside = next(homes_of(key, here), "") if here else ""
    if inside:
        return f"`{key}` belongs under `{inside}` here"
    homes = list(homes_of(key, model))
    if homes:
        return f"`{key}` belongs under {' or '.join(f'`{home}`' for home in homes)}"
    if key in keys_of(model):
        return f"`{key}` belongs to the top of the file"
    meant = {word: written for written, word in _choices(here)} if here else {}
    if (word := nearest_name(key, meant, cutoff=0.8)) is not None:
        return f"did you mean `{meant[word]}`? known here: {listing(known, 20)}"
    return f"known here: {listing(known, 20)}"


def _choices(model: Model) -> Iterator[tuple[str, str]]:
    """Words that are values here, not keys, and how they are written: `on_failure: {do: restart}`."""
    for name, info in reversed(keys_of(model).items()):  # the first of several counts
        inner = _unwrapped(info.annotation)
        if _is_model(inner):
            yield from ((f"{name}: {{{written}}}", word) for written, word in _choices(inner))
        elif get_origin(inner) is Literal:
            yield from ((f"{name}: {word}", word) for word in get_args(inner) if isinstance(word, str))


def _retype(wanted: list[str], value: Any, model: Model, path: KeyPath) -> str:
    if near := _near_choice(f"expected {wanted[0]}", value):
        return near
    if choice := _only_choice(model, path):
        return f"write `{path[-1]}: {choice}` ({_about(model, path)})"
    if isinstance(value, str) and shown_line(value) != value:
        return _example(model, path)  # what is made of a secret shows it
    if wanted == ["a list"] and (words := _list_of(model, path, value)):
        return f"write `{path[-1]}: {_flow_text(words)}`"
    if wanted == ["true or false"] and isinstance(value, str):
        return "write `true` or `false`, without quotes"
    if isinstance(value, str) and any(word in wanted for word in ("a number", "a whole number")) and _is_number(value):
        return f"write {value} without quotes"
    if wanted == ["text"] and isinstance(value, int | float):
        return f'put it into quotes: `"{str(value).lower() if isinstance(value, bool) else value}"`'
    if _SCALAR in wanted:
        return _about(model, path)  # where text does, the keys of another form would mislead
    return _example(model, path, value)


def _near_choice(message: str, value: Any) -> str:
    """The choice that was probably meant; `message`: expected `a` or `b`."""
    if not isinstance(value, str) or not message.startswith("expected `"):
        return ""
    return REMOVED.get(value) or did_you_mean(value, re.findall(r"`([^`]*)`", message))


def _list_of(model: Model, path: KeyPath, value: Any) -> list[Any]:
    """The list that `value` alone may be meant as: words of a command, or what commas separate; empty: none."""
    annotation, field = _at(model, path)
    if field is None or field.metadata or not isinstance(value, str | int | float):
        return []  # it may have a length of its own
    is_command = path[-1] == "command"
    words = _words(value, is_command) if isinstance(value, str) else [_flow_text(value)]
    for read in (_number_of_command if is_command else plain_scalar, str):
        try:
            found = [read(word) for word in words]
            TypeAdapter(annotation).validate_json(json.dumps(found), strict=True)
        except ValueError:
            continue
        return found
    return []


def _words(text: str, is_command: bool) -> list[str]:
    """The words of a command line without their quotes, or what commas separate; empty where that is not clear."""
    if "\0" in text:  # it stands for a placeholder below
        return []
    placeholders = PLACEHOLDER.finditer(text)  # each is part of one word, with its blanks
    short = PLACEHOLDER.sub("\0", text)
    try:
        words = shlex.split(short) if is_command else [word.strip() for word in short.split(",")]
    except ValueError:  # a quote that is not closed
        return []
    if not is_command and (re.search(r"""[][{}"'\n]""", short) or not all(words)):
        return []
    return [re.sub("\0", lambda _: next(placeholders)[0], word) for word in words]


def _number_of_command(word: str) -> Any:
    """A number that the program gets as it is written: `1.10` stays text."""
    value = plain_scalar(word)
    return value if _flow_text(value) == word else word


def _flow_text(value: Any) -> str:
    """A value in one line, with as few quotes as YAML allows."""
    if isinstance(value, list):
        return f"[{', '.join(map(_flow_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow_text(key)}: {_flow_text(each)}' for key, each in value.items())}}}"
    return value if isinstance(value, str) and _is_plain(value) else json.dumps(value, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    """Whether YAML reads this text also without quotes."""
    try:
        return plain_scalar(text) == text and re.fullmatch(r"-{0,2}[\w./]([\w./=+ -]*[\w./=+-])?", text) is not None
    except ValueError:  # a number that is too long
        return False


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", text) is not None


def _about(model: Model, path: KeyPath) -> str:
    field = field_at(model, path)
    return field.description or "" if field else ""


def _mapping_of(model: Model, value: Any) -> dict[str, Any] | None:
    """The mapping that `value` alone may be meant as: `{limit: 2}` for 2."""
    if not isinstance(value, str | int | float):
        return None
    # The word of a key is no value of another one: `compression: {V: blosc}`.
    word: list[dict[str, Any]] = [{str(value): {}}] if value in keys_of(model) else []
    for form in word or [{key: value} for key in keys_of(model)]:
        try:
            model.model_validate_json(json.dumps(form), strict=True, context=WRITTEN)
        except ValidationError:
            continue
        return form
    return None


def _example(model: Model, path: KeyPath, given: Any = None) -> str:
    """What the key is for, and an example of what to write: made from what was `given`, or the default."""
    field, about, here = field_at(model, path), _about(model, path), model_at(model, path)
    value = (field.examples or [field.default])[0] if field is not None else None
    own = next((part for part in reversed(path) if isinstance(part, str)), "")
    # An example with names is one of the whole key, also for what is wrong with an entry.
    ends = (end for end in range(1, len(path) + 1) if field_at(model, path[:end]) is field)
    key = path[next(ends) - 1] if isinstance(value, dict) else own
    if here is not None and (short := _mapping_of(here, given)):
        key, value = path[-1], short
    fits = isinstance(value, str | int | float | list | dict) and value not in ("", {}, [])
    where = f"{key}: " if isinstance(key, str) else "- "
    example = f"for example `{where}{value if isinstance(value, str) else _flow_text(value)}`" if fits else ""
    parts = [about, example] if here is None else [example, f"keys here: {listing(keys_of(here), 20)}"]
    return "; ".join(filter(None, parts))


def _only_choice(model: Model, path: KeyPath) -> str:
    field = field_at(model, path)
    choices = get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()
    return str(choices[0]) if len(choices) == 1 else ""


def _name_like(text: str) -> str:
    """An example of a name: like `text`, unless that may hold a secret."""
    if shown_line(text) != text:
        return "for example `my-name`"
    of_file = (
        f"; a program that opens `{text}` gets `path: {text}` in its port" if text.endswith(_DATA_SUFFIXES) else ""
    )
    return f"for example `{to_name(text)}`{of_file}"


def to_name(text: str) -> str:
    """The nearest name of a stage or stream: a letter, then letters, digits, `_` and `-`."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")
    return (name if name[:1].isalpha() else f"s{name}")[:63]


def shown(value: Any) -> str:
    """A value as the user wrote it, cut to one line, without what may be a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{shown_line(value)}"'
        if isinstance(value, str)
        else str(value)
    )
    return text if len(text) <= 60 else text[:57] + "…" + text[-1]


# What the models accept: the keys at a place of the file, and the places where a key belongs.

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
