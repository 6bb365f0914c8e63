"""ADIOS2's engines, `SHM` and `file`: what each one is like, as far as any room asks. The only list.

Nobody asks for an engine by its name: each place asks for the trait that it means, so that a new engine is one entry
here and `configs/engines/NAME.yaml` with its parameters. What is special to one engine has modules of its own: SST
`sst_transports`, `run/observe/sst_log`, `stage/adios/open_engine`; SHM `stage/shared_memory`; BP `formats/bp_index`;
HDF5 `stage/hdf5`. Observed with ADIOS2 2.12.1. Standard library only: stages import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple


class EngineTraits(NamedTuple):
    """One engine. The defaults are those of an engine that writes files, and of which nothing else is known."""

    name: str
    """ADIOS2's name, `SHM` or `file`."""

    # How data gets to the readers.
    in_memory: bool = False
    """Steps go from memory to memory: an open waits for the other end, and a step that nobody took is lost. The writer
    holds finished steps in a queue with a limit, and readers may leave before the end of the stream."""
    over_network: bool = False
    """Its ends meet by EVPath: they have a transport (`sst_transports`), TCP connections and random process ids."""
    one_node: bool = False
    """Its ends are on one node, and both open it with `workflow.stage`."""

    # What it leaves on disk.
    has_steps: bool = True
    """Its data come in steps; False for a file that one program writes and the next one reads."""
    contact_suffix: str = ""
    """Its writer leaves a contact file at the stream's path with this suffix, until it ends."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of paths by which `workflow.stage` chooses it, in lower case."""
    instead_of_bp: str = ""
    """The suffix that its writer puts in the place of `.bp`; empty: it leaves names as they are."""
    aggregators: Literal["none", "one level", "two levels"] = "none"
    """Whether a step is in several `data.*` files, and who decides how many: `plan/streams/aggregation`."""
    records_blocks: bool = True
    """It is recorded which rank wrote which part."""
    holds_local_blocks: bool = True
    """It has arrays in local blocks, without a global shape."""
    keeps_form: bool = True
    """A variable has one type and number of dimensions in all steps."""
    attributes_at_end: bool = False
    """ADIOS2 (2.12.1) reads the last value of an attribute in every step of its files."""
    index_version: int = 0
    """The version that its index, `md.idx`, names; 0: it has none."""
    leaves_profiles: bool = False
    """Its readers leave a file of times in /tmp: `formats/reader_profile`."""

    # What can be done with it.
    optional: bool = False
    """ADIOS2 may have been built without it, and a program that opens it then fails."""
    resumable: bool = False
    """Its files can be read from any step on, also while they are written, and written on after any step."""
    library: Literal["adios2", "h5py", "own", "none"] = "adios2"
    """By which module `workflow.stage` reads it; own: by itself."""
    counted_by: Literal["log", "index", "none"] = "none"
    """Where the steps of a program that reports none are seen: in its log, or in the file's index `md.idx`."""
    compresses: bool = False
    """It applies ADIOS2's operators."""
    by_openpmd: bool = False
    """openPMD-api writes and reads it."""
    any_case: bool = False
    """It knows its parameters in upper and lower case; others ignore a name that differs in case."""


ENGINES: dict[str, EngineTraits] = {
    each.name: each
    for each in (
        EngineTraits(
            "SST", in_memory=True, over_network=True, contact_suffix=".sst", counted_by="log",
            compresses=True, by_openpmd=True,
        ),
        # `workflow.stage`'s own: memory that both ends share.
        EngineTraits("SHM", in_memory=True, one_node=True, contact_suffix=".shm", library="own"),
        EngineTraits(
            "BP5", suffixes=(".bp", ".bp5"), aggregators="two levels", leaves_profiles=True, counted_by="index",
            index_version=5, resumable=True, compresses=True, by_openpmd=True, any_case=True,
        ),
        EngineTraits(
            "BP4", suffixes=(".bp4",), aggregators="one level", counted_by="index",
            attributes_at_end=True, index_version=4, compresses=True, by_openpmd=True, any_case=True,
        ),
        EngineTraits(
            "HDF5", suffixes=(".h5", ".hdf5"), instead_of_bp=".h5", records_blocks=False, holds_local_blocks=False,
            keeps_form=False, optional=True, library="h5py",
        ),
        EngineTraits("file", has_steps=False, records_blocks=False, library="none"),
        # Only read, by path: one file of an older version of ADIOS2, and the engine that finds out which BP a file is.
        EngineTraits("BP3", attributes_at_end=True, any_case=True),
        EngineTraits("BPFile", any_case=True),
    )
}  # fmt: skip

DEFAULT_VIA = "sst"
"""The preset of a stream that names none, and of the streams that wf adds for pipes and taps."""
NODE_VIA = "shm"
"""The preset of memory that the stages of one node share. `transport:` of a stream by SST names it, too."""
KEPT_VIA = "bp5"
"""The preset of the streams that wf adds to keep the steps of others."""
KEPT_ENGINE = "BP5"
"""Its engine, and that of all files that are read from any step on while they are written."""
ANY_BP = "BPFile"
HDF5_SUFFIXES = (*ENGINES["HDF5"].suffixes, ".h5part", ".h5block", ".vtkhdf")
BP_SUFFIXES = tuple(suffix for each in ENGINES.values() if each.counted_by == "index" for suffix in each.suffixes)
CONTACT_SUFFIXES = tuple(each.contact_suffix for each in ENGINES.values() if each.contact_suffix)
_BY_SUFFIX = {suffix: name for name, each in ENGINES.items() for suffix in each.suffixes}


def traits_of(name: str) -> EngineTraits:
    """The traits of an engine, also by its name in lower case; of one that is not in the list, those of a file."""
    return ENGINES.get(name) or ENGINES.get(name.upper()) or EngineTraits(name)


def queue_settings(parameters: Mapping[str, str]) -> tuple[int, bool]:
    """The queue of a writer by its engine's parameters: the limit in steps, 0 for none; whether it drops steps."""
    discards = parameters.get("QueueFullPolicy", "Block").lower() == "discard"
    return int(parameters.get("QueueLimit", "0")), discards


def engine_of_suffix(path: Path) -> str:
    """The engine that the suffix of a path stands for: of none that is known, a live stream.

    >>> engine_of_suffix(Path("out/field.h5")), engine_of_suffix(Path("streams/field"))
    ('HDF5', 'SST')
    """
    return _BY_SUFFIX.get(path.suffix.lower(), "SST")


def engine_of_data(path: Path) -> str:
    """The engine that wrote a file or directory of data, as it lies on disk."""
    if not path.is_dir():
        return "HDF5" if path.suffix.lower() in HDF5_SUFFIXES else "BP3"
    # BP4 has no file of meta-metadata; both have names in .bp.
    return "BP5" if (path / "mmd.0").exists() else "BP4"
