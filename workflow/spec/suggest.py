"""Names in messages: did-you-mean, lists of what there is, and long texts cut short. The same in all messages."""

from __future__ import annotations

from collections.abc import Iterable

# A word that is no part of wf any more → what to use in its place.
_USE_IGNORE = "use `ignore`, and a few members more in place of those that fail"
_NO_PAGE = "`--json` prints the whole comparison; `wf campaign report NAME-gate` writes a page of a gate"
_ALL_METRICS = "all metrics that both campaign files name are compared: change `metrics:` there, which needs no new run"
_MEASURE = "run `examples/calibration/transports.yaml`, or your own pipeline, then `wf calibrate RUN`"
REMOVED = {
    "via: ssc": "use `via: shm` on a node and `via: sst` between nodes",
    "redraw": _USE_IGNORE,
    "redraws": _USE_IGNORE,
    "spool": "write `keep: true`, or `keep: {steps: 64}` for the newest steps",
    "attachable": "write `keep: {steps: 2, where: /dev/shm}`",
    "wf balance": "write `search:` in a campaign file",
    "wf completion": 'click has it: `eval "$(_WF_COMPLETE=bash_source wf)"`',
    "wf graph --direction": "a drawing goes downwards; the page of a report has one to the right, too",
    "wf clean --state": "name the runs to remove: `wf runs` lists them with their states",
    "wf plan --portable": "compare two plans of one machine: `wf plan --json`",
    "wf calibrate --from": "name the run: `wf calibrate RUN`",
    "wf calibrate --show": "`wf calibrate` without a run shows what is known",
    **{f"wf calibrate --{option}": _MEASURE for option in ("only", "quick", "data", "dir", "despite-load", "new")},
    **{f"wf campaign {verb} --metric": _ALL_METRICS for verb in ("compare", "gate")},
    **{f"wf campaign {verb} {option}": _NO_PAGE for verb in ("compare", "gate") for option in ("-o", "--output")},
}


def shortened(text: str, limit: int = 60) -> str:
    """A text of the user for a message: cut to `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` that was probably meant by `name`; None when none is near.

    `cutoff`: from 0, anything, to 1, the same. Names that are all alike need a higher one.
    """
    from difflib import get_close_matches  # only mistakes pay for the import

    by_lower = {word.lower(): word for word in known}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean `x`?`` for the nearest of `known`, or the empty string when none is near."""
    near = nearest_name(name, known)
    return "" if near is None else f"did you mean `{near}`?"


def listing(names: Iterable[str], limit: int = 12) -> str:
    """`a, b, c`: what there is to choose from, cut after `limit`; `none` when there is nothing."""
    words = [shortened(name) for name in sorted(names)]
    rest = f", … ({len(words) - limit} more)" if len(words) > limit else ""
    return (", ".join(words[:limit]) or "none") + rest
