"""A campaign file → a checked campaign, or all that is wrong with it. The pipeline is read only to explain that."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workflow.campaign.file.campaign_overlay import NO_OPTIONS, CampaignOptions, lay_options, lay_scale, scale_names
from workflow.campaign.file.campaign_spec import PROFILE, SITE, CampaignSpec
from workflow.errors import Problem, SpecError, WfError
from workflow.report_figures import WITH_BASELINE, FigureName, fields_of, to_figure_name
from workflow.spec.load import load_pipeline
from workflow.spec.overlay import Setting, with_value
from workflow.spec.plain_secrets import not_secrets, secret_problems
from workflow.spec.shipped import is_path
from workflow.spec.suggest import did_you_mean, listing, nearest_name
from workflow.spec.validation_messages import problem_at, shown, validated
from workflow.spec.yaml_tree.node import KeyPath, Node
from workflow.spec.yaml_tree.parse import read_yaml


@dataclass(frozen=True)
class Campaign:
    """A campaign file that is right in itself. With its pipeline, all that the trials are made from."""

    spec: CampaignSpec
    path: Path
    """Absolute."""
    text: bytes = field(repr=False)
    """The file as given."""
    root: Node = field(repr=False)
    """The values of the file, its scale and the options, with their places."""
    options: CampaignOptions = NO_OPTIONS
    python: str = ""
    """The Python that executes components, absolute; empty: that of wf."""

    @property
    def pipeline(self) -> str:
        """The pipeline file, as a path for messages."""
        return _pipeline(self.spec, self.root)

    @property
    def site(self) -> str | None:
        """The machine; a path is relative to the campaign file."""
        site = self.spec.site
        return str(self.path.parent / site) if site is not None and is_path(site) else site


def _pipeline(spec: CampaignSpec, root: Node) -> str:
    return os.path.normpath(Path(root.place.source).parent / spec.pipeline)


def load_campaign(path: str | os.PathLike[str], options: CampaignOptions = NO_OPTIONS) -> Campaign:
    """Reads and checks a campaign file with its scale and the options.

    Raises:
        SpecError: all that is wrong, in the file's order, scales that were not chosen included.
    """
    file = Path(path)
    root, text = read_yaml(file, os.fspath(path), "docs/how-to/first-campaign.md shows how to write one")
    overlaid = lay_options(root, options)
    spec, problems = _checked(overlaid.root)
    problems = [*overlaid.problems, *problems, *_other_scales(root, spec.scale if spec is not None else None)]
    roots = (root, overlaid.root)
    secrets = [each for its in roots for each in secret_problems(its)]
    if secrets:  # the pipeline is read only where its list may matter
        listed = _not_secrets(file.parent, overlaid.root)
        secrets = [each for its in roots for each in secret_problems(its, listed)]
    # All others may quote one: a value that is given twice, those that a comparison may name.
    problems = [each for each in secrets if each.is_secret] or [*problems, *secrets]
    # Warnings are those of its pipelines, which say them.
    if spec is None or any(each.level == "error" for each in problems):
        mistaken = _pipeline_given(root)
        raise SpecError(list(dict.fromkeys(problems)) if mistaken is None else [mistaken])
    return Campaign(spec, file.absolute(), text, _with_best(overlaid.root), options)


def _not_secrets(folder: Path, root: Node) -> set[str]:
    """What the pipeline says to be no secret; that it cannot be read is said when it is loaded."""
    pipeline = root.child("pipeline")
    if pipeline is None or not isinstance(pipeline.value, str):
        return set()
    path = folder / pipeline.value
    try:
        return not_secrets(read_yaml(path, str(path))[0])
    except WfError:
        return set()


def _checked(root: Node) -> tuple[CampaignSpec | None, list[Problem]]:
    root = _with_best(root)
    spec, problems = validated(CampaignSpec, root)
    if spec is not None:
        problems += [*_figures(spec, root), *_comparisons(spec, root), *_settings(spec, root), *_search(spec, root)]
        if unvaried := dict(_unvaried(spec, root)):
            misspelled = _misspelled(spec, root)
            problems += misspelled.values()
            # What names a misspelled key as it should be is right. Keys of one stage are much alike.
            problems += [each for each, key in unvaried.items() if nearest_name(key, misspelled, cutoff=0.9) is None]
    return spec, problems


def _with_best(root: Node) -> Node:
    """What decides a search is a metric like others: one is added where no metric is of its figure."""
    search = root.child("search")
    best = search.child("best") if search is not None else None
    if search is None or best is None or not isinstance(best.value, str):
        return root
    if root.child("metrics") is None:  # the default stays
        root = with_value(root, ("metrics", "time"), Node("run.wall_s", best.place))
    given, better = root.children["metrics"].mapping(), search.child("better")
    figures = {name: each.child("of") or each for name, each in given.items()}
    free = "best" if "best" not in figures else "best-of-search"
    name = next((name for name, each in figures.items() if each.value == best.value), free)
    if better is not None and better.value in ("less", "more"):
        root = with_value(root, ("metrics", name, "better"), better)
    elif name in figures:
        return root
    return with_value(root, ("metrics", name, "of"), figures.get(name, best))


def metric_path(root: Node, name: str) -> KeyPath:
    """Where the figure of a metric is written."""
    written = root.children["metrics"].children[name]
    of, search = written.child("of"), root.child("search")
    if of is None:
        return "metrics", name
    return ("search", "best") if search is not None and of is search.child("best") else ("metrics", name, "of")


def _search(spec: CampaignSpec, root: Node) -> Iterator[Problem]:
    """Mistakes in a search that need no trials to be seen."""
    if spec.search is None:
        return
    for index, key in enumerate(spec.search.over):
        if key not in spec.matrix:
            hint = did_you_mean(key, spec.matrix) or f"keys of the matrix: {listing(spec.matrix)}"
            yield problem_at(root, ("search", "over", index), f"`{key}` is not in the matrix", hint)
        elif key in spec.search.over[:index]:
            yield problem_at(root, ("search", "over", index), f"`{key}` is given twice", "remove one of them")
    if spec.order.by == "file":
        message = "a search runs its trials in blocks, each trial once in a block"
        yield problem_at(root, ("order", "by"), message, "write `by: blocks`")
    for other, why in (("comparisons", "compares its trials itself"), ("baseline", "has no trials without I/O")):
        if root.child(other) is not None and getattr(spec, other):
            message = f"a search {why}"
            yield problem_at(root, (other,), message, f"remove `{other}`, or `search`", at_key=True)


def _other_scales(root: Node, chosen: str | None) -> list[Problem]:
    """What each scale that was not chosen would break: a typo in it is reported before the scale is used."""
    names = [name for name in scale_names(root) if name != chosen]
    before = set(_checked(root)[1]) if names else set()
    found = []
    for name in names:
        alone = lay_scale(root, Node(name, root.place))
        after = [*alone.problems, *_checked(alone.root)[1]]
        found += [
            problem._replace(message=f"{problem.message} (with scale {name})")
            for problem in after
            if problem not in before
        ]
    return found


def _pipeline_given(root: Node) -> Problem | None:
    """A pipeline file where a campaign file is expected: one message in place of many."""
    if root.child("campaign") is not None or root.child("stages") is None:
        return None
    hint = "`wf run` runs a pipeline; a campaign file begins with `campaign: NAME` and `pipeline: FILE`"
    return problem_at(root, ("stages",), "this is a pipeline file, not a campaign file", hint, at_key=True)


def _figures(spec: CampaignSpec, root: Node) -> Iterator[Problem]:
    """Metrics of figures that no report has."""
    for name, metric in spec.metrics.items():
        path = metric_path(root, name) if root.child("metrics") is not None else ()
        figure = to_figure_name(metric.of)
        if figure is None:
            hint = "for example `run.wall_s`, `stages.NAME.compute_s` or `streams.NAME.throughput`"
            yield problem_at(root, path, f"expected a figure of the report, got {shown(metric.of)}", hint)
        elif figure.is_own:
            if metric.better is None:
                less = "better: less" if path[0] == "search" else "{of: …, better: less}"
                hint = f"write `{less}` or `better: more`"
                yield problem_at(root, path, f"it is not known whether less or more {figure.field} is better", hint)
        elif metric.unit is not None:
            hint = f"leave `unit` out: {metric.of} is in {figure.figure.unit}" if _is_known(figure) else ""
            yield problem_at(
                root, ("metrics", name, "unit"), "only figures that a program reports itself take a unit", hint
            )
        elif figure.field not in (known := fields_of(figure.section)):
            hint = did_you_mean(figure.field, known) or f"known for {figure.section}: {listing(known, 20)}"
            yield problem_at(root, path, f"there is no figure `{figure.field}` of {figure.section}", hint)
        elif needs_baseline(figure) and spec.baseline is None:
            hint = "add `baseline: {set: {…}}`, which turns the output off"
            yield problem_at(root, path, f"{figure.field} needs the time without I/O", hint)


def _is_known(figure: FigureName) -> bool:
    return figure.field in fields_of(figure.section)


def needs_baseline(figure: FigureName) -> bool:
    """Whether it is computed with the time of a baseline."""
    return figure.section == "stages" and figure.field in WITH_BASELINE


def varied_keys(spec: CampaignSpec) -> list[str]:
    """The keys in which trials may differ, in the file's order."""
    included = [key for point in spec.include for key in point]
    return list(dict.fromkeys([*spec.matrix, *spec.zip_, *included]))


