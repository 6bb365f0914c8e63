"""`wf completion`; the values that the shell then offers: engines, sites, profiles, keys, stages, runs.

A file that is wrong, or none, completes to nothing: the shell must not show an error for a key press.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from workflow.spec.yaml_tree.node import KeyPath, Node

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completes(names: Callable[[click.Context, str], Iterable[str]]) -> Complete:
    """A function of click's, from one that returns all that there is."""

    @wraps(names)
    def complete(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from workflow.errors import WfError

        try:
            return [CompletionItem(name) for name in names(context, begun) if name.startswith(begun)]
        except (WfError, OSError):
            return []

    return complete


@completes
def complete_engine(_context: click.Context, _begun: str) -> Iterable[str]:
    """Engines and engine presets."""
    from workflow.spec.engine_presets import known_engines

    return known_engines()


@completes
def complete_component(_context: click.Context, _begun: str) -> Iterable[str]:
    """Components."""
    from workflow.spec.component_files import known_components

    return known_components()


@completes
def complete_example(_context: click.Context, _begun: str) -> Iterable[str]:
    """Examples."""
    from workflow.spec.shipped import known_examples

    return known_examples()


def complete_site(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Sites; files where none begins so."""
    from click.shell_completion import CompletionItem

    return _site_names(context, parameter, begun) or [CompletionItem(begun, type="file")]


@completes
def _site_names(_context: click.Context, _begun: str) -> Iterable[str]:
    from workflow.spec.shipped import known_configs

    return known_configs("sites")


@completes
def complete_profile(context: click.Context, _begun: str) -> Iterable[str]:
    """Profiles of the pipeline file."""
    return _entries(context, "profiles")


@completes
def complete_stream(context: click.Context, _begun: str) -> Iterable[str]:
    """Streams of the pipeline file."""
    return _entries(context, "streams")


@completes
def complete_setting(context: click.Context, begun: str) -> Iterable[str]:
    """The keys that can follow what was typed: `stages.sim.` for those with keys inside, `stages.sim.ranks=`."""
    return _keys(context, begun, end="=", star=True)


@completes
def complete_key(context: click.Context, begun: str) -> Iterable[str]:
    """As `complete_setting`, for `--explain`."""
    return _keys(context, begun, end="", star=False)


@completes
def complete_stage(context: click.Context, _begun: str) -> Iterable[str]:
    """Stages of the run that was named, or of the newest."""
    from workflow.run.records.find_runs import find_run

    stages = find_run(context.params.get("run")) / "stages"
    return sorted(path.name for path in stages.iterdir() if path.is_dir())


def complete_run(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Runs below `runs/`, the newest first; files where none begins so."""
    from click.shell_completion import CompletionItem

    return _run_names(context, parameter, begun) or [CompletionItem(begun, type="file")]


@completes
def _run_names(_context: click.Context, _begun: str) -> Iterable[str]:
    from workflow.run.records.find_runs import known_runs
    from workflow.run.records.run_directory import LATEST

    known = known_runs()
    return [*([LATEST] if known else []), *reversed(known)]


def complete_campaign(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Campaigns below `campaigns/`; files where none begins so."""
    from click.shell_completion import CompletionItem

    return _campaign_names(context, parameter, begun) or [CompletionItem(begun, type="file")]


@completes
def _campaign_names(_context: click.Context, _begun: str) -> Iterable[str]:
    from workflow.campaign.campaign_directory import known_campaigns

    return reversed(known_campaigns())


def _pipeline(context: click.Context) -> Node | None:
    """The tree of the pipeline file that was typed, or else of the only one here."""
    from workflow.spec.yaml_tree.parse import read_yaml

    # While the value of an option is typed, click leaves the arguments unread.
    given = context.params.get("pipeline") or next(iter(context.args), None)
    here = [Path(given)] if given else list(Path().glob("*.yaml"))
    return read_yaml(here[0])[0] if len(here) == 1 else None


def _entries(context: click.Context, section: str) -> Iterable[str]:
    root = _pipeline(context)
    entries = root.child(section) if root is not None else None
    return entries.mapping() if entries is not None else ()


def _keys(context: click.Context, begun: str, end: str, star: bool) -> Iterable[str]:
    """Each key that may follow the last dot: with a dot where there are keys inside, else with `end`."""
    from workflow.spec.yaml_tree.node import key_path

    root = _pipeline(context)
    if root is None:
        return []
    before = begun.rpartition(".")[0]
    path = key_path(root, before)
    inside = _keys_at(root, path)
    if star and path in (("stages",), ("streams",)):
        inside["*"] = True
    return [f"{before}.{key}".lstrip(".") + ("." if more else end) for key, more in inside.items()]


def _keys_at(root: Node, path: KeyPath) -> dict[str, bool]:
    """The keys written or allowed at a place of the file, and whether each has keys inside."""
    from workflow.spec.component_files import load_component
    from workflow.spec.models.pipeline import PipelineSpec
    from workflow.spec.validation_messages import keys_of, model_at
    from workflow.spec.yaml_tree.node import nearest

    found, node = nearest(root, path)
    written = {str(key): bool(child.mapping()) for key, child in node.children.items()} if found == path else {}
    keys: dict[str, bool] = {}
    if (model := model_at(PipelineSpec, path)) is not None:
        keys = {key: _has_keys(PipelineSpec, (*path, key)) for key in keys_of(model) if path or key != "profiles"}
    if path[-1:] == ("with",) and (component := nearest(root, (*path[:-1], "component"))[1].value):
        keys = dict.fromkeys(load_component(str(component)).parameters, False)
    return keys | {key: more for key, more in written.items() if path or key != "profiles"}


def _has_keys(model: Any, path: KeyPath) -> bool:
    """Whether a mapping is expected at `path`."""
    from workflow.spec.validation_messages import model_at

    return model_at(model, path) is not None or model_at(model, (*path, "NAME")) is not None


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for shell completion.

    Use it as `eval "$(wf completion bash)"`.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    text = kind(context.find_root().command, {}, "wf", "_WF_COMPLETE").source()
    # No space follows a key that goes on (`stages.`, `ranks=`).
    added = "COMPREPLY+=($value)"
    click.echo(text.replace(added, f"{added}\n            [[ $value == *[.=] ]] && compopt -o nospace"))
