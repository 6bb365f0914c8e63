"""The study data-reduction: each compressor by itself, and what equation 5 of the paper makes of it.

    python tools/data_reduction.py measure    memcpy, a step without a compressor, each compressor: single.json
    python tools/data_reduction.py compare    after `tools/studies.py data-reduction …`: predictions.md and its pictures
    python tools/data_reduction.py --check    exit 1 when predictions.md is not made of single.json and results.json

The equations are those of compression_break_even.py. Titan is the system of the paper's table 1.
"""

from __future__ import annotations

import ctypes
import json
import math
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

from tools.compression_break_even import (
    OutputPath,
    Reduction,
    break_even_ratio,
    break_even_threshold,
    output_s,
    reduced_output_s,
    relative_overhead,
)
from tools.studies import PICTURES, STUDIES, read, to_markdown
from workflow import run_pipeline
from workflow.campaign.results.picture_canvas import (
    BLACK,
    COLOURS,
    LOGARITHM,
    ResultsPicture,
    new_canvas,
    set_finding,
    set_legend,
    set_logarithmic,
)
from workflow.campaign.results.results_model import CampaignResults
from workflow.forecast.quartiles import Quartiles, quartiles
from workflow.formatting import rate, size
from workflow.plan.read_plan import read_plan
from workflow.report.show.text_table import Column, make_table, number_column, text_column

STUDY = STUDIES / "data-reduction"
MOVING = STUDIES.parent / "calibration/moving.yaml"
FIELDS = ("U", "V")
PLAIN = "none"
CLOSE = 0.2
"""A predicted Γ that is nearer to the measured one is called confirmed."""
KINDS = {"lossless": (COLOURS[0], "o"), "with loss": (COLOURS[5], "s")}
LOSSY = "zfp"
BETWEEN, LABELS_ABOVE = 0.05, 0.5
"""Share of the axis between labels, of curves and of marks; the room of the latter above, in axes."""
BESIDE, FAR = 1.5, 10.0
"""Room beside the marks, as a factor. A compressor that much slower than the others is beyond the axis."""
GIB = 2.0**30
TITAN = OutputPath(memcpy=6.0 * GIB, file_system=0.055 * GIB, preparation=1 / (4 * GIB))
"""Table 1 and section 3.1 of the paper."""

STEPS, WARM = 9, 2
"""Of each compressor by itself, and how many of them find memory that was used for something else."""
COPIED_BYTES, COPIES = 64_000_000, 14
ALONE = """
wf: 1
name: alone
stages:
  make:
    command: ["${{{{ wf.python }}}}", "{program}", write, "{file}", "{variable}", "{steps}"]
    writes: {{data: {{}}}}
    place: {{cores_per_rank: {cores}}}
    output: {{compression: {{"*": {compressor}}}}}
  take:
    command: ["${{{{ wf.python }}}}", "{program}", read]
    reads: {{data: {{}}}}
streams:
  data: {{from: make, to: take, via: bp5}}
"""


class CompressorRates(BaseModel):
    """An operator on given data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operator: str
    parameters: dict[str, str]
    data: str
    """What was compressed."""
    bytes: int
    ratio: float
    """Compressed ÷ uncompressed size."""
    compress: Quartiles
    """Uncompressed bytes per second into the buffer of ADIOS2."""
    decompress: Quartiles


class SingleCompressor(BaseModel):
    """One setting of the study on its fields, outside of the campaign."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: str
    fields: list[CompressorRates]

    @property
    def reduction(self) -> Reduction:
        """f_C and T_C of fields of equal size, one after the other."""
        ratio = sum(each.ratio for each in self.fields) / len(self.fields)
        return Reduction(ratio, len(self.fields) / sum(1 / each.compress.median for each in self.fields))


