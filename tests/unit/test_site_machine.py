"""What is seen of this machine, from files of its kind that the tests make."""

from __future__ import annotations

import importlib.util
import os
import re
import struct
import sys
from pathlib import Path

import pytest

from workflow.launch.launchers import LAUNCHERS
from workflow.site import this_machine
from workflow.site.adios2_library import Links, adios2_planes, adios2_random_ids, read_links
from workflow.site.load_site import load_site
from workflow.site.this_machine import (
    launcher_path,
    look,
    memory_bytes,
    memory_policy,
    parse_version,
    peer_memory,
    rdma_fabric,
)

ROOT = Path(__file__).parents[2]


def write_library(path: Path, needed: list[str], runpath: str = "") -> None:
    """The smallest ELF file that links these: a header, two segments, the dynamic table, its names."""
    names, offsets = b"\0", []
    for name in [*needed, runpath]:
        offsets.append(len(names))
        names += name.encode() + b"\0"
    table, base = 64 + 2 * 56, 0x1000
    entries = [(1, offset) for offset in offsets[:-1]] + ([(29, offsets[-1])] if runpath else [])
    size = (len(entries) + 2) * 16
    entries += [(5, base + table + size), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    total = table + size + len(names)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, base, base, total, total, 0x1000)
    segment = struct.pack("<IIQQQQQQ", 2, 4, table, base + table, base + table, size, size, 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + load + segment + dynamic + names)


