"""Which nodes a line runs on, for launchers that take host names: on the line, or in a file where there are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workflow.launch.launch_request import LaunchRequest

# A longer line is not readable, and not accepted everywhere.
HOSTS_ON_LINE = 40
Files = dict[str, Callable[[], str]]


def host_options(request: LaunchRequest, hosts: Sequence[str], in_file: str = "{}") -> tuple[list[str], Files]:
    """(options `hosts` or `host_file` of the launcher's table, the file that they need). Without hosts: none.

    `in_file` is what a line of the file has for a host.
    """
    if not hosts:
        return [], {}
    if len(hosts) <= HOSTS_ON_LINE:
        return request.option("hosts", ",".join(hosts)), {}
    path = f"{request.folder}/hosts"
    return request.option("host_file", path), {
        path: lambda: "".join(f"{in_file.format(*host.split(':'))}\n" for host in hosts)
    }


def hosts_with_ranks(request: LaunchRequest) -> list[str]:
    """`host:ranks` in the order of the ranks, for nodes that have different numbers of them."""
    return [f"{request.hosts[each.node]}:{each.ranks}" for each in request.segments()] if request.hosts else []