class SingleMeasurements(BaseModel):
    """single.json: all that a prediction is made of. Bytes, seconds, bytes per second."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memcpy: float
    step_bytes: int
    write_s: float
    """Of an uncompressed step of that size: one writer, the copy into the buffer of ADIOS2 included."""
    compressors: list[SingleCompressor]

    @property
    def path(self) -> OutputPath:
        """The terms of equation 5. What is written is first copied: the file system is what remains."""
        remaining_s = self.write_s - self.step_bytes / self.memcpy
        return OutputPath(memcpy=self.memcpy, file_system=self.step_bytes / remaining_s)


@dataclass(frozen=True)
class Prediction:
    """One compressor, predicted and measured."""

    name: str
    single: Reduction
    ratio: float
    """f_C in the campaign."""
    predicted: float
    """Γ."""
    measured: float
    low: float | None
    high: float | None
    off: str
    """The term that explains a difference of more than CLOSE; empty without one."""

    @property
    def difference(self) -> float:
        """Relative to the measurement."""
        return self.predicted / self.measured - 1


def measure() -> None:
    """Write single.json."""
    profiles = yaml.safe_load((STUDY / "pipeline.yaml").read_text())["profiles"]
    compressors = []
    with tempfile.TemporaryDirectory(prefix=".data-reduction-", dir=Path.cwd()) as name:
        folder = Path(name)
        # The state in the middle of the run stands for all that it writes.
        sets = [f"stages.simulation.with.{key}=20" for key in ("steps", "write_every")]
        run = run_pipeline(STUDY / "pipeline.yaml", profiles=[PLAIN], sets=sets, run_dir=folder / "simulation")
        file = folder / "simulation/streams/field.bp"
        step_bytes = (run.streams[0].bytes or 0) // (run.streams[0].steps or 1)
        sets = ["streams.data.via=bp5", f"stages.make.with.bytes={step_bytes}"]
        plain = run_pipeline(MOVING, sets=sets, run_dir=folder / "plain").streams[0].write_times
        if plain is None:
            sys.exit("the writer has recorded no step")
        for profile, overlay in profiles.items():
            if not overlay:
                continue
            ((_, setting),) = overlay["stages"]["simulation"]["output"]["compression"].items()
            ((_, parameters),) = setting.items()
            rates = [_alone(setting, file, field, parameters.get("threads", 1), folder) for field in FIELDS]
            compressors.append(SingleCompressor(profile=profile, fields=rates))
            print(f"{profile}: {compressors[-1].reduction}", flush=True)
    found = SingleMeasurements(memcpy=_memcpy(), step_bytes=step_bytes, write_s=plain.p50, compressors=compressors)
    (STUDY / "single.json").write_text(found.model_dump_json(indent=1) + "\n")


def _alone(compressor: object, file: Path, field: str, cores: int, folder: Path) -> CompressorRates:
    """One compressor on one field, on as many cores as it has threads."""
    pipeline, run_dir = folder / "alone.yaml", folder / "alone"
    text = yaml.safe_dump(compressor, default_flow_style=True).strip()
    pipeline.write_text(
        ALONE.format(
            program=Path(__file__).with_name("compress_alone.py"), file=file, variable=field, steps=STEPS, cores=cores,
            compressor=text,
        )
    )  # fmt: skip
    run_pipeline(pipeline, run_dir=run_dir)
    plan = read_plan((run_dir / "plan.json").read_bytes(), "plan.json")
    stored = sum(path.stat().st_size for path in (run_dir / "streams/data.bp").rglob("data.*"))
    written, read = (
        json.loads((run_dir / "stages" / stage / "stdout.log").read_text().splitlines()[-1])
        for stage in ("make", "take")
    )
    operator = next(iter(plan.stage("make").end("data", "write").operators.values()))
    shutil.rmtree(run_dir)
    return CompressorRates(
        operator=operator.type, parameters=operator.parameters, data=f"{field} of the study", bytes=written["bytes"],
        ratio=stored / (written["bytes"] * len(written["seconds"])),
        compress=quartiles([written["bytes"] / each for each in written["seconds"][WARM:]]),
        decompress=quartiles([written["bytes"] / each for each in read["seconds"][WARM:]]),
    )  # fmt: skip


def _memcpy() -> float:
    """Bytes per second from one block to another, both larger than caches and touched before."""
    source, target = ctypes.create_string_buffer(COPIED_BYTES), ctypes.create_string_buffer(COPIED_BYTES)
    ctypes.memset(source, 1, COPIED_BYTES)
    rates = []
    for _ in range(COPIES):
        begin = time.perf_counter()
        ctypes.memmove(target, source, COPIED_BYTES)
        rates.append(COPIED_BYTES / (time.perf_counter() - begin))
    return statistics.median(rates[WARM:])


def predict(single: SingleMeasurements, results: CampaignResults) -> list[Prediction]:
    """Γ by equation 5 of every compressor that both have, and what the campaign measured."""
    output, stored = _medians(results, "output"), _medians(results, "stored")
    steps = _steps()
    step_s = {name: seconds / steps for name, seconds in output.items()}
    comparisons = {str(each.value): each for each in results.comparisons if each.metric == "output"}
    found = []
    for each in single.compressors:
        if each.profile not in output:
            continue
        ratio = stored[each.profile] / (single.step_bytes * steps)
        compared = comparisons[each.profile]
        if (measured := compared.ratio) is None:
            raise SystemExit(f"{each.profile} and {PLAIN} were not compared: run the campaign again")
        predicted = relative_overhead(single.path, each.reduction)
        is_off = abs(predicted / measured - 1) > CLOSE
        found.append(
            Prediction(
                each.profile, each.reduction, ratio, predicted, measured, compared.low, compared.high,
                _term_off(single, each.reduction, ratio, step_s[each.profile], step_s[PLAIN]) if is_off else "",
            )
        )  # fmt: skip
    return found


def _term_off(single: SingleMeasurements, alone: Reduction, ratio: float, with_s: float, plain_s: float) -> str:
    """The term of equation 5 with which the prediction comes nearest when the campaign's value replaces it."""
    step, path = single.step_bytes, single.path
    predicted_s = reduced_output_s(step, path, alone)
    # What compressing took in the campaign, if the file system was as fast as it was alone.
    compress_s = max(with_s - ratio * step / path.file_system, 1e-9)
    gamma = {
        "file system": predicted_s / plain_s,
        "f_C": relative_overhead(path, Reduction(ratio, alone.throughput)),
        "T_C": relative_overhead(path, Reduction(alone.ratio, step / compress_s)),
    }
    measured = with_s / plain_s
    worst = min(gamma, key=lambda term: abs(gamma[term] / measured - 1))
    told = {
        "file system": f"writing a step: {_seconds(output_s(step, path))} alone, {_seconds(plain_s)} in the campaign",
        "f_C": f"f_C: {alone.ratio:.3g} alone, {ratio:.3g} in the campaign",
        "T_C": f"T_C: {rate(alone.throughput)} alone, {rate(step / compress_s)} in the campaign",
    }
    return told[worst]