def _comparisons(spec: CampaignSpec, root: Node) -> Iterator[Problem]:
    for index, request in enumerate(spec.comparisons):
        values = values_of(spec, request.vary)
        if request.against is not None and values and not has_value(values, request.against):
            hint = f"values of {request.vary}: {', '.join(shown(value) for value in values)}"
            message = f"no trial has {request.vary} = {shown(request.against)}"
            yield problem_at(root, ("comparisons", index, "against"), message, hint)
        for number, name in enumerate(request.metrics or []):
            if name not in spec.metrics:
                hint = did_you_mean(name, spec.metrics) or f"metrics: {listing(spec.metrics)}"
                yield problem_at(root, ("comparisons", index, "metrics", number), f"there is no metric `{name}`", hint)


def values_of(spec: CampaignSpec, key: str) -> list[object]:
    """The values that a key takes, in the file's order."""
    given = [*spec.matrix.get(key, []), *spec.zip_.get(key, []), *(p[key] for p in spec.include if key in p)]
    again = set(_given_before(given))
    return [value for index, value in enumerate(given) if index not in again]


def _given_before(values: Sequence[object]) -> list[int]:
    """The places of values that stand further ahead, too."""
    seen: set[str] = set()
    again = []
    for index, value in enumerate(values):
        text = _comparable(value)
        if text in seen:
            again.append(index)
        seen.add(text)
    return again


