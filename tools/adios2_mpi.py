"""Give a virtual environment an ADIOS2 with MPI, built once from its source distribution.

pip's own ADIOS2 wheel is serial: no MPI, no compression, one SST data plane, no bpls. This script
builds the full one against the `mpich` wheel, with the patches in tools/patches (each says why),
keeps it in a cache outside the checkout, and installs it in the environment of the Python that runs
it (all rpaths in it are relative):

    PYTHON tools/adios2_mpi.py --install      build if needed, install here, verify
    PYTHON tools/adios2_mpi.py                build if needed, print the wheel's path
"""

import argparse
import contextlib
import ctypes.util
import fcntl
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NamedTuple

ADIOS2_VERSION = "2.12.1"
MPICH_NEWEST = "5.0.2"
CHECK_LIMIT_S = 120
BUILD_NEEDS = "scikit-build-core setuptools_scm ninja cmake numpy mpi4py>=4,<5 blosc2>=4"
# Command: Debian package.
TOOLS = {"c++": "g++", "make": "make", "patch": "patch", "pkg-config": "pkg-config"}
PATCHES = sorted((Path(__file__).parent / "patches").glob("*.patch"))
# libmpi.so needs the mpich wheel's own, newer libfabric and libucp, which the linker cannot see.
# Blosc's archive bundles zstd, lz4 and zfp: exported, they would shadow the real ones.
LDFLAGS = "-Wl,--allow-shlib-undefined -Wl,--exclude-libs,libblosc2.a"
# SST's network layer asks for TCP_NODELAY only where it is defined, and forgets the header that does (EVPath's
# cmsockets.c): without it steps wait 40 ms for an acknowledgement that the other end delays.
CFLAGS = "-DTCP_NODELAY=1"
# Off, so that the wheel depends on what we ask for and not on what a machine happens to have.
UNUSED = (
    "BigWhoop SZ SZ3 LIBPRESSIO MGARD PRODM PNG DAOS DataMan DataSpaces ZeroMQ HDF5 HDF5_VOL IME "
    "Fortran Sodium Catalyst Campaign OpenSSL CURL XRootD AWSSDK Caliper"
)


class Extra(NamedTuple):
    """An optional part of ADIOS2, the system library that gives it, and how to see it is there."""

    name: str  # as `bpls -vV` spells an operator; our word for an SST data plane
    option: str  # ADIOS2_USE_<option>; empty: ADIOS2 takes it whenever it finds it
    header: str
    package: str  # Debian's
    library: str = ""  # needed at run time too; empty: the mpich wheel brings its own


EXTRAS = [
    Extra("ucx", "UCX", "ucp/api/ucp.h", "libucx-dev"),
    Extra("libfabric", "", "rdma/fabric.h", "libfabric-dev"),
    Extra("ZFP", "ZFP", "zfp.h", "libzfp-dev", "zfp"),
    Extra("BZip2", "BZip2", "bzlib.h", "libbz2-dev", "bz2"),
]


class StopError(Exception):
    """Ends the script with a message that says what to type next."""


def again(*options: str) -> str:
    """The command line that runs this script again."""
    return " ".join([sys.executable, sys.argv[0], *options])


def settings(extras: list[Extra], blosc_dir: Path) -> list[str]:
    """pip's --config-settings: everything that decides what is in the wheel."""
    absent = [e.option for e in EXTRAS if e.option and e not in extras]
    wanted = ["MPI", "Python", "SST", "Blosc2", *(e.option for e in extras if e.option)]
    define = {
        # PIP=ON (the source distribution's default) silently drops MPI from the Python bindings.
        **{f"ADIOS2_USE_{name}": "OFF" for name in ["PIP", *UNUSED.split(), *absent]},
        **{f"ADIOS2_USE_{name}": "ON" for name in wanted},
        # Else SST may choose the MPI plane unasked, and that hangs under plain mpiexec.
        "ADIOS2_SST_HAVE_MPI_DP_HEURISTICS_PASSED": "OFF",
        "ADIOS2_INSTALL_GENERATE_CONFIG": "ON",
        "Blosc2_DIR": str(blosc_dir),
        "CMAKE_INSTALL_LIBDIR": "lib",
        # Without :STRING CMake makes it absolute, and the bindings miss the wheel.
        "CMAKE_INSTALL_PYTHONDIR:STRING":
            f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages",
        # Relative rpaths only (INSTALL_TEST would add absolute ones), with the mpich wheel's.
        "CMAKE_INSTALL_RPATH": "$ORIGIN;$ORIGIN/mpich;$ORIGIN/../lib;$ORIGIN/../lib/mpich",
        "ADIOS2_RUN_INSTALL_TEST": "OFF",
        # Wheels hold no symbolic links: libx.so, .so.2.12 and .so.2.12.1 would be three copies.
        "CMAKE_PLATFORM_NO_VERSIONED_SONAME": "ON",
    }  # fmt: skip
    # /data is the environment's prefix: bin, include and lib lie where C++ users expect them.
    # CMake installs the Python files; an empty wheel.packages would pack the whole source tree.
    layout = ["experimental=true", "wheel.install-dir=/data", "wheel.packages=none"]
    return layout + [f"cmake.define.{key}={value}" for key, value in define.items()]


