"""Cobalt, as a scheduler that wf does not know: qsub(1), qstat(1), qdel(1). All that is to be written for a new one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from workflow.launch.allocation import Allocation
from workflow.launch.host_lists import read_host_file, with_own_facts
from workflow.launch.rank_ends import SchedulerCause
from workflow.schedulers.scheduler import HowToAsk, JobOrder, JobWord, Phase, Query, Scheduler, SubmitCommand, ThisNode

_PHASES: dict[str, Phase] = {
    **dict.fromkeys(("queued", "starting", "user_hold"), "pending"),
    **dict.fromkeys(("running", "killing", "exiting"), "running"),
    "done": "ended",
}
_CAUSES: dict[str, SchedulerCause] = {"WALLTIME": "time_limit", "NODEDOWN": "node_lost", "QDEL": "cancelled"}
_QSTAT = ["qstat", "--header", "JobID:State:Message"]


def _allocation(environ: Mapping[str, str], _: Query, node: ThisNode) -> Allocation:
    hosts = read_host_file(environ["COBALT_NODEFILE"], "COBALT_NODEFILE").split()
    return Allocation("cobalt", environ["COBALT_JOBID"], with_own_facts(hosts, node.host()), counts_threads=True)


def _directives(order: JobOrder) -> Iterator[str]:
    asked = order.allocation
    yield f"-n {asked.nodes} -t {math.ceil(asked.walltime_s / 60)} --jobname {order.name} -o {order.output}"
    yield from asked.directives


def _read(text: str) -> list[JobWord]:
    found = []
    for line in text.splitlines():
        job, state, reason = [*line.split(maxsplit=2), "", ""][:3]
        if job.isdigit():
            found.append(JobWord(job, _PHASES.get(state, "unknown"), state, line, reason))
    return found


SCHEDULER = Scheduler(
    title="Cobalt",
    command="cqwait",
    allocation=_allocation,
    submit=SubmitCommand(("qsub",), re.compile(r"^(\d+)$", re.MULTILINE)),
    mark="#COBALT",
    directives=_directives,
    of_job=lambda job: [*_QSTAT, job],
    of_name=lambda name: [*_QSTAT, "--jobname", name],
    read=_read,
    cancel=lambda job: ["qdel", job],
    absent=("no such job",),
    phases=_PHASES,
    causes=_CAUSES,
    ending=("killing", "exiting"),
    ask=HowToAsk("`qsub -n {0}`", "`qsub --mode script`", "a queue of nodes that have them"),
)
