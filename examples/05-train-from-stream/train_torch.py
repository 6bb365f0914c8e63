"""The same training with PyTorch: `python train_torch.py TIME_STEPS_BETWEEN_OUTPUTS`.

The stream is an `IterableDataset`, so any training loop that takes one can be used.
"""

import io
import sys
from collections.abc import Iterator

import numpy as np
import torch
from samples import INPUTS, OUTPUTS, Pairs, is_held_out, newest, relative_error, take_cells
from torch.utils.data import DataLoader, IterableDataset

from workflow import stage

BATCHES, BATCH = 40, 256  # updates for each pair that comes, and the samples of each
REPORT = 10  # pairs between two reports


class StreamBatches(IterableDataset):
    """The batches of each step that comes, [BATCHES, BATCH, …], drawn from a reservoir of all steps so far.

    It waits for the simulation, and ends with its stream. Use it with `num_workers=0`: the stream is opened in this
    process. `to_values` has all that a second attempt needs to go on with the same batches.
    """

    def __init__(self, field: stage.Reader, interval: int, reservoir: stage.Reservoir) -> None:
        self._field, self._interval, self.reservoir = field, interval, reservoir
        self._pairs = Pairs(interval)
        self.number = 0  # the time step of the newest pair
        self.inputs, self.changes = np.empty((0, INPUTS)), np.empty((0, OUTPUTS))  # held out

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for step in self._field:
            if (pair := self._pairs.add(step)) is None:
                continue
            self.number = pair[0]
            here, there = take_cells(*pair)
            if is_held_out(self.number, self._interval):
                self.inputs, self.changes = newest(self.inputs, here), newest(self.changes, there)
                continue
            self.reservoir.put_all(inputs=here.astype(np.float32), changes=there.astype(np.float32))
            if self.reservoir.is_ready:
                drawn = [self.reservoir.draw(BATCH) for _ in range(BATCHES)]
                yield tuple(
                    torch.from_numpy(np.stack([each[name] for each in drawn])) for name in ("inputs", "changes")
                )

    def to_values(self) -> dict:
        """For `stage.State`."""
        held_out = {"inputs": self.inputs, "changes": self.changes}
        return {**self._pairs.to_values(), **held_out, "reservoir": self.reservoir.pack()}

    def from_values(self, values: dict) -> None:
        """Take what `to_values` returned."""
        self._pairs.from_values(values)
        self.inputs, self.changes = values["inputs"], values["changes"]
        self.reservoir.unpack(values["reservoir"])


class Surrogate(torch.nn.Module):
    """Two hidden layers between inputs and outputs in units of their deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(INPUTS, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
            torch.nn.Linear(64, OUTPUTS),
        )  # fmt: skip
        self.register_buffer("of_inputs", torch.stack([torch.zeros(INPUTS), torch.ones(INPUTS)]))
        self.register_buffer("of_changes", torch.stack([torch.zeros(OUTPUTS), torch.ones(OUTPUTS)]))

    def prepare(self, inputs: np.ndarray, changes: np.ndarray) -> None:
        """Scale by the first samples."""
        for buffer, each in ((self.of_inputs, inputs), (self.of_changes, changes)):
            buffer.copy_(torch.from_numpy(np.stack([each.mean(axis=0), each.std(axis=0) + 1e-8])))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The changes in units of their deviation."""
        return self.layers((inputs - self.of_inputs[0]) / self.of_inputs[1])

    def scaled(self, changes: torch.Tensor) -> torch.Tensor:
        """Changes in units of their deviation."""
        return (changes - self.of_changes[0]) / self.of_changes[1]

    @torch.no_grad()
    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """The changes that it expects, [n, 2]."""
        found = self(torch.from_numpy(inputs.astype(np.float32)))
        return (found * self.of_changes[1] + self.of_changes[0]).numpy()


def to_bytes(*parts: object) -> np.ndarray:
    """What PyTorch saves of network, optimiser and schedule, as one array of bytes."""
    file = io.BytesIO()
    torch.save([part.state_dict() for part in parts], file)
    return np.frombuffer(file.getvalue(), np.uint8)


def from_bytes(content: np.ndarray, *parts: object) -> None:
    """Take what `to_bytes` returned."""
    for part, values in zip(parts, torch.load(io.BytesIO(content.tobytes()), weights_only=True), strict=True):
        part.load_state_dict(values)


interval = int(sys.argv[1])
torch.manual_seed(1)
torch.set_num_threads(1)
surrogate = Surrogate()
optimiser = torch.optim.Adam(surrogate.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda updates: 1 / (1 + updates / 1000))

with stage.open_reader("field") as field, stage.open_writer("training") as out:
    batches = StreamBatches(field, interval, stage.Reservoir(size=16384, watermark=2048, seed=1))
    parts = surrogate, optimiser, schedule
    state = stage.State(**batches.to_values(), parts=to_bytes(*parts), losses=[], trained=0)
    batches.from_values(state)
    from_bytes(state["parts"], *parts)
    losses, trained = state["losses"], state["trained"]

    for inputs, changes in DataLoader(batches, batch_size=None, num_workers=0):
        if not trained:
            surrogate.prepare(**batches.reservoir.held())
        for some, expected in zip(inputs, changes, strict=True):
            loss = torch.nn.functional.mse_loss(surrogate(some), surrogate.scaled(expected))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
        trained += 1
        if trained % REPORT:
            continue
        mean, error = float(np.mean(losses)), relative_error(surrogate.predict(batches.inputs), batches.changes)
        losses = []
        print(f"time step {batches.number}: loss {mean:.4f}, error {error:.3f}", flush=True)
        with out.step():
            out.write("step", np.int64(batches.number))
            out.write("loss", mean)
            out.write("error", error)
            for i, weights in enumerate(surrogate.parameters()):
                out.write(f"weights_{i}", weights.detach().numpy())
        if state.is_due():
            state.save(**batches.to_values(), parts=to_bytes(*parts), losses=losses, trained=trained)

if not trained:
    sys.exit("nothing was trained: the simulation has written too few steps")
reservoir = batches.reservoir
print(f"{trained * BATCHES} updates, {reservoir.seen} samples seen, of which {len(reservoir)} are in the reservoir")
error = relative_error(surrogate.predict(batches.inputs), batches.changes)
print(f"error on held-out steps: {error:.4f} of the change in {interval} time steps (1 where nothing is predicted)")
torch.save(surrogate.state_dict(), "surrogate.pt")