def make_key(mpich: str, extras: list[Extra]) -> str:
    """Name of the cache entry: environments with equal keys can share one wheel."""
    options = [*settings(extras, Path("blosc")), CFLAGS, LDFLAGS, *(e.name for e in extras)]
    options += [patch.read_text() for patch in PATCHES]
    digest = hashlib.sha256("\n".join(options).encode()).hexdigest()[:8]
    abi = sysconfig.get_config_var("SOABI")  # Python version, architecture and system
    libc = "".join(platform.libc_ver())
    return f"adios2-{ADIOS2_VERSION}-mpich{mpich}-{abi}-{libc}-{digest}"


def has_header(header: str) -> bool:
    """Ask the compiler: it knows its search path on every distribution, modules included."""
    command, code = ["c++", "-E", "-x", "c++", "-"], f"#include <{header}>\n"
    if not shutil.which("c++"):
        return False
    return subprocess.run(command, input=code, text=True, capture_output=True).returncode == 0


def missing_packages(extras: list[Extra], *, to_build: bool) -> list[str]:
    """Debian packages that building, or else running, the wheel lacks on this machine."""
    if not to_build:
        needed = [e for e in extras if e.library]
        return [e.package for e in needed if not ctypes.util.find_library(e.library)]
    tools = [package for command, package in TOOLS.items() if not shutil.which(command)]
    return tools + [e.package for e in extras if not has_header(e.header)]


def provide_packages(extras: list[Extra], *, to_build: bool) -> None:
    """Install the system packages where we may (root, Debian), else stop with the command."""
    missing = missing_packages(extras, to_build=to_build)
    install = ["apt-get", "install", "-y", *missing]
    if missing and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"installing with apt-get: {' '.join(missing)}", flush=True)
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update"], install):
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, timeout=900)
        missing = missing_packages(extras, to_build=to_build)
    if missing:
        raise StopError(
            f"missing here: {' '.join(missing)} (Debian's names)\ntype:  sudo {' '.join(install)}\n"
            f"or, to go on without:  {again(*sys.argv[1:], '--without-extras')}\n"
            f"(but a build always needs {', '.join(TOOLS)})"
        )


