"""What a stage program imports to read and write the streams of its pipeline.

    from workflow import stage

    with stage.open_reader("atoms") as atoms, stage.open_writer("pattern") as out:
        for step in atoms:  # raises when the writer dies or sends no step in time
            start, count = stage.block(step.shape("position")[0])
            local = step.read("position", start=(start, 0), count=(count, 3))
            with out.step():
                out.write("time", step.read("time"))  # a scalar: rank 0's value
                out.write("local", local, shape=step.shape("position"), start=(start, 0))

In a run the pipeline decides which streams these are (through the file that the environment variable WF_STAGE names).
Without a run the command line does (`workflow.component_program.arguments`), or the argument `path`. With a serial
ADIOS2 rank 0 reads and writes for all ranks; with one built with MPI each rank does so itself. The program is the same.
"""

from __future__ import annotations

from workflow.distribution.boxes import Shape
from workflow.stage.api.members import Members
from workflow.stage.api.notes import note
from workflow.stage.api.open_streams import follow, open_members, open_reader, open_writer, open_writers
from workflow.stage.api.reader import Reader, in_step
from workflow.stage.api.reservoir import Reservoir
from workflow.stage.api.state import State, once
from workflow.stage.api.steered_values import steer, steered
from workflow.stage.api.step import Piece, Step
from workflow.stage.api.step_copy import StepCopy
from workflow.stage.api.stopping import stop_requested
from workflow.stage.api.window import Window
from workflow.stage.api.writer import Writer
from workflow.stage.ranks import block, block_of, communicator, grid, rank, size
from workflow.stage.settings import is_joined
from workflow.stage.stage_errors import (  # fmt: skip
    BoundExceeded,
    ContractError,
    RanksDiffer,
    RunStopped,
    StageError,
    StepRemoved,
    StreamFailed,
    StreamTimeout,
    UnevenSteps,
)
from workflow.stage.variables import Array, Info

__all__ = [
    "Array", "BoundExceeded", "ContractError", "Info", "Members", "Piece", "RanksDiffer", "Reader", "Reservoir",
    "RunStopped", "Shape", "StageError", "State", "Step", "StepCopy", "StepRemoved", "StreamFailed", "StreamTimeout",
    "UnevenSteps", "Window", "Writer", "block", "block_of", "communicator", "follow", "grid", "in_step", "is_joined",
    "note", "once", "open_members", "open_reader", "open_writer", "open_writers", "rank", "size", "steer", "steered",
    "stop_requested",
]  # fmt: skip