def _steps() -> int:
    """How many states a run writes, the initial one included."""
    given = yaml.safe_load((STUDY / "pipeline.yaml").read_text())["stages"]["simulation"]["with"]
    return int(given["steps"]) // int(given["write_every"]) + 1


def _medians(results: CampaignResults, metric: str) -> dict[str, float]:
    return {
        str(each.parameters["profile"]): each.median
        for each in results.results
        if each.metric == metric and each.median is not None
    }


def to_page(single: SingleMeasurements, results: CampaignResults) -> str:
    """predictions.md."""
    path, found = single.path, predict(single, results)
    near = sum(not each.off for each in found)
    lines = ["# data-reduction: predicted and measured", "<!-- written by tools/data_reduction.py; do not edit -->", ""]
    lines += [
        f"Measured alone: memcpy {rate(path.memcpy)}; a step of {size(single.step_bytes)} is written in "
        f"{_seconds(single.write_s)}, of which the file system has {rate(path.file_system)} (T_FS).",
        "",
        f"Γ predicted within {CLOSE * 100:g} % of the measured one: {near} of {len(found)} compressors.",
        "",
    ]
    lines += to_markdown(make_table(COMPARED, found))
    lines += ["## Break-even", "", "Equation 4: a compressor pays where T_FS is below its threshold.", ""]
    lines += to_markdown(make_table(_break_even_columns(path), found))
    return "\n".join(lines).rstrip() + "\n"


COMPARED: list[Column[Prediction]] = [
    text_column("compressor", lambda each: each.name),
    number_column("f_C alone", lambda each: f"{each.single.ratio:.3g}"),
    number_column("f_C", lambda each: f"{each.ratio:.3g}"),
    number_column("T_C", lambda each: rate(each.single.throughput)),
    number_column("Γ predicted", lambda each: f"{each.predicted:.3g}"),
    number_column("Γ measured", lambda each: f"{each.measured:.3g}"),
    number_column("95 % interval", lambda each: _interval(each)),
    number_column("difference", lambda each: f"{each.difference * 100:+.0f} %"),
    text_column("term that is off", lambda each: each.off),
]