def _comparable(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def same(one: object, other: object) -> bool:
    """Whether two values of YAML are the same: `1` and `true` are not."""
    return _comparable(one) == _comparable(other)


def has_value(values: Sequence[object], value: object) -> bool:
    """Whether a value is one of several."""
    return any(same(each, value) for each in values)


def _settings(spec: CampaignSpec, root: Node) -> Iterator[Problem]:
    """Mistakes in what varies, that need no pipeline to be seen."""
    for section, keys in (("matrix", spec.matrix), ("zip", spec.zip_)):
        if root.child(section) is not None and not keys:
            hint = "for example `stages.NAME.ranks: [1, 2, 4]`, or remove it"
            yield problem_at(root, (section,), "has no keys", hint, at_key=True)
    for key in spec.zip_:
        if key in spec.matrix:
            yield problem_at(root, ("zip", key), f"`{key}` is in the matrix, too", "keep one of them", at_key=True)
    lengths = {key: len(values) for key, values in spec.zip_.items()}
    first = next(iter(lengths.items()), None)
    for key, length in lengths.items():
        if first is not None and length != first[1]:
            message = f"{length} values, but `{first[0]}` has {first[1]}: `zip` takes the values in pairs"
            yield problem_at(root, ("zip", key), message, "give the same number of values, or use `matrix`")
    for key, values in spec.matrix.items():
        for index in _given_before(values):
            message = f"{shown(values[index])} is given twice"
            yield problem_at(root, ("matrix", key, index), message, "remove one of them")
    rows = [list(row) for row in zip(*spec.zip_.values(), strict=False)]
    for index in _given_before(rows):
        message = f"{', '.join(map(shown, rows[index]))} are together twice"
        yield problem_at(root, ("zip", next(iter(spec.zip_)), index), message, "remove one of them")


def _unvaried(spec: CampaignSpec, root: Node) -> Iterator[tuple[Problem, str]]:
    """Where a key is named that does not vary, and the key."""
    known = varied_keys(spec)
    named: list[tuple[KeyPath, str, bool]] = [
        *((("comparisons", index, "vary"), each.vary, False) for index, each in enumerate(spec.comparisons)),
        *((("labels", key), key, True) for key in spec.labels),
        *((("exclude", index, key), key, True) for index, point in enumerate(spec.exclude) for key in point),
    ]
    for path, key, at_key in named:
        if key not in known:
            hint = did_you_mean(key, known) or f"keys that vary here: {listing(known)}"
            message = f"`{key}` does not vary in this campaign"
            yield problem_at(root, path, message, hint, at_key=at_key), key


def _misspelled(spec: CampaignSpec, root: Node) -> dict[str, Problem]:
    """Keys that vary but that the pipeline does not have: what names them as they should be is not the mistake."""
    if PROFILE in varied_keys(spec):
        return {}  # a profile may have them
    always, matrix, zip_, include = (
        root.child(name) or Node({}, root.place) for name in ("set", "matrix", "zip", "include")
    )
    points = [
        *always.mapping().items(),
        *(item for point in include.children.values() for item in point.mapping().items()),
    ]
    for key, values in (*matrix.mapping().items(), *zip_.mapping().items()):
        points.append((key, values.children[0]._replace(key=values.key)))
    settings = [Setting(key, node) for key, node in points if not key.startswith(SITE)]
    try:
        load_pipeline(_pipeline(spec, root), profiles=spec.profiles, settings=settings)
    except SpecError as error:
        keys: dict[tuple[str, int, int] | None, str] = {each.value.key: each.key for each in settings}
        return {keys[each[:3]]: each for each in error.problems if each[:3] in keys}
    return {}