def write_build_files(work: Path, extras: list[Extra]) -> None:
    """A small lie to CMake and one to mpicc, without which the wheel is not the one we mean."""
    # ADIOS2 asks for Blosc2 2.x, and the blosc2 wheel says 3.x, with the same interface. Its
    # archive holds a zfp of another configuration: the system's one must come first.
    root = next((work / "venv/lib").glob("python*/site-packages/blosc2"))
    first = "-lzfp;" if "ZFP" in [e.name for e in extras] else ""
    (shim := work / "blosc").mkdir()
    (shim / "Blosc2ConfigVersion.cmake").write_text("set(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
    (shim / "Blosc2Config.cmake").write_text(
        "add_library(Blosc2::blosc2_static INTERFACE IMPORTED)\n"
        "set_target_properties(Blosc2::blosc2_static PROPERTIES\n"
        f'  INTERFACE_INCLUDE_DIRECTORIES "{root}/include"\n'
        f'  INTERFACE_LINK_LIBRARIES "{first}{root}/lib/libblosc2.a;Threads::Threads;dl;m")\n'
    )
    # The wrappers read these when MPICH_CC and MPICH_CXX are set: no absolute rpath from them.
    (work / "venv/etc").mkdir(exist_ok=True)
    for name in ("mpicc-cc", "mpicxx-c++"):
        (work / f"venv/etc/{name}.conf").write_text('wrapper_dl_type_flags=""\n')


def build_environment(tools: Path) -> dict[str, str]:
    """Our environment with the private tools first, and no library path to leak into the build."""
    env = {"CMAKE_BUILD_PARALLEL_LEVEL": str(len(os.sched_getaffinity(0))), **os.environ}
    env.pop("LD_LIBRARY_PATH", None)
    path = f"{tools}:{env.get('PATH', os.defpath)}"
    env |= {"PATH": path, "CFLAGS": CFLAGS, "LDFLAGS": LDFLAGS, "CC": f"{tools}/mpicc", "CXX": f"{tools}/mpicxx"}
    return env | {"MPICH_CC": "cc", "MPICH_CXX": "c++"}  # see write_build_files


def run_logged(command: list[str], log: Path, env: dict[str, str]) -> None:
    """Run one command into the log, with a line per minute so that nobody thinks it hangs."""
    minutes = 0
    with log.open("a") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True)
    try:
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
                break
            minutes += 1
            steps = re.findall(r"(?m)^ *\[(\d+/\d+)\]", log.read_text(errors="replace"))
            print(f"  {minutes} min: {'step ' + steps[-1] if steps else 'preparing'}", flush=True)
    finally:
        if process.poll() is None:  # we were interrupted: no compiler may stay behind
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    if process.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        raise StopError(
            f"the build failed; its last lines:\n{tail}\n\ntype, to see all of it:  less {log}\n"
            f"and, to try again from the start:  {again(*sys.argv[1:])}"
        )


def patched_source(work: Path, pip: list[str], log: Path, env: dict[str, str]) -> Path:
    """The unpacked source distribution with our patches."""
    get = [*pip, "download", "--no-build-isolation", "--no-deps", "--no-binary=adios2", f"--dest={work}"]
    # pip's cache goes by name and version only; --no-cache-dir keeps it out of this as well.
    run_logged([*get, "--no-cache-dir", f"adios2=={ADIOS2_VERSION}.*"], log, env)
    archive = next(work.glob("adios2-*.tar.gz"))
    shutil.unpack_archive(archive, work / "source")
    source = next((work / "source").iterdir())
    for patch in PATCHES:
        # No fuzz: where the lines have changed, somebody has to see whether the patch is still needed.
        run_logged(["patch", f"--directory={source}", "--strip=1", "--fuzz=0", f"--input={patch.resolve()}"], log, env)
    return source


def build(folder: Path, mpich: str, extras: list[Extra]) -> None:
    """Build the wheel in a private environment, and move it to the folder when it is whole."""
    log, work = folder / "build.log", folder / "work"
    print(f"building (5 to 10 minutes on 2 cores); log: {log}", flush=True)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    log.write_text("")
    env = build_environment(work / "venv/bin")
    run_logged([sys.executable, "-m", "venv", f"{work}/venv"], log, env)
    pip = [f"{work}/venv/bin/python", "-m", "pip"]
    needs = [*BUILD_NEEDS.split(), f"mpich=={mpich}"]
    run_logged([*pip, "install", "--upgrade", "pip", *needs], log, env)
    write_build_files(work, extras)
    source = patched_source(work, pip, log, env)
    wheel = [*pip, "wheel", "--verbose", "--no-build-isolation", "--no-deps", f"--wheel-dir={work}", str(source)]
    wheel += [f"--config-settings={item}" for item in settings(extras, work / "blosc")]
    run_logged(wheel, log, env)
    for path in work.glob("adios2-*.whl"):
        path.replace(folder / path.name)
    shutil.rmtree(work)


def provide_wheel(cache: Path, mpich: str, extras: list[Extra]) -> Path:
    """The cached wheel, built first if it is not there; two that ask at the same time build it once."""
    folder = cache / "adios2-mpi" / make_key(mpich, extras)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        to_build = not any(folder.glob("adios2-*.whl"))
        provide_packages(extras, to_build=to_build)
        if to_build:
            build(folder, mpich, extras)
        return next(folder.glob("adios2-*.whl"))