def _break_even_columns(path: OutputPath) -> list[Column[Prediction]]:
    return [
        text_column("compressor", lambda each: each.name),
        number_column("threshold", lambda each: rate(break_even_threshold(path, each.single))),
        number_column("f_C needed here at its T_C", lambda each: _needed(path, each.single)),
        number_column("Γ on Titan", lambda each: f"{relative_overhead(TITAN, each.single):.3g}"),
    ]


def _interval(each: Prediction) -> str:
    return "too few" if each.low is None or each.high is None else f"{each.low:.3g} … {each.high:.3g}"


def _needed(path: OutputPath, reduction: Reduction) -> str:
    ratio = break_even_ratio(path, reduction.throughput)
    return f"{ratio:.2f}" if ratio > 0 else "none"


def _seconds(value: float) -> str:
    return f"{value * 1000:.3g} ms"


Shown = tuple[str, Reduction, float | None]
"""A compressor, what it is alone, and Γ as measured."""


def iso_compression(name: str, where: str, path: OutputPath, shown: Sequence[Shown]) -> ResultsPicture:
    """Figure 5 of the paper: Γ over T_C ÷ T_memcpy, a line for each f_C; the compressors on it, and as measured.

    One that is far slower than all others is named at the edge, so that the others have the room.
    """
    canvas, axes = new_canvas(5.0)
    slowest, *faster = sorted(shown, key=lambda each: each[1].throughput)
    inside = faster if slowest[1].throughput * FAR < faster[0][1].throughput else [slowest, *faster]
    throughputs = [each.throughput / path.memcpy for _, each, _ in inside]
    left, right = min(throughputs) / BESIDE, max(throughputs) * BESIDE
    relative = [left * (right / left) ** (index / 90) for index in range(91)]
    gammas = [gamma for _, each, measured in inside for gamma in (relative_overhead(path, each), measured) if gamma]
    low, high = min(1.0, *gammas) / BESIDE, max(1.0, *gammas) * BESIDE
    top = high * (high / low) ** LABELS_ABOVE
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, top))
    data: list[list[str | float | None]] = []
    ends: dict[float, float] = {}
    for number, ratio in enumerate((1.0, 0.8, 0.6, 0.4, 0.2, 0.0)):
        line = [relative_overhead(path, Reduction(ratio, each * path.memcpy)) for each in relative]
        legend = "size after ÷ before" if not number else None
        axes.plot(relative, line, color=BLACK, alpha=0.75 - 0.12 * number, linewidth=1, zorder=1, label=legend)
        if line[-1] > low:
            ends[ratio] = math.log(line[-1] / low) / math.log(top / low)
        else:
            # It leaves the picture below: there its name is beside it.
            leaves = next(x for x, y in zip(relative, line, strict=True) if y <= low)
            axes.annotate(
                f"{ratio:g}", (leaves, low), xytext=(-9, 2), textcoords="offset points", ha="right", fontsize=9
            )
        data += [[f"f_C = {ratio:g}", x, y, None] for x, y in zip(relative, line, strict=True)]
    for ratio, place in zip(ends, label_places(list(ends.values())), strict=True):
        axes.annotate(
            f"{ratio:g}", (1, ends[ratio]), (1.02, place), xycoords=axes.transAxes, textcoords=axes.transAxes,
            va="center", fontsize=9,
        )  # fmt: skip
    axes.axhline(1.0, linestyle="--", color=BLACK, linewidth=1, label="without compression")
    places = label_places([math.log(x / left) / math.log(right / left) for x in throughputs])
    marks = dict(zip((label for label, _, _ in inside), places, strict=True))
    for label, reduction, measured in shown:
        x, predicted = reduction.throughput / path.memcpy, relative_overhead(path, reduction)
        colour, marker = KINDS["with loss" if label.startswith(LOSSY) else "lossless"]
        data.append([label, x, predicted, measured])
        text = f"{label} ({reduction.ratio:.2f})"
        if label not in marks:
            beyond = f"◂ {text}: Γ = {measured or predicted:.2g}"
            axes.text(0.02, 0.03, beyond, transform=axes.transAxes, color=colour, fontsize=9)
            continue
        axes.plot(x, predicted, marker, color=colour)
        if measured is not None:
            axes.plot([x, x], [predicted, measured], "-", color=colour, linewidth=1)
            axes.plot(x, measured, "_", color=colour, markersize=9, markeredgewidth=2)
        axes.annotate(
            text, (x, predicted), (marks[label], 0.99), rotation=90, va="top", ha="center",
            textcoords=axes.transAxes, color=colour, fontsize=9,
            arrowprops={"arrowstyle": "-", "color": COLOURS[6], "linewidth": 0.6, "relpos": (0.5, 0.0), "shrinkB": 3},
        )  # fmt: skip
    set_logarithmic(axes, "x", relative)
    set_logarithmic(axes, "y", [low, top])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel(f"throughput of the compressor ÷ memcpy{LOGARITHM}")
    axes.set_ylabel(f"Γ: time of output ÷ time without\ncompression, less is better{LOGARITHM}")
    for kind, (colour, marker) in KINDS.items():
        axes.plot([], [], marker, color=colour, label=f"{kind}, predicted")
    if any(measured is not None for _, _, measured in shown):
        axes.plot([], [], "_", color=BLACK, markersize=9, markeredgewidth=2, label="measured")
    set_legend(canvas, axes)
    title = iso_finding(where, path, shown)
    set_finding(canvas, [title])
    columns = ["curve", "throughput", "predicted", "measured"]
    return ResultsPicture(name, title, canvas, columns, data)


