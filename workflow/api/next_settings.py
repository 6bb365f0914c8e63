"""The settings of the next part of a run that has an overlay of `wf balance`: other ones, where this part took longer
than was promised, and another candidate is expected to be faster by now.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from workflow.balance.balance_model import Balance
    from workflow.plan.plan_model import Plan
    from workflow.run.state.run_state import RunState

# So many steps of a part tell how long one takes: the first ones do not count.
LEAST_STEPS = 10
KEPT = "the next part has the settings of this one"


class NextSettings(NamedTuple):
    """`overlay`: it takes the place of the one of `wf balance`; None: that one stays. `text`: what is to be said."""

    overlay: Path | None = None
    text: str = ""


def find_next_settings(run_dir: Path, before: Plan, state: RunState) -> NextSettings:
    """The settings of the next part of a run, by what this one took. A new overlay is written into its directory.

    The balance is only read: other runs use it, too. Where somebody has made another one meanwhile, that one counts.

    Args:
        run_dir: the part that has ended.
        before: its plan.
        state: how it has ended. A part that lost nodes, started stages again, was steered, or has another pipeline than
            the part before tells nothing of its settings.

    Raises OSError, SpecError where the overlay cannot be written.
    """
    from workflow.report.read.run_records import read_forecast

    forecast = read_forecast(run_dir, before)
    changed = before.part is not None and before.part.changed
    if forecast is None or forecast.promised is None or state.lost or state.attempts or state.steered or changed:
        return NextSettings()
    from workflow.balance.next_choice import changes_text, next_choice, took_text, with_choice
    from workflow.balance.promise import balance_of, promise_of, set_keys
    from workflow.provenance.provenance_model import read_provenance

    provenance = read_provenance(run_dir)
    options = [] if provenance is None else provenance.options
    if (balance := balance_of(options)) is None:
        return NextSettings(text=f"what `wf balance` found cannot be read any more: {KEPT}")
    if promise_of(balance) != forecast.promised or (took_s := _took_s(run_dir, state, balance)) is None:
        return NextSettings()
    if (choice := next_choice(balance, took_s, set_keys(options))) is None:
        return NextSettings()
    took = took_text(before.part_number, took_s, balance.chosen.seconds)
    text = f"part {before.part_number + 1} uses {changes_text(balance, choice)}: {took}"
    return NextSettings(_write(run_dir, before, with_choice(balance, took_s, choice), text), text)


def _took_s(run_dir: Path, state: RunState, balance: Balance) -> float | None:
    """Seconds per step of a part, measured as what was promised; None: it had too few steps to tell."""
    from workflow.report.build.measured_forecast import step_time
    from workflow.report.read.run_records import read_records

    records = read_records(run_dir, state)
    if balance.counted not in records.metrics:
        return None
    took = step_time(records, balance.counted)
    if took.steps < LEAST_STEPS:
        return None
    return took.pace_s if balance.paced else took.span_s


def _write(run_dir: Path, before: Plan, balance: Balance, text: str) -> Path:
    """Write the overlay, and beside it what it promises."""
    from workflow.balance.balance_model import BALANCE_FILE, OVERLAY_FILE
    from workflow.balance.show_balance import settings_yaml
    from workflow.replace_file import replace_file
    from workflow.run.chain import NEXT_SETTINGS
    from workflow.spec.yaml_tree.node import key_path
    from workflow.spec.yaml_tree.parse import read_yaml

    root, _ = read_yaml(Path(before.pipeline_file), before.pipeline_file)

    def path_of(key: str) -> Sequence[str]:
        return [str(part) for part in key_path(root, key)]

    folder = run_dir / NEXT_SETTINGS
    folder.mkdir(exist_ok=True)
    replace_file(folder / BALANCE_FILE, balance.to_json().encode())
    lines = [f"# Written at the end of {run_dir.name}: {text}", *settings_yaml(balance.chosen.settings, path_of)]
    replace_file(folder / OVERLAY_FILE, ("\n".join(lines) + "\n").encode())
    return folder / OVERLAY_FILE
