"""What the studies of examples/campaigns measured, as pages and pictures: no figure of theirs is typed by hand.

    python tools/studies.py async-io campaigns/async-io    after `wf campaign run` and `wf campaign report`
    python tools/studies.py adios-at-scale/appending campaigns/adios-appending    of a study of several campaigns
    python tools/studies.py --check                        exit 1 when a page or picture is not made of its results
    python tools/studies.py --rewrite                      all pages and the pictures that are there, from results.json

The first copies report.json to examples/campaigns/NAME/results.json and writes results.md beside it, and the
pictures into docs/pictures, each with its data as CSV. Pictures that no page shows may be removed, both files.
"""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path

from workflow.campaign.results.campaign_tables import comparison_table, method_text, metric_table
from workflow.campaign.results.picture_canvas import ResultsPicture
from workflow.campaign.results.results_model import CampaignResults, with_labels
from workflow.campaign.results.results_pictures import make_pictures
from workflow.formatting import NO_BREAK, in_one_line, plural
from workflow.report.show.text_table import Table

ROOT = Path(__file__).resolve().parent.parent
STUDIES = ROOT / "examples" / "campaigns"
PICTURES = ROOT / "docs" / "pictures"


def main(arguments: list[str]) -> None:
    """Write one study's pages, or check all."""
    studies = [path.parent for path in sorted(STUDIES.glob("**/results.json"))]
    if arguments == ["--check"]:
        stale = [file for study in studies for file in stale_files(study)]
        if stale:
            sys.exit(f"not made of results.json: {', '.join(stale)}\n  run tools/studies.py --rewrite")
        return
    if arguments == ["--rewrite"]:
        for study in studies:
            write(study, kept_pictures(study))
        return
    if len(arguments) != 2:
        sys.exit(str(__doc__))
    study = STUDIES / arguments[0]
    (study / "results.json").write_text((Path(arguments[1]) / "report.json").read_text())
    write(study, make_pictures(read(study)))


def read(study: Path) -> CampaignResults:
    """The committed results of a study."""
    return CampaignResults.model_validate_json((study / "results.json").read_bytes())


def write(study: Path, pictures: list[ResultsPicture]) -> None:
    """The page and these pictures of a study's results."""
    (study / "results.md").write_text(to_page(study.name, read(study)))
    for picture in pictures:
        file = picture_file(study, picture.name)
        file.write_bytes(picture.svg)
        file.with_suffix(".csv").write_bytes(picture.csv())


def is_current(study: Path) -> bool:
    """Whether the page is what its results make."""
    page = study / "results.md"
    return page.is_file() and page.read_text() == to_page(study.name, read(study))


def stale_files(study: Path) -> list[str]:
    """What is not as its results make it: the page, and the data of the pictures. Versions of matplotlib draw SVGs
    differently."""
    found = [] if is_current(study) else [study / "results.md"]
    for picture in kept_pictures(study):
        data = picture_file(study, picture.name).with_suffix(".csv")
        if not data.is_file() or data.read_bytes() != picture.csv():
            found.append(data)
    return [str(path.relative_to(ROOT)) for path in found]


def kept_pictures(study: Path) -> list[ResultsPicture]:
    """The pictures of a study that are in docs/pictures; of a metric or stage that has none there nothing is drawn."""
    results = read(study)

    def has(pattern: str) -> bool:
        file = picture_file(study, pattern)
        return any(file.parent.glob(file.name))

    kept = results.model_copy(
        update={
            "metrics": [metric for metric in results.metrics if has(f"{metric.name}-*")],
            "operations": [each for each in results.operations if has(f"operations-{each.stage}")],
            "comparisons": [each for each in results.comparisons if has(f"{each.metric}-*") or has("comparisons")],
        }
    )
    return [picture for picture in make_pictures(kept) if has(picture.name)]


def picture_file(study: Path, name: str) -> Path:
    """The SVG of a study's picture."""
    return PICTURES / f"{'-'.join(study.relative_to(STUDIES).parts)}-{name}.svg"


def to_page(name: str, results: CampaignResults) -> str:
    """The tables of `wf campaign report`, in Markdown."""
    results = with_labels(results)
    versions = ", ".join(f"{package} {version}" for package, version in results.versions.items())
    count = sum(trial.succeeded for trial in results.trials)
    lines = [f"# {name}: what was measured", "<!-- written by tools/studies.py; do not edit -->", ""]
    time = f"{_utc(results.started)} to {_utc(results.ended)} UTC"
    lines.append(f"{plural(count, 'repetition')} from {time}; {versions}.\n")
    lines.append(f"The machine: {_machine(results)}.\n")
    for metric in results.metrics:
        threshold = f"{metric.threshold * 100:g}{NO_BREAK}%"
        lines.append(f"## {metric.title}\n\n`{metric.of}`, {metric.better} is better, threshold {threshold}.\n")
        lines += to_markdown(metric_table(results, metric))
    if results.comparisons:
        method = method_text(results.comparisons)
        lines.append(f"## comparisons\n\n{method[0].upper()}{method[1:]}.\n")
        lines += to_markdown(comparison_table(results))
    lines += [f"- {note}" for note in results.notes]
    return "\n".join(lines).rstrip() + "\n"


def _machine(results: CampaignResults) -> str:
    """Its cores, and how busy it was: without that no time means much."""
    cores = plural(results.cores, "core") if results.cores else "cores not recorded"
    load = "load not recorded" if results.load is None else f"load average {results.load:.1f}"
    return f"{cores}; {load}, median over the starts of the repetitions"


def _utc(unix_s: float | None) -> str:
    """Not the local time: the page is the same everywhere."""
    return datetime.fromtimestamp(unix_s or 0.0, tz=timezone.utc).strftime("%Y-%m-%d %H:%M")


def to_markdown(table: Table) -> list[str]:
    """A table, its numbers to the right, each in one line."""
    is_number = [heading.content == "number" for heading in table.head]
    marks = ["---:" if right else "---" for right in is_number]
    cells = [
        [in_one_line(cell) if right else cell for cell, right in zip(row, is_number, strict=True)] for row in table.rows
    ]
    rows = [[heading.title for heading in table.head], marks, *cells]
    return [*("| " + " | ".join(row) + " |" for row in rows), ""]


if __name__ == "__main__":
    main(sys.argv[1:])
