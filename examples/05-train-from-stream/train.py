"""Train a surrogate of Gray–Scott from the stream of the simulation: `python train.py TIME_STEPS_BETWEEN_OUTPUTS`."""

import sys

import numpy as np
from network import Network
from samples import INPUTS, OUTPUTS, Pairs, is_held_out, newest, relative_error, take_cells

from workflow import stage

BATCHES, BATCH = 40, 256  # updates for each pair that comes, and the samples of each
REPORT = 10  # pairs between two reports

interval = int(sys.argv[1])
pairs, network = Pairs(interval), Network([INPUTS, 64, 64, OUTPUTS], seed=1)
reservoir = stage.Reservoir(size=16384, watermark=2048, seed=1)

with stage.open_reader("field") as field, stage.open_writer("training") as out:
    empty = {"inputs": np.empty((0, INPUTS)), "changes": np.empty((0, OUTPUTS))}
    state = stage.State(
        **pairs.to_values(), **network.to_values(), reservoir=reservoir.pack(), **empty, losses=[], trained=0
    )
    pairs.from_values(state)
    network.from_values(state)
    reservoir.unpack(state["reservoir"])
    inputs, changes, losses, trained = (state[name] for name in ("inputs", "changes", "losses", "trained"))

    for step in field:
        pair = pairs.add(step)
        if pair is None:
            continue
        here, there = take_cells(*pair)
        if is_held_out(pair[0], interval):
            inputs, changes = newest(inputs, here), newest(changes, there)
            continue
        reservoir.put_all(inputs=here, changes=there)
        if not reservoir.is_ready:
            continue
        if not network.updates:
            network.prepare(**reservoir.held())
        losses += [network.train(**reservoir.draw(BATCH)) for _ in range(BATCHES)]
        trained += 1
        if trained % REPORT:
            continue
        loss, error = float(np.mean(losses)), relative_error(network.predict(inputs), changes)
        losses = []
        print(f"time step {pair[0]}: loss {loss:.4f}, error {error:.3f}", flush=True)
        with out.step():
            out.write("step", np.int64(pair[0]))
            out.write("loss", loss)
            out.write("error", error)
            for i, weights in enumerate(network.weights):
                out.write(f"weights_{i}", weights)
        if state.is_due():
            state.save(
                **pairs.to_values(), **network.to_values(), reservoir=reservoir.pack(),
                inputs=inputs, changes=changes, losses=losses, trained=trained,
            )  # fmt: skip

if not trained:
    sys.exit("nothing was trained: the simulation has written too few steps")
error = relative_error(network.predict(inputs), changes)
print(f"{network.updates} updates, {reservoir.seen} samples seen, of which {len(reservoir)} are in the reservoir")
print(f"error on held-out steps: {error:.4f} of the change in {interval} time steps (1 where nothing is predicted)")
np.savez("surrogate.npz", *network.weights, inputs=network.inputs, outputs=network.outputs)
