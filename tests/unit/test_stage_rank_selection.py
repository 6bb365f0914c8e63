"""`step.share` in one process: pieces, matching rows, local arrays, errors. Several ranks: tests/integration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adios2.bindings as adios2
import numpy as np
import pytest

from workflow import stage
from workflow.distribution.strategies import STRATEGIES
from workflow.stage.api import step as step_module
from workflow.stage.variables import Selection


@pytest.fixture(params=[".bp", ".h5"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"data{request.param}"
    with stage.open_writer(path=path) as out, out.step():
        for start in (0, 4):
            out.write("position", np.arange(12.0).reshape(4, 3) + start, shape=(8, 3), start=(start, 0))
            out.write("type", np.arange(4) + start, shape=(8,), start=(start,))
        out.write("time", 0.5)
        out.write("label", "a step")
        out.write("none", np.empty((0, 2)))
    return path


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """An array in local blocks, as particle codes write them, one of them empty."""
    path = tmp_path / "local.bp"
    ad = adios2.ADIOS()
    io = ad.DeclareIO("local")
    engine = io.Open(str(path), adios2.Mode.Write)
    variable = io.DefineVariable("ids", np.zeros(1), [], [], [1])
    engine.BeginStep()
    for count in (3, 0, 2):
        variable.SetSelection(([], [count]))
        engine.Put(variable, np.full(count, float(count)), adios2.Mode.Sync)
    engine.EndStep()
    engine.Close()
    return path


@pytest.fixture
def three_ranks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make this process select the boxes of one of three ranks."""

    def be(rank: int) -> None:
        monkeypatch.setattr(step_module, "this_rank", lambda: rank)
        monkeypatch.setattr(step_module, "all_ranks", lambda: 3)

    return be


@pytest.mark.parametrize("strategy", [None, *STRATEGIES])
def test_one_rank_gets_everything(path: Path, strategy: str | None) -> None:
    with stage.open_reader(path=path) as data:
        for step in data:
            for name in ("position", "type", "none"):
                whole = step.read(name)
                found = np.full(whole.shape, -1, whole.dtype)
                for piece in step.share(name, strategy):
                    box = tuple(slice(s, s + n) for s, n in zip(piece.start, piece.values.shape, strict=True))
                    found[box] = piece.values
                assert np.array_equal(found, whole)
            assert [(float(piece.values), piece.start) for piece in step.share("time", strategy)] == [(0.5, ())]
            assert str(step.share("label", strategy)[0].values) == "a step"
            assert [piece.values.shape for piece in step.share("none", strategy)] == [(0, 2)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_ranks_together(path: Path, strategy: str, three_ranks: Any) -> None:
    with stage.open_reader(path=path) as data:
        for step in data:
            seen = np.zeros(8, int)
            numbers = set()
            for rank in range(3):
                three_ranks(rank)
                pieces = step.shares(["position", "type"], strategy, like="position")
                numbers.add(len(pieces["position"]))
                for position, kind in zip(pieces["position"], pieces["type"], strict=True):
                    assert np.array_equal(position.values[:, 0], step.read("position")[kind.values][:, 0])
                    assert np.array_equal(kind.values, np.arange(kind.start[0], kind.start[0] + len(kind.values)))
                    seen[kind.values] += 1
            assert (seen == (3 if strategy == "all" else 1)).all()
            assert len(numbers) == 1  # the same number on every rank


def test_adjacent_blocks_are_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "data.bp"
    with stage.open_writer(path=path) as out, out.step():
        for start in (0, 4):
            out.write("x", np.arange(4.0) + start, shape=(8,), start=(start,))
    with stage.open_reader(path=path) as data:
        for step in data:
            (piece,) = step.share("x", "blocks")
            assert np.array_equal(piece.values, np.arange(8.0))


@pytest.mark.parametrize("strategy", [None, *STRATEGIES])
def test_local_blocks_are_read_whole(local: Path, strategy: str | None, three_ranks: Any) -> None:
    with stage.open_reader(path=local) as data:
        for step in data:
            found = []
            for rank in range(3):
                three_ranks(rank)
                found += [piece for piece in step.share("ids", strategy) if piece.values.size]
            times = 3 if strategy == "all" else 1
            assert sorted((piece.block, *piece.values) for piece in found) == sorted(
                [(0, 3.0, 3.0, 3.0), (2, 2.0, 2.0)] * times
            )
            with pytest.raises(stage.StageError, match=r"`step\.share` reads its blocks"):
                step.read("ids")


def test_requests_that_cannot_be_served(path: Path) -> None:
    with stage.open_reader(path=path) as data:
        for step in data:
            with pytest.raises(stage.StageError, match="no strategy 'hostnam'; did you mean 'hostname'"):
                step.share("type", "hostnam")
            with pytest.raises(stage.StageError, match="no variable 'types'; did you mean 'type'"):
                step.share("types")
            with pytest.raises(stage.StageError, match="like='time' is none of the variables type"):
                step.shares(["type"], like="time")
            with pytest.raises(stage.StageError, match="do not have the same rows"):
                step.shares(["type", "none"], like="type")


def test_matching_rows_need_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "data.bp"
    with stage.open_writer(path=path) as out, out.step():
        out.write("left", np.zeros((4, 1)), shape=(4, 2), start=(0, 0))
        out.write("left", np.zeros((2, 1)), shape=(4, 2), start=(0, 1))
        out.write("left", np.zeros((2, 1)), shape=(4, 2), start=(2, 1))
        out.write("type", np.arange(4))
    with stage.open_reader(path=path) as data:
        for step in data:
            assert len(step.share("left", "round-robin")) == 1  # joined again
            with pytest.raises(stage.StageError, match="hold only parts of rows"):
                step_module._same_rows("type", (4,), [Selection("left", (0, 0), (4, 1))], (4, 2))


@pytest.mark.parametrize("engine", ["BP5", "BP4"])
def test_blocks_of_bytes_above_127(engine: str, tmp_path: Path) -> None:
    """ADIOS2's Python bindings cannot return what it knows of such blocks: their largest value is no text."""
    ad = adios2.ADIOS()
    io = ad.DeclareIO("out")
    io.SetEngine(engine)
    whole = io.DefineVariable("image", np.zeros(1, np.uint8), [6], [0], [2])
    pieces = io.DefineVariable("pieces", np.zeros(1, np.uint8), [], [], [2])
    file = io.Open(str(tmp_path / "bytes.bp"), adios2.Mode.Write)
    file.BeginStep()
    for start in (0, 4):  # a gap is between the two
        whole.SetSelection(([start], [2]))
        file.Put(whole, np.full(2, 200 + start, np.uint8), adios2.Mode.Sync)
    for count in (2, 3):
        pieces.SetSelection(([], [count]))
        file.Put(pieces, np.full(count, 250 + count, np.uint8), adios2.Mode.Sync)
    file.EndStep()
    file.Close()
    with stage.open_reader(path=tmp_path / "bytes.bp") as data:
        for step in data:
            assert step.read("image").tolist() == [200, 200, 0, 0, 204, 204]
            assert [share.values.tolist() for share in step.shares(["pieces"])["pieces"]] == [[252, 252], [253] * 3]
