"""Worker processes of one pilot, by Parsl's HighThroughputExecutor: the only file that imports Parsl.

Two things of it are used: the encrypted transport of tasks and results between this process and workers on other nodes,
and the detection of lost workers. Placement, and when jobs start and end, are decided here: so there is no
DataFlowKernel
(docs/decisions/0035-pilots.md).
"""

from __future__ import annotations

import logging
import secrets
import shlex
import socket
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workflow.errors import RunError
from workflow.installation import install_command
from workflow.own_process import module_command

if TYPE_CHECKING:
    from parsl.executors import HighThroughputExecutor

T = TypeVar("T")
A = TypeVar("A")
Launch = Callable[[str, list[str], int], None]
# Between signs of life, and how long without them until the other side counts as lost.
HEARTBEAT_S = 5
LOST_S = 30
_LOOPBACK = "127.0.0.1"
# Parsl derives the number of workers also from the cores of the node; here it is given.
_CORES_PER_WORKER = 1e-6


def require_parsl() -> None:
    """Raises RunError where Parsl is not installed."""
    try:
        import parsl.executors  # noqa: F401
    except ImportError as error:
        text = "repetitions run side by side by Parsl's workers, and Parsl is not installed in this Python"
        raise RunError(text, f"{install_command('pilots')}, or write `side_by_side: no`") from error


def is_of_all_workers(error: BaseException) -> bool:
    """Whether the exception of a task says that all workers of its pool are lost, and not the one that ran it."""
    from parsl.executors.errors import ExecutorError
    from parsl.executors.high_throughput.errors import ManagerLost

    return isinstance(error, ManagerLost | ExecutorError)


class WorkerPool:
    """The workers of one pilot. `launch` gets the command line that starts them, and starts it where they are to run;
    besides the addresses and the port at which they meet the process that joins both sides.

    `bound` is put before the command of the process that joins both sides: it must end with this process.
    """

    def __init__(self, name: str, folder: Path, workers: int, launch: Launch, bound: list[str], *, here: bool) -> None:
        self._executor = _make_executor(name, workers, launch, bound, here)
        self._executor.run_dir = str(folder)
        self._executor.run_id = secrets.token_hex(4)
        self._executor.log_config = None
        logging.getLogger("parsl").setLevel(logging.ERROR)
        start: Callable[[], None] = self._executor.start
        start()
        self._executor.scale_out_facade(1)

    @property
    def addresses(self) -> list[str]:
        """Where workers find this process."""
        return sorted(self._executor.all_addresses)

    def submit(self, function: Callable[[A], T], argument: A) -> Future[T]:
        """Run a function of a module in a worker. Its future fails when the worker, or all of them, are lost."""
        future: Future[T] = self._executor.submit(function, {}, argument)
        return future

    def close(self) -> None:
        """End what joins both sides; workers notice it, and end."""
        self._executor.shutdown()


def _make_executor(name: str, workers: int, launch: Launch, bound: list[str], here: bool) -> HighThroughputExecutor:
    from parsl.executors import HighThroughputExecutor
    from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD

    def start(command: str) -> None:
        assert executor.worker_port is not None, "the process that joins both sides has chosen it"
        launch(command, sorted(executor.all_addresses), executor.worker_port)

    # As modules of this Python: its scripts need not be on PATH, on compute nodes least of all.
    module = shlex.join(module_command("parsl.executors.high_throughput.process_worker_pool"))
    executor = HighThroughputExecutor(
        label=name,
        provider=_make_provider(start),
        launch_cmd=DEFAULT_LAUNCH_CMD.replace("process_worker_pool.py", module),
        interchange_launch_cmd=[*bound, *module_command("parsl.executors.high_throughput.interchange")],
        address=_LOOPBACK,
        cores_per_worker=_CORES_PER_WORKER,
        max_workers_per_node=workers,
        heartbeat_period=HEARTBEAT_S,
        heartbeat_threshold=LOST_S,
        block_error_handler=False,
        encrypted=True,
    )
    if not here:
        # With an address it listens on that one only; without one Parsl asks a service of the internet for its own.
        executor.address = None
        executor.all_addresses = _own_addresses()
    return executor


def _own_addresses() -> set[str]:
    """The addresses of this host: workers try them all."""
    from parsl.addresses import address_by_interface

    found = set()
    for _, interface in socket.if_nameindex():
        try:
            found.add(str(address_by_interface(interface)))
        except OSError:  # it has none
            continue
    return found - {_LOOPBACK}


def _make_provider(launch: Callable[[str], None]) -> Any:
    """Parsl's name for what starts workers."""
    from parsl.jobs.states import JobState, JobStatus
    from parsl.providers.base import ExecutionProvider

    class PilotProvider(ExecutionProvider):
        """Starts the workers of one pilot by a function; its state is looked at elsewhere."""

        label = "pilot"
        status_polling_interval = 60

        def __init__(self) -> None:
            self.min_blocks = self.init_blocks = self.max_blocks = self.nodes_per_block = 1
            self.parallelism = 1.0
            self.script_dir = None
            self.resources = {}
            self.cores_per_node = None
            self.mem_per_node = None

        def submit(self, command: str, tasks_per_node: int, job_name: str = "") -> object:  # noqa: ARG002
            launch(command)
            return "1"

        def status(self, job_ids: Any) -> Any:
            return [JobStatus(JobState.RUNNING) for _ in job_ids]

        def cancel(self, job_ids: Any) -> Any:
            return [False for _ in job_ids]

    return PilotProvider()
