"""Where the value of a secret variable is read when a stage starts: `file:PATH` or `env:NAME`, as the plan has it.

Only the standard library is imported: the wrapper of each rank reads secrets, too.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

FILE, VARIABLE = "file:", "env:"


class SecretMissingError(OSError):
    """A secret that cannot be read; `strerror` says which one and what to do, and never holds a value."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.ENOENT, text)
        self.text = text

    def __str__(self) -> str:
        """What is wrong, without the number."""
        return self.text


def read_secrets(sources: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variable → value. Raises SecretMissingError."""
    return {name: _read(name, source, environ) for name, source in sources.items()}


def _read(name: str, source: str, environ: Mapping[str, str]) -> str:
    if source.startswith(VARIABLE):
        variable = source.removeprefix(VARIABLE)
        if (value := environ.get(variable)) is None:
            raise SecretMissingError(f"{name}: the variable {variable} is not set: export it before `wf run`")
        return value
    path = Path(source.removeprefix(FILE))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SecretMissingError(f"{name}: {path} is not UTF-8 text") from None
    except OSError as error:
        raise SecretMissingError(f"{name}: cannot read {path}: {error.strerror}") from None
    # An editor ends the last line; it is no part of the secret.
    value = text.removesuffix("\n").removesuffix("\r")
    if "\0" in value:
        raise SecretMissingError(f"{name}: {path} holds a NUL byte, which no environment variable can")
    return value
