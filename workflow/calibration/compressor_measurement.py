"""What each operator of this ADIOS2 does to given data: how much smaller, how fast, on one core."""

from __future__ import annotations

from pathlib import Path

from workflow.calibration.measured_run import MeasuredRun, MeasuringPlace, NotMeasuredError, measured_run
from workflow.forecast.calibration_model import CompressorRates
from workflow.forecast.quartiles import quartiles
from workflow.operators import built_into
from workflow.report.build.stage_and_stream_figures import stored_bytes
from workflow.site.adios2_library import core_library
from workflow.site.site_model import Site

# As `output: compression` takes them; the settings of the report of the data that was compressed.
COMPRESSORS: dict[str, str] = {
    "blosc lz4": "{blosc: {codec: lz4}}",
    "blosc zstd": "{blosc: {codec: zstd}}",
    "zfp": "{zfp: {accuracy: 1e-3}}",
    "bzip2": "{bzip2: {level: 9}}",
}
STEPS, QUICK_STEPS, WARM = 9, 5, 2
# The default data: the concentrations of a reaction that has begun.
SHIPPED_DATA, DATA_VARIABLE = "gray_scott", "U"
DATA_PIPELINE = """
stages:
  make: {component: gray_scott, with: {size: [64], steps: 200, write_every: 200}}
  keep: {component: "null"}
streams:
  data: {from: make, to: keep, via: bp5}
"""
PIPELINE = """
stages:
  make:
    command: ["${{{{ wf.python }}}}", -m, {program}, write, "{file}", "{variable}", "{steps}"]
    writes: {{data: {{}}}}
    place: {{cores_per_rank: {cores}}}
    output: {{compression: {{"*": {compressor}}}}}
  take:
    command: ["${{{{ wf.python }}}}", -m, {program}, read]
    reads: {{data: {{}}}}
streams:
  data: {{from: make, to: take, via: bp5}}
"""


def compressors_here(site: Site) -> dict[str, str]:
    """Name → setting of those whose operator the ADIOS2 of the site has."""
    library = core_library()
    built = list(site.operators) if site.operators is not None else built_into(library) if library is not None else None
    return {name: setting for name, setting in COMPRESSORS.items() if name.split()[0] in (built or [])}


def make_data(place: MeasuringPlace) -> tuple[Path, str]:
    """(file, variable) of a short run of the shipped simulation. Raises NotMeasuredError, MeasurementEndedError."""
    kept = place.folder / "data.bp"
    if not kept.exists():
        with measured_run(DATA_PIPELINE, place) as run:
            Path(run.records.plan.stream("data").on_disk[0]).rename(kept)
    return kept, DATA_VARIABLE


def measure_compressor(
    compressor: str, file: Path, variable: str, data: str, place: MeasuringPlace, cores: int = 1
) -> CompressorRates:
    """One run of one setting, on as many cores as it has threads; `data` names what is compressed.

    Raises NotMeasuredError, MeasurementEndedError.
    """
    pipeline = PIPELINE.format(
        program="workflow.calibration.programs.compress", file=file, variable=variable,
        steps=QUICK_STEPS if place.quick else STEPS, compressor=compressor, cores=cores,
    )  # fmt: skip
    with measured_run(pipeline, place) as run:
        return _rates(run, data)


def _rates(run: MeasuredRun, data: str) -> CompressorRates:
    plan = run.records.plan
    stream = plan.stream("data")
    stored = stored_bytes(stream)
    written, read = run.printed["make"], run.printed["take"]
    size, steps = written["bytes"], len(written["seconds"])
    if not stored:
        raise NotMeasuredError("its file is empty")
    end = next(end for end in plan.stage("make").ends if end.side == "write")
    operator = next(iter(end.operators.values()))
    return CompressorRates(
        operator=operator.type, parameters=operator.parameters, data=data, bytes=size, ratio=stored / (size * steps),
        compress=quartiles([size / each for each in written["seconds"][WARM:]]),
        decompress=quartiles([size / each for each in read["seconds"][WARM:]]),
    )  # fmt: skip
