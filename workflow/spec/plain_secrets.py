"""Secrets that were written in clear: into a pipeline, a campaign or an option. Nothing that holds one is started.

A run directory keeps the pipeline file, the plan and the events; a campaign its file. What may be a secret, by its
name or as the password of an address, is therefore refused with the reference to write in its place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from workflow.errors import Problem
from workflow.redaction import address_password, is_secret_name
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node, walk

NOT_SECRET = "not_secret"
# `--password=X` and `NAME=X`, alone or inside of a word such as a line for `sh -c`.
_INSIDE = re.compile(
    r"""(?:^|(?<=[\s;&|'"]))(?:(?P<name>--?[A-Za-z][\w-]*|[A-Za-z_]\w*)="""
    r"""|(?P<option>--?[A-Za-z][\w-]*)[ \t]+(?=[^\s-]))(?P<value>\S+)"""
)
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_NUMBER = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")
# A variable of the shell, or a placeholder: the secret itself stands elsewhere.
_REFERENCE = re.compile(r"['\"]?\$")
_PATH = re.compile(r"(?:/|\./|\.\./|~/)[^:@]*")
_HINT = "write `env: {{{name}: {{secret: FILE}}}}`, FILE readable by you alone, or `{{secret: {{env: NAME}}}}`"
_NOT_ONE = "; if it is no secret: `not_secret: [{name}]` at the top of the pipeline"


def secret_problems(root: Node, not_secret: Collection[str] = ()) -> Iterator[Problem]:
    """What is a secret in clear, at its place; warnings on secrets that a process list would show."""
    allowed = {*not_secret, *not_secrets(root)}
    for path, node in walk(root):
        if _parts(path)[-1:] == ["command"] and isinstance(node.value, list):
            yield from _of_words(root, path, [each.value for each in node.value], allowed)
        if not isinstance(node.value, str) or _is_file(path) or path[:1] == (NOT_SECRET,):
            continue
        if address_password(node.value):
            yield _in_clear(root, path, "an address with a password in plain text", _HINT.format(name="ADDRESS"))
            continue
        name = _name_of(path)
        if name and is_secret_name(name) and name not in allowed and is_literal(node.value):
            yield _in_clear(root, path, f"`{name}` may be a secret in plain text", _hint(name))


def is_literal(value: str) -> bool:
    """Whether a value under a telling name may be the secret itself: no number, reference or path."""
    plain = value.strip("'\"")
    return bool(plain) and not any(each.fullmatch(plain) for each in (_NUMBER, _PATH)) and not _REFERENCE.match(value)


def not_secrets(root: Node) -> set[str]:
    """The names that only look like those of secrets, as the file lists them."""
    listed = root.child(NOT_SECRET)
    return {str(each.value) for each in (listed.children.values() if listed is not None else ())}


def _is_file(path: KeyPath) -> bool:
    """Whether this is below `files:` of a stage: the program reads it itself."""
    parts = _parts(path)
    return "stages" in parts and parts[parts.index("stages") + 2 :][:1] == ["files"]


def _parts(path: KeyPath) -> list[str]:
    """The names of a path, those of a dotted key of a campaign one by one; an item of a list stands for the list."""
    return [name for part in path if isinstance(part, str) for name in part.split(".")]


def _name_of(path: KeyPath) -> str:
    """The name that the user gave to a variable or parameter; empty for other values, and for a reference."""
    parts = _parts(path)
    if (parameter := _parameter(parts)) is not None:
        return parameter
    refers = "env" in parts and parts[parts.index("env") + 2 :][:1] == ["secret"]
    # All other names are those of wf itself.
    is_given = not {"env", "with"}.isdisjoint(parts[:-1]) and "command" not in parts
    return parts[-1] if is_given and not refers else ""


def _parameter(parts: list[str]) -> str | None:
    """The parameter of the pipeline whose value stands here: `params.NAME`, or `value` of its long form."""
    short = parts[:-1] if parts[-1:] == ["value"] else parts
    return short[-1] if short[-2:-1] == ["params"] else None


def _of_words(root: Node, path: KeyPath, words: Sequence[object], allowed: Collection[str]) -> Iterator[Problem]:
    for index, word in enumerate(words):
        if not isinstance(word, str):
            continue
        before = words[index - 1] if index else None
        pairs = [(found["name"] or found["option"], found["value"]) for found in _INSIDE.finditer(word)]
        if isinstance(before, str) and _OPTION.fullmatch(before) and not word.startswith("-"):
            pairs.append((before, word))
        for option, value in pairs:
            name = option.lstrip("-")
            if not is_secret_name(name) or {name, option} & set(allowed):
                continue
            if is_literal(value):
                yield _in_clear(root, (*path, index), f"`{option}` may be a secret in plain text", _shell_hint(name))
                break
            if option.startswith("-") and _REFERENCE.match(value):
                text = f"`{option}` has a secret as an argument, which every process list of its node shows"
                hint = "let the program read it from the environment or from a file"
                yield problem_at(root, (*path, index), text, hint)._replace(level="warning")
                break


def _in_clear(root: Node, path: KeyPath, text: str, hint: str) -> Problem:
    """The excerpt leaves the value out by its place: it may stand on another line than the name that tells."""
    return problem_at(root, path, text, hint)._replace(is_secret=True)


def _hint(name: str) -> str:
    return _HINT.format(name=name) + _NOT_ONE.format(name=name)


def _shell_hint(name: str) -> str:
    variable = re.sub(r"\W", "_", name).upper()
    return _HINT.format(name=variable) + f", and let the program read {variable}" + _NOT_ONE.format(name=name)