def iso_finding(where: str, path: OutputPath, shown: Sequence[Shown]) -> str:
    """How many compressors save time, and the ends of what they cost."""
    how = "predicted" if all(measured is None for _, _, measured in shown) else "measured"
    gammas = sorted((measured or relative_overhead(path, reduction), label) for label, reduction, measured in shown)
    gains = sum(gamma < 1 for gamma, _ in gammas)
    count = f"{gains or 'None'} of {len(gammas)} compressors {'saves' if gains < 2 else 'save'} time {where}"
    (best, first), (worst, last) = gammas[0], gammas[-1]
    return f"{count}: Γ = {best:.2g} ({first}) to {worst:.2g} ({last}), as {how}"


def label_places(wanted: Sequence[float]) -> list[float]:
    """Where labels stand beside one another, from 0 to 1: in their order, as near as there is room to the wanted."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = [0.0] * len(wanted)
    # All to the right of the one before, and then back from the right end.
    at = -math.inf
    for index in order:
        at = places[index] = max(wanted[index], at + BETWEEN)
    at = 1 + BETWEEN / 2
    for index in reversed(order):
        at = places[index] = min(places[index], at - BETWEEN)
    return places


def pictures(single: SingleMeasurements, results: CampaignResults) -> list[ResultsPicture]:
    """The paper's figure 5 for the machine of the campaign, and the same compressors on Titan's file system."""
    found = predict(single, results)
    here = [(each.name, each.single, each.measured) for each in found]
    return [
        iso_compression("here", "here", single.path, here),
        iso_compression("titan", "on Titan", TITAN, [(each.name, each.single, None) for each in found]),
    ]


def inputs() -> tuple[SingleMeasurements, CampaignResults]:
    """The committed measurements."""
    return SingleMeasurements.model_validate_json((STUDY / "single.json").read_bytes()), read(STUDY)


def is_current() -> bool:
    """Whether predictions.md is what the measurements make."""
    page = STUDY / "predictions.md"
    return page.is_file() and page.read_text() == to_page(*inputs())


def main(arguments: list[str]) -> None:
    """Measure, compare or check."""
    if arguments == ["measure"]:
        measure()
    elif arguments == ["compare"]:
        (STUDY / "predictions.md").write_text(to_page(*inputs()))
        for picture in pictures(*inputs()):
            file = PICTURES / f"data-reduction-iso-compression-{picture.name}.svg"
            file.write_bytes(picture.svg)
            file.with_suffix(".csv").write_bytes(picture.csv())
    elif arguments == ["--check"]:
        if not is_current():
            sys.exit("predictions.md is not made of single.json and results.json\n  tools/data_reduction.py compare")
    else:
        sys.exit(str(__doc__))


if __name__ == "__main__":
    main(sys.argv[1:])
