"""What a balance has promised of a run that uses its overlay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import ValidationError

from workflow.balance.balance_model import BALANCE_FILE, OVERLAY_FILE, Balance
from workflow.forecast.forecast_model import Promise


def read_promise(options: Sequence[str]) -> Promise | None:
    """The time per step that was promised of a run; None where its last overlay is none of `wf balance`, or where an
    option sets a key that was chosen.

    `options`: what was laid over the pipeline, as options of `wf run`, each followed by its value.
    """
    found = balance_of(options)
    return None if found is None else promise_of(found)


def promise_of(balance: Balance) -> Promise:
    """What it promises of its choice."""
    took = balance.chosen.seconds
    return Promise(stage=balance.counted, median=took.median, low=took.low, high=took.high, paced=balance.paced)


def balance_of(options: Sequence[str]) -> Balance | None:
    """The balance whose choice a run with these options has; None as for `read_promise`."""
    given = list(zip(options[::2], options[1::2], strict=False))
    overlay = next((Path(value) for option, value in reversed(given) if option == "--profile"), Path())
    if overlay.name != OVERLAY_FILE:
        return None
    try:
        found = Balance.model_validate_json((overlay.parent / BALANCE_FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    if not found.chosen.probes or "--via" in options or is_set(found.chosen.settings, set_keys(options)):
        return None
    return found


def set_keys(options: Sequence[str]) -> list[str]:
    """The keys, which may have a `*`, of `--set` among such options."""
    given = zip(options[::2], options[1::2], strict=False)
    return [value.partition("=")[0] for option, value in given if option == "--set"]


def is_set(keys: Iterable[str], given: Collection[str]) -> bool:
    """Whether one of the keys is among those that were given, or part of one."""
    return any(fnmatchcase(key, each) or fnmatchcase(key, f"{each}.*") for key in keys for each in given)