def install(wheel: Path, mpich: str) -> None:
    """Replace the environment's adios2, after what the wheel needs at run time."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    needs = [*pip, "numpy", "mpi4py>=4,<5", f"mpich=={mpich}"]
    for command in (needs, [*pip, "--no-deps", "--force-reinstall", str(wheel)]):
        if subprocess.run(command).returncode != 0:
            raise StopError(f"pip failed; type, to try it by hand:  {' '.join(command)}")


def output_of(*command: str | Path, ends_with: int = 0) -> str:
    """All that a command prints; a crash or a hang becomes a StopError with its words."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=CHECK_LIMIT_S)
        said = done.stdout + done.stderr
        if done.returncode == ends_with:
            return said
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    # It wins over the wheel's rpath, and then another ADIOS2 or libfabric is loaded.
    first = "unset LD_LIBRARY_PATH; " if os.environ.get("LD_LIBRARY_PATH") else ""
    failed = " ".join(map(str, command))
    raise StopError(f"{said}\nfailed:  {failed}\ntype:  {first}{again('--install')}")


PARALLEL_WRITE = """
import sys, numpy, adios2
from mpi4py import MPI
assert adios2.is_built_with_mpi, "this adios2 was built without MPI"
comm = MPI.COMM_WORLD
with adios2.Stream(sys.argv[1], "w", comm) as out:
    out.write("x", numpy.full(4, float(comm.rank)), [4 * comm.size], [4 * comm.rank], [4])
if comm.rank == 0:
    with adios2.FileReader(sys.argv[1]) as got:
        assert got.read("x").tolist() == [0.0] * 4 + [1.0] * 4, got.read("x")
    print(adios2.__version__)
"""


def verify(extras: list[Extra]) -> None:
    """Run the real thing in fresh processes, and print which planes and operators there are."""
    prefix, scripts = Path(sysconfig.get_path("data")), Path(sysconfig.get_path("scripts"))
    with tempfile.TemporaryDirectory() as folder:
        (program := Path(folder) / "check.py").write_text(PARALLEL_WRITE)
        ranks = [str(scripts / "mpiexec"), "-n", "2", sys.executable]
        version = output_of(*ranks, program, f"{folder}/check.bp").strip()
    about = output_of(scripts / "bpls", "-v", "-V")
    output_of(scripts / "sst_conn_tool", "--help", ends_with=1)
    core = (prefix / "lib/libadios2_core.so").read_bytes()  # holds the names of what it links
    links = {"evpath": b"\0", "libfabric": b"\0libfabric.so", "ucx": b"\0libucp.so"}
    planes = [plane for plane, library in links.items() if library in core]
    operators = re.findall(r"\w+", "".join(re.findall(r"Available operators = \d+:(.*)", about)))
    print(f"adios2 {version} with MPI in {prefix}: 2 ranks wrote a BP5 file, the tools run")
    print(f"  SST data planes: {', '.join(planes)}; operators: {', '.join(operators)}")
    have = {name.lower() for name in [*planes, *operators]}
    if lacking := [e.name for e in extras if e.name.lower() not in have]:
        raise StopError(f"it lacks {', '.join(lacking)}; type:  {again('--install')}")


def parse_command_line() -> argparse.Namespace:
    """The options; the cache is outside the checkout, so that new clones find the wheel."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("WF_CACHE") or user_cache / "wf")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=cache, help="default: %(default)s")
    for flag, text in {
        "--install": "install it in this Python's environment, and verify it",
        "--check": "only verify the ADIOS2 that is installed in this Python's environment",
        "--print-key": "only print the name of the cache entry (for a CI cache)",
        "--without-extras": "go on without the system libraries that are missing",
    }.items():
        parser.add_argument(flag, action="store_true", help=text)
    return parser.parse_args()


def main() -> None:
    """Do what the command line asks for."""
    options, mpich = parse_command_line(), MPICH_NEWEST
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        mpich = importlib.metadata.version("mpich")
    extras = [e for e in EXTRAS if not options.without_extras or has_header(e.header)]
    if options.print_key:
        print(make_key(mpich, extras))
        return
    if not options.check:
        wheel = provide_wheel(options.cache.expanduser().resolve(), mpich, extras)
        print(wheel, flush=True)
        if options.install:
            install(wheel, mpich)
    if options.install or options.check:
        verify(extras)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `finally` runs
    try:
        main()
    except (StopError, KeyboardInterrupt) as stop:
        sys.exit(f"adios2_mpi: {str(stop) or 'interrupted'}")
