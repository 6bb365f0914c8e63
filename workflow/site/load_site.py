"""Sites from `configs/sites`, as checked models, and those of them that this machine is.

A mistake in such a file is reported with its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from workflow.errors import Problem, SpecError, WfError, to_message
from workflow.launch.allocation import Allocation, Source
from workflow.launch.launchers import LAUNCHERS, known_launcher
from workflow.schedulers.schedulers import SCHEDULERS
from workflow.site.site_model import Site, SiteFile, check_site, is_here
from workflow.site.this_machine import cpu_topology, interfaces, look, memory_bytes, usable_cores
from workflow.spec.models.pipeline import AUTO_SITE
from workflow.spec.models.units import Spec
from workflow.spec.overlay import Overlaid, Setting, with_value
from workflow.spec.shipped import find_configs, is_path, known_configs, no_config, read_config
from workflow.spec.suggest import did_you_mean, listing, shortened
from workflow.spec.validation_messages import problem_at, validated
from workflow.spec.yaml_tree.node import Node, key_path
from workflow.spec.yaml_tree.parse import read_yaml

# How each version of a launcher spells its options: `configs/launchers/NAME.yaml`, a table per launcher.


def _with_numbers(version: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+)*\S*", version):
        raise ValueError(f'expected a version such as "24.05", got "{version}"')
    return version


Version = Annotated[str, AfterValidator(_with_numbers)]


class LauncherTable(Spec):
    """The options of a launcher. In each, `{}` is where the value goes; an empty text: that version has none."""

    launcher: Annotated[str, AfterValidator(known_launcher)]
    summary: str
    source: str = Field(description="where its options are described")
    assumed: Version = Field(description="the version, where the site does not say")
    options: dict[str, str] = Field(description="of the oldest version")
    since: dict[Version, dict[str, str]] = Field({}, description="version → what changed with it")

    def of_version(self, version: str | None) -> dict[str, str]:
        """The options of a version, by default of the assumed one."""
        wanted, found = _numbers(version or self.assumed), dict(self.options)
        for changed in sorted(self.since, key=_numbers):
            if _numbers(changed) <= wanted:
                found |= self.since[changed]
        return found


def launcher_options(launcher: str, version: str | None = None) -> dict[str, str]:
    """The options of a version of a launcher; {} of `none`, which has no options.

    Raises SpecError where its table is wrong.
    """
    if not LAUNCHERS[launcher].options:
        return {}
    node = read_config("launchers", launcher)
    table, problems = validated(LauncherTable, node)
    if table is None or problems:
        raise SpecError(problems)
    return table.of_version(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


# The tree of a site file over that of the site that it `extends`. Places survive: messages show the right file.

# In these tables single keys are replaced; anything else is replaced as a whole.
_TABLES = {"queues": 2, "submit": 1, "env": 1, "cost": 1}
# What belongs to one site and not to its relatives.
_OWN = ("site", "extends")


def read_site_tree(name: str, base: Path | None = None) -> tuple[Node, Path]:
    """(the whole tree of a site, its own file).

    Raises:
        WfError: there is no such site.
        SpecError: a file is no YAML, or extends what it may not.
    """
    files = find_configs("sites", name, base)
    if not files:
        raise no_config("sites", name)
    return _tree(files[0], []), files[0]


def lay_settings(node: Node, settings: Sequence[Setting]) -> Overlaid:
    """The tree with the values that a campaign gives to keys of the site. What is wrong is left out."""
    result = Overlaid(node)
    for setting in settings:
        path = key_path(result.root, setting.key)
        if path[0] in _OWN:
            place = setting.value.key or setting.value.place
            message, hint = "this key of the site cannot vary", "vary the site: `site: [NAME, NAME]`"
            result.problems.append(Problem(*place, f"site.{setting.key}", message, hint))
        else:
            result.root = with_value(result.root, path, setting.value)
    return result


def site_files(site: str, written: str, base: Path) -> list[Path]:
    """The file of a site, and those that it extends, the strongest first.

    Args:
        site: its name.
        written: the pipeline's `site:`, which may be a path relative to `base`.
    """
    files = find_configs("sites", written if is_path(written) else site, base)[:1]
    while files and (below := _below(files[-1], _extended(files[-1]), files)) is not None:
        files.append(below)
    return files


def _extended(file: Path) -> str | None:
    """The site that a file which was read without mistakes extends: its line is found faster than its tree."""
    found = re.search(r"^extends:[ \t]*['\"]?([^\s'\"#]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else None


def _below(file: Path, name: str | None, seen: list[Path]) -> Path | None:
    """The file of that name that a site file means: not itself, nor one that has led to it."""
    if name is None:
        return None
    return next((each for each in find_configs("sites", name, file.parent) if each not in seen), None)


def _tree(file: Path, seen: list[Path]) -> Node:
    node = read_yaml(file)[0]
    extends = node.child("extends")
    if extends is None or not isinstance(extends.value, str):
        return node
    name, seen = extends.value, [*seen, file]
    below = _below(file, name, seen)
    if below is None and find_configs("sites", name, file.parent):
        message = f"{shortened(name)} extends this site itself"
        raise SpecError([problem_at(node, ("extends",), message, "extend another site, or remove it")])
    if below is None:
        known = [each for each in known_configs("sites") if each != file.stem]
        hint = did_you_mean(name, known) or f"sites: {listing(known)}"
        raise SpecError([problem_at(node, ("extends",), f"there is no site `{shortened(name)}`", hint)])
    return _over(node, _tree(below, seen))


def _over(node: Node, below: Node) -> Node:
    """`node` with what it lacks from `below`."""
    base = {key: child for key, child in below.mapping().items() if key not in _OWN}
    merged = dict(base)
    for key, child in node.mapping().items():
        merged[key] = _merged(child, base.get(key), _TABLES.get(key, 0))
    return Node(merged, node.place)


def _merged(node: Node, below: Node | None, depth: int) -> Node:
    if below is None or not depth or not isinstance(node.value, dict) or not isinstance(below.value, dict):
        return node
    children = {key: _merged(child, below.value.get(key), depth - 1) for key, child in node.value.items()}
    return Node({**below.value, **children}, node.place, node.key)


# Of a machine whose number of nodes is not known: as many as any plan needs.
MANY_NODES = 10_000
# For a machine that is another one than this: not known. What this machine has says nothing about it.
_ELSEWHERE: dict[str, Any] = {
    "nodes": MANY_NODES,
    "planes": [],
    "fabric": False,
    "peer_memory": True,
    "parallel_adios2": None,
    "memory_policy": [],
    "glibc": "",
}


def read_site_file(name: str, base: Path | None = None, settings: Sequence[Setting] = ()) -> SiteFile:
    """The site as it is written; see `load_site`."""
    node, _ = read_site_tree(name, base)
    overlaid = lay_settings(node, settings)
    file, problems = validated(SiteFile, overlaid.root)
    if file is not None:
        problems = problems + check_site(file, overlaid.root)
    problems = [*overlaid.problems, *(_named(problem, settings) for problem in problems)]
    if file is None or problems:
        raise SpecError(problems)
    return file


def _named(problem: Problem, settings: Sequence[Setting]) -> Problem:
    """A mistake that a campaign has written names the key as there: `site.launcher`."""
    is_own = problem.source in {each.value.place.source for each in settings}
    return problem._replace(key=f"site.{problem.key}") if is_own else problem


def load_site(
    name: str, base: Path | None = None, allocation: Allocation | None = None, settings: Sequence[Setting] = ()
) -> Site:
    """The site of that name, or with `base` of that file, relative to `base`; with the `settings` of a campaign.

    `auto` is filled from the allocation, where a scheduler has given one, then from this machine. Of a site whose
    file says how to recognise it, and that is not this machine, such facts are not known.

    Raises:
        WfError: there is none of that name.
        SpecError: its file is wrong.
    """
    file = read_site_file(name, base, settings)
    known: dict[str, Any] = file.model_dump()
    if allocation is not None and allocation.host_names:
        _fill_from(allocation, known)
    if file.detect and not is_here(file.detect):
        known |= {key: value for key, value in _ELSEWHERE.items() if known[key] == "auto"}
        if known["launcher_path"] == "auto":
            known["launcher_path"] = LAUNCHERS[file.launcher].executable
    borrowed = known["nodes"] == known["cores_per_node"] == "auto"  # a site of any machine, outside of a job
    if known["nodes"] == "auto":
        known["nodes"] = MANY_NODES
    if known["cores_per_node"] == "auto":
        known["cores_per_node"] = usable_cores()
        known["interfaces"] = interfaces()  # stages run here: elsewhere they may be others
    if known["memory_per_node"] == "auto":
        known["memory_per_node"] = memory_bytes()
    looked = look(known)
    if borrowed:
        looked["seen"]["cores_per_node"] = "this machine, because wf is not inside a job"
    return Site(**looked, launcher_options=_options(file))


def _options(file: SiteFile) -> dict[str, str]:
    return launcher_options(file.launcher, file.launcher_version)


def _fill_from(allocation: Allocation, known: dict[str, Any]) -> None:
    """What the site has of nodes, and what its file leaves to `auto`, from the allocation.

    Of several nodes the smallest counts. They are taken to have as many hardware threads a core as this one.
    """
    count = len(allocation.hosts)
    known["nodes"] = count if known["nodes"] == "auto" else min(known["nodes"], count)
    if known["cores_per_node"] == "auto":
        threads = cpu_topology().threads_per_core
        counts = (allocation.cores_of(host, threads) for host in allocation.hosts)
        if cores := [count for count in counts if count is not None]:
            known["cores_per_node"] = min(cores)
            known["threads_per_core"] = threads
    memory = [host.memory for host in allocation.hosts if host.memory is not None]
    if known["memory_per_node"] == "auto" and memory:
        known["memory_per_node"] = min(memory)


class KnownSite(NamedTuple):
    """A site and its files, the one that counts first. `file` is None where it is wrong, with its `problems`."""

    name: str
    files: tuple[Path, ...]
    file: SiteFile | None
    is_here: bool = False
    problems: Sequence[Problem] = ()

    @property
    def is_variant(self) -> bool:
        """Whether it extends a site of another name."""
        return self.file is not None and self.file.extends not in (None, self.name)


# The site of machines that ssh reaches, and of a scheduler that has no file of its own.
HOSTS_SITE = "hosts"


def generic_site(source: Source) -> str:
    """The site of any machine under a scheduler, or of a host file."""
    return source if source in SCHEDULERS and source in known_configs("sites") else HOSTS_SITE


def site_for(allocation: Allocation, chosen: str) -> str:
    """The site to name to somebody who plans for one machine inside of a job of several; empty: none is better."""
    if chosen != "local" or allocation.source == "local":
        return ""
    return next(iter(detected_sites()), generic_site(allocation.source))


def better_site(allocation: Allocation, chosen: str) -> Problem | None:
    """What to say with the mistakes of a plan for one machine inside of a job of several; None: nothing."""
    count = len(allocation.hosts)
    if count < 2 or not (better := site_for(allocation, chosen)):
        return None
    return to_message(
        "note", f"site {chosen} is one machine, and the job has {count} nodes", f"use them: `--site {better}`"
    )


def site_here(allocation: Allocation) -> str:
    """What `site: auto` chooses: the known site that this machine is, else the nodes of the job, else this machine.

    Raises WfError where several known sites are this machine.
    """
    found = detected_sites()
    if len(found) > 1:
        names = " or ".join(f"`{name}`" for name in found)
        raise WfError(f"site auto: this machine is {names}", f"name one: `--site {found[0]}`")
    if found:
        return found[0]
    return generic_site(allocation.source) if allocation.host_names else "local"


def whole_site(site: Site, chosen: str, base: Path, allocation: Allocation) -> Site | None:
    """A site with all of its nodes, where a job has fewer of them and the plan was made for these; None elsewhere.

    Args:
        chosen: the pipeline's `site:`, a name or a path relative to `base`.
    """
    if allocation.source == "local":
        return None
    stated = read_site_file(site.site if chosen == AUTO_SITE else chosen, base).nodes
    nodes = MANY_NODES if stated == "auto" else stated
    return site.model_copy(update={"nodes": nodes}) if nodes > site.nodes else None


def detected_sites() -> list[str]:
    """The known sites that this machine is, by their files; one machine may have several (GPU nodes, CPU nodes).

    A site that extends another one is on the same machine, and chosen by its name only.
    """
    return [site.name for site in known_sites() if site.is_here and not site.is_variant]


def known_sites() -> list[KnownSite]:
    """All sites that a name may choose, by name. A file that is wrong is one of them, without what it says."""
    found = []
    for name in known_configs("sites"):
        files = tuple(find_configs("sites", name))
        try:
            file = read_site_file(name)
        except WfError as error:
            found.append(KnownSite(name, files, None, problems=error.problems))
        else:
            found.append(KnownSite(name, files, file, is_here(file.detect)))
    return found
