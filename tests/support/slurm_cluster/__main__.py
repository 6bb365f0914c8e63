"""A cluster by hand: `python -m tests.support.slurm_cluster up|down|shell|status|install`, in the checkout."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys

from tests.support.slurm_cluster.cluster import SlurmCluster
from tests.support.slurm_cluster.requirements import missing_for_cluster, missing_packages
from tests.support.slurm_cluster.settings import ClusterSettings


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.verb(arguments))
    except (RuntimeError, ValueError, TimeoutError) as error:
        print(f"slurm_cluster: {error}", file=sys.stderr)
        return 1


def up(arguments: argparse.Namespace) -> int:
    names = [field.name for field in dataclasses.fields(ClusterSettings)]
    cluster = SlurmCluster(arguments.name, ClusterSettings(**{name: getattr(arguments, name) for name in names}))
    cluster.start()
    print("\n".join(_exports(cluster)))
    print(f"# {_where(cluster)}")
    print(f"# remove it: python -m tests.support.slurm_cluster down --name {cluster.name}")
    return 0


def down(arguments: argparse.Namespace) -> int:
    if arguments.name not in SlurmCluster.running():
        raise RuntimeError(f"there is no cluster {arguments.name}")
    SlurmCluster(arguments.name).stop()
    return 0


def shell(arguments: argparse.Namespace) -> int:
    cluster = _running(arguments.name)
    print(f"{_where(cluster)}. Leave by Ctrl-D; the cluster stays.")
    return subprocess.call([os.environ.get("SHELL", "/bin/sh")], env={**os.environ, **cluster.environment})


def status(_: argparse.Namespace) -> int:
    for name in SlurmCluster.running():
        cluster = SlurmCluster(name)
        if not cluster.is_recorded():
            print(f"{name}: is being started or removed")
            continue
        print(f"{name}: {_where(cluster)}")
        for host in cluster.hosts:
            kept = ", ".join(str(process.pid) for process in cluster.processes_on(host)) or "none"
            print(f"  {host} {cluster.address(host)} {'on' if cluster.is_on(host) else 'off'}; processes: {kept}")
        print(cluster.client("sinfo") if cluster.controller_runs() else "slurmctld does not run")
    return 0


def install(_: argparse.Namespace) -> int:
    """Install packages where it may. It is not an error that it may not: the tests say what is missing."""
    packages = missing_packages()
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing with apt-get: {' '.join(packages)}", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "-qq", *command], check=True, env=environment)
    print("\n".join(missing_for_cluster()) or "a cluster can be started here")
    return 0


def _running(name: str) -> SlurmCluster:
    if name not in SlurmCluster.running():
        raise RuntimeError(f"there is no cluster {name}: start it by `up --name {name}`")
    return SlurmCluster(name)


def _exports(cluster: SlurmCluster) -> list[str]:
    return [f"export {name}={value}" for name, value in cluster.environment.items()]


def _where(cluster: SlurmCluster) -> str:
    return (
        f"nodes {', '.join(cluster.hosts)}; this machine is {cluster.login_address} to them; state in {cluster.state}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.support.slurm_cluster", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="up|down|shell|status|install")
    for verb, about in (
        (up, "start a cluster and print the variables that its clients need"),
        (down, "kill and remove a cluster"),
        (shell, "a shell with the variables of a cluster"),
        (status, "list all clusters of this machine"),
        (install, "install the packages that a cluster needs, as root; say what is missing"),
    ):
        one = verbs.add_parser(verb.__name__, help=about)
        one.set_defaults(verb=verb)
        if verb in (up, down, shell):
            one.add_argument("--name", default="dev", help="several clusters can run beside each other; default: dev")
        if verb is up:
            _add_settings(one)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for name, value in dataclasses.asdict(ClusterSettings()).items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=value)
        else:
            parser.add_argument(option, type=type(value), default=value, help=f"default: {value}")


if __name__ == "__main__":
    sys.exit(main())