@pytest.fixture
def adios2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `adios2` that hides the installed one, and no other prefix."""
    (tmp_path / "adios2").mkdir()
    (tmp_path / "adios2/__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "adios2", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    return tmp_path / "adios2"


def test_links_of_a_library(tmp_path: Path) -> None:
    write_library(tmp_path / "a.so", ["libucp.so.0", "libc.so.6"], "$ORIGIN/mpich:/opt/lib")
    assert read_links(tmp_path / "a.so") == Links(["libucp.so.0", "libc.so.6"], ["$ORIGIN/mpich", "/opt/lib"])


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + bytes(200)])
def test_files_that_are_no_libraries(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.so").write_bytes(data)
    assert read_links(tmp_path / "a.so") is None
    assert read_links(tmp_path / "b.so") is None


def test_the_wheel_from_pypi_has_tcp_only(adios2: Path) -> None:
    write_library(adios2 / "libadios2_core.so.2.12", ["libadios2_evpath.so.2.12", "libc.so.6"])
    assert adios2_planes() == (["tcp"], "linked by libadios2_core.so.2.12")


def test_a_build_with_all_is_found_by_the_rpath_of_its_bindings(adios2: Path) -> None:
    write_library(adios2 / "bindings/x.so", ["libadios2_core.so"], "$ORIGIN:$ORIGIN/../../lib")
    write_library(adios2.parent / "lib/libadios2_core.so", ["libfabric.so.1", "libucp.so.0", "libmpi.so.12"])
    assert adios2_planes()[0] == ["tcp", "rdma", "ucx", "mpi"]


def test_nothing_is_known_without_adios2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert adios2_planes()[0] == []


def test_the_installed_one_can_at_least_do_tcp() -> None:
    assert "tcp" in adios2_planes()[0]


def test_random_ids_are_read_from_the_library_that_stages_load(adios2: Path) -> None:
    """Of a build with our patch, whose text is the one place where the message is made."""
    write_library(adios2 / "bindings/x.so", ["libadios2_core.so"], "$ORIGIN/../../lib")
    write_library(adios2.parent / "lib/libadios2_core.so", ["libadios2_evpath.so"])
    evpath = adios2.parent / "lib/libadios2_evpath.so"
    evpath.write_bytes(b"ELF")
    assert not adios2_random_ids()
    patch = (ROOT / "tools/patches/evpath-unique-process-id.patch").read_bytes()
    (added,) = re.findall(rb'\n\+.*"(CM - .*?)0x%x', patch)
    evpath.write_bytes(b"ELF..." + added + b"...")
    assert adios2_random_ids()


def test_random_ids_where_evpath_is_inside_another_library(adios2: Path) -> None:
    library = adios2 / "libadios2_core.so.2.12"
    library.write_bytes(b"...CM - CManager_ID of this process: 0x%x\n...")
    assert adios2_random_ids()
    library.write_bytes(b"")
    assert not adios2_random_ids()


def test_random_ids_are_not_known_without_adios2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert not adios2_random_ids()


def test_a_fabric_is_a_device_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "_FABRICS", (str(tmp_path / "none"), str(tmp_path / "infiniband")))
    assert rdma_fabric()[0] is False
    (tmp_path / "infiniband/mlx5_0").mkdir(parents=True)
    found, seen = rdma_fabric()
    assert found and "mlx5_0" in seen


@pytest.mark.parametrize(("scope", "allowed"), [("0", True), ("1", True), ("2", False), ("3", False), (None, True)])
def test_memory_of_neighbours_by_the_kernels_rules(
    scope: str | None, allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scope is not None:
        (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(this_machine, "_PTRACE", tmp_path / "scope")
    found, seen = peer_memory()
    assert found is allowed, seen


@pytest.mark.parametrize(
    ("glibc", "pages", "expected"),
    [
        ("2.36", "always [madvise] never", ["huge_pages", "keep_freed"]),
        ("2.36", "[always] madvise never", ["huge_pages", "keep_freed"]),
        ("2.36", "always madvise [never]", ["keep_freed"]),
        ("2.36", None, ["keep_freed"]),
        ("2.28", "always [madvise] never", ["keep_freed"]),
        ("", "always [madvise] never", []),
    ],
)
def test_memory_policy_by_the_c_library_and_the_kernel(
    glibc: str, pages: str | None, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled = tmp_path / "enabled"
    if pages is not None:
        enabled.write_text(pages)
    monkeypatch.setattr(this_machine, "_HUGE_PAGES", enabled)
    assert memory_policy(glibc, {})[0] == expected


def test_memory_policy_leaves_users_settings_alone() -> None:
    policy, seen = memory_policy("2.36", {"GLIBC_TUNABLES": "x"})
    assert policy == [] and "GLIBC_TUNABLES is set" in seen


def test_what_a_site_says_is_not_looked_up() -> None:
    said = {
        "launcher_path": "srun",
        "planes": ["tcp"],
        "fabric": True,
        "peer_memory": True,
        "glibc": "2.28",
        "memory_policy": [],
        "random_sst_ids": True,
    }
    assert look(said) == {**said, "seen": {}}


@pytest.mark.parametrize(("text", "version"), [("2.36", (2, 36)), ("2.36.9000", (2, 36)), ("", ()), ("musl", ())])
def test_versions(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


def test_interfaces_are_looked_up_where_the_site_is_this_machine() -> None:
    assert "lo" in load_site("local").interfaces
    assert not load_site("example-slurm").interfaces


def test_a_launcher_of_the_python_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its MPI is that of this Python; others are found by name, on the machine where the run starts."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    assert launcher_path(LAUNCHERS["mpiexec"]) == "mpiexec"
    assert write_program(tmp_path / "other/mpiexec") == launcher_path(LAUNCHERS["mpiexec"])
    assert write_program(tmp_path / "mpiexec") == launcher_path(LAUNCHERS["mpiexec"])
    write_program(tmp_path / "srun")
    assert launcher_path(LAUNCHERS["srun"]) == "srun"


def write_program(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o755)
    return str(path)


@pytest.mark.parametrize(
    ("own", "limits", "found"),
    [
        ("0::/job/step", {"job/step/memory.max": "max", "job/memory.max": "4096", "memory.max": "8192"}, 4096),
        ("0::/", {"memory.max": "8192"}, 8192),
        (
            "4:memory:/job\n0::/",
            {"memory/job/memory.limit_in_bytes": "2048", "memory/memory.limit_in_bytes": "9" * 18},
            2048,
        ),
        ("0::/job", {"memory.max": "max"}, None),
        ("3:cpuset:/job", {"cpuset/job/memory.limit_in_bytes": "1"}, None),
        ("", {}, None),
    ],
)
def test_memory_is_what_the_cgroups_leave(
    own: str, limits: dict[str, str], found: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup").write_text(own)
    for name, limit in limits.items():
        file = tmp_path / "tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit + "\n")
    monkeypatch.setattr(this_machine, "_OWN_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(this_machine, "_CGROUPS", tmp_path / "tree")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory_bytes() == (total if found is None else found)


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/job/step", {"job/step/cpu.max": "max 100000", "job/cpu.max": "250000 100000"}, 2),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/job", {"job/cpu.max": "max 100000"}, 8),
        ("0::/job", {"job/cpu.max": "6400000 100000"}, 8),
        ("3:cpu,cpuacct:/job", {"cpu/job/cpu.cfs_quota_us": "300000", "cpu/job/cpu.cfs_period_us": "100000"}, 3),
        ("3:cpu:/job", {"cpu/job/cpu.cfs_quota_us": "-1", "cpu/job/cpu.cfs_period_us": "100000"}, 8),
        ("3:cpuset:/job", {"cpuset/job/cpu.max": "100000 100000"}, 8),
    ],
)
def test_the_cores_are_those_of_which_a_cgroup_grants_the_time(
    own: str, files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (tmp_path / "cgroup").write_text(f"{own}\n")
    monkeypatch.setattr(this_machine, "_OWN_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(this_machine, "_CGROUPS", tmp_path / "fs")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert this_machine.usable_cores() == cores
