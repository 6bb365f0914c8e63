"""Engine parameters: names, values and combinations, against the shipped lists of the engines."""

from __future__ import annotations

import pytest

from workflow.plan.streams.engine_parameters import ParameterError, to_text, user_parameter
from workflow.spec.engine_presets import load_engine
from workflow.spec.models.engine import Engine, EngineParameter
from workflow.spec.models.pipeline import Scalar

SST, BP5, HDF5 = (load_engine(name) for name in ("sst", "bp5", "hdf5"))


@pytest.mark.parametrize(
    ("engine", "name", "value", "expected"),
    [
        (SST, "WANDataTransport", "Sockets", ("WANDataTransport", "sockets")),
        (SST, "FirstTimestepPrecious", True, ("FirstTimestepPrecious", "true")),
        (SST, "FirstTimestepPrecious", "no", ("FirstTimestepPrecious", "false")),
        (SST, "SpeculativePreloadMode", "off", ("SpeculativePreloadMode", "Off")),
        (SST, "SpeculativePreloadMode", False, ("SpeculativePreloadMode", "Off")),
        (SST, "SpeculativePreloadMode", True, ("SpeculativePreloadMode", "On")),
        (SST, "ReserveQueueLimit", 1, ("ReserveQueueLimit", "1")),
        (SST, "ReserveQueueLimit", 1.0, ("ReserveQueueLimit", "1")),
        (SST, "ControlInterface", "lo", ("ControlInterface", "lo")),
        (BP5, "statslevel", 0, ("StatsLevel", "0")),
        (BP5, "MINDEFERREDSIZE", "4 MiB", ("MinDeferredSize", "4194304")),
        (BP5, "GrowthFactor", 2, ("GrowthFactor", "2")),
        (BP5, "BeginStepPollingFrequencySecs", 0.05, ("BeginStepPollingFrequencySecs", "0.05")),
    ],
)
def test_useful_settings(engine: Engine, name: str, value: Scalar, expected: tuple[str, str]) -> None:
    assert user_parameter(engine, name, value) == expected


@pytest.mark.parametrize(
    ("engine", "name", "value", "message", "hint"),
    [
        (SST, "datatransport", "WAN", "no parameter `datatransport`", "did you mean `DataTransport`"),
        (SST, "RendevouzReaderCount", 1, "no parameter", "did you mean `RendezvousReaderCount`"),
        (SST, "RendezvousReaderCount", 1, "set by wf", "`to:`"),
        (SST, "QueueLimit", 1, "set by wf", "queue: {limit: 2}"),
        (SST, "CompressionMethod", "ZFP", "no effect", "FFS"),
        (SST, "FirstTimestepPrecious", 1, "expected true or false, got 1", ""),
        (SST, "DataTransport", "sockets", "DataTransport is set by wf", "write `transport: tcp`"),
        (SST, "NetworkInterface", "ib9", "NetworkInterface is set by wf", "write `interface: ib0`"),
        (SST, "WANDataTransport", "tcp", "expected one of sockets", ""),
        (SST, "ReserveQueueLimit", -1, "whole number of at least 0, got -1", ""),
        (SST, "ReserveQueueLimit", True, "whole number", ""),
        (SST, "ReserveQueueLimit", 1.5, "whole number", ""),
        (BP5, "NumAggregator", 1, "no parameter", "did you mean `NumAggregators`"),
        (BP5, "numaggregators", 1, "set by wf", "output"),
        (BP5, "BufferChunkSize", "4 GB", "a size such as 16 MB of at most 2147381248", ""),
        (BP5, "MinDeferredSize", "4 megabytes", "a size", ""),
        (BP5, "GrowthFactor", float("inf"), "a number", ""),
        (HDF5, "h5collectivempio", True, "no parameter", "did you mean `H5CollectiveMPIO`"),
    ],
)
def test_refused_settings(engine: Engine, name: str, value: Scalar, message: str, hint: str) -> None:
    with pytest.raises(ParameterError) as caught:
        user_parameter(engine, name, value)
    assert message in str(caught.value)
    assert caught.value.hint
    assert hint in caught.value.hint


def test_what_wf_decides_cannot_be_set_by_users() -> None:
    """Otherwise the plan would say one thing and the engine do another."""
    for name in ("RendezvousReaderCount", "QueueLimit", "QueueFullPolicy", "OpenTimeoutSecs", "DataTransport"):
        assert SST.parameters[name].managed, name
    for name in ("NumAggregators", "AggregatorRatio", "AsyncWrite", "OpenTimeoutSecs"):
        assert BP5.parameters[name].managed, name


def test_large_and_small_numbers_are_written_out() -> None:
    whole = EngineParameter(type="int", side="write", help="")
    real = EngineParameter(type="float", side="write", help="")
    assert to_text("x", whole, 10**15) == "1000000000000000"
    assert to_text("x", real, 86400.0) == "86400"
    assert float(to_text("x", real, 1e-7)) == 1e-7
