"""Shell completion of the values of `--via` and `--example`, and of the names of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_engine(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Engines and engine presets that begin like this."""
    from workflow.spec.engine_presets import known_engines

    return [name for name in known_engines() if name.startswith(begun)]


def complete_component(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Components that begin like this."""
    from workflow.spec.component_files import known_components

    return [name for name in known_components() if name.startswith(begun)]


def complete_site(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Sites that begin like this; where none does, files."""
    from click.shell_completion import CompletionItem

    from workflow.spec.config_dirs import known_configs

    found = [CompletionItem(name) for name in known_configs("sites") if name.startswith(begun)]
    return found or [CompletionItem(begun, type="file")]


def complete_example(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Examples that begin like this."""
    from workflow.spec.shipped import known_examples

    return [name for name in known_examples() if name.startswith(begun)]
