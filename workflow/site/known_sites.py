"""All sites that have a file here, and those of them that this machine is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.errors import Problem, WfError, to_message
from workflow.launch.allocation import Allocation, Source
from workflow.schedulers.schedulers import SCHEDULERS
from workflow.site.detection import is_here
from workflow.site.load_site import MANY_NODES, read_site_file
from workflow.site.site_model import Site, SiteFile
from workflow.spec.models.pipeline import AUTO_SITE
from workflow.spec.shipped import find_configs, known_configs


@dataclass(frozen=True)
class KnownSite:
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
